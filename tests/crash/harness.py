"""Kill a real process at every system call of an operation: what all harnesses share.

A harness is a program of its own (`python -m tests.crash.home_harness …`), because it forks: the
parent stays single-threaded, each child runs one operation on a fresh copy of a home and kills
itself with SIGKILL right before its n-th call. It prints a JSON line with what it injected and
verified; the first violated promise ends it with an AssertionError.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.registry import open_home
from holdfast.policy.rules import DAY
from holdfast.ports.home import Home
from holdfast.spine.settle import settle

NOW = 1_800_000_000.0
_CALLS = (
    "open",
    "write",
    "fsync",
    "ftruncate",
    "rename",
    "replace",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "symlink",
    "chown",
    "fchown",
    "fchmod",
)
_CHANGING = {*_CALLS} - {"open", "fsync"}
#: In /proc/self/io: bytes, and calls, that wrote.
_WCHAR, _SYSCW = 3, 7
_open = os.open
_of_children: dict[str, str] = {}
_DONE = 0
#: To be killed there means to get through.
NEVER = sys.maxsize
#: In memory, for a home and its copies.
_ROOM = 200_000_000
_calls = 0


def clock() -> float:
    return NOW


def opened(root: Path) -> Home:
    return open_home(root, clock=clock, idle=DAY)


def settle_only(root: Path) -> None:
    """Any run that writes settles first; this one does nothing else."""
    home = opened(root)
    with home.log.writing("settle") as log:
        settle(log, home, clock=clock)


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder for homes; in memory where that can be, since to flush is most of the time. What a
    killed process leaves in its temporary folder is in there too. It goes also when somebody ends
    the tests."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is ours alone
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM
    place = memory if roomy else None
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-crash-", dir=place) as made,
        tempfile.TemporaryDirectory(prefix="temporary-", dir=made) as temporary,
        mock.patch.dict(_of_children, {"tempdir": temporary}),
    ):
        yield Path(made).resolve()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for homes whose processes are killed. A kill forgets nothing of what was written,
    flushed or not: nobody waits until the whole machine is flushed. Nor does anybody look through
    all processes for an agent: there is none in these homes."""
    with (
        in_memory() as place,
        mock.patch.object(os, "sync", return_value=None),
        mock.patch.object(life, "_processes", return_value=()),
        mock.patch.object(life, "_open_files", return_value=()),
    ):
        yield place


def calls_of(action: Callable[[Path], None], root: Path) -> int:
    """How many calls there are to be killed at, in a run that nobody kills."""
    return _counted(action, root, _Every())


def points_of(action: Callable[[Path], None], root: Path) -> Sequence[int]:
    """At which calls `run_killed` can kill, in a run that nobody kills."""
    return range(1, _counted(action, root, _Changes()) + 1)


def _counted(action: Callable[[Path], None], root: Path, calls: _Every) -> int:
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        write = os.write
        die_at(NEVER, calls=calls)
        action(root)
        write(send, str(_calls).encode())
        os._exit(_DONE)
    os.close(send)
    with os.fdopen(receive) as told:
        made = int(told.read())
    os.waitpid(pid, 0)
    return made


class _Every:
    """Counts every call."""

    def counts(self, kind: str, args: Sequence[Any]) -> bool:
        return True


class _Changes(_Every):
    """Counts calls before which something was written since the one before, by whatever means:
    SQLite, git and plain files write past the calls that are seen here. A kill before any other
    (a SELECT, a file that is opened to be read, an fsync) leaves what the one before left."""

    def __init__(self) -> None:
        self._io = -1
        self._last: object = None
        self._changed = True
        self._kinds: set[str] = set()

    def counts(self, kind: str, args: Sequence[Any]) -> bool:
        written, new = self._written(), kind not in self._kinds
        # A write is torn, and what a server does is not seen from here.
        found = self._changed or new or written != self._last or kind in ("write", "statement")
        self._last = written
        self._kinds.add(kind)
        self._changed = kind in _CHANGING or (
            kind == "open" and bool(args[1] & (os.O_CREAT | os.O_TRUNC))
        )
        return found

    def _written(self) -> object:
        """What this process wrote so far, and its children that have ended."""
        if self._io < 0:
            try:
                self._io = _open("/proc/self/io", os.O_RDONLY)  # not before the fork
            except OSError:  # nothing tells: each call counts
                return object()
        said = os.pread(self._io, 4096, 0).split()
        return said[_WCHAR], said[_SYSCW]


def run_killed(action: Callable[[Path], None], root: Path, kill_at: int) -> bool:
    """Run `action` in a child that dies before its `kill_at`-th call, of those that come after a
    change; True when it got through."""
    pid = os.fork()
    if pid == 0:
        die_at(kill_at, calls=_Changes())
        try:
            action(root)
        except BaseException as error:  # noqa: BLE001 - told to the parent by the exit code
            sys.stderr.write(f"{error!r}\n")
            os._exit(99)
        os._exit(_DONE)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return False
    assert os.waitstatus_to_exitcode(status) == _DONE, "the operation failed instead of being cut"
    return True


def die_at(
    kill_at: int,
    first: Callable[[], None] = lambda: None,
    calls: _Every | None = None,
) -> Callable[[], None]:
    """From here on, this process dies before its `kill_at`-th call, when it has done `first`;
    unless it calls what is returned before. `calls` says which ones count; all, if it is None."""
    armed = True
    counted = calls or _Every()
    vars(tempfile).update(_of_children)

    def disarm() -> None:
        nonlocal armed
        armed = False

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            global _calls  # noqa: PLW0603 - of this process, which ends with the operation
            if not counted.counts(name, args):
                return real(*args, **kwargs)
            _calls += 1
            if _calls == kill_at and armed:
                if name == "write":  # a torn write: half of the bytes got out
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                first()
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in _CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))

    class Mortal(sqlite3.Connection):
        """Every statement is a call too: SQLite writes past Python."""

        execute = wrapped("execute", sqlite3.Connection.execute)
        executemany = wrapped("executemany", sqlite3.Connection.executemany)
        executescript = wrapped("executescript", sqlite3.Connection.executescript)

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Mortal)  # type: ignore[assignment]
    execute = wrapped("statement", psycopg.Connection.execute)
    psycopg.Connection.execute = execute  # type: ignore[method-assign]
    return disarm


@dataclass
class Tally:
    kills: int = 0
    states: int = 0

    def tell(self) -> None:
        """To whoever started this process."""
        sys.stdout.write(json.dumps({"kills": self.kills, "states": self.states}) + "\n")
