"""Finds out whether any process has a file open. If that is impossible, the answer is yes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.stores import processes

_F_SETSIG = 10  # Linux; the fcntl module of Python 3.11 does not name it
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.ENOLCK}
_OPENED = "open in another process"
#: Delays between attempts. On a busy machine, this long can pass between opening a file and the
#: first write.
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016)
_TO_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_elsewhere(name: str | Path, dir_fd: int | None = None) -> str | None:
    """Evidence that a regular file is open in some process, or None if it certainly is not. The
    file is a path, or a name in an open folder."""
    try:
        fd = os.open(name, _TO_LOOK, dir_fd=dir_fd)
    except OSError as error:
        return _cannot(error)
    try:
        return _leased(fd) if sys.platform == "linux" else _listed(fd)
    finally:
        os.close(fd)


class Alone:
    """A regular file that no process has open. Until `let_go`, a process that opens it has to wait,
    and `opened` reports it. Without leases, `opened` searches again."""

    __slots__ = ("_fd", "_has_lease")

    def __init__(self, fd: int, *, has_lease: bool) -> None:
        self._fd = fd
        self._has_lease = has_lease

    def opened(self) -> str | None:
        """Evidence that another process opened the file since, or is trying to."""
        if not self._has_lease:
            return _listed(self._fd)
        # Once a process tries to open the file, F_GETLEASE returns what the lease is to become.
        return None if fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK else _OPENED

    def let_go(self) -> None:
        if self._has_lease:
            fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)  # see `_leased`
        os.close(self._fd)


def hold_alone(name: str, dir_fd: int) -> Alone | str:
    """Keep other processes from a file in an open folder, or return evidence that one has it open.
    Raises `FileNotFoundError` if there is no file."""
    try:
        fd = os.open(name, _TO_LOOK, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        return _cannot(error)
    try:
        taken = _take_lease(fd) if sys.platform == "linux" else False
        why = None if taken is True else taken or _listed(fd)
    except BaseException:
        os.close(fd)
        raise
    if why is None:
        return Alone(fd, has_lease=taken is True)
    os.close(fd)
    return why


@contextlib.contextmanager
def kept_from_writers(name: bytes, dir_fd: int) -> Iterator[Callable[[], bool]]:
    """Make writers of a file wait until the end of the block, which can ask whether there is one.

    A process that is just opening the file gets a moment first, so that what it writes is seen. One
    that has it open for longer is not stopped; without leases, none is.
    """
    try:
        fd = os.open(name, _TO_LOOK, dir_fd=dir_fd)
    except OSError:  # a symlink, or a file that we may not read
        yield lambda: False
        return
    held = False
    try:
        for pause in _PAUSES if sys.platform == "linux" else ():
            taken = _take_lease(fd, fcntl.F_RDLCK)
            held = taken is True
            if taken != _OPENED:
                break
            time.sleep(pause)
        yield lambda: held and fcntl.fcntl(fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK
    finally:
        if held:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)  # see `_leased`
        os.close(fd)


def _cannot(error: OSError) -> str:
    return f"cannot be opened to see whether it is in use ({error.strerror})"


def _leased(fd: int) -> str | None:
    """Evidence from a lease, or from the list of open files if there are no leases."""
    taken = _take_lease(fd)
    if taken is True:
        # Not left to `close`: a process that another thread forks meanwhile would inherit the
        # lease.
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return None
    return taken or _listed(fd)


def _take_lease(fd: int, kind: int = fcntl.F_WRLCK) -> str | bool:
    """Take a lease. True if no other process has the file open, and any that opens it has to wait;
    False if leases are not supported; otherwise evidence of use.

    The kernel grants a write lease only on a file that no other process has open, and a read lease
    only on one that no process has open for writing. So there is no list of processes to read, and
    no process that we may not inspect; it takes 4 µs a file. If another process opens the file
    meanwhile, the kernel sends us SIGURG, which processes ignore by default.
    """
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
    except BlockingIOError:
        return _OPENED
    except OSError as error:
        return False if error.errno in _UNSUPPORTED else f"cannot be probed ({error.strerror})"
    return True


def _listed(fd: int) -> str | None:
    """For systems without leases: search the open files of the owner's processes."""
    import psutil  # noqa: PLC0415 - slow to import, and hardly ever needed

    wanted = os.fstat(fd)
    unknown = None
    if sys.platform == "linux" and processes.hides_some():
        unknown = "/proc hides processes that may have it open (hidepid)"
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.uids().real != wanted.st_uid:
                continue  # an agent runs as the user whose files it writes
            if any(_is_same(opened.path, wanted) for opened in process.open_files()):
                return f"open in process {process.pid}"
        except psutil.NoSuchProcess:
            continue
        except (psutil.AccessDenied, OSError):
            unknown = f"the open files of process {process.pid} cannot be read"
    return unknown


def _is_same(path: str, wanted: os.stat_result) -> bool:
    try:
        status = Path(path).stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino)
