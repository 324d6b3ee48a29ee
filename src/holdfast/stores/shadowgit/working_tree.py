"""The files of a project, changed one by one through directory descriptors.

No symlink is ever followed, neither one that is there nor one that is made meanwhile: so no path
leads out of the project. Paths are bytes with `/`, relative to it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.model.checkpoint import Entry
from holdfast.stores.files import PRIVATE_DIR, PRIVATE_FILE, write_all

#: What a restore writes until it is whole; the name says whose it is, should one ever be found.
TEMPORARY_PREFIX = b".holdfast-restore-"
_TEMPORARY_DIGITS = 16
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a fifo that has just taken a file's place would wait for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER_AND_WRITE = 0o300
_CHUNK = 1 << 20
_NEVER = (b"", b".", b"..")
_REPOSITORY = b".git"
#: What the operating system says of a path that leads through something that is no directory.
NO_WAY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


class ChangedError(OSError):
    """What stands at a path is no longer what was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
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

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


class WorkingTree:
    """An open project, for one thread. Directories are flushed when they are left."""

    def __init__(self, root: Path, *, inside: int | None = None) -> None:
        self._root = os.open(root, _DIRECTORY, dir_fd=inside)
        self._folder = b""
        self._fd = self._root
        self._dirty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._leave()
        finally:
            os.close(self._root)

    def again(self) -> WorkingTree:
        """The same project, whatever its path leads to by now, for another thread."""
        return WorkingTree(Path(), inside=self._root)

    def flush(self) -> None:
        """Make the names in the directory where the last change was durable."""
        self._leave()

    # --- Looking ----------------------------------------------------------------------------------

    def look(self, path: bytes, *, size: int | None = None) -> Seen | None:
        """What stands at a path. With `size`, a file of another size is not read: it differs."""
        if not path:
            return Seen(status=os.fstat(self._root))
        folder, name = _split(path)
        try:
            fd = self._enter(folder)
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in NO_WAY:
                return None
            raise
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=fd)
            return Seen(status=status, oid=_oid(target))
        if stat.S_ISREG(status.st_mode) and size in (None, status.st_size):
            return _read(name, fd, status)
        return Seen(status=status)

    def names(self, path: bytes) -> list[bytes]:
        """What lies in a directory; nothing when there is none."""
        try:
            with os.scandir(self._enter(path)) as found:
                return [os.fsencode(each.name) for each in found]
        except OSError as error:
            if error.errno in NO_WAY:
                return []
            raise

    # --- Changing ---------------------------------------------------------------------------------

    def put(self, path: bytes, entry: Entry, content: bytes, over: Seen | None) -> None:
        """Put a file or symlink in its place at one stroke. `over` is what was seen there.

        Write-order rule: content, owner and permissions are whole and on the disk before the name
        is given to them.
        """
        folder, name = _split(path)
        fd = self._open_up(folder)
        temporary = _temporary(path)
        _unlink(temporary, fd)  # what a killed restore left
        owner = _owner(fd, over)
        try:
            if entry.is_link:
                os.symlink(content, temporary, dir_fd=fd)
                if owner:
                    os.chown(temporary, *owner, dir_fd=fd, follow_symlinks=False)
            else:
                _write(temporary, fd, content, entry.permissions, owner)
            _expect(name, fd, over)
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=fd)
            raise
        self._dirty = True

    def clear(self, path: bytes) -> None:
        """Remove what a killed restore was writing for a path."""
        folder, _ = _split(path)
        with contextlib.suppress(OSError):
            _unlink(_temporary(path), self._enter(folder))

    def unlink(self, path: bytes) -> None:
        folder, name = _split(path)
        os.unlink(name, dir_fd=self._open_up(folder))
        self._dirty = True

    def set_mode(self, path: bytes, mode: int) -> None:
        """Give a file its permissions."""
        folder, name = _split(path)
        with _opened(name, self._enter(folder), _READ) as fd:
            os.fchmod(fd, mode)
            os.fsync(fd)

    def set_directory_mode(self, path: bytes, mode: int) -> None:
        if path:
            _split(path)
        os.fchmod(self._enter(path), mode)
        self._dirty = True

    def make(self, path: bytes) -> bool:
        """Make a directory, private until it gets its permissions; says whether it did."""
        folder, name = _split(path)
        fd = self._open_up(folder)
        try:
            os.mkdir(name, PRIVATE_DIR, dir_fd=fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise
            return False
        if owner := _owner(fd, None):
            os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)
        self._dirty = True
        return True

    def remove(self, path: bytes) -> bool:
        """Remove a directory if nothing is in it; says whether no directory stands there now."""
        folder, name = _split(path)
        try:
            os.rmdir(name, dir_fd=self._open_up(folder))
        except OSError as error:
            if error.errno in _NOT_EMPTY:
                return False
            if error.errno not in NO_WAY:
                raise
            return True
        self._dirty = True
        return True

    # --- Descriptors ------------------------------------------------------------------------------

    def _open_up(self, folder: bytes) -> int:
        """A directory in which its owner may work. The plan sets its permissions at the end."""
        fd = self._enter(folder)
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & _ENTER_AND_WRITE != _ENTER_AND_WRITE:
            os.fchmod(fd, mode | PRIVATE_DIR)
        return fd

    def _enter(self, folder: bytes) -> int:
        """Only two descriptors are open at a time: a path may have two thousand directories."""
        if folder == self._folder:
            return self._fd
        self._leave()
        fd = self._root
        for name in folder.split(b"/"):
            if not name:
                continue
            try:
                below = os.open(name, _DIRECTORY, dir_fd=fd)
            finally:
                if fd != self._root:
                    os.close(fd)
            fd = below
        self._folder, self._fd = folder, fd
        return fd

    def _leave(self) -> None:
        fd, dirty = self._fd, self._dirty
        self._folder, self._fd, self._dirty = b"", self._root, False
        try:
            if dirty:
                os.fsync(fd)
        finally:
            if fd != self._root:
                os.close(fd)


def _split(path: bytes) -> tuple[bytes, bytes]:
    """The directory and the name; refuses what no tree of ours holds, whoever made it."""
    if any(name in _NEVER or name.lower() == _REPOSITORY for name in path.split(b"/")):
        raise PermissionError(errno.EPERM, "never touched: inside a .git, or no path of a project")
    folder, _, name = path.rpartition(b"/")
    return folder, name


def _temporary(path: bytes) -> bytes:
    # It follows from the path alone, so that whoever finishes after a kill finds it.
    digest = hashlib.sha256(path).hexdigest()[:_TEMPORARY_DIGITS]
    return TEMPORARY_PREFIX + digest.encode()


def _unlink(name: bytes, fd: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)


@contextlib.contextmanager
def _opened(name: bytes, fd: int, flags: int) -> Iterator[int]:
    opened = os.open(name, flags, PRIVATE_FILE, dir_fd=fd)
    try:
        yield opened
    finally:
        os.close(opened)


def _read(name: bytes, fd: int, status: os.stat_result) -> Seen:
    try:
        with _opened(name, fd, _READ) as opened:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                return Seen(status=status)
            digest = hashlib.sha1(b"blob %d\0" % status.st_size, usedforsecurity=False)
            while chunk := os.read(opened, _CHUNK):
                digest.update(chunk)
    except PermissionError:
        return Seen(status=status)
    return Seen(status=status, oid=digest.hexdigest())


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _write(name: bytes, fd: int, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    with _opened(name, fd, _WRITE_NEW) as opened:
        write_all(opened, content)
        if owner:
            os.fchown(opened, *owner)
        os.fchmod(opened, mode)  # after the owner: changing that takes set-user-id away
        os.fsync(opened)


def _owner(fd: int, over: Seen | None) -> tuple[int, int] | None:
    """Whose a new file must be, where that is not us anyway: root works in others' projects."""
    if os.geteuid() != 0:
        return None
    status = os.fstat(fd) if over is None else over.status
    return (status.st_uid, status.st_gid)


def _expect(name: bytes, fd: int, seen: Seen | None) -> None:
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
