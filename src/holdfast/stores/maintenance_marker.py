"""When maintenance was last done, as a small file, and the lock that lets one process do it."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.model.maintenance import Marker, Told
from holdfast.stores.files import make_private_dir, replace, storage_errors
from holdfast.stores.lock import exclusive

MARKER = "maintenance.json"
LOCK = "maintenance.lock"
WATCH_LOCK = "watch.lock"
_FORMAT = 1
_LARGEST = 1_000_000
#: What reading raises when the file is inaccessible, is not JSON, or is not what we write.
_NO_MARKER = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_log = logging.getLogger("holdfast")


class FileMaintenanceGate:
    """The marker of a home and the lock around it, in the folder `operations` of its state."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "operations"

    @contextlib.contextmanager
    def entered(self, holder: str) -> Iterator[None]:
        """Be the one process that maintains the home. Does not wait."""
        with self._locked(LOCK, holder):
            yield

    @contextlib.contextmanager
    def watching(self, holder: str) -> Iterator[None]:
        """Be the one process that watches the home, for as long as it lives."""
        with self._locked(WATCH_LOCK, holder):
            yield

    def read(self) -> Marker:
        """The marker. Without a readable file, maintenance was never done."""
        path = self._folder / MARKER
        try:
            data = _read(path)
            return _marker(json.loads(data)) if data is not None else Marker()
        except _NO_MARKER as error:
            _log.warning("%s cannot be read and counts as never: %s", path, error)
            return Marker()

    def write(self, marker: Marker) -> None:
        path = self._folder / MARKER
        with storage_errors(f"write {path}"):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()  # never ours; rmdir refuses a folder that is not empty
            replace(path, json.dumps(_document(marker)).encode())

    @contextlib.contextmanager
    def _locked(self, name: str, holder: str) -> Iterator[None]:
        with storage_errors(f"create {self._folder}"):
            make_private_dir(self._folder)
        with exclusive(self._folder / name, holder=holder, wait=0.0, doing="looking after"):
            yield


def _read(path: Path) -> bytes | None:
    """None when there is no file. A fifo is not waited for, and a huge file is not read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise ValueError("it is no small file")
        return os.read(fd, _LARGEST)
    finally:
        os.close(fd)


def _document(marker: Marker) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "finished_at": marker.finished_at,
        "ok": marker.ok,
        "done": dict(marker.done),
        "told": {key: {"state": told.state, "at": told.at} for key, told in marker.told.items()},
    }


def _marker(document: Any) -> Marker:
    if document["format"] != _FORMAT:
        raise ValueError(f"its format is {document['format']!r}")
    finished_at = document["finished_at"]
    return Marker(
        finished_at=None if finished_at is None else _moment(finished_at),
        ok=document["ok"] is True,
        # A marker of an older version has none: then every setting is due.
        done={str(key): _moment(at) for key, at in document.get("done", {}).items()},
        told=_told(document.get("told", {})),
    )


def _told(document: Mapping[str, Any]) -> dict[str, Told]:
    return {
        str(key): Told(state=str(each["state"]), at=_moment(each["at"]))
        for key, each in document.items()
    }


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no time")
    return float(value)
