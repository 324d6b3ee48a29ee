"""One flush for a whole file system, where thousands of single flushes would take longer.

It also waits for what other processes wrote there. It is used only where it reports errors, which
Linux does since version 5.8.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable

from holdfast.stores.files import read_file

_SINCE = (5, 8)
_MEMORY = "/proc/meminfo"
#: The lines, in kB, for data not yet written on all file systems.
_WAITING = (b"Dirty:", b"Writeback:")
#: This much is written in the time of a few single flushes.
_LITTLE_KB = 4096


def can_flush_disk() -> bool:
    return _syncfs() is not None


def flush_disk(fd: int) -> None:
    """Flush the file system of a descriptor. Only if `can_flush_disk`."""
    call = _syncfs()
    if call is None:
        raise AssertionError("there is no such flush here")
    if call(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_quick() -> bool:
    """True if flushing the whole disk would write little data of other processes right now."""
    if not can_flush_disk():
        return False
    try:
        lines = read_file(_MEMORY).splitlines()
        waiting = [int(line.split()[1]) for line in lines if line.startswith(_WAITING)]
    except (OSError, ValueError, IndexError):
        return False
    return len(waiting) == len(_WAITING) and sum(waiting) <= _LITTLE_KB


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    if sys.platform != "linux" or _version(os.uname().release) < _SINCE:
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return None
    call.argtypes, call.restype = [ctypes.c_int], ctypes.c_int
    return call  # type: ignore[no-any-return]


def _version(release: str) -> tuple[int, ...]:
    """The first two numbers of a release such as 6.8.0-45-generic."""
    numbers = release.replace("-", ".").split(".")[:2]
    return tuple(int(each) for each in numbers if each.isdigit())
