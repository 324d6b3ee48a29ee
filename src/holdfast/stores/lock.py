"""An advisory lock for one process at a time, which the kernel releases when the process dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.stores.files import open_regular, storage_errors

#: How long a command waits for another command before it reports that the home is busy.
HOME_WAIT = 5.0
#: First and longest delay between attempts; delays double. Most locks are held only for a moment,
#: and no process should wait much longer than that.
_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_HOLDER_BYTES = 200
_USUAL: Mapping[str, float] = {}
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
#: The locks that this thread holds, with their descriptors, and whether child processes keep them.
_HELD: ContextVar[tuple[tuple[Path, int, bool], ...]] = ContextVar("held", default=())


def held() -> tuple[int, ...]:
    """The descriptors of the locks that this thread holds, to pass to a child process.

    The kernel keeps a lock until the last process that has its descriptor ends. So if we are killed
    and a child outlives us, the child still keeps other processes out. When we release a lock, it
    is free at once.
    """
    return tuple(fd for _, fd, inherited in _HELD.get() if inherited)


def is_mine(path: Path) -> bool:
    """True if this thread holds the lock at `path`, exclusive or shared."""
    return any(path == mine for mine, _, _ in _HELD.get())


def is_held(path: Path) -> bool:
    """True if any process holds the lock at `path` exclusively right now. Does not wait."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def exclusive(
    path: Path,
    *,
    holder: str,
    wait: float,
    doing: str = "changing",
    place: Path | None = None,
    queue: bool = False,
    inherited: bool = True,
    patience: Mapping[str, float] = _USUAL,
) -> Iterator[None]:
    """Hold the lock at `path`, or raise `BusyError` naming its holder after `wait` seconds.

    `patience` gives longer waits for particular holders; the time spent on one holder does not
    count for others. `place` is what the lock guards, if that is not the home with the lock file.
    With `queue`, no process that wants a shared lock gets it before us. Unless the lock is
    `inherited`, it is free as soon as we die, whatever our children do. The lock file is never
    removed: with another process waiting for it, that would make two owners.
    """
    fd = _opened(path)
    waiting = _Waiting(fd, wait, f"{doing} {place or path.parent.parent}", patience)
    try:
        with _turn(path, fcntl.LOCK_EX, waiting) if queue else contextlib.nullcontext():
            waiting.acquire(fd, fcntl.LOCK_EX)
        # Only for the error message of another process; the kernel does the locking.
        with contextlib.suppress(OSError):
            text = f"process {os.getpid()}, {_named(holder)}".encode("utf-8", "backslashreplace")
            # Always the same length: truncating a file may wait for the disk.
            os.pwrite(fd, text[:_HOLDER_BYTES].ljust(_HOLDER_BYTES), 0)
        with _holding(path, fd, inherited=inherited):
            yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def shared(path: Path, *, wait: float, doing: str, place: Path) -> Iterator[None]:
    """Hold the lock at `path` as one of many sharers, while no process holds it exclusively.

    A thread that holds the lock already does not take it again: it could wait behind a process that
    waits for it, which is a deadlock. If the folder is read-only, the lock file is opened for
    reading; if there is none, no process can have the lock.
    """
    fd = None if is_mine(path) else _opened_to_share(path)
    if fd is None:
        yield
        return
    waiting = _Waiting(fd, wait, f"{doing} {place}")
    try:
        with _turn(path, fcntl.LOCK_SH, waiting):
            waiting.acquire(fd, fcntl.LOCK_SH)
        with _holding(path, fd):
            yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _turn(path: Path, how: int, waiting: _Waiting) -> Iterator[None]:
    """Queue for the lock. The kernel's locks are unfair: processes that share a lock, each for a
    moment, would starve one that wants it exclusively. So that process takes a second lock first,
    and the sharers wait for it there."""
    turn = path.with_name(f"{path.name}.turn")
    fd = _opened(turn) if how == fcntl.LOCK_EX else _opened_to_share(turn)
    if fd is None:
        yield
        return
    try:
        waiting.acquire(fd, how)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _holding(path: Path, fd: int, *, inherited: bool = True) -> Iterator[None]:
    holder = os.getpid()
    mine = (path, fd, inherited)
    _HELD.set((*_HELD.get(), mine))
    try:
        yield
    finally:
        _HELD.set(tuple(each for each in _HELD.get() if each != mine))
        # Closing alone would leave the lock with a running child. A forked child must not free it.
        if os.getpid() == holder:
            fcntl.flock(fd, fcntl.LOCK_UN)


class _Waiting:
    """Waits for a lock until a deadline. `fd` is the file in which the holder writes who it is."""

    def __init__(
        self, fd: int, wait: float, doing: str, patience: Mapping[str, float] = _USUAL
    ) -> None:
        self._fd = fd
        self._wait = wait
        self._doing = doing
        self._patience = patience
        #: Seconds spent waiting, for each holder in `patience` and for all others together. Waiting
        #: processes may take turns with such a holder, which is no reason to give up.
        self._waited: dict[str, float] = {}
        self._is_told = False

    def acquire(self, fd: int, how: int) -> None:
        since, pause = time.monotonic(), _PAUSE
        while True:
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                    raise
                now = time.monotonic()
                self._check(now - since)
                since = now
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    def _check(self, passed: float) -> None:
        """Raise if it is time to give up."""
        holder = _holder(self._fd)
        patient = next((each for each in self._patience if _named(each) in holder), "")
        waited = self._waited[patient] = self._waited.get(patient, 0.0) + passed
        if waited < self._patience.get(patient, self._wait):
            if patient and waited > self._wait and not self._is_told:
                self._is_told = True
                self._tell(holder, self._patience[patient])
            return
        raise BusyError(
            f"Another process is {self._doing}: {holder}.",
            hint="Wait until it has finished, then try again.",
        ) from None

    def _tell(self, holder: str, most: float) -> None:
        from logging import getLogger  # noqa: PLC0415 - slow to load, and seldom wanted

        text = "Another process is %s: %s. Waiting for it, up to %.0f seconds."
        getLogger("holdfast").warning(text, self._doing, holder, most)


def _opened(path: Path) -> int:
    with storage_errors(f"open the lock {path}"):
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)


def _opened_to_share(path: Path) -> int | None:
    """Open the lock file; None if there is none and none can be created."""
    try:
        return _opened(path)
    except StorageError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in _REFUSED:
            raise
    with storage_errors(f"open the lock {path}"):
        try:
            return open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None


def _named(holder: str) -> str:
    return f"`holdfast {holder}`"


def _holder(fd: int) -> str:
    try:
        text = os.pread(fd, _HOLDER_BYTES, 0).decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return text or "unknown process"
