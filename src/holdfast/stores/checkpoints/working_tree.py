"""The files of a project, changed one by one through directory descriptors.

No symlink is ever followed, not even one that appears meanwhile, so no path leads out of the
project. Paths are bytes with `/`, relative to the project.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from holdfast.model.checkpoint import Entry
from holdfast.stores.checkpoints.ignore_rules import TEMPORARY
from holdfast.stores.checkpoints.path_content import (
    READ,
    ChangedError,
    PathState,
    exchange,
    expect,
    move_to_free,
    opened,
    owner_for,
    state_at,
    unlink_if_there,
    write_file,
)
from holdfast.stores.checkpoints.worktrees import WORKTREE, is_worktree
from holdfast.stores.files import PRIVATE_DIR

_TEMPORARY_DIGITS = 16
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER_AND_WRITE = 0o300
_NEVER = (b"", b".", b"..")
_REPOSITORY = b".git"
#: What the operating system says of a path that leads through something that is no directory.
NO_WAY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
OTHER_WORKTREE = f"never touched: in {WORKTREE}"
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


class WorkingTree:
    """An open project, for one thread. Directories are flushed when they are left."""

    def __init__(self, root: Path, *, inside: int | None = None) -> None:
        self._root = os.open(root, _DIRECTORY, dir_fd=inside)
        self._folder = b""
        self._fd = self._root
        self._dirty = False
        self._worktrees: dict[bytes, bytes | None] = {}

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

    @contextlib.contextmanager
    def unlocked(self) -> Iterator[None]:
        """The project's own directory, opened for its owner to work in, and as it was after that:
        no checkpoint has its permissions, so no plan sets them."""
        mode = stat.S_IMODE(os.fstat(self._root).st_mode)
        locked = mode & PRIVATE_DIR != PRIVATE_DIR
        with contextlib.suppress(PermissionError):  # another's: what is in it may be ours
            if locked:
                os.fchmod(self._root, mode | PRIVATE_DIR)
        try:
            yield
        finally:
            with contextlib.suppress(PermissionError):
                if locked:
                    os.fchmod(self._root, mode)

    # --- Looking ----------------------------------------------------------------------------------

    def look(self, path: bytes, *, size: int | None = None) -> PathState | None:
        """What stands at a path. With `size`, a file of another size is not read: it differs."""
        if not path:
            return PathState(status=os.fstat(self._root))
        folder, name = _split(path)
        try:
            return state_at(name, self._enter(folder), size=size)
        except OSError as error:
            if error.errno in NO_WAY:
                return None
            raise

    def names(self, path: bytes) -> list[bytes]:
        """The names in a directory; empty when there is no directory."""
        try:
            with os.scandir(self._enter(path)) as found:
                return [os.fsencode(each.name) for each in found]
        except OSError as error:
            if error.errno in NO_WAY:
                return []
            raise

    def worktree_at(self, path: bytes) -> bytes | None:
        """The folder at a path, or above it, that is a git worktree of its own; None without."""
        if not path:
            return None
        if path not in self._worktrees:
            found = self.worktree_at(path.rpartition(b"/")[0])
            if found is None and is_worktree(path, inside=self._root):
                found = path
            self._worktrees[path] = found
        return self._worktrees[path]

    # --- Changing ---------------------------------------------------------------------------------

    def put(self, path: bytes, entry: Entry, content: bytes, over: PathState | None) -> None:
        """Put a file or symlink in its place atomically. `over` is what was seen there.

        Write-order rule: content, owner and permissions are whole and on the disk before the name
        is given to them.
        """
        folder, name = _split(path)
        fd = self._open_up(folder)
        temporary = _temporary(path)
        unlink_if_there(temporary, fd)  # what a killed restore left
        owner = owner_for(fd, over)
        try:
            if entry.is_link:
                os.symlink(content, temporary, dir_fd=fd)
                if owner:
                    os.chown(temporary, *owner, dir_fd=fd, follow_symlinks=False)
            else:
                write_file(temporary, fd, content, entry.permissions, owner)
            if over is None:
                _put_new(temporary, name, fd)
            else:
                _put_over(temporary, name, fd, over)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=fd)
            raise
        self._dirty = True

    def clear(self, path: bytes) -> None:
        """Remove what a killed restore was writing for a path."""
        folder, _ = _split(path)
        with contextlib.suppress(OSError):
            unlink_if_there(_temporary(path), self._enter(folder))

    def unlink(self, path: bytes, seen: PathState) -> None:
        """Remove what was seen at a path; raises `ChangedError` when that is not there any more."""
        folder, name = _split(path)
        fd, aside = self._open_up(folder), _temporary(path)
        unlink_if_there(aside, fd)
        # The last look comes when nobody finds it by its name any more: it may change until then.
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        if not state_at(aside, fd).is_same_as(seen):
            with contextlib.suppress(FileExistsError):  # then a newer one took its place
                os.link(aside, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            os.unlink(aside, dir_fd=fd)
            raise ChangedError(errno.EAGAIN, "changed while it was restored")
        os.unlink(aside, dir_fd=fd)
        self._dirty = True

    def set_mode(self, path: bytes, mode: int) -> None:
        """Give a file its permissions."""
        folder, name = _split(path)
        with opened(name, self._enter(folder), READ) as fd:
            os.fchmod(fd, mode)
            os.fsync(fd)

    def set_directory_mode(self, path: bytes, mode: int) -> None:
        if path:
            _split(path)
        os.fchmod(self._enter(path), mode)
        self._dirty = True

    def make(self, path: bytes) -> bool:
        """Make a directory, private until it gets its permissions; returns whether it was made."""
        folder, name = _split(path)
        fd = self._open_up(folder)
        try:
            os.mkdir(name, PRIVATE_DIR, dir_fd=fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise
            return False
        if owner := owner_for(fd, None):
            os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)
        self._dirty = True
        return True

    def remove(self, path: bytes) -> bool:
        """Remove a directory if it is empty; returns whether no directory is there now."""
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
            if name and is_worktree(b"", inside=fd):
                if fd != self._root:
                    os.close(fd)
                raise PermissionError(errno.EPERM, OTHER_WORKTREE)
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
    """The directory and the name; refuses paths that no checkpoint holds."""
    if any(name in _NEVER or name.lower() == _REPOSITORY for name in path.split(b"/")):
        raise PermissionError(errno.EPERM, "never touched: inside a .git, or no path of a project")
    folder, _, name = path.rpartition(b"/")
    return folder, name


def _put_new(temporary: bytes, name: bytes, fd: int) -> None:
    """Give a name that is free."""
    try:
        if move_to_free(temporary, name, fd):
            return
    except FileExistsError:
        raise ChangedError(errno.EAGAIN, "made while it was restored") from None
    expect(name, fd, None)
    os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)


def _put_over(temporary: bytes, name: bytes, fd: int, over: PathState) -> None:
    """Give a name that has been something else's, and look once more at what that was."""
    expect(name, fd, over)
    ours = os.stat(temporary, dir_fd=fd, follow_symlinks=False).st_ino
    try:
        if not exchange(temporary, name, fd):
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            return
    except FileNotFoundError:
        raise ChangedError(errno.EAGAIN, "went away while it was restored") from None
    if not state_at(temporary, fd).is_same_as(over):
        exchange(temporary, name, fd)
        if os.stat(temporary, dir_fd=fd, follow_symlinks=False).st_ino != ours:
            exchange(temporary, name, fd)  # somebody put a still newer one there
        raise ChangedError(errno.EAGAIN, "changed while it was restored")
    os.unlink(temporary, dir_fd=fd)


def _temporary(path: bytes) -> bytes:
    # The name follows from the path alone, so the run that finishes after a kill finds it.
    digest = hashlib.sha256(path).hexdigest()[:_TEMPORARY_DIGITS]
    return TEMPORARY + digest.encode()
