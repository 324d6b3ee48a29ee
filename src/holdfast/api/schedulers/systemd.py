"""Maintenance as units of the user's own systemd: a service and its timer, or a service that keeps
running."""

from __future__ import annotations

from pathlib import Path

from holdfast.api.schedulers.schedule import FileSchedule, Job, Scheduled
from holdfast.errors import BusyError

_NAME = "holdfast-maintain"
_WATCH = "holdfast-watch"
#: What a unit of a user can give up. Protections that need a view of the file system of their own
#: (ProtectSystem, PrivateTmp) put it into a user namespace, which not every system allows. They are
#: left out: from outside that namespace, signs of life may not be readable.
_HARDENED = """\
Nice=10
IOSchedulingClass=idle
CPUWeight=20
MemoryMax=2G
TasksMax=64
OOMPolicy=continue
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# Another process is already running it: not a failure.
SuccessExitStatus={busy}
"""
_SERVICE = (
    """\
# Written by Holdfast (maintain --install systemd).
[Unit]
Description=Holdfast: maintenance of {home}

[Service]
Type=oneshot
ExecStart={command}
"""
    + _HARDENED
)
_STANDING = (
    """\
# Written by Holdfast (maintain --install systemd).
[Unit]
Description=Holdfast: looks after {home}

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=60
"""
    + _HARDENED
    + """
[Install]
WantedBy=default.target
"""
)
_TIMER = """\
# Written by Holdfast (maintain --install systemd).
[Unit]
Description=Holdfast: daily maintenance of {home}

[Timer]
OnCalendar=daily
# Many homes, or many machines, do not run at once.
RandomizedDelaySec=1h
# Runs missed while the machine was off are made up for.
Persistent=true

[Install]
WantedBy=timers.target
"""


class Systemd(FileSchedule):
    """One job, as units."""

    scheduler = "systemd"
    advice = "It runs while you are logged in; `loginctl enable-linger` makes it run always."

    def __init__(self, job: Job) -> None:
        text = {"home": _described(job.described), "busy": BusyError.exit_code}
        if job.home is None:
            unit = f"{_WATCH}.service"
            written = {unit: _STANDING.format(command=exec_line(job.standing), **text)}
        else:
            stem = _NAME if job.is_usual else f"{_NAME}-{job.id}"
            unit = f"{stem}.timer"
            written = {
                f"{stem}.service": _SERVICE.format(command=exec_line(job.daily), **text),
                unit: _TIMER.format(**text),
            }
        folder = _folder(job)
        super().__init__(job, {folder / each: text.encode() for each, text in written.items()})
        self.name = f"the {unit.rpartition('.')[2]} {unit}"
        systemctl = ("systemctl", "--user")
        self._reload = (*systemctl, "daemon-reload")
        self.turn_on = (self._reload, (*systemctl, "enable", "--now", unit))
        self.turn_off = (*systemctl, "disable", "--now", unit)
        self.take_away = self.by_hand()

    def uninstall(self) -> Scheduled:
        done = super().uninstall()
        if done.problem is None:
            self._job.failure(self._reload)
        return done


def _folder(job: Job) -> Path:
    configured = job.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification requires that a relative path is ignored.
    usable = configured if Path(configured).is_absolute() else job.user_home / ".config"
    return Path(usable, "systemd", "user")


def exec_line(command: tuple[str, ...]) -> str:
    """Quote a command for systemd, so that nothing in it is expanded."""
    program, *arguments = command
    # A dollar is only special in arguments.
    return " ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in arguments)])


def _quoted(word: str) -> str:
    return '"' + "".join(map(_escaped, word)) + '"'


def _escaped(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if character == "%":
        return "%%"
    if character.isprintable():
        return character
    data = character.encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in data)


def _described(text: str) -> str:
    """Escape text for a description: no specifiers, and no line breaks."""
    return "".join(each if each.isprintable() else "?" for each in text).replace("%", "%%")
