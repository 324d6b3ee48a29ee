"""Makes transactions durable after the lock is free: group commit, done by the kernel.

With `synchronous=FULL`, SQLite flushes its write-ahead log while it holds the write lock, so
writers wait for each other's flushes. With `NORMAL` it leaves out only that flush: the log is still
flushed when it starts over and before it is written into the database, so a power cut never damages
the store. The writer flushes the log itself, after the lock is released and before the call
returns. One flush makes everything durable that is in the log by then, so whatever a transaction
was based on is durable with it. Other processes may read a commit a moment before it is durable.

Commits that no caller waits for are flushed by a thread, five milliseconds after the request,
unless the log was flushed meanwhile for another reason: in most turns of an agent's loop it is, so
a turn pays for one flush. Each request waits until it is that old. An earlier flush would be
wasted, and a flush that a caller waits for would have to wait behind it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from time import monotonic

from holdfast.errors import StorageError
from holdfast.stores.files import next_step

# macOS has only the flush that also writes the timestamps.
_flush = getattr(os, "fdatasync", os.fsync)
#: The longest delay of a flush that no caller waits for.
_SECONDS = 0.005


class LogFlush:
    """The log of one connection. It has its own descriptor: the kernel reports a failed write once
    to each.

    A descriptor of the log may be closed at any time: SQLite's locks are on other files.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._fd: int | None = None

    def flush(self) -> None:
        try:
            self._flush()
        except OSError as error:
            raise StorageError(
                f"What was just stored in {self._log.with_name(self._log.name[:-4])} may be lost "
                f"if the power fails: {error.strerror or error}.",
                hint=next_step(error),
            ) from error

    def _flush(self) -> None:
        if self._fd is not None and not os.fstat(self._fd).st_nlink:
            self.close()  # the log was deleted meanwhile
        if self._fd is None:
            self._fd = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        _flush(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


class LateFlush:
    """Flushes one store later, in one process. After a fork the child makes its own: threads do not
    survive a fork."""

    def __init__(self, database: Path) -> None:
        self.process = os.getpid()
        self._log = LogFlush(database)
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closing = threading.Event()
        #: The number of requests so far, and the number of the last request that is on the disk.
        self.asked = self._covered = 0
        #: The requests that nothing has flushed yet: their numbers and times.
        self._open: deque[tuple[int, float]] = deque()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Request a flush of everything committed so far."""
        with self._lock:
            self.asked += 1
            self._open.append((self.asked, monotonic()))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-flush", daemon=True
                )
                self._thread.start()
        if not self._wanted.is_set():
            self._wanted.set()

    def cover(self, asked: int) -> None:
        """Record a flush by another caller, which covers the requests up to number `asked`."""
        with self._lock:
            self._covered = max(self._covered, asked)
            while self._open and self._open[0][0] <= asked:
                self._open.popleft()

    def close(self) -> None:
        """Flush what was requested and stop the thread."""
        self._closing.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._catch_up()  # requests since the thread last looked
        self._log.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._wanted.clear()  # before the check: a later request sets it again
            while not self._closing.is_set() and (left := self._left()) is not None:
                if left > 0:
                    self._closing.wait(left)
                else:
                    self._catch_up()

    def _left(self) -> float | None:
        """The seconds until the oldest request is due; None if there is none."""
        with self._lock:
            return self._open[0][1] + _SECONDS - monotonic() if self._open else None

    def _catch_up(self) -> None:
        asked = self.asked
        if asked <= self._covered:
            return
        try:
            self._log.flush()
        except StorageError as error:
            # No caller waits for this flush. The next call that flushes gets the same error.
            import logging  # noqa: PLC0415 - a list of sessions loads as little as it can

            logging.getLogger("holdfast").log(logging.ERROR, "%s", error.message)
        self.cover(asked)
