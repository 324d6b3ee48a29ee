"""Durable file primitives. Every write that must survive a power cut goes through here."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from _thread import get_ident
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import StorageError, UsageError

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import BinaryIO

#: The name of the file that sets disk space aside.
RESERVE = "reserve"
PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600
#: All permission bits except the owner's.
OTHERS = 0o077
#: The mode bits that are restored from a bundle. Never set-user-id: anyone who can write to an
#: archive could have root create such a program.
RIGHTS = 0o1777
#: How an SQLite database begins.
SQLITE_MAGIC = b"SQLite format 3\0"
#: Suffixes of the files that SQLite creates next to a database.
BESIDE_A_DATABASE = ("-journal", "-wal", "-shm")
_NOT_REGULAR = "is not a regular file"
_LINK_TO_NOTHING = "is a symbolic link to nothing"
#: Errors of `link` on file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


#: The prefix of a link's version.
LINK = "l."
#: Identifies a file under all its names: its device and inode number.
Inode = tuple[int, int]


#: How many names in the vault a file has.
Doubled = Mapping[Inode, int]


def allocated_bytes(status: os.stat_result, doubled: Doubled | None = None) -> int:
    """The bytes that the file system gets back when this name is removed.

    A file with another hard link frees nothing by losing one of its names. The names that `doubled`
    counts are in the vault, and are removed together with this one.
    """
    if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
        in_vault = doubled.get((status.st_dev, status.st_ino), 0) if doubled else 0
        if status.st_nlink != in_vault + 1:
            return 0
    blocks = getattr(status, "st_blocks", None)  # Windows has none
    return status.st_size if blocks is None else blocks * 512


def allocated_below(folder: Path) -> int:
    """The bytes that the file system gets back when a folder is removed; links are not followed."""
    total = 0
    names: dict[Inode, int] = {}  # those seen so far of files with several
    waiting: list[os.DirEntry[str] | Path] = [folder]
    while waiting:
        for entry in entries_of(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry)
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if status.st_nlink > 1:
                    inode = status.st_dev, status.st_ino
                    total += allocated_bytes(status, names)  # all its names are here: count it once
                    names[inode] = names.get(inode, 0) + 1
                else:
                    total += allocated_bytes(status)
    return total


def entries_of(folder: os.DirEntry[str] | Path) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder; none if it is gone or is not a folder."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def version_of(status: os.stat_result) -> str:
    """A string that changes when the file is written, replaced, or changes its type."""
    kind = LINK if stat.S_ISLNK(status.st_mode) else "f."
    return f"{kind}{status.st_ino}.{status.st_size}.{status.st_mtime_ns}"


def same_content(version: str, other: str) -> bool:
    """True if two versions are equal except for the inode, which changes when a home is copied or
    restored."""
    return _without_inode(version) == _without_inode(other)


def _without_inode(version: str) -> list[str]:
    parts = version.split(".")
    return parts[:1] + parts[2:]


def make_private_dir(path: Path) -> None:
    """Create a folder that only its owner can enter, and its parents; fine if it exists. If root
    creates it, it belongs to the owner of the folder above."""
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
    """Give a file back to its owner, as far as possible: only root can change owners, others can
    choose among their groups. Call it before setting the mode, which it may change."""
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
    """A descriptor of a real folder; a symlink in its place is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def lstat_at(name: str, folder: int) -> os.stat_result | None:
    """The status of a name in an open folder, without following a link; None if it does not
    exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def link_new(
    path: str | Path, new: str | Path, *, folder: int | None = None, new_folder: int | None = None
) -> bool:
    """Create a hard link without ever replacing a file: `FileExistsError` if the name is taken.
    False if the file system has no hard links."""
    try:
        os.link(path, new, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. A pipe, a socket or a device in its place is refused: opening
    or reading it could block forever. So is a link to nothing: the file is somewhere, so what it
    says must not count as unsaid."""
    how = flags | os.O_CLOEXEC
    try:
        fd = os.open(path, how | os.O_NONBLOCK, PRIVATE_FILE)
    except FileNotFoundError:
        if os.path.islink(path):  # noqa: PTH114 - most paths here are text
            raise OSError(errno.EINVAL, _LINK_TO_NOTHING, os.fspath(path)) from None
        raise
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
    """Like `open_regular`, but closed at the end of the block."""
    fd = open_regular(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading."""
    return os.fdopen(open_regular(path), "rb")


def read_file(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """The content of a regular file, or its first `most` bytes."""
    with open_file(path) as file:
        return file.read(most)


def check_regular(path: Path) -> None:
    """Raise for a pipe, a socket or a device, before other code opens the file by its name. That
    code reports a missing file itself."""
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
    """The same for a database and for the files that SQLite opens next to it: SQLite would block on
    a pipe with the name of a journal."""
    for each in (path, *(path.with_name(path.name + side) for side in BESIDE_A_DATABASE)):
        check_regular(each)


def write_new(path: Path, data: bytes | bytearray) -> None:
    """Create a private file that must not exist yet, durably; a failure leaves no file."""
    _create(path, data, PRIVATE_FILE)
    sync_dir(path.parent)


def _create(path: Path, data: bytes | bytearray, mode: int) -> None:
    """Create a file. Its content is durable then, but its name is not yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if mode != PRIVATE_FILE:
            os.fchmod(fd, mode)  # regardless of the umask
        write_all(fd, data)
        os.fsync(fd)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(fd)


def replace(path: Path, data: bytes | bytearray, *, mode: int = PRIVATE_FILE) -> None:
    """Write a whole file: readers see the old content or the new, never part of either. The file is
    private unless `mode` says otherwise."""
    # Two threads of one process may write the same file, so each uses a name of its own.
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
    """Raise if the folder of a file that a user named is missing: a typo must not create
    folders."""
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder {path.parent}, so no file can be written to it.",
            hint="Create the folder, or name a file in another one.",
        )


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write everything: `os.write` may write only part of it, for example on a nearly full disk."""
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
    """A hint about what to do after an error, if there is one."""
    return _HINTS.get(error.errno or 0)


def is_disk_full(path: Path) -> bool:
    """True if the disk that holds a path is full, which SQLite sometimes reports as an I/O
    error."""
    try:
        disk = os.statvfs(path if path.exists() else path.parent)
    except (OSError, AttributeError):  # Windows has no such call
        return False
    return disk.f_bavail * disk.f_frsize < _NO_ROOM


#: A disk with less than this counts as full: by the time it is checked, the failed write has given
#: a little back.
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
