"""Where writers queue up before SQLite's write lock, at a lock that is cheap to ask for.

SQLite's own waiting sleeps longer than our transactions last, and each of its tries costs more
than a transaction leaves free. A pause of two milliseconds lets whoever is through go on for a few
transactions: measured with four writers, that is half as many messages again as asking ten times
as often.

It is a courtesy between processes of ours: the lock that counts is SQLite's. Whoever does not get
through in time, or has no gate to queue at, asks there all the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.stores.files import PRIVATE_FILE

_PAUSE = 0.002
_PATIENCE = 2.0


class Gate:
    """The gate of one store, for one thread: a descriptor of its own is what queues."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + "-gate")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd: int | None = None
        with contextlib.suppress(OSError):  # a read-only home has no writers to queue
            self._fd = os.open(path, flags, PRIVATE_FILE)

    @contextlib.contextmanager
    def passed(self, patience: float) -> Iterator[None]:
        """Be the one in front of the write lock, or give up waiting for that after a while."""
        fd = self._fd
        if fd is None:
            yield
            return
        deadline = time.monotonic() + min(patience, _PATIENCE)
        while not (mine := _try_lock(fd)) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            if mine:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
