"""Making durable in a moment what nobody waits for.

A thread flushes the log five milliseconds after it was asked to, unless somebody flushed it
meanwhile for a reason of their own: most turns of an agent's loop do, and pay for one flush. A
younger request is left alone until it is as old: a flush too early is one for nothing, and the
flush that somebody waits for has to wait behind it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from time import monotonic

from holdfast.errors import StorageError
from holdfast.stores.sqlite.log_flush import LogFlush

_SECONDS = 0.005


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
