"""The files of a project, changed one by one through directory descriptors.

No symlink is ever followed, not even one that appears meanwhile, so no path leads out of the
project. Paths are bytes with `/`, relative to the project.

Two kinds of rename lose nothing: one never replaces a file, the other exchanges two names. Only
Linux has them, and not on every file system, so there is a fallback.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from holdfast.model.checkpoint import WORKTREE, Entry
from holdfast.stores.checkpoints.agent_homes import home_at
from holdfast.stores.checkpoints.default_excludes import TEMPORARY
from holdfast.stores.checkpoints.read_file import READ, signature_of
from holdfast.stores.checkpoints.walk import is_worktree
from holdfast.stores.files import PRIVATE_DIR, PRIVATE_FILE, write_all
from holdfast.stores.flush_disk import flush_disk
from holdfast.stores.git.object import Kind, header, object_id
from holdfast.stores.open_files import kept_from_writers, open_elsewhere
from holdfast.value import dataclass

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

_NO_REPLACE, _EXCHANGE = 1, 2
#: Errors if the kernel or the file system does not support such a rename.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_TEMPORARY_DIGITS = 16
_PERMISSIONS = 0o777
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER_AND_WRITE = 0o300
_NEVER = (b"", b".", b"..")
_REPOSITORY = b".git"
#: Errors for a path that leads through something other than a directory.
NO_WAY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
OTHER_WORKTREE = f"never touched: in {WORKTREE}"
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


class ChangedError(OSError):
    """A path changed after it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """What is at a path. `oid` is "" if there is no content, or it cannot be read."""

    status: os.stat_result
    oid: str = ""

    def is_like(self, entry: Entry | None) -> bool:
        """True if this matches the entry of a tree. A symlink has no permissions of its own."""
        if entry is None or stat.S_IFMT(self.status.st_mode) != stat.S_IFMT(entry.mode):
            return False
        if self.oid != entry.oid:
            return False
        return entry.is_link or stat.S_IMODE(self.status.st_mode) == entry.permissions

    def is_same_as(self, other: PathState) -> bool:
        """True if type, permissions and content are the same. Times do not matter."""
        return (self.status.st_mode, self.oid) == (other.status.st_mode, other.oid)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


class WorkingTree:
    """An open project, for one thread. A directory is flushed when it is left."""

    def __init__(self, root: Path, *, inside: int | None = None, flushes: bool = True) -> None:
        self._root = os.open(root, _DIRECTORY, dir_fd=inside)
        self._device = os.fstat(self._root).st_dev
        self._flushes = flushes
        self._folder = b""
        self._fd = self._root
        self._dirty = False
        self._worktrees: dict[bytes, bytes | None] = {}
        self._homes: dict[bytes, tuple[bytes, str] | None] = {}
        self._there: dict[bytes, bool] = {}
        self._owner: tuple[int, int] | tuple[()] | None = None
        #: The directories that had to be opened for work in them, with their previous permissions.
        self.opened_up: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._leave()
        finally:
            os.close(self._root)

    def again(self) -> WorkingTree:
        """Open the same project for another thread, even if its path leads elsewhere by now."""
        tree = WorkingTree(Path(), inside=self._root)
        tree.opened_up = self.opened_up
        return tree

    @contextlib.contextmanager
    def flushed_at_the_end(self) -> Iterator[None]:
        """Do not flush inside this context; flush everything at its end."""
        self._flushes = False
        try:
            yield
            self._leave()
            self.flush_disk()
        finally:
            self._flushes = True

    def flush_disk(self) -> None:
        """Make everything on the project's file system durable, by any process."""
        flush_disk(self._root)

    def _flush_now(self, fd: int) -> None:
        """Fsync now if required: mounts inside the project are not flushed with it."""
        if self._flushes or os.fstat(fd).st_dev != self._device:
            os.fsync(fd)

    def flush(self) -> None:
        """Make the names in the most recently changed directory durable."""
        self._leave()

    @contextlib.contextmanager
    def unlocked(self) -> Iterator[None]:
        """Let the owner work in the project's own directory, and restore its permissions at the
        end: they are in no checkpoint, so no plan sets them."""
        mode = stat.S_IMODE(os.fstat(self._root).st_mode)
        locked = mode & PRIVATE_DIR != PRIVATE_DIR
        with contextlib.suppress(PermissionError):  # another user's, though its files may be ours
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
        """Return the state of a path. A file of another size than `size` is not read."""
        if not path:
            return PathState(status=os.fstat(self._root))
        folder, name = _split(path)
        try:
            return _state_at(name, self._enter(folder), size=size)
        except OSError as error:
            if error.errno in NO_WAY:
                return None
            raise

    def head(self, path: bytes, size: int) -> bytes:
        """Return the first bytes of a file; nothing if there is no file."""
        folder, name = _split(path)
        try:
            with _opened(name, self._enter(folder), READ) as file:
                return os.read(file, size)
        except OSError as error:
            if error.errno in (*NO_WAY, errno.EISDIR):
                return b""
            raise

    def in_use(self, path: bytes) -> str | None:
        """Return evidence that another process may have a file open; None if certainly none has, or
        there is no file."""
        seen = self.look(path, size=-1)
        if seen is None or not stat.S_ISREG(seen.status.st_mode):
            return None
        folder, name = _split(path)
        return open_elsewhere(os.fsdecode(name), self._enter(folder))

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in a directory; empty if there is no directory."""
        try:
            with os.scandir(self._enter(path)) as found:
                return [os.fsencode(each.name) for each in found]
        except OSError as error:
            if error.errno in NO_WAY:
                return []
            raise

    def worktree_at(self, path: bytes) -> bytes | None:
        """Return the folder at or above a path that is a separate git worktree, or None."""
        if not path:
            return None
        if path not in self._worktrees:
            folder = path.rpartition(b"/")[0]
            found = self.worktree_at(folder)
            if found is None and self.is_there(folder) and is_worktree(path, inside=self._root):
                found = path
            self._worktrees[path] = found
        return self._worktrees[path]

    def home_at(self, folder: bytes) -> tuple[bytes, str] | None:
        """Return the home at or above a directory, and whose it is; None if there is none."""
        if not folder:
            return None
        if folder not in self._homes:
            found = self.home_at(folder.rpartition(b"/")[0])
            if found is None and self.is_there(folder):
                why = home_at(folder, inside=self._root)
                found = None if why is None else (folder, why)
            self._homes[folder] = found
        return self._homes[folder]

    def is_there(self, folder: bytes) -> bool:
        """True if it is a directory and not a symlink. Cached: a restore may have thousands of
        paths in a directory that does not exist yet."""
        if not folder:
            return True
        known = self._there.get(folder)
        if known is None:
            known = self.is_there(folder.rpartition(b"/")[0]) and _is_directory(folder, self._root)
            self._there[folder] = known
        return known

    # --- Changing ---------------------------------------------------------------------------------

    def put(self, path: bytes, entry: Entry, content: bytes, over: PathState | None) -> None:
        """Put a file or symlink in its place atomically. `over` is what was seen there.

        Write-order rule: content, owner and permissions are complete and on disk before the file is
        renamed.
        """
        self.stage(path, entry, content, over)
        self.give_name(path, over)

    def stage(self, path: bytes, entry: Entry, content: bytes, over: PathState | None) -> None:
        """The first half of `put`: everything except the rename."""
        folder, _ = _split(path)
        fd = self._open_up(folder)
        temporary = _temporary(path)
        owner = _owner_for(fd, over)
        with _removing(temporary, fd):
            try:
                self._stage(temporary, fd, entry, content, owner)
            except FileExistsError:  # left by a killed restore
                _unlink_if_there(temporary, fd)
                self._stage(temporary, fd, entry, content, owner)

    def _stage(
        self, name: bytes, fd: int, entry: Entry, content: bytes, owner: tuple[int, int] | None
    ) -> None:
        if entry.is_link:
            os.symlink(content, name, dir_fd=fd)
            if owner:
                os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)
            return
        with _write_file(name, fd, content, entry.permissions, owner) as file:
            self._flush_now(file)

    def give_name(self, path: bytes, over: PathState | None) -> None:
        """The second half of `put`: the rename. The file is already on disk."""
        folder, name = _split(path)
        fd, temporary = self._enter(folder), _temporary(path)
        with _removing(temporary, fd):
            if over is None:
                _put_new(temporary, name, fd)
            else:
                _put_over(temporary, name, fd, over)
        self._dirty = True

    def clear(self, path: bytes) -> None:
        """Remove the temporary file of a killed restore for a path."""
        folder, _ = _split(path)
        with contextlib.suppress(OSError):
            _unlink_if_there(_temporary(path), self._enter(folder))

    def is_on_its_disk(self, folder: bytes) -> bool:
        """True if a directory is on the project's file system, and so is flushed with it."""
        return os.fstat(self._enter(folder)).st_dev == self._device

    def make_aside(self, path: bytes) -> WorkingTree:
        """Create a directory under a temporary name, and open it: `create` fills it, and
        `give_folder_name` completes it. It is private, and has the same parent as the final one, so
        that it inherits what any new directory there inherits."""
        folder, _ = _split(path)
        fd, aside = self._open_up(folder), _temporary(path)
        try:
            os.mkdir(aside, PRIVATE_DIR, dir_fd=fd)
        except FileExistsError:  # left by a killed restore
            _remove_all(aside, fd)
            os.mkdir(aside, PRIVATE_DIR, dir_fd=fd)
        if owner := _owner_for(fd, None):
            os.chown(aside, *owner, dir_fd=fd, follow_symlinks=False)
        return WorkingTree(Path(os.fsdecode(aside)), inside=fd, flushes=False)

    def create(self, path: bytes, entry: Entry, content: bytes) -> None:
        """Write a file or symlink directly under its own name. Only use this in a directory that
        has only a temporary name: a kill would leave the file half-written."""
        folder, name = _split(path)
        fd = self._enter(folder)
        if self._owner is None:
            self._owner = _owner_for(self._root, None) or ()
        if entry.is_link:
            os.symlink(content, name, dir_fd=fd)
            if self._owner:
                os.chown(name, *self._owner, dir_fd=fd, follow_symlinks=False)
        else:
            _write_new(name, fd, content, entry.permissions, self._owner)

    def give_folder_name(self, path: bytes) -> bool:
        """Rename a directory, which is already on disk, to its final name. If that fails (the name
        is taken, or this rename is not supported), remove it and return False."""
        folder, name = _split(path)
        with contextlib.suppress(OSError):
            if _rename(_temporary(path), name, self._enter(folder), _NO_REPLACE):
                self._dirty = True
                return True
        self.clear_folder(path)
        return False

    def clear_folder(self, path: bytes) -> None:
        """Remove a directory with a temporary name that a killed restore left."""
        folder, _ = _split(path)
        with contextlib.suppress(OSError):
            _remove_all(_temporary(path), self._enter(folder))

    def unlink(self, path: bytes, seen: PathState) -> None:
        """Remove what was seen at a path; raises `ChangedError` if it has changed since."""
        folder, name = _split(path)
        fd, aside = self._open_up(folder), _temporary(path)
        _unlink_if_there(aside, fd)
        # The last look comes after the rename: until then the file may change under its name.
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        with kept_from_writers(aside, fd) as written:
            changed = not _state_at(aside, fd).is_same_as(seen) or written()
            if changed:
                with contextlib.suppress(FileExistsError):  # a newer file took its place
                    os.link(aside, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            os.unlink(aside, dir_fd=fd)
        if changed:
            raise ChangedError(errno.EAGAIN, "changed during the restore")
        self._dirty = True

    def set_mode(self, path: bytes, mode: int) -> None:
        """Set the permissions of a file."""
        folder, name = _split(path)
        with _opened(name, self._enter(folder), READ) as fd:
            os.fchmod(fd, mode)
            self._flush_now(fd)

    def set_directory_mode(self, path: bytes, mode: int) -> None:
        if path:
            _split(path)
        os.fchmod(self._enter(path), mode)
        self._dirty = True

    def make(self, path: bytes) -> bool:
        """Create a directory, private until its permissions are set; return False if it exists."""
        folder, name = _split(path)
        # A previous run may have created it, and removed the permissions of its parent.
        if _is_directory(name, self._enter(folder)):
            return False
        fd = self._open_up(folder)
        try:
            os.mkdir(name, PRIVATE_DIR, dir_fd=fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise
            return False
        if owner := _owner_for(fd, None):
            os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)
        self._dirty = True
        return True

    def remove(self, path: bytes) -> bool:
        """Remove a directory if it is empty; return whether it is gone."""
        folder, name = _split(path)
        try:
            if not _is_directory(name, self._enter(folder)):
                return True
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
        """Let the owner work in a directory. The plan or `close_up` sets its permissions later."""
        fd = self._enter(folder)
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & _ENTER_AND_WRITE != _ENTER_AND_WRITE:
            os.fchmod(fd, mode | PRIVATE_DIR)
            self.opened_up.setdefault(folder, mode)
        return fd

    def close_up(self, folder: bytes, mode: int) -> None:
        """Restore the permissions of a directory that was opened, if it still exists and still has
        those that it was opened with."""
        try:
            fd = self._enter(folder)
        except OSError as error:
            if error.errno in NO_WAY:
                return
            raise
        now = stat.S_IMODE(os.fstat(fd).st_mode)
        if now == mode | PRIVATE_DIR != mode:
            os.fchmod(fd, mode)
            self._dirty = True

    def _enter(self, folder: bytes) -> int:
        """Only two descriptors are open at a time: a path may be two thousand directories deep."""
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
                self._flush_now(fd)
        finally:
            if fd != self._root:
                os.close(fd)


def _split(path: bytes) -> tuple[bytes, bytes]:
    """Split a path into directory and name; refuse paths that no checkpoint contains."""
    folder, between, name = path.rpartition(b"/")
    if _is_never_touched(name) or (between and _leads_out(folder)):
        raise PermissionError(errno.EPERM, "never touched: in a .git, or not a path of a project")
    return folder, name


def _is_never_touched(name: bytes) -> bool:
    return name in _NEVER or name.lower() == _REPOSITORY


@functools.lru_cache(maxsize=1_000)
def _leads_out(folder: bytes) -> bool:
    """Cached: most paths are in the same directory as the previous one."""
    return any(map(_is_never_touched, folder.split(b"/")))


def _is_directory(path: bytes, inside: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path, dir_fd=inside, follow_symlinks=False).st_mode)
    except OSError as error:
        return error.errno not in NO_WAY


def _put_new(temporary: bytes, name: bytes, fd: int) -> None:
    """Rename to a free name."""
    try:
        if _rename(temporary, name, fd, _NO_REPLACE):
            return
    except FileExistsError:
        raise ChangedError(errno.EAGAIN, "created during the restore") from None
    _expect(name, fd, None)
    os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)


def _put_over(temporary: bytes, name: bytes, fd: int, over: PathState) -> None:
    """Rename to a name that is taken, and check once more what was there."""
    _expect(name, fd, over)
    ours = os.stat(temporary, dir_fd=fd, follow_symlinks=False).st_ino
    try:
        if not _rename(temporary, name, fd, _EXCHANGE):
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            return
    except FileNotFoundError:
        raise ChangedError(errno.EAGAIN, "disappeared during the restore") from None
    # Another process may have opened the file just before the rename, and write only now.
    with kept_from_writers(temporary, fd) as written:
        if _state_at(temporary, fd).is_same_as(over) and not written():
            os.unlink(temporary, dir_fd=fd)
            return
        _rename(temporary, name, fd, _EXCHANGE)
        if os.stat(temporary, dir_fd=fd, follow_symlinks=False).st_ino != ours:
            _rename(temporary, name, fd, _EXCHANGE)  # a still newer file was put there
    raise ChangedError(errno.EAGAIN, "changed during the restore")


def _temporary(path: bytes) -> bytes:
    # The name follows from the path alone, so the run that finishes after a kill finds it.
    digest = hashlib.sha256(path).hexdigest()[:_TEMPORARY_DIGITS]
    return TEMPORARY + digest.encode()


def _unlink_if_there(name: bytes, fd: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)


def _remove_all(name: bytes, fd: int) -> None:
    """Remove a directory with everything in it, if it exists. No symlink is followed."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=fd)


@contextlib.contextmanager
def _opened(name: bytes, fd: int, flags: int) -> Iterator[int]:
    """Open a name in the directory `fd`."""
    file = os.open(name, flags, PRIVATE_FILE, dir_fd=fd)
    try:
        yield file
    finally:
        os.close(file)


def _state_at(name: bytes, fd: int, *, size: int | None = None) -> PathState:
    """Return the state of a name in a directory. A file of another size than `size` is not read."""
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=fd)
        return PathState(status=status, oid=object_id(Kind.BLOB, target).hex())
    if stat.S_ISREG(status.st_mode) and size in (None, status.st_size):
        return _read(name, fd, status)
    return PathState(status=status)


def _read(name: bytes, fd: int, status: os.stat_result) -> PathState:
    """Return the state of a file; `status` is what was seen of it just before."""
    try:
        with _opened(name, fd, READ) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return PathState(status=status)
            digest = hashlib.sha1(header(Kind.BLOB, status.st_size), usedforsecurity=False)
            while chunk := os.read(file, _CHUNK):
                digest.update(chunk)
    except PermissionError:
        return PathState(status=status)
    return PathState(status=status, oid=digest.hexdigest())


@contextlib.contextmanager
def _write_file(
    name: bytes, fd: int, content: bytes, mode: int, owner: tuple[int, int] | None
) -> Iterator[int]:
    with _opened(name, fd, _WRITE_NEW) as file:
        write_all(file, content)
        if owner:
            os.fchown(file, *owner)
        os.fchmod(file, mode)  # after the owner: changing that clears set-user-ID
        yield file


def _write_new(
    name: bytes, fd: int, content: bytes, mode: int, owner: tuple[int, int] | tuple[()]
) -> None:
    """Write a new file. Most files have the right owner and permissions from the start. Set-user-ID
    is only set at the end: before that, it would apply to the user who restores."""
    file = os.open(name, _WRITE_NEW, mode & _PERMISSIONS, dir_fd=fd)
    try:
        write_all(file, content)
        status = os.fstat(file)
        if owner and (status.st_uid, status.st_gid) != owner:
            os.fchown(file, *owner)
        if stat.S_IMODE(status.st_mode) != mode:
            os.fchmod(file, mode)
    finally:
        os.close(file)


@contextlib.contextmanager
def _removing(temporary: bytes, fd: int) -> Iterator[None]:
    """Remove a temporary file if something fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise


def _owner_for(fd: int, over: PathState | None) -> tuple[int, int] | None:
    """Return the owner for a new file; None for the current user. Only root restores for other
    users."""
    if os.geteuid() != 0:
        return None
    status = os.fstat(fd) if over is None else over.status
    return (status.st_uid, status.st_gid)


def _expect(name: bytes, fd: int, seen: PathState | None) -> None:
    """Raise unless a name is still as it was seen: flushing the new file took a while."""
    try:
        now = signature_of(os.stat(name, dir_fd=fd, follow_symlinks=False))
    except FileNotFoundError:
        now = None
    if now != (None if seen is None else signature_of(seen.status)):
        raise ChangedError(errno.EAGAIN, "changed during the restore")


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
