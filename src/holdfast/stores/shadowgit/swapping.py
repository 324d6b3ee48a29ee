"""Renames that lose nothing: one that never replaces, and one that exchanges two names.

Only Linux has them, and not on every file system. Whoever calls these has another way.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable

_NO_REPLACE, _EXCHANGE = 1, 2
#: What the operating system says when it, or the file system, does not know such a rename.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def move_to_free(old: bytes, new: bytes, fd: int) -> bool:
    """Rename inside the directory `fd`; raises `FileExistsError` when something has the new name.
    Says False, and does nothing, where that cannot be had."""
    return _rename(old, new, fd, _NO_REPLACE)


def exchange(one: bytes, other: bytes, fd: int) -> bool:
    """Let two names in the directory `fd` change places, at one stroke; False as above."""
    return _rename(one, other, fd, _EXCHANGE)


def _rename(old: bytes, new: bytes, fd: int, flag: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    if call(fd, old, fd, new, flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(new))


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    return call  # type: ignore[no-any-return]
