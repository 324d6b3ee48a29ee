"""Making transactions durable after the lock is free: group commit, by the kernel.

SQLite with `synchronous=FULL` flushes its write-ahead log while it holds the write lock, so that
writers wait for each other's flushes. With `NORMAL` it leaves out that flush alone: the log is
still flushed when it starts over and before it is written into the database, so a power cut never
damages the store. The writer flushes the log itself, after the lock and before the call returns.

One flush makes everything durable that is in the log by then, so whatever a transaction was based
on is durable with it. Others may read it a moment earlier than that.

What nobody waits for is flushed by a thread, five milliseconds after it was asked for, unless
somebody flushed the log meanwhile for a reason of their own: most turns of an agent's loop do, and
pay for one flush. A younger request is left alone until it is as old. A flush too early would be
one for nothing, and the flush that somebody waits for would have to wait behind it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from time import monotonic

from holdfast.errors import StorageError
from holdfast.stores.files import next_step

# macOS has only the flush that writes times as well.
_flush = getattr(os, "fdatasync", os.fsync)
#: How long what nobody waits for may wait.
_SECONDS = 0.005


class LogFlush:
    """The log of one connection. Its own descriptor: the kernel reports a failed write to each.

    A descriptor on the log may be closed at any time: SQLite has its locks on other files.
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
            self.close()  # somebody took the store out of use meanwhile
        if self._fd is None:
            self._fd = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        _flush(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


class LateFlush:
    """For one store in one process: a child of a fork makes its own, its parent's has no thread
    there."""

    def __init__(self, database: Path) -> None:
        self.process = os.getpid()
        self._log = LogFlush(database)
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closing = threading.Event()
        #: How often it was asked, and up to which time of these everything is on the disk.
        self.asked = self._covered = 0
        #: The requests that nothing has flushed yet: their numbers and when they came.
        self._open: deque[tuple[int, float]] = deque()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Flush what was committed before this."""
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
        """Somebody flushed what had been asked for when their flush began."""
        with self._lock:
            self._covered = max(self._covered, asked)
            while self._open and self._open[0][0] <= asked:
                self._open.popleft()

    def close(self) -> None:
        """What was asked for is on the disk after this."""
        self._closing.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._catch_up()  # what was asked for after its last look
        self._log.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._wanted.clear()  # before the look: what is asked for after it sets it again
            while not self._closing.is_set() and (left := self._left()) is not None:
                if left > 0:
                    self._closing.wait(left)
                else:
                    self._catch_up()

    def _left(self) -> float | None:
        """The seconds until the oldest request is due; None when there is none."""
        with self._lock:
            return self._open[0][1] + _SECONDS - monotonic() if self._open else None

    def _catch_up(self) -> None:
        asked = self.asked
        if asked <= self._covered:
            return
        try:
            self._log.flush()
        except StorageError as error:
            # Nobody waits for this one. The next call that flushes meets the same error.
            import logging  # noqa: PLC0415 - a list of sessions loads as little as it can

            logging.getLogger("holdfast").log(logging.ERROR, "%s", error.message)
        self.cover(asked)
