"""What is at a path, and how to put something else there, through a directory descriptor.

Two kinds of rename lose nothing: one never replaces a file, the other exchanges two names. Only
Linux has them, and not on every file system, so callers have a fallback.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from holdfast.model.checkpoint import Entry
from holdfast.stores.files import PRIVATE_FILE, write_all
from holdfast.value import dataclass

# Without O_NONBLOCK, opening a fifo that has just taken a file's place would block forever.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

_NO_REPLACE, _EXCHANGE = 1, 2
#: What the operating system says when it, or the file system, does not know such a rename.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


class ChangedError(OSError):
    """What stands at a path is no longer what was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """What stands at a path. `oid` is "" for what has no content, or none that can be read."""

    status: os.stat_result
    oid: str = ""

    def is_like(self, entry: Entry | None) -> bool:
        """Whether it is what a tree holds. A link has no permissions of its own."""
        if entry is None or stat.S_IFMT(self.status.st_mode) != stat.S_IFMT(entry.mode):
            return False
        if self.oid != entry.oid:
            return False
        return entry.is_link or stat.S_IMODE(self.status.st_mode) == entry.permissions

    def is_same_as(self, other: PathState) -> bool:
        """Whether type, permissions and content are the same, whatever its times."""
        return (self.status.st_mode, self.oid) == (other.status.st_mode, other.oid)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


def unlink_if_there(name: bytes, fd: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)


@contextlib.contextmanager
def opened(name: bytes, fd: int, flags: int) -> Iterator[int]:
    """A descriptor for a name in the directory `fd`."""
    file = os.open(name, flags, PRIVATE_FILE, dir_fd=fd)
    try:
        yield file
    finally:
        os.close(file)


def state_at(name: bytes, fd: int, *, size: int | None = None) -> PathState:
    """What stands at a name. With `size`, a file of another size is not read: it differs."""
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return PathState(status=status, oid=link_id(os.readlink(name, dir_fd=fd)))
    if stat.S_ISREG(status.st_mode) and size in (None, status.st_size):
        return read_file(name, fd, status)
    return PathState(status=status)


def read_file(name: bytes, fd: int, status: os.stat_result) -> PathState:
    """What a file holds; `status` is what was seen of it just before."""
    try:
        with opened(name, fd, READ) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return PathState(status=status)
            digest = hashlib.sha1(b"blob %d\0" % status.st_size, usedforsecurity=False)
            while chunk := os.read(file, _CHUNK):
                digest.update(chunk)
    except PermissionError:
        return PathState(status=status)
    return PathState(status=status, oid=digest.hexdigest())


def link_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def write_file(
    name: bytes, fd: int, content: bytes, mode: int, owner: tuple[int, int] | None
) -> None:
    with opened(name, fd, _WRITE_NEW) as file:
        write_all(file, content)
        if owner:
            os.fchown(file, *owner)
        os.fchmod(file, mode)  # after the owner: changing that takes set-user-id away
        os.fsync(file)


def owner_for(fd: int, over: PathState | None) -> tuple[int, int] | None:
    """Whose a new file must be, where that is not us anyway: root works in others' projects."""
    if os.geteuid() != 0:
        return None
    status = os.fstat(fd) if over is None else over.status
    return (status.st_uid, status.st_gid)


def expect(name: bytes, fd: int, seen: PathState | None) -> None:
    """Raise unless what stands there is what was seen: flushing a file takes its time."""
    try:
        now = _signature(os.stat(name, dir_fd=fd, follow_symlinks=False))
    except FileNotFoundError:
        now = None
    if now != (None if seen is None else _signature(seen.status)):
        raise ChangedError(errno.EAGAIN, "changed while it was restored")


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def move_to_free(old: bytes, new: bytes, fd: int) -> bool:
    """Rename inside the directory `fd`; raises `FileExistsError` when something has the new name.
    Says False, and does nothing, where that cannot be had."""
    return _rename(old, new, fd, _NO_REPLACE)


def exchange(one: bytes, other: bytes, fd: int) -> bool:
    """Exchange two names in the directory `fd` atomically; False where that cannot be done."""
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
