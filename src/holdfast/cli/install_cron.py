"""Maintenance by a line in the user's crontab."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any

from holdfast.cli.install import Job
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import note, say
from holdfast.cli.streams import write
from holdfast.errors import StorageError, UsageError

_TIMEOUT = 60
_MINUTES = 60
_HOURS = 6  # of the night, from midnight on
_NONE_YET = ("no crontab for", "no such file")


class Cron:
    """One line, marked as ours by a comment at its end; every other line stays as it is."""

    def __init__(self, job: Job, _: Invocation) -> None:
        if not all(word.isprintable() for word in job.command):
            raise UsageError(
                f"A crontab cannot hold the path {str(job.home)!r}.",
                hint="Use --install systemd, or give the home a name of printable characters.",
            )
        hour, minute = divmod(job.share % (_MINUTES * _HOURS), _MINUTES)
        self._mark = f"# holdfast-maintain {job.id}"
        # What goes wrong is told on stderr, and mailed by cron; the rest is of no use to anybody.
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
        note(f"Installed{', in place of an earlier one' if replaced else ''}.")
        note(f"To take it away again, remove the line that ends in `{self._mark}` with:")
        note("  crontab -e")
        return 0

    def document(self) -> dict[str, Any]:
        return {
            "scheduler": "cron",
            "line": self._line,
            "take_away": [f"crontab -l | grep -v '{self._mark}$' | crontab -"],
        }


def _lines(crontab: bytes) -> list[bytes]:
    """Each with its newline, the last one too: the next must not be glued to it."""
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
            f"`crontab {' '.join(arguments)}` did not end within {_TIMEOUT} seconds."
        ) from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip()
    # Anything else must stop us here: writing would throw away the lines that we could not read.
    if content is None and any(phrase in said.lower() for phrase in _NONE_YET):
        return b""
    raise StorageError(
        f"`crontab {' '.join(arguments)}` failed: {said or f'it ended with {done.returncode}'}",
        hint="Nothing was changed. Are you allowed to use cron?",
    )


def _write_crontab(content: bytes) -> None:
    _crontab("-", content=content)
