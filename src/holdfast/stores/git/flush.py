"""fsync several files at once, so that one journal commit covers all of them."""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def flush(fds: Sequence[int]) -> None:
    """Make files durable, side by side: a journal takes all that asks at the same time at once.

    On a busy disk that is several times quicker than one after the other.
    """
    others = [_Flushing(fd) for fd in fds[1:]]
    error = None
    for fd in fds[:1]:
        try:
            os.fsync(fd)
        except OSError as raised:
            error = raised
    for other in others:  # all of them, or one would flush what was closed meanwhile
        error = other.error() or error
    if error is not None:
        raise error


class _Flushing:
    """A file that is being flushed beside us.

    The module `threading` waits for each thread to begin, which on a busy machine takes longer than
    the disk does.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._error: OSError | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads, or the interpreter is ending
            self._run()

    def error(self) -> OSError | None:
        """Wait for the end of it."""
        self._done.acquire()
        return self._error

    def _run(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._error = error
        finally:
            self._done.release()


def flush_folders(folders: Iterable[Path]) -> None:
    """Make the names in folders durable."""
    for folder in folders:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
