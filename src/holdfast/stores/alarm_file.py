"""The alarms of a home, in a small file. The file only informs: nothing depends on it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from holdfast.model.alarm import Alarm, Writer
from holdfast.model.json_value import NO_RECORD, fields_from_json
from holdfast.stores.files import make_private_dir, read_file
from holdfast.stores.files import replace as write_file
from holdfast.stores.line_file import Stamp, stamp_of
from holdfast.value import replace

NAME = "alarms.json"
_FORMAT = 1
_LARGEST = 1_000_000
#: How many alarms are kept, and for how many seconds.
_MOST, _LONGEST = 20, 7 * 86_400.0
#: An alarm not updated for this many seconds is over.
_SILENT = 300.0
_log = logging.getLogger("holdfast")


class AlarmFile:
    """The file in the folder `operations` of a home's state."""

    def __init__(self, state: Path) -> None:
        self._path = state / "operations" / NAME

    def stamp(self) -> Stamp | None:
        """Changes whenever the file does; None if there is none, or it cannot be read."""
        try:
            return stamp_of(self._path)
        except OSError:
            return None

    def read(self, now: float | None = None) -> Sequence[Alarm]:
        """Active alarms first, then by time, the latest first. With `now`, active alarms of a
        watcher that was killed count as ended: a live one updates the file every minute."""
        try:
            found = [_alarm(each) for each in json.loads(read_file(self._path, _LARGEST))["alarms"]]
        except FileNotFoundError:
            return ()
        except (OSError, *NO_RECORD) as error:
            _log.warning("%s cannot be read: %s", self._path, error)
            return ()
        if now is not None:
            found = [
                replace(each, ended_at=each.last_at)
                if each.active and abs(now - each.last_at) > _SILENT
                else each
                for each in found
            ]
        return sorted(found, key=lambda each: (not each.active, -each.last_at))

    def note(self, alarms: Iterable[Alarm], now: float) -> None:
        """Add alarms; each replaces an earlier one about the same path. A full disk is only logged,
        so that the alarm still gets out in other ways."""
        known = {each.path: each for each in self.read()}
        known |= {each.path: each for each in alarms}
        kept = [each for each in known.values() if abs(now - each.last_at) < _LONGEST]
        kept.sort(key=lambda each: (not each.active, -each.last_at))
        document = {"format": _FORMAT, "alarms": [each.to_json() for each in kept[:_MOST]]}
        try:
            make_private_dir(self._path.parent)
            write_file(self._path, json.dumps(document).encode())
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._path, error.strerror or error)

    def end_all(self, now: float) -> None:
        """End all active alarms: no process watches from now on, or the last one that did was
        killed. What grew may have stopped."""
        going_on = [each for each in self.read() if each.active]
        if going_on:
            self.note([replace(each, ended_at=now) for each in going_on], now)


def _alarm(said: dict[str, Any]) -> Alarm:
    writers = tuple(fields_from_json(Writer, each) for each in said["writers"])
    return fields_from_json(Alarm, said, writers=writers)
