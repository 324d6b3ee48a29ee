"""The marker file with the time of the last maintenance, and the lock for the process that does
it."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from holdfast.model.json_value import NO_RECORD
from holdfast.model.maintenance import Marker, Told
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.lock import exclusive

MARKER = "maintenance.json"
LOCK = "maintenance.lock"
WATCH_LOCK = "watch.lock"
_FORMAT = 1
#: A larger file is not ours: its cut-off content is not valid JSON.
_LARGEST = 1_000_000
#: Errors from reading a file that is inaccessible, is not JSON, or is not what we write.
NO_MARKER = (OSError, *NO_RECORD)
_log = logging.getLogger("holdfast")


class FileMaintenanceGate:
    """The marker of a home and the lock around it, in the folder `operations` of its state."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "operations"

    def entered(self, holder: str) -> AbstractContextManager[None]:
        """Hold the lock for the one process that maintains the home. Does not wait."""
        return self._locked(LOCK, holder)

    def watching(self, holder: str) -> AbstractContextManager[None]:
        """Hold the lock for the one process that watches the home, for as long as it lives."""
        return self._locked(WATCH_LOCK, holder)

    def read(self) -> Marker:
        """The marker. Without a readable file, maintenance counts as never done."""
        path = self._folder / MARKER
        try:
            return marker_of(json.loads(read_file(path, _LARGEST)))
        except FileNotFoundError:
            return Marker()
        except NO_MARKER as error:
            _log.warning("%s cannot be read and counts as never: %s", path, error)
            return Marker()

    def write(self, marker: Marker) -> None:
        path = self._folder / MARKER
        with storage_errors(f"write {path}"):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()  # never ours; rmdir refuses a folder that is not empty
            replace(path, json.dumps(document(marker)).encode())

    @contextlib.contextmanager
    def _locked(self, name: str, holder: str) -> Iterator[None]:
        with storage_errors(f"create {self._folder}"):
            make_private_dir(self._folder)
        with exclusive(
            self._folder / name, holder=holder, wait=0.0, doing="running maintenance of"
        ):
            yield


def document(marker: Marker) -> dict[str, Any]:
    """A marker as JSON."""
    return {
        "format": _FORMAT,
        "finished_at": marker.finished_at,
        "ok": marker.ok,
        "done": dict(marker.done),
        "told": {key: {"state": told.state, "at": told.at} for key, told in marker.told.items()},
    }


def marker_of(document: Any) -> Marker:
    """The marker in a JSON document; raises one of `NO_MARKER` if there is none."""
    if document["format"] != _FORMAT:
        raise ValueError(f"its format is {document['format']!r}")
    finished_at = document["finished_at"]
    return Marker(
        finished_at=None if finished_at is None else _moment(finished_at),
        ok=document["ok"] is True,
        # A marker of an older version has no `done`: then every setting is due.
        done={str(key): _moment(at) for key, at in document.get("done", {}).items()},
        told={
            str(key): Told(state=str(each["state"]), at=_moment(each["at"]))
            for key, each in document.get("told", {}).items()
        },
    )


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a time")
    return float(value)
