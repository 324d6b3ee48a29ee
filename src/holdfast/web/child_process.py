"""Runs work in a child process, so that the memory which a large home needs is freed afterwards.

The server itself opens no home. A child is a fork of it, made in a few milliseconds, that queries
the homes, returns its result and exits. So the server stays as small as it started, however much
there is to read; and a crash in a child does not affect the server.

A fork of a process with several threads has only the thread that called it, and locks that another
thread held stay locked in the child. Python takes care of its own locks, but not of SQLite's. Code
that uses SQLite in the server itself therefore runs inside `undisturbed`.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import COMMAND_FLAG, HoldfastError, whose_bug

_LOG = logging.getLogger("holdfast.web")
_T = TypeVar("_T")
_LENGTH = struct.Struct("!cQ")
_STEP, _RESULT, _ERROR = b"s", b"r", b"e"
#: How often a user's request to stop a run is checked for, in seconds.
_LISTENS = 0.2
_PIECE = 1024**2
#: On other systems, not all system libraries survive a fork.
FORKS = sys.platform == "linux"
_OWN = "holdfast."
#: GC thresholds: a child ends soon, and creates very many objects that live until then.
_RARELY = (50_000, 20, 100)
#: The highest of the file descriptors that every process has.
_STANDARD = 2
_alone = threading.Lock()

Say = Callable[[Any], None]


class Link:
    """The child's end of the connection: it sends progress, and checks whether to stop."""

    def __init__(self, say: Say, ended: Callable[[], bool]) -> None:
        self.say = say
        self.wants_end = ended


class Children:
    """The children that work for one server. Without `forks` the work is done in this process."""

    def __init__(self, *, forks: bool = FORKS) -> None:
        self._forks = forks
        self._readers: set[int] = set()
        self._lock = threading.Lock()

    def read(
        self,
        what: Callable[[Link], _T],
        *,
        heard: Say | None = None,
        keeps: int | None = None,
    ) -> _T:
        """Run work that changes nothing, and may be killed at any point. It may write to the file
        `keeps`."""
        return self._run(what, heard, _never, is_reader=True, keeps=keeps)

    def change(self, what: Callable[[Link], _T], heard: Say, wants_end: Callable[[], bool]) -> _T:
        """Run work that must end by itself. When the server ends, or `wants_end` is true, its link
        reports that."""
        return self._run(what, heard, wants_end, is_reader=False)

    def close(self) -> None:
        """Kill the children that only read."""
        with self._lock:
            for pid in self._readers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def _run(
        self,
        what: Callable[[Link], _T],
        heard: Say | None,
        wants_end: Callable[[], bool],
        *,
        is_reader: bool,
        keeps: int | None = None,
    ) -> _T:
        if not self._forks:
            COMMAND_FLAG.set("")  # hints name commands
            return _in_its_words(what, Link(heard or _nobody, wants_end))
        here, there = socket.socketpair()
        with here, there:
            pid = _copied()
            if pid == 0:
                _work(what, there, is_reader=is_reader, keeps=keeps)
            there.close()
            if is_reader:
                with self._lock:
                    self._readers.add(pid)
            try:
                said = _listen(here, heard or _nobody, wants_end)
            finally:
                here.close()
                with self._lock:  # so that no signal is sent to an id that was reused
                    self._readers.discard(pid)
                    _, status = os.waitpid(pid, 0)
        answer: _T = _answer(said, status)
        return answer


@contextmanager
def undisturbed() -> Iterator[None]:
    """While this context is open, the process is not forked. Keep it short."""
    with _alone:
        yield


def _copied() -> int:
    with _alone, warnings.catch_warnings():
        # Since Python 3.12 it warns of the locks that the module docstring describes.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _listen(
    here: socket.socket, heard: Say, wants_end: Callable[[], bool]
) -> tuple[bytes, Any] | None:
    """Receive messages from the child until its result; None if it ended without a result."""
    told = False
    while True:
        while not told and wants_end is not _never:
            if wants_end():
                here.shutdown(socket.SHUT_WR)
                told = True
            elif select.select([here], [], [], _LISTENS)[0]:
                break
        frame = _frame(here)
        if frame is None or frame[0] != _STEP:
            return frame
        heard(frame[1])


def _frame(here: socket.socket) -> tuple[bytes, Any] | None:
    head = _exactly(here, _LENGTH.size)
    if head is None:
        return None
    kind, length = _LENGTH.unpack(head)
    body = _exactly(here, length)
    return None if body is None else (kind, pickle.loads(body))  # noqa: S301 - our own child's


def _exactly(here: socket.socket, length: int) -> bytes | None:
    found = bytearray()
    while len(found) < length:
        piece = here.recv(min(length - len(found), _PIECE))
        if not piece:
            return None
        found += piece
    return bytes(found)


def _answer(said: tuple[bytes, Any] | None, status: int) -> Any:
    if said is None:
        code = os.waitstatus_to_exitcode(status)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        raise HoldfastError(
            f"The process that did this ended early ({how}).",
            hint="The machine may be out of memory. The log shows what was done before.",
        )
    kind, (value, modules) = said
    _load(modules)
    if kind == _ERROR:
        raise value
    return value


def _load(modules: list[str]) -> None:
    """Import what this child had to import, so that the next one has it already."""
    for name in modules:
        if name not in sys.modules:
            with undisturbed(), suppress(ImportError):
                import_module(name)


def _work(
    what: Callable[[Link], Any], there: socket.socket, *, is_reader: bool, keeps: int | None
) -> None:
    """The main function of the child. It must never return into the code that its parent runs."""
    code = 1
    try:
        _cut_off({there.fileno(), keeps}, is_reader=is_reader)
        COMMAND_FLAG.set("")  # hints name commands
        gc.set_threshold(*_RARELY)
        before = set(sys.modules)
        kind, value = _done(what, there)
        new = [each for each in sys.modules if each.startswith(_OWN) and each not in before]
        _send(there, kind, (value, new))
        code = 0
    except BaseException:  # noqa: BLE001 - it would continue as its parent
        _LOG.exception("A part of the page failed")
    finally:
        os._exit(code)


def _in_its_words(what: Callable[[Link], _T], link: Link) -> _T:
    """Fix the wording of an error's hint here: the caller does not know the home that it is
    about."""
    try:
        return what(link)
    except HoldfastError as error:
        error.hint = error.hint
        raise


def _done(what: Callable[[Link], Any], there: socket.socket) -> tuple[bytes, Any]:
    link = Link(lambda step: _send(there, _STEP, step), lambda: _is_over(there))
    try:
        return _RESULT, _in_its_words(what, link)
    except HoldfastError as error:
        return _ERROR, error
    except Exception as error:  # noqa: BLE001 - the caller gets it
        _LOG.exception("A part of the page failed")
        return _ERROR, internal_error(error)


def internal_error(error: Exception) -> HoldfastError:
    """An unexpected error in words for the user."""
    return HoldfastError(
        f"Internal error: {type(error).__name__}: {error}",
        hint=f"This is a bug in {whose_bug(error) or 'Holdfast'}. Please report it. "
        "See the terminal for details.",
    )


def _cut_off(kept: set[int | None], *, is_reader: bool) -> None:
    """Release what belongs to the server. Its sockets are replaced, not closed: objects that still
    hold their descriptors must not close a file of ours."""
    signal.set_wakeup_fd(-1)
    # Ctrl-C reaches every process of the terminal. A child that changes something is stopped by its
    # link instead.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL if is_reader else signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for path in [*Path("/proc/self/fd").iterdir()]:
        number = int(path.name)
        if number > _STANDARD and number not in kept and number != nothing:
            with suppress(OSError):
                os.dup2(nothing, number, inheritable=False)


def _send(there: socket.socket, kind: bytes, value: Any) -> None:
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    try:
        there.sendall(_LENGTH.pack(kind, len(body)) + body)
    except BrokenPipeError:  # the server has ended; what was begun is still finished
        if kind != _STEP:
            raise


def _is_over(there: socket.socket) -> bool:
    """True if it should end, or if the server has ended."""
    return bool(select.select([there], [], [], 0)[0])


def _never() -> bool:
    return False


def _nobody(step: Any) -> None:
    """Ignores progress."""
