"""Maintenance by a systemd timer of the user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from holdfast.cli.install import Job
from holdfast.cli.invocation import DEFAULT_HOME, Invocation, quoted
from holdfast.cli.output import name, note, say
from holdfast.cli.streams import write
from holdfast.errors import BusyError
from holdfast.stores.files import replace, storage_errors

_TIMEOUT = 60
_NAME = "holdfast-maintain"

_SERVICE = """\
# Written by `holdfast maintain --install systemd`.
[Unit]
Description=Holdfast: maintenance of {home}

[Service]
Type=oneshot
ExecStart={command}
Nice=10
IOSchedulingClass=idle
# Another process is at it: no failure.
SuccessExitStatus={busy}
"""

_TIMER = """\
# Written by `holdfast maintain --install systemd`.
[Unit]
Description=Holdfast: daily maintenance of {home}

[Timer]
OnCalendar=daily
# Many homes, or many machines, do not run at once.
RandomizedDelaySec=1h
# What was missed while the machine was off is made up for.
Persistent=true

[Install]
WantedBy=timers.target
"""


class Systemd:
    """A service and a timer in the user's own folder of units."""

    def __init__(self, job: Job, invocation: Invocation) -> None:
        usual = (invocation.user_home / DEFAULT_HOME).resolve()
        self._name = _NAME if job.home == usual else f"{_NAME}-{job.id}"
        self._folder = _units(invocation)
        text = {
            "home": _described(str(job.home)),
            "command": exec_line(job.command),
            "busy": BusyError.exit_code,
        }
        self._files = {
            self._folder / f"{self._name}.service": _SERVICE.format(**text),
            self._folder / f"{self._name}.timer": _TIMER.format(**text),
        }
        self._turned_on = False

    @property
    def _turn_on(self) -> list[list[str]]:
        systemctl = ["systemctl", "--user"]
        return [
            [*systemctl, "daemon-reload"],
            [*systemctl, "enable", "--now", f"{self._name}.timer"],
        ]

    @property
    def _take_away(self) -> list[str]:
        files = " ".join(quoted(path) for path in self._files)
        return [f"systemctl --user disable --now {self._name}.timer", f"rm {files}"]

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
        problem = next(filter(None, map(_failure, self._turn_on)), None)
        self._turned_on = problem is None
        if problem is not None:
            note(f"warning: {problem}")
        self._tell()
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
            note(f"Installed: the timer {self._name}.timer is on.")
        else:
            note("The files are written, but the timer is not on yet. Turn it on with:")
            for words in self._turn_on:
                note(f"  {' '.join(words)}")
        note("It runs while you are logged in; `loginctl enable-linger` makes that always.")
        note("To take it away again:")
        for line in self._take_away:
            note(f"  {line}")


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


def _failure(command: list[str]) -> str | None:
    """What went wrong when a command was run, if anything did."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_TIMEOUT
        )
    except FileNotFoundError:
        return f"there is no `{command[0]}` here"
    except (OSError, subprocess.SubprocessError) as error:
        return f"`{' '.join(command)}` failed: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return f"`{' '.join(command)}` failed: {said[0]}"
