"""A job as units of the user's systemd: a daily timer for one home, a service for all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast.cli.invocation import DEFAULT_HOME, Invocation, quoted
from holdfast.cli.job import Job, failure, way_back
from holdfast.cli.output import name, note, say
from holdfast.cli.streams import write
from holdfast.errors import BusyError
from holdfast.stores.files import replace, storage_errors

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


class Systemd:
    """Units in the user's own folder: a service and its timer, or a service that keeps running."""

    def __init__(self, job: Job, invocation: Invocation) -> None:
        self._folder = _units(invocation)
        self._way_back = way_back(invocation, "systemd")
        self._turned_on = False
        text = {"home": _described(job.described), "busy": BusyError.exit_code}
        if job.home is None:
            self._unit = f"{_WATCH}.service"
            written = {self._unit: _STANDING.format(command=exec_line(job.standing), **text)}
        else:
            usual = (invocation.user_home / DEFAULT_HOME).resolve()
            stem = _NAME if job.home == usual else f"{_NAME}-{job.id}"
            self._unit = f"{stem}.timer"
            written = {
                f"{stem}.service": _SERVICE.format(command=exec_line(job.daily), **text),
                self._unit: _TIMER.format(**text),
            }
        self._files = {self._folder / each: content for each, content in written.items()}

    @property
    def _turn_on(self) -> list[list[str]]:
        systemctl = ["systemctl", "--user"]
        return [
            [*systemctl, "daemon-reload"],
            [*systemctl, "enable", "--now", self._unit],
        ]

    @property
    def _turn_off(self) -> list[str]:
        return ["systemctl", "--user", "disable", "--now", self._unit]

    @property
    def _take_away(self) -> list[str]:
        files = " ".join(quoted(path) for path in self._files)
        return [" ".join(self._turn_off), f"rm {files}"]

    def show(self) -> None:
        for path, content in self._files.items():
            again = " (replaces the one that is there)" if path.exists() else ""
            say(name(f"{path}{again}", "bold"))
            write(content + "\n")

    def install(self) -> int:
        with storage_errors(f"write the units into {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for path, content in self._files.items():
                replace(path, content.encode())
        problem = next(filter(None, map(failure, self._turn_on)), None)
        self._turned_on = problem is None
        if problem is not None:
            note(f"warning: {problem}")
        self._tell()
        return 0

    def show_removal(self) -> bool:
        there = [path for path in self._files if path.is_file()]
        for path in there:
            note(f"{path} goes.")
        return bool(there)

    def uninstall(self) -> int:
        """Off first: a unit whose file is gone goes on until somebody stops it."""
        problem = failure(self._turn_off)
        with storage_errors(f"remove the units in {self._folder}"):
            for path in self._files:
                path.unlink(missing_ok=True)
        if problem is not None:
            note(f"warning: {problem}")
            note("The files are gone. What may still run ends when you log out.")
        else:
            failure(["systemctl", "--user", "daemon-reload"])
            note("Removed.")
        return 0

    def document(self) -> dict[str, Any]:
        return {
            "scheduler": "systemd",
            "files": [
                {"path": str(path), "content": content} for path, content in self._files.items()
            ],
            "turned_on": self._turned_on,
            "turn_on": [" ".join(words) for words in self._turn_on],
            "take_away": self._take_away,
        }

    def _tell(self) -> None:
        if self._turned_on:
            what = "timer" if self._unit.endswith(".timer") else "service"
            note(f"Installed: the {what} {self._unit} is on.")
        else:
            note("The files are written, but it is not on yet. Turn it on with:")
            for words in self._turn_on:
                note(f"  {' '.join(words)}")
        note("It runs while you are logged in; `loginctl enable-linger` makes it run always.")
        note("To remove it again:")
        note(f"  {self._way_back}")


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
