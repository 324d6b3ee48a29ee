"""A job as files of a scheduler: units of the user's systemd, or an agent of macOS's launchd."""

from __future__ import annotations

import os
import plistlib
import shlex
from pathlib import Path
from typing import Any

from holdfast.cli.invocation import DEFAULT_HOME, Invocation, quoted
from holdfast.cli.job import Job, failure, way_back
from holdfast.cli.output import name, note, say
from holdfast.cli.streams import write
from holdfast.errors import BusyError, UsageError
from holdfast.stores.files import replace, storage_errors

_NIGHT = 6 * 60
#: Seconds before launchd starts it again after it ended by itself.
_THROTTLE = 60
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
# Written by `holdfast maintain --install systemd`.
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
# Written by `holdfast maintain --install systemd`.
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
# Written by `holdfast maintain --install systemd`.
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


class _Files:
    """Files in a folder of the user, and the commands that turn on and off what they describe."""

    scheduler: str
    _files: dict[Path, bytes]
    _turn_on: list[list[str]]
    _turn_off: list[str]
    #: What is turned on, what an error says could not be done, and what to say if it is not on.
    _named: str
    _writing: str
    _removing: str
    _not_on: str
    _also = ""

    def __init__(self, invocation: Invocation) -> None:
        self._way_back = way_back(invocation, self.scheduler)
        self._turned_on = False

    def show(self) -> None:
        for path, content in self._files.items():
            again = " (replaces the one that is there)" if path.exists() else ""
            say(name(f"{path}{again}", "bold"))
            write(content.decode() + "\n")

    def install(self) -> int:
        with storage_errors(self._writing):
            for path, content in self._files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                replace(path, content)
        problem = next(filter(None, map(failure, self._turn_on)), None)
        self._turned_on = problem is None
        if problem is None:
            note(f"Installed: {self._named} is on.")
        else:
            note(f"warning: {problem}")
            note(self._not_on)
            for words in self._turn_on:
                note(f"  {shlex.join(words)}")
        if self._also:
            note(self._also)
        note("To remove it again:")
        note(f"  {self._way_back}")
        return 0

    def show_removal(self) -> bool:
        there = [path for path in self._files if path.is_file()]
        for path in there:
            note(f"{path} goes.")
        return bool(there)

    def uninstall(self) -> int:
        """Off first: what has lost its file goes on until somebody stops it."""
        problem = failure(self._turn_off)
        with storage_errors(self._removing):
            for path in self._files:
                path.unlink(missing_ok=True)
        self._tell_removed(problem)
        return 0

    def _tell_removed(self, problem: str | None) -> None:
        note("Removed." if problem is None else f"warning: {problem}; the file is gone.")

    def document(self) -> dict[str, Any]:
        files = " ".join(quoted(path) for path in self._files)
        return {
            "scheduler": self.scheduler,
            "files": [
                {"path": str(path), "content": content.decode()}
                for path, content in self._files.items()
            ],
            "turned_on": self._turned_on,
            "turn_on": [" ".join(words) for words in self._turn_on],
            "take_away": [" ".join(self._turn_off), f"rm {files}"],
        }


def _is_usual(job: Job, invocation: Invocation) -> bool:
    return job.home == (invocation.user_home / DEFAULT_HOME).resolve()


class Systemd(_Files):
    """Units in the user's own folder: a service and its timer, or a service that keeps running."""

    scheduler = "systemd"
    _not_on = "The files are written, but it is not on yet. Turn it on with:"
    _also = "It runs while you are logged in; `loginctl enable-linger` makes it run always."

    def __init__(self, job: Job, invocation: Invocation) -> None:
        super().__init__(invocation)
        folder = _units(invocation)
        text = {"home": _described(job.described), "busy": BusyError.exit_code}
        if job.home is None:
            unit = f"{_WATCH}.service"
            written = {unit: _STANDING.format(command=exec_line(job.standing), **text)}
        else:
            stem = _NAME if _is_usual(job, invocation) else f"{_NAME}-{job.id}"
            unit = f"{stem}.timer"
            written = {
                f"{stem}.service": _SERVICE.format(command=exec_line(job.daily), **text),
                unit: _TIMER.format(**text),
            }
        self._files = {folder / each: content.encode() for each, content in written.items()}
        self._named = f"the {unit.rpartition('.')[2]} {unit}"
        self._writing = f"write the units into {folder}"
        self._removing = f"remove the units in {folder}"
        systemctl = ["systemctl", "--user"]
        self._reload = [*systemctl, "daemon-reload"]
        self._turn_on = [self._reload, [*systemctl, "enable", "--now", unit]]
        self._turn_off = [*systemctl, "disable", "--now", unit]

    def _tell_removed(self, problem: str | None) -> None:
        if problem is None:
            failure(self._reload)
            note("Removed.")
        else:
            note(f"warning: {problem}")
            note("The files are gone. What may still run ends when you log out.")


def _units(invocation: Invocation) -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore a relative one.
    usable = configured if Path(configured).is_absolute() else invocation.user_home / ".config"
    return Path(usable, "systemd", "user")


def exec_line(command: tuple[str, ...]) -> str:
    """The words of a command as systemd reads them: quoted, nothing in them expanded."""
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
    """For a line that people read: no specifiers, and nothing that could end the line."""
    return "".join(each if each.isprintable() else "?" for each in text).replace("%", "%%")


class Launchd(_Files):
    """One file in ~/Library/LaunchAgents: a run every night, or a process that is kept running."""

    scheduler = "launchd"
    _not_on = "The file is written, but it is not on yet. Log in again, or turn it on with:"

    def __init__(self, job: Job, invocation: Invocation) -> None:
        super().__init__(invocation)
        stem = "maintain" if _is_usual(job, invocation) else f"maintain-{job.id}"
        label = f"holdfast.{'watch' if job.home is None else stem}"
        path = invocation.user_home / "Library" / "LaunchAgents" / f"{label}.plist"
        try:
            content = plistlib.dumps(
                {
                    "Label": label,
                    "ProgramArguments": list(job.standing if job.home is None else job.daily),
                    "ProcessType": "Background",
                    "LowPriorityIO": True,
                    "Nice": 10,
                    "Umask": 0o077,
                    **_when(job),
                }
            )
        except (UnicodeEncodeError, ValueError) as error:
            raise UsageError(
                f"A file of launchd cannot contain the path {job.described!r}.",
                hint="Give the home a name of printable characters.",
            ) from error
        self._files = {path: content}
        self._named, self._writing, self._removing = label, f"write {path}", f"remove {path}"
        domain = f"gui/{os.getuid()}"
        self._turn_on = [["launchctl", "bootstrap", domain, str(path)]]
        self._turn_off = ["launchctl", "bootout", f"{domain}/{label}"]

    def install(self) -> int:
        if any(path.exists() for path in self._files):
            failure(self._turn_off)  # or launchd would refuse the new one
        return super().install()


def _when(job: Job) -> dict[str, Any]:
    if job.home is None:
        # Another process that watches already ends it with a code of its own; it is tried again.
        return {
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": _THROTTLE,
        }
    hour, minute = divmod(job.share % _NIGHT, 60)
    return {"StartCalendarInterval": {"Hour": hour, "Minute": minute}}
