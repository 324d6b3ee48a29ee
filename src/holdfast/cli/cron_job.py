"""A job as a line of the user's crontab."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any

from holdfast.cli.invocation import Invocation
from holdfast.cli.job import TIMEOUT, Job, way_back
from holdfast.cli.output import note, say
from holdfast.cli.streams import write
from holdfast.errors import StorageError, UsageError

_MINUTES = 60
_HOURS = 6  # of the night, from midnight on
_NONE_YET = ("no crontab for", "no such file")


class Cron:
    """One line, marked as ours by a comment at its end; every other line stays as it is."""

    def __init__(self, job: Job, invocation: Invocation) -> None:
        self._way_back = way_back(invocation, "cron")
        if not all(word.isprintable() for word in job.daily):
            raise UsageError(
                f"A crontab line cannot contain the path {job.described!r}.",
                hint="Use --install systemd, or give the home a name of printable characters.",
            )
        hour, minute = divmod(job.share % (_MINUTES * _HOURS), _MINUTES)
        self._mark = f"# holdfast-maintain {job.id}"
        # Errors go to stderr, and cron mails them; nobody needs the rest.
        command = f"{shlex.join(job.daily)} >/dev/null {self._mark}"
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
        kept = [line for line in _lines(before) if not self._is_mine(line)]
        _write_crontab(b"".join([*kept, self._line.encode() + b"\n"]))
        replaced = len(kept) < len(_lines(before))
        note(f"Installed{', replacing an earlier one' if replaced else ''}.")
        note("To remove it again:")
        note(f"  {self._way_back}")
        return 0

    def show_removal(self) -> bool:
        try:
            mine = [line for line in _lines(_crontab("-l")) if self._is_mine(line)]
        except FileNotFoundError:
            return False
        for line in mine:
            say("This line of your crontab goes:")
            write(f"\n{line.decode(errors='replace')}\n")
        return bool(mine)

    def uninstall(self) -> int:
        before = _lines(_crontab("-l"))
        _write_crontab(b"".join(line for line in before if not self._is_mine(line)))
        note("Removed.")
        return 0

    def _is_mine(self, line: bytes) -> bool:
        return line.rstrip().endswith(self._mark.encode())

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
            timeout=TIMEOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise StorageError(
            f"`crontab {' '.join(arguments)}` did not finish within {TIMEOUT} seconds."
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
