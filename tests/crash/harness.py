"""Kill a real process at every system call of an operation: what all harnesses share.

A harness is a program of its own (`python -m tests.crash.home_harness …`), because it forks: the
parent stays single-threaded, each child runs one operation on a fresh copy of a home and kills
itself with SIGKILL right before its n-th call. It prints a JSON line with what it injected and
verified; the first violated promise ends it with an AssertionError.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

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
_DONE = 0
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


def calls_of(action: Callable[[Path], None], root: Path) -> int:
    """How many calls there are to be killed at, in a run that nobody kills."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        write = os.write
        die_at(-1)
        action(root)
        write(send, str(_calls).encode())
        os._exit(_DONE)
    os.close(send)
    with os.fdopen(receive) as told:
        calls = int(told.read())
    os.waitpid(pid, 0)
    return calls


def run_killed(action: Callable[[Path], None], root: Path, kill_at: int) -> bool:
    """Run `action` in a child that dies before its `kill_at`-th call; True when it got through."""
    pid = os.fork()
    if pid == 0:
        die_at(kill_at)
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


def die_at(kill_at: int, first: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """From here on, this process dies before its `kill_at`-th call, when it has done `first`;
    unless it calls what is returned before."""
    armed = True

    def disarm() -> None:
        nonlocal armed
        armed = False

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            global _calls  # noqa: PLW0603 - of this process, which ends with the operation
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
    execute = wrapped("execute", psycopg.Connection.execute)
    psycopg.Connection.execute = execute  # type: ignore[method-assign]
    return disarm


@dataclass
class Tally:
    kills: int = 0
    states: int = 0

    def tell(self) -> None:
        """To whoever started this process."""
        sys.stdout.write(json.dumps({"kills": self.kills, "states": self.states}) + "\n")
