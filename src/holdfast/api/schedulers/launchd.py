"""Maintenance as an agent of macOS's launchd: one file in ~/Library/LaunchAgents. It runs every
night, or is kept running."""

from __future__ import annotations

import os
import plistlib
from typing import Any

from holdfast.api.schedulers.schedule import MARK, FileSchedule, Job, Scheduled
from holdfast.errors import UsageError

#: Seconds before launchd starts it again after it ended by itself.
_THROTTLE = 60


class Launchd(FileSchedule):
    """One job, as one file."""

    scheduler = "launchd"

    def __init__(self, job: Job) -> None:
        stem = "maintain" if job.is_usual else f"maintain-{job.id}"
        label = f"holdfast.{'watch' if job.home is None else stem}"
        path = job.user_home / "Library" / "LaunchAgents" / f"{label}.plist"
        super().__init__(job, {path: _content(job, label)})
        self.name = label
        domain = f"gui/{os.getuid()}"
        self.turn_on = (("launchctl", "bootstrap", domain, str(path)),)
        self.turn_off = ("launchctl", "bootout", f"{domain}/{label}")
        self.take_away = self.by_hand()

    def install(self) -> Scheduled:
        if self.installed():
            self._job.failure(self.turn_off)  # or launchd would refuse the new one
        return super().install()

    def wrote(self, content: bytes) -> bool:
        """Earlier versions wrote no mark: those files are told by their keys and the program."""
        if super().wrote(content):
            return True
        try:
            there = plistlib.loads(content)
        except Exception:  # noqa: BLE001 - the parser raises anything for a file of another program
            return False
        [ours] = map(plistlib.loads, self.files.values())
        return there.keys() == ours.keys() and "maintain" in there.get("ProgramArguments", ())


def _content(job: Job, label: str) -> bytes:
    try:
        written = plistlib.dumps(
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
        # A comment, because launchd complains about keys that it does not know. It may not
        # contain two dashes.
        return written.replace(b"<plist ", b"<!-- " + MARK + b", launchd). -->\n<plist ", 1)
    except (UnicodeEncodeError, ValueError) as error:
        raise UsageError(
            f"A file of launchd cannot contain the path {job.described!r}.",
            hint="Give the home a name of printable characters.",
        ) from error


def _when(job: Job) -> dict[str, Any]:
    if job.home is None:
        # If another process already watches, ours exits with an error code and launchd retries.
        return {
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": _THROTTLE,
        }
    hour, minute = job.at_night()
    return {"StartCalendarInterval": {"Hour": hour, "Minute": minute}}
