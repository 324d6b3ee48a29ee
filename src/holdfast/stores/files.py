"""Durable file primitives. Every write that must survive a power cut goes through here."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from _thread import get_ident
from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.errors import StorageError, UsageError

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import BinaryIO

#: The file of what is set aside for a full disk.
RESERVE = "reserve"
PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600
#: The rights of everybody but the owner.
OTHERS = 0o077
#: What of a mode comes back from a bundle. Never the right to run as its owner: whoever can write
#: to an archive could have root make such a program.
RIGHTS = 0o1777
#: What SQLite puts beside a database: the names end so.
_BESIDE_A_DATABASE = ("-journal", "-wal", "-shm")
_NOT_REGULAR = "is not a regular file"
#: The names of a file that has one in the vault as well.
_TWO = 2
#: What `link` says on file systems that have no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


#: How the version of a link begins.
LINK = "l."
#: What two names of one file have in common: its device, and its number there.
Inode = tuple[int, int]


def allocated_bytes(status: os.stat_result, doubled: Collection[Inode] = ()) -> int:
    """The bytes that the file system gets back when this name is removed.

    A file with another hard link frees nothing by losing one of its names. Those that are `doubled`
    have their other name in the vault, and lose it with this one.
    """
    if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
        is_ours = status.st_nlink == _TWO and (status.st_dev, status.st_ino) in doubled
        if not is_ours:
            return 0
    blocks = getattr(status, "st_blocks", None)  # Windows has none
    return status.st_size if blocks is None else blocks * 512


def allocated_below(folder: Path) -> int:
    """The bytes of all files in a folder and below; links are not followed."""
    total = 0
    waiting: list[os.DirEntry[str] | Path] = [folder]
    while waiting:
        for entry in entries_of(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry)
                continue
            with contextlib.suppress(FileNotFoundError):
                total += allocated_bytes(entry.stat(follow_symlinks=False))
    return total


def entries_of(folder: os.DirEntry[str] | Path) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder; nothing when it is gone or is not a folder."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def version_of(status: os.stat_result) -> str:
    """A text that changes when the file is written, replaced, or changes its type."""
    kind = LINK if stat.S_ISLNK(status.st_mode) else "f."
    return f"{kind}{status.st_ino}.{status.st_size}.{status.st_mtime_ns}"


def same_content(version: str, other: str) -> bool:
    """Equal but for the inode, which a copied or restored home does not keep."""
    return _without_inode(version) == _without_inode(other)


def _without_inode(version: str) -> list[str]:
    parts = version.split(".")
    return parts[:1] + parts[2:]


def make_private_dir(path: Path) -> None:
    """Create a folder that only its owner can enter, and its parents; fine if it exists. Below
    somebody's folder it is theirs, although root makes it."""
    if path.is_dir():
        return
    make_private_dir(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_DIR)
        if os.geteuid() == 0:
            above = path.parent.stat()
            give_to(path, above.st_uid, above.st_gid)
        sync_dir(path.parent)


def give_to(file: int | str | Path, uid: int, gid: int, *, folder: int | None = None) -> None:
    """Give a file back to its owner, as far as we may: only root gives files away, others can
    choose among their groups. Before the mode is set, which this may change."""
    for owner in (uid, -1):
        with contextlib.suppress(OSError):
            if isinstance(file, int):
                os.fchown(file, owner, gid)
            else:
                os.chown(file, owner, gid, dir_fd=folder, follow_symlinks=False)
            return


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    with open_dir(path) as fd:
        os.fsync(fd)


@contextlib.contextmanager
def open_dir(path: Path) -> Iterator[int]:
    """A descriptor for a real folder; a symlink in its place is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def lstat_at(name: str, folder: int) -> os.stat_result | None:
    """The status of a name in an open folder, without following a link; None when it does not
    exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def link_new(
    path: str | Path, new: str | Path, *, folder: int | None = None, new_folder: int | None = None
) -> bool:
    """Give a file a second name, which never replaces anything: `FileExistsError` says that the
    name is taken. False where the file system has no hard links."""
    try:
        os.link(path, new, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. A pipe, a socket or a device in its place is refused: opening
    or reading it could block for ever."""
    how = flags | os.O_CLOEXEC
    try:
        fd = os.open(path, how | os.O_NONBLOCK, PRIVATE_FILE)
    except BlockingIOError:
        # Another process has a lease on the file: our own check for open files takes one for a
        # moment. Only regular files have leases, and the kernel breaks one that is not released.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - most paths here are text
            raise
        fd = os.open(path, how, PRIVATE_FILE)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, _NOT_REGULAR, os.fspath(path))


@contextlib.contextmanager
def opened_regular(path: str | os.PathLike[str], flags: int) -> Iterator[int]:
    """The same, closed at the end."""
    fd = open_regular(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, to be read."""
    return os.fdopen(open_regular(path), "rb")


def read_file(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """Everything in a regular file, or the first `most` bytes."""
    with open_file(path) as file:
        return file.read(most)


def check_regular(path: Path) -> None:
    """Raise for a pipe, a socket or a device, before other code opens the file by its name. A
    missing file is left for that code to report."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise StorageError(
            f"{path} {_NOT_REGULAR}; nothing was read.",
            hint="Move it away, and find out what made it.",
        )


def check_database(path: Path) -> None:
    """The same for a database and for what SQLite opens beside it: it would wait for a pipe under
    the name of a journal."""
    for each in (path, *(path.with_name(path.name + side) for side in _BESIDE_A_DATABASE)):
        check_regular(each)


def write_new(path: Path, data: bytes | bytearray) -> None:
    """Create a private file that must not exist yet, durably; a failure leaves none behind."""
    _create(path, data, PRIVATE_FILE)
    sync_dir(path.parent)


def _create(path: Path, data: bytes | bytearray, mode: int) -> None:
    """The content is durable then; the name is not yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if mode != PRIVATE_FILE:
            os.fchmod(fd, mode)  # whatever the umask says
        write_all(fd, data)
        os.fsync(fd)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(fd)


def replace(path: Path, data: bytes | bytearray, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file whole: readers see the old content or the new, never a part. It is private
    unless there is another `mode` for it."""
    # Two threads of one process may write the same file: each has a name of its own.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        _create(temporary, data, mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_dir(path.parent)


def need_folder(path: Path) -> None:
    """Refuse a file that a user named in a folder that is not there; none is made for a slip."""
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder {path.parent}, so no file can be written to it.",
            hint="Create the folder, or name a file in another one.",
        )


def write_all(fd: int, data: bytes | bytearray) -> None:
    """`os.write` may write only a part, for example when the disk is nearly full."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn an `OSError` into a `StorageError` that names a next step."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot {doing}: {error.strerror or error}", hint=next_step(error)
        ) from error


def next_step(error: OSError) -> str | None:
    """What to do about an error, where there is something to do."""
    return _HINTS.get(error.errno or 0)


def is_disk_full(path: Path) -> bool:
    """Whether the disk below a path has no room left. SQLite calls that an I/O error at times."""
    try:
        disk = os.statvfs(path if path.exists() else path.parent)
    except (OSError, AttributeError):  # Windows has no such call
        return False
    return disk.f_bavail * disk.f_frsize < _NO_ROOM


#: What is left of a full disk: a failed write has given a little back by the time somebody asks.
_NO_ROOM = 1024 * 1024
DISK_FULL = "The disk is full. Free a few MB elsewhere and try again."
_HINTS = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: "Your disk quota is used up. Free a little space elsewhere and try again.",
    errno.EROFS: "The file system is mounted read-only. Mount it writable, or copy the home.",
    errno.EACCES: "Check who owns the folder and its permissions.",
    errno.EPERM: "Check who owns the folder and its permissions.",
    errno.EMFILE: "Too many files are open in this process. Raise the limit (`ulimit -n`).",
    errno.ENFILE: "Too many files are open on this machine. End some programs and try again.",
    errno.EIO: "The disk reports an error. Check it before you change anything on it.",
}
