"""One process at a time: an advisory lock that a dead process frees by itself."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.stores.files import PRIVATE_FILE, storage_errors

_PAUSE = 0.05


@contextlib.contextmanager
def exclusive(
    path: Path,
    *,
    holder: str,
    wait: float,
    doing: str = "changing",
    place: Path | None = None,
) -> Iterator[None]:
    """Hold the lock at `path`, or raise `BusyError` naming who has it after `wait` seconds.

    `place` is what the lock guards, when that is not the home it lies in. The file stays: removing
    a lock file while another process waits on it makes two owners.
    """
    with storage_errors(f"open the lock {path}"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        _acquire(fd, fcntl.LOCK_EX, wait, f"{doing} {place or path.parent.parent}")
        # Only for the message that another process shows; the lock itself is the kernel's.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            text = f"process {os.getpid()}, `holdfast {holder}`"
            os.pwrite(fd, text.encode("utf-8", "backslashreplace"), 0)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def shared(path: Path, *, wait: float, doing: str, place: Path) -> Iterator[None]:
    """Hold the lock at `path` beside others that share it, and beside no exclusive holder."""
    with storage_errors(f"open the lock {path}"):
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        _acquire(fd, fcntl.LOCK_SH, wait, f"{doing} {place}")
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, how: int, wait: float, doing: str) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                raise
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another process is {doing}: {_holder(fd)}.",
                    hint="Wait until it is done, then try again.",
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _holder(fd: int) -> str:
    try:
        text = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return text or "it did not say which"
