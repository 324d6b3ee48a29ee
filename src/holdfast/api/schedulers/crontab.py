"""Maintenance as a line of the user's crontab."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from holdfast.api.schedulers.schedule import TIMEOUT, Job, Schedule, Scheduled
from holdfast.errors import StorageError, UsageError

_NONE_YET = ("no crontab for", "no such file")


class Crontab(Schedule):
    """One line, marked as ours by a comment at its end. All other lines stay unchanged."""

    scheduler = "cron"

    def __init__(self, job: Job) -> None:
        unfit = next((word for word in job.daily if not word.isprintable()), None)
        if unfit is not None:
            raise UsageError(
                f"A crontab line cannot contain {unfit!r}.",
                hint="Use systemd, or give the home or the program a path of printable characters.",
            )
        self._job = job
        hour, minute = job.at_night()
        self.name = f"# holdfast-maintain {job.id}"
        # Errors go to stderr, and cron mails them. The normal output is not needed.
        command = f"{shlex.join(job.daily)} >/dev/null {self.name}"
        # Cron turns an unescaped % into a newline.
        self.line = f"{minute} {hour} * * * {command}".replace("%", "\\%")
        self.take_away = (f"crontab -l | grep -v '{self.name}$' | crontab -",)

    def install(self) -> Scheduled:
        before = self._read()
        kept = [line for line in before if not self._is_mine(line)]
        self._write([*kept, f"{self.line}\n".encode()])
        return Scheduled(replaced=len(kept) < len(before))

    def installed(self) -> Sequence[str]:
        try:
            mine = [line for line in self._read() if self._is_mine(line)]
        except NoCrontabError:
            return ()
        return [line.decode(errors="replace").removesuffix("\n") for line in mine]

    def uninstall(self) -> Scheduled:
        self._write([line for line in self._read() if not self._is_mine(line)])
        return Scheduled()

    def _is_mine(self, line: bytes) -> bool:
        return line.rstrip().endswith(self.name.encode())

    def _read(self) -> list[bytes]:
        """The lines, each with a newline, even the last one: ours must not be joined to it."""
        crontab = self._crontab("-l").removesuffix(b"\n")
        return [line + b"\n" for line in crontab.split(b"\n")] if crontab else []

    def _write(self, lines: Sequence[bytes]) -> None:
        self._crontab("-", content=b"".join(lines))

    def _crontab(self, *arguments: str, content: bytes | None = None) -> bytes:
        """Run `crontab` and return its output, empty if the user has no crontab yet."""
        try:
            done = subprocess.run(
                ["crontab", *arguments],
                check=False,
                capture_output=True,
                input=content,
                timeout=TIMEOUT,
                env={**self._job.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise NoCrontabError(
                "There is no `crontab` program here.",
                hint="Put the line into the crontab of whatever cron you use, for example into a "
                "file of /etc/cron.d with a user before the path.",
            ) from None
        except subprocess.TimeoutExpired:
            raise StorageError(
                f"`crontab {' '.join(arguments)}` did not finish within {TIMEOUT} seconds."
            ) from None
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.decode("utf-8", "replace").strip()
        said = said or f"it exited with code {done.returncode}"
        # Stop on any other error: writing would drop the lines that could not be read.
        if content is None and any(phrase in said.lower() for phrase in _NONE_YET):
            return b""
        raise StorageError(
            f"`crontab {' '.join(arguments)}` failed: {said}",
            hint="Nothing was changed. Are you allowed to use cron?",
        )


class NoCrontabError(StorageError):
    """The error if the system has no cron that users may use."""
