"""Making transactions durable after the lock is free: group commit, by the kernel.

SQLite with `synchronous=FULL` flushes its write-ahead log while it holds the write lock, so that
writers wait for each other's flushes. With `NORMAL` it leaves out that flush alone: the log is
still flushed when it starts over and before it is written into the database, so a power cut never
damages the store. The writer flushes the log itself, after the lock and before the call returns.

One flush makes everything durable that is in the log by then, so whatever a transaction was based
on is durable with it. Others may read it a moment earlier than that.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.stores.files import next_step

# macOS has only the flush that writes times as well.
_flush = getattr(os, "fdatasync", os.fsync)


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
