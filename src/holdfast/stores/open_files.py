"""Whether any process has a file open. If that cannot be found out, the answer is yes."""

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
#: From the opening of a file to the first write may take so long, on a busy machine.
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016)
_TO_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_elsewhere(name: str | Path, dir_fd: int | None = None) -> str | None:
    """Evidence that a regular file is open in some process, or None when it surely is not. The
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
    """A regular file that no process has open. Until it is let go, whoever opens it has to wait,
    and does not go unnoticed; where there are no leases, `opened` looks again."""

    __slots__ = ("_fd", "_has_lease")

    def __init__(self, fd: int, *, has_lease: bool) -> None:
        self._fd = fd
        self._has_lease = has_lease

    def opened(self) -> str | None:
        """Evidence that somebody opened the file since, or wants to."""
        if not self._has_lease:
            return _listed(self._fd)
        # From the moment at which somebody asks for the file, it says what the lease is to become.
        return None if fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK else _OPENED

    def let_go(self) -> None:
        if self._has_lease:
            fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)  # see `_leased`
        os.close(self._fd)


def hold_alone(name: str, dir_fd: int) -> Alone | str:
    """Keep others from a file in an open folder, or evidence that somebody has it open. Raises
    `FileNotFoundError` when there is none."""
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
    """Whoever wants to write to a file waits until the end of the block, which can ask whether
    anybody does. Somebody who is just opening it gets a moment first, so that what they write is
    seen. Who has it open for longer is not stopped, and nobody is where there are no leases."""
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
    """Evidence by a lease, or by the list of open files where there are none."""
    taken = _take_lease(fd)
    if taken is True:
        # Not left to `close`: a process that another thread forks meanwhile would have the lease,
        # too.
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return None
    return taken or _listed(fd)


def _take_lease(fd: int, kind: int = fcntl.F_WRLCK) -> str | bool:
    """True when nobody else has the file open, and has to wait who opens it; False where there are
    no leases.

    The kernel grants a write lease only on a file that nobody else has open, and a read lease on
    one that nobody has open for writing.

    So there is no list of processes to read, and no process that we may not inspect; it takes 4 µs
    a file. If another process opens the file meanwhile, the kernel signals us: with SIGURG, which
    processes ignore by default.
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
            unknown = f"process {process.pid} does not show what it has open"
    return unknown


def _is_same(path: str, wanted: os.stat_result) -> bool:
    try:
        status = Path(path).stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino)
