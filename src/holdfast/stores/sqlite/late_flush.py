"""Making durable in a moment what nobody waits for.

A thread flushes the log a few milliseconds after it was asked to, unless somebody flushed it
meanwhile for a reason of their own: most turns of an agent's loop do, and pay for one flush.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

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
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Flush what was committed before this."""
        with self._lock:
            self.asked += 1
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
            self._closing.wait(_SECONDS)
            self._wanted.clear()
            self._catch_up()

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
