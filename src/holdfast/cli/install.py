"""`holdfast maintain --install`: have the system run maintenance every day. Shown first."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from holdfast.cli.invocation import DEFAULT_HOME, Invocation, quoted
from holdfast.cli.output import name, note, print_json, say
from holdfast.cli.removal import asked, print_declined
from holdfast.cli.streams import write
from holdfast.errors import BusyError, StorageError, UsageError
from holdfast.stores.files import replace, storage_errors
from holdfast.value import dataclass

#: A daily timer is never exact: without this it would come a moment too soon every other day.
EARLY = "2h"
_ID_LENGTH = 12
_TIMEOUT = 60
_MINUTES = 60
_HOURS = 6  # of the night, from midnight on
_NONE_YET = ("no crontab for", "no such file")
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
# Another process is already running it: not a failure.
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
# Runs missed while the machine was off are made up for.
Persistent=true

[Install]
WantedBy=timers.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Maintenance of one home, as something that a scheduler runs. `id` is the home's own."""

    home: Path
    id: str
    command: tuple[str, ...]

    @property
    def share(self) -> int:
        """A number from the home's name: it spreads the homes of a machine over the night."""
        return int(self.id, 16)


class Scheduler(Protocol):
    """One way to have a job run."""

    def show(self) -> None:
        """What would be written, and where."""

    def install(self) -> int:
        """Write it and turn it on; the exit code."""

    def document(self) -> dict[str, Any]:
        """All of that as JSON."""


def install(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> int:
    home = invocation.open_place().home  # a home or a configuration that is wrong would never run
    scheduler = _scheduler(invocation, name, job_of(home.root))
    if not invocation.json:
        scheduler.show()
    declined = None if dry_run or yes else asked("Install this?", "installed")
    if dry_run or declined is not None:
        _document(invocation, scheduler, installed=False)
        if declined is not None:
            print_declined(declined)
            return declined.exit_code
        if not invocation.json:
            say("Nothing was changed.")
        return 0
    code = scheduler.install()
    _document(invocation, scheduler, installed=code == 0)
    return code


def job_of(home: Path) -> Job:
    digest = hashlib.sha256(str(home).encode("utf-8", "surrogateescape")).hexdigest()
    # -P: a file called holdfast.py, wherever the scheduler runs this, is not meant.
    command = (sys.executable, "-P", "-m", "holdfast", "--home", str(home), "maintain")
    return Job(home=home, id=digest[:_ID_LENGTH], command=(*command, "--early", EARLY))


def _scheduler(invocation: Invocation, name: str, job: Job) -> Scheduler:
    if name == "systemd":
        return Systemd(job, invocation)

    return Cron(job, invocation)


def _document(invocation: Invocation, scheduler: Scheduler, *, installed: bool) -> None:
    if invocation.json:
        print_json({"installed": installed, **scheduler.document()})


class Cron:
    """One line, marked as ours by a comment at its end; every other line stays as it is."""

    def __init__(self, job: Job, _: Invocation) -> None:
        if not all(word.isprintable() for word in job.command):
            raise UsageError(
                f"A crontab line cannot contain the path {str(job.home)!r}.",
                hint="Use --install systemd, or give the home a name of printable characters.",
            )
        hour, minute = divmod(job.share % (_MINUTES * _HOURS), _MINUTES)
        self._mark = f"# holdfast-maintain {job.id}"
        # Errors go to stderr, and cron mails them; nobody needs the rest.
        command = f"{shlex.join(job.command)} >/dev/null {self._mark}"
        # Cron would make a % the end of the line.
        self._line = f"{minute} {hour} * * * {command}".replace("%", "\\%")

    def show(self) -> None:
        say("A line of your crontab:")
        write(f"\n{self._line}\n\n")

    def install(self) -> int:
        try:
            before = _crontab("-l")
        except FileNotFoundError:
            note("There is no `crontab` program here. Put the line into the crontab of whatever")
            note(
                "cron you use, for example into a file of /etc/cron.d with a user before the path."
            )
            return 1
        kept = [line for line in _lines(before) if not line.rstrip().endswith(self._mark.encode())]
        _write_crontab(b"".join([*kept, self._line.encode() + b"\n"]))
        replaced = len(kept) < len(_lines(before))
        note(f"Installed{', replacing an earlier one' if replaced else ''}.")
        note(f"To remove it again, remove the line that ends in `{self._mark}` with:")
        note("  crontab -e")
        return 0

    def document(self) -> dict[str, Any]:
        return {
            "scheduler": "cron",
            "line": self._line,
            "take_away": [f"crontab -l | grep -v '{self._mark}$' | crontab -"],
        }


def _lines(crontab: bytes) -> list[bytes]:
    """Each with its newline, including the last one: the next line must not be appended to it."""
    return [line + b"\n" for line in crontab.removesuffix(b"\n").split(b"\n")] if crontab else []


def _crontab(*arguments: str, content: bytes | None = None) -> bytes:
    """What the program said. A user without a crontab has an empty one."""
    try:
        done = subprocess.run(
            ["crontab", *arguments],
            check=False,
            capture_output=True,
            input=content,
            timeout=_TIMEOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise StorageError(
            f"`crontab {' '.join(arguments)}` did not finish within {_TIMEOUT} seconds."
        ) from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip()
    # Anything else must stop us here: writing would drop the lines that we could not read.
    if content is None and any(phrase in said.lower() for phrase in _NONE_YET):
        return b""
    raise StorageError(
        f"`crontab {' '.join(arguments)}` failed: {said or f'it ended with {done.returncode}'}",
        hint="Nothing was changed. Are you allowed to use cron?",
    )


def _write_crontab(content: bytes) -> None:
    _crontab("-", content=content)


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
        note("It runs while you are logged in; `loginctl enable-linger` makes it run always.")
        note("To remove it again:")
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
