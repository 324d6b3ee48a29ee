"""A job as an agent of macOS's launchd."""

from __future__ import annotations

import os
import plistlib
from typing import Any

from holdfast.cli.invocation import DEFAULT_HOME, Invocation, quoted
from holdfast.cli.job import Job, failure, way_back
from holdfast.cli.output import name, note, say
from holdfast.cli.streams import write
from holdfast.errors import UsageError
from holdfast.stores.files import replace, storage_errors

_LABEL = "holdfast"
_NIGHT = 6 * 60
#: Seconds before it is started again after it ended by itself.
_THROTTLE = 60


class Launchd:
    """One file in ~/Library/LaunchAgents: a run every night, or a process that is kept running."""

    def __init__(self, job: Job, invocation: Invocation) -> None:
        usual = (invocation.user_home / DEFAULT_HOME).resolve()
        stem = "maintain" if job.home == usual else f"maintain-{job.id}"
        self._label = f"{_LABEL}.{'watch' if job.home is None else stem}"
        self._path = invocation.user_home / "Library" / "LaunchAgents" / f"{self._label}.plist"
        self._way_back = way_back(invocation, "launchd")
        self._turned_on = False
        words = list(job.standing if job.home is None else job.daily)
        try:
            self._content = plistlib.dumps(
                {
                    "Label": self._label,
                    "ProgramArguments": words,
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

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _turn_on(self) -> list[str]:
        return ["launchctl", "bootstrap", self._domain, str(self._path)]

    @property
    def _turn_off(self) -> list[str]:
        return ["launchctl", "bootout", f"{self._domain}/{self._label}"]

    def show(self) -> None:
        again = " (replaces the one that is there)" if self._path.exists() else ""
        say(name(f"{self._path}{again}", "bold"))
        write(self._content.decode() + "\n")

    def install(self) -> int:
        if self._path.exists():
            failure(self._turn_off)  # or launchd would refuse the new one
        with storage_errors(f"write {self._path}"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace(self._path, self._content)
        problem = failure(self._turn_on)
        self._turned_on = problem is None
        if problem is None:
            note(f"Installed: {self._label} is on.")
        else:
            note(f"warning: {problem}")
            note("The file is written, but it is not on yet. Log in again, or turn it on with:")
            note(f"  {' '.join(map(quoted, self._turn_on))}")
        note("To remove it again:")
        note(f"  {self._way_back}")
        return 0

    def show_removal(self) -> bool:
        if not self._path.is_file():
            return False
        note(f"{self._path} goes.")
        return True

    def uninstall(self) -> int:
        problem = failure(self._turn_off)
        with storage_errors(f"remove {self._path}"):
            self._path.unlink(missing_ok=True)
        note("Removed." if problem is None else f"warning: {problem}; the file is gone.")
        return 0

    def document(self) -> dict[str, Any]:
        return {
            "scheduler": "launchd",
            "files": [{"path": str(self._path), "content": self._content.decode()}],
            "turned_on": self._turned_on,
            "turn_on": [" ".join(self._turn_on)],
            "take_away": [" ".join(self._turn_off), f"rm {quoted(self._path)}"],
        }


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
