"""Commands as processes that are forked from one that has loaded Holdfast: see `fork_server.py`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.cli.fork_server import MOST, STATUS

_SERVER = Path(__file__).with_name("fork_server.py")
_ROOT = Path(__file__).parents[2]
#: What most programs of the tests load.
_HEAVY = ("tests.crash.home_harness",)
_CLOCK = {"PYTHONPATH": str(Path(__file__).with_name("set_clock"))}
#: What an interpreter looks at when it starts: with other values than ours it has to start.
_AT_START = ("PYTHON", "LC_", "LANG")
#: A pipe that can be written to takes this much without making us wait.
_AT_ONCE = 4096


class Process(Protocol):
    """What a test needs of a process, however it was started."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


class Forked:
    """One command; like `subprocess.Popen` as far as tests need it."""

    def __init__(self, told: int) -> None:
        self._told = told
        self._code: int | None = None
        self.pid = self._next()

    def poll(self) -> int | None:
        if self._code is None and select.select([self._told], [], [], 0)[0]:
            self._end()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("holdfast", timeout or 0)
            self._end()
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def __del__(self) -> None:
        if self._code is None:
            os.close(self._told)

    def _end(self) -> None:
        self._code = self._next()
        os.close(self._told)

    def _next(self) -> int:
        said = os.read(self._told, STATUS.size)
        assert said, "the process that forks commands has ended"
        return int(STATUS.unpack(said)[0])


def start(
    args: Sequence[str | bytes],
    env: Mapping[str, str],
    streams: Sequence[int],
    *,
    cwd: Path | None,
    session: bool = False,
    weak: bool = False,
    first: str = "",
) -> Forked | None:
    """Run `holdfast ARGS` with these three streams; None where only a new interpreter will do.
    `session`: as the leader of a session of its own. `weak`: where permissions hold for root.
    `first`: code to run before."""
    if not is_possible() or not _is_usual(env):
        return None
    told: dict[str, Any] = {
        "args": args,
        "env": env,
        "cwd": cwd,
        "session": session,
        "weak": weak,
        "first": first,
    }
    return _asked(_server(), streams, **told)


def _asked(
    server: socket.socket,
    streams: Sequence[int],
    *,
    args: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: Path | None,
    session: bool = False,
    weak: bool = False,
    first: str = "",
    module: str | None = None,
) -> Forked | None:
    umask = os.umask(0o077)
    os.umask(umask)
    request = json.dumps(
        {
            "args": [os.fsdecode(each) for each in args],
            "env": dict(env),
            "cwd": os.fsdecode(cwd or Path.cwd()),
            "session": session,
            "umask": umask,
            "weak": weak,
            "first": first,
            "module": module,
        }
    ).encode()
    if len(request) > MOST:
        return None
    told, tells = os.pipe()
    socket.send_fds(server, [request], [*streams, tells])
    os.close(tells)
    return Forked(told)


def run(
    args: Sequence[str | bytes],
    env: Mapping[str, str],
    given: bytes,
    *,
    cwd: Path | None,
    patience: float,
    weak: bool = False,
    first: str = "",
) -> subprocess.CompletedProcess[bytes] | None:
    """The same with pipes, to the end, as `subprocess.run` does it."""
    return _to_its_end(
        lambda streams: start(args, env, streams, cwd=cwd, weak=weak, first=first), given, patience
    )


def run_module(module: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """`python -m MODULE ARGS` of the tests, at the root of the repository, to its end."""
    done = None
    if is_possible():
        server = _server(_ROOT, *_HEAVY)
        how: dict[str, Any] = {"args": args, "env": os.environ, "cwd": _ROOT, "module": module}
        done = _to_its_end(lambda streams: _asked(server, streams, **how), b"", None)
    # One word more before the arguments: a process with the name of an agent among its first words
    # would count as that agent, and keep what a running agent writes back.
    return done or subprocess.run(
        [sys.executable, "-u", "-m", module, *args], cwd=_ROOT, check=False, capture_output=True
    )


def _to_its_end(
    begin: Callable[[Sequence[int]], Forked | None], given: bytes, patience: float | None
) -> subprocess.CompletedProcess[bytes] | None:
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        (stdin, into), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        for number in (stdin, stdout, stderr):
            theirs.callback(os.close, number)
        writer = ours.enter_context(open(into, "wb", buffering=0))  # noqa: PTH123
        for number in (out, err):
            ours.callback(os.close, number)
        process = begin((stdin, stdout, stderr))
        if process is None:
            return None
        theirs.close()
        try:
            said = _talk(writer, given, (out, err), patience)
            return subprocess.CompletedProcess((), process.wait(patience), *said)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def _talk(
    writer: io.FileIO, given: bytes, readers: Sequence[int], patience: float | None
) -> Sequence[bytes]:
    """Write all that is given, and read all that is said."""
    said = dict.fromkeys(readers, b"")
    until = None if patience is None else time.monotonic() + patience
    with selectors.DefaultSelector() as waiting:
        for number in readers:
            waiting.register(number, selectors.EVENT_READ)
        waiting.register(writer, selectors.EVENT_WRITE)
        while waiting.get_map():
            ready = waiting.select(None if until is None else until - time.monotonic())
            if not ready:
                raise subprocess.TimeoutExpired("holdfast", 0, *said.values())
            for key, _ in ready:
                if key.fileobj is writer:
                    with contextlib.suppress(BrokenPipeError):
                        given = given[os.write(key.fd, given[:_AT_ONCE]) :] if given else b""
                        if given:
                            continue
                    waiting.unregister(writer)
                    writer.close()
                elif data := os.read(key.fd, MOST):
                    said[key.fd] += data
                else:
                    waiting.unregister(key.fd)
    return list(said.values())


@functools.cache
def is_possible() -> bool:
    return hasattr(os, "pidfd_open") and "HOLDFAST_NEW_PROCESSES" not in os.environ


def environment_at_start() -> dict[str, str]:
    return {
        "LANG": "C.UTF-8",
        # A file or, from Python 3.13 on, a database that is left open shows as an error.
        "PYTHONWARNINGS": "error::ResourceWarning",
    }


def at(moment: float) -> dict[str, str]:
    """The environment of a command for which it is this time when it starts."""
    return _CLOCK | {"TEST_CLOCK_AHEAD": str(moment - time.time())}


def _is_usual(env: Mapping[str, str]) -> bool:
    looked_at = {name: value for name, value in env.items() if name.startswith(_AT_START)}
    return looked_at in (environment_at_start(), environment_at_start() | _CLOCK)


@functools.cache
def _server(*loads: str | Path) -> socket.socket:
    """One for commands, or one for the modules that it loads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    process = subprocess.Popen(
        [sys.executable, str(_SERVER), *map(str, loads)],
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        env=os.environ if loads else path | environment_at_start() | _CLOCK,
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
