"""Read one file consistently, or return why it cannot be captured."""

from __future__ import annotations

import os
import stat

from holdfast.model.checkpoint import NO_FILE, TOO_LARGE
from holdfast.model.text import format_bytes
from holdfast.stores.git.trees import FILE, LINK, PROGRAM, is_program
from holdfast.value import dataclass

RACED = "changed while it was read"
UNFIT_NAME = "git cannot store a file with this name"

#: The longest step of the kernel's clock for file times, in nanoseconds.
TICK = 50_000_000
#: git compares whole seconds, and some file systems store times in steps of two seconds.
YOUNG = 2_000_000_000

#: Without O_NONBLOCK, opening a pipe that has just replaced a file would block forever.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 2
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


#: Inode, mode, size, mtime and ctime in nanoseconds.
Signature = tuple[int, int, int, int, int]
#: A signature that no file has.
NO_SIGNATURE: Signature = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Content:
    """A file or a symlink: git's mode, permissions, bytes, and its status."""

    kind: int
    permissions: int
    data: bytes
    status: os.stat_result

    @property
    def signature(self) -> Signature:
        return signature_of(self.status)


@dataclass(frozen=True, slots=True)
class Left:
    """Something that cannot be captured."""

    reason: str


class Directory:
    """A directory."""


Found = Content | Left | Directory | None


def read(path: bytes, limit: int | None, *, moment: int | None = None) -> Found:
    """Read what is at a path; None if there is nothing. A file that changes meanwhile is read once
    more.

    `moment` is when the look began. If a file changed just before, its times do not show whether it
    is still changing, so it is read twice and compared.
    """
    found: Found = Left(RACED)
    for _ in range(_TRIES):
        try:
            found = _read_once(path, limit, moment)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Left(f"cannot be read: {error.strerror or error}")
        if found != Left(RACED):
            break
    return found


def _read_once(path: bytes, limit: int | None, moment: int | None) -> Found:
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode):
        return Directory()
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path)  # noqa: PTH115 - pathlib has no bytes
        return Content(LINK, 0, target, status)
    if not stat.S_ISREG(status.st_mode):
        return special(status.st_mode)
    if limit is not None and status.st_size > limit:
        return _too_large(status.st_size, limit)
    fd = os.open(path, READ)
    try:
        return _steady(fd, limit, moment)
    finally:
        os.close(fd)


def _steady(fd: int, limit: int | None, moment: int | None) -> Found:
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        return Left(RACED)
    if limit is not None and before.st_size > limit:
        return _too_large(before.st_size, limit)
    data = _all(fd, before.st_size)
    steady = len(data) == before.st_size
    if steady and moment is not None and before.st_ctime_ns > moment - TICK:
        os.lseek(fd, 0, os.SEEK_SET)
        steady = data == _all(fd, before.st_size)
    if not steady or signature_of(before) != signature_of(os.fstat(fd)):
        return Left(RACED)
    permissions = stat.S_IMODE(before.st_mode)
    kind = PROGRAM if is_program(permissions) else FILE
    return Content(kind, permissions, data, before)


def _all(fd: int, size: int) -> bytes:
    """Read a file, at most one byte more than `size` at a time, to notice if it grew."""
    data = os.read(fd, size + 1)
    if len(data) in (size, 0) or len(data) > size:
        return data
    parts = [data]
    while part := os.read(fd, size + 1):
        parts.append(part)
    return b"".join(parts)


def special(mode: int) -> Left:
    """Return why something other than a file, a link or a directory is not captured."""
    return Left(f"{_KINDS.get(stat.S_IFMT(mode), 'something special')}{NO_FILE}")


def _too_large(size: int, limit: int) -> Left:
    return Left(f"{TOO_LARGE}{format_bytes(size)}, the limit is {format_bytes(limit)}")


def signature_of(status: os.stat_result) -> Signature:
    return (
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def signature_at(path: bytes) -> Signature | None:
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return None
