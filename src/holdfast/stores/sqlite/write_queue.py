"""A queue in front of SQLite's write lock, at a lock that is cheap to try.

SQLite's own busy handler sleeps longer than our transactions last, and each of its tries costs more
than the time between two transactions. Most transactions take a tenth of a millisecond, and are
flushed after the lock is free. So a writer retries after half of that, and less often the longer it
waits: with longer pauses, the lock would be idle while other writers flush.

A lock that the kernel grants in turn was slower with eight writers. Nor could a writer give up
waiting for it.

A waiting process holds a second lock, shared, so that a process with many transactions can see
whether to let others go first.

The queue is a courtesy between our own processes: the lock that counts is SQLite's. A process that
does not get through in time, or has no gate, tries that lock anyway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.stores.files import open_regular

_FIRST_PAUSE = 0.00005
_LONGER = 1.1
_LONGEST_PAUSE = 0.002
_PATIENCE = 2.0


class Gate:
    """The gate of one store, for one thread. Locks belong to descriptors, so each thread has its
    own."""

    def __init__(self, database: Path) -> None:
        self._fd = _opened(database, "-gate")
        self._queue = _opened(database, "-queue")

    @contextlib.contextmanager
    def passed(self, patience: float) -> Iterator[None]:
        """Be first in line for the write lock, or stop waiting for that after a while."""
        mine = self.enter(patience)
        try:
            yield
        finally:
            if mine:
                self.leave()

    def enter(self, patience: float) -> bool:
        """Wait to be first in line; if True is returned, the caller has to call `leave`."""
        fd = self._fd
        if fd is None:
            return False
        return _try_lock(fd) or self._wait(fd, time.monotonic() + min(patience, _PATIENCE))

    def leave(self) -> None:
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def is_awaited(self) -> bool:
        """True if another process is waiting."""
        if self._queue is None or not _try_lock(self._queue):
            return self._queue is not None
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        for fd in (self._fd, self._queue):
            if fd is not None:
                os.close(fd)
        self._fd = self._queue = None

    def _wait(self, fd: int, deadline: float) -> bool:
        queued, pause = False, _FIRST_PAUSE
        while not (mine := _try_lock(fd)) and time.monotonic() < deadline:
            queued = queued or (self._queue is not None and _try_lock(self._queue, fcntl.LOCK_SH))
            time.sleep(pause)
            pause = min(pause * _LONGER, _LONGEST_PAUSE)
        if queued and self._queue is not None:
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        return mine


def _opened(database: Path, suffix: str) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        return open_regular(database.with_name(database.name + suffix), flags)
    except OSError:
        return None  # a read-only home has no writers to queue


def _try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
