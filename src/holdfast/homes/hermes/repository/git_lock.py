"""git's own lock on one of its files: another file, ending with `.lock`, that takes its place.

It is made with its whole content at one stroke, and under a second name as well. So one that a
killed run of ours left can be told from one that git holds, and is removed at once; Hermes, whose
git would stumble over it, does not wait for that longer than until the next run.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.stores.files import sync_dir, write_all

_OURS = "holdfast-"
#: git holds such a lock for an instant; one that is older was left by a killed process.
_STALE = 60.0


class GitLock:
    """The lock on `path`, for whoever is the only one of ours here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = path.with_name(f"{path.name}.lock")
        self._mine = path.with_name(f"{_OURS}{path.name}")

    @contextlib.contextmanager
    def holding(self, data: bytes, mode: int) -> Iterator[bool]:
        """Take it, with what the file is to contain. False when somebody else has it."""
        self._clear()
        self._write(data, mode)
        try:
            os.link(self._mine, self._guard)
        except FileExistsError:
            self._remove_stale()
            self._mine.unlink()
            yield False
            return
        try:
            yield True
        finally:
            self._clear()

    def _write(self, data: bytes, mode: int) -> None:
        fd = os.open(self._mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(fd, data)
            os.fsync(fd)
        except BaseException:
            self._mine.unlink()
            raise
        finally:
            os.close(fd)

    def commit(self) -> None:
        """The lock becomes the file."""
        self._guard.replace(self._path)
        sync_dir(self._path.parent)

    def _clear(self) -> None:
        """What a killed run left, or this one: the lock first, while its other name tells."""
        with contextlib.suppress(FileNotFoundError):
            if self._mine.samefile(self._guard):
                self._guard.unlink()
        self._mine.unlink(missing_ok=True)

    def _remove_stale(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            age = time.time() - self._guard.stat().st_mtime  # noqa: TID251 - the age of a lock
            if age > _STALE:
                self._guard.unlink()
