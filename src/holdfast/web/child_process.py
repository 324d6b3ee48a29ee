"""Work in a child process: what a large home needs in memory is gone when the answer is there.

The server itself opens no home. A child is a copy of it, made in a few milliseconds, that asks the
homes, hands its answer back and ends. So the server stays as small as it started, whatever there
is to look at; and what breaks in a child breaks there.

A copy of a process with several threads has only the thread that made it, and locks that another
one held stay locked in it. Python's own are taken care of, those of SQLite are not. Whoever uses
SQLite in the server itself therefore does it inside `undisturbed`.
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
#: How often a person who wants a run to stop is heard, in seconds.
_LISTENS = 0.2
_PIECE = 1024**2
#: Elsewhere the libraries of the system do not all outlive a copy.
FORKS = sys.platform == "linux"
_OWN = "holdfast."
#: A child ends soon, and makes very many objects that stay until then.
_RARELY = (50_000, 20, 100)
#: The number of the last file that every process has.
_STANDARD = 2
_alone = threading.Lock()

Say = Callable[[Any], None]


class Link:
    """The end of the child: it says how far it is, and hears whether to go on."""

    def __init__(self, say: Say, ended: Callable[[], bool]) -> None:
        self.say = say
        self.wants_end = ended


class Children:
    """The children that work for one server. Without `forks` the work is done right here."""

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
        """What changes nothing, and may end at any point. It may write to the file `keeps`."""
        return self._run(what, heard, _never, is_reader=True, keeps=keeps)

    def change(self, what: Callable[[Link], _T], heard: Say, wants_end: Callable[[], bool]) -> _T:
        """What must end by itself. When the server ends, or `wants_end`, its link says so."""
        return self._run(what, heard, wants_end, is_reader=False)

    def close(self) -> None:
        """End what only reads."""
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
                with self._lock:  # nobody may signal an id that is given to another process
                    self._readers.discard(pid)
                    _, status = os.waitpid(pid, 0)
        answer: _T = _answer(said, status)
        return answer


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, no copy of the process is made: short, please."""
    with _alone:
        yield


def _copied() -> int:
    with _alone, warnings.catch_warnings():
        # From Python 3.12 on it warns of the locks that the head of this file is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _listen(
    here: socket.socket, heard: Say, wants_end: Callable[[], bool]
) -> tuple[bytes, Any] | None:
    """What the child says, until it has answered; None if it ended without an answer."""
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
            hint="There may be too little memory. What was done before is in the log.",
        )
    kind, (value, modules) = said
    _load(modules)
    if kind == _ERROR:
        raise value
    return value


def _load(modules: list[str]) -> None:
    """What this child had to import, the next one finds here."""
    for name in modules:
        if name not in sys.modules:
            with undisturbed(), suppress(ImportError):
                import_module(name)


def _work(
    what: Callable[[Link], Any], there: socket.socket, *, is_reader: bool, keeps: int | None
) -> None:
    """In the child. It must never return into the code that its parent runs."""
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
    except BaseException:  # noqa: BLE001 - or it would go on as its parent
        _LOG.exception("A part of the page failed")
    finally:
        os._exit(code)


def _in_its_words(what: Callable[[Link], _T], link: Link) -> _T:
    """Who asked does not know the home that a hint is about."""
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
    except Exception as error:  # noqa: BLE001 - whoever asked is told
        _LOG.exception("A part of the page failed")
        return _ERROR, internal_error(error)


def internal_error(error: Exception) -> HoldfastError:
    """An error that nobody expected, as a person reads it."""
    return HoldfastError(
        f"Internal error: {type(error).__name__}: {error}",
        hint=f"This is a bug in {whose_bug(error) or 'Holdfast'}. Please report it. "
        "The terminal has the details.",
    )


def _cut_off(kept: set[int | None], *, is_reader: bool) -> None:
    """Let go of what belongs to the server. Its sockets are replaced, not closed: objects that
    still hold their numbers must not close a file of ours."""
    signal.set_wakeup_fd(-1)
    # Ctrl-C reaches every process of the terminal. What changes something is told by its link.
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
    """Whether somebody wants it to end, or nobody is there any more."""
    return bool(select.select([there], [], [], 0)[0])


def _never() -> bool:
    return False


def _nobody(step: Any) -> None:
    """Nobody asks how far it is."""
