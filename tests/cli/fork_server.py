"""Holdfast, loaded once: each command is a process of its own that is forked from this one.

    python tests/cli/fork_server.py [PATH MODULE...]

It takes requests from the socket that is its stdin. With a path and modules below it, it loads
these too, and runs them like `python -m MODULE`.

A new interpreter takes ten times as long. What the command finds is the same: its own arguments,
environment, folder, streams and end. `tests/cli/runner.py` asks; it starts a new interpreter where
that makes a difference.

It needs nothing of the tests, so that the command finds only what it would find.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

from holdfast.cli import main as command

STATUS = struct.Struct("i")
MOST = 65_536
_STREAMS = 3
#: What needs more than Holdfast does, and few commands need.
_ON_DEMAND = (
    "holdfast.__main__",
    "holdfast.adapters",
    "holdfast.mcp",
    "holdfast.metrics",
    "holdfast.stores.postgres",
    "holdfast.web",
)
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER = 1, 2, 3


def main() -> None:
    """Until nobody can ask any more. Each process says its number, and we say how it ended."""
    sys.path[:1] = sys.argv[1:2]
    preload(*sys.argv[2:])
    asked = socket.socket(fileno=os.dup(0))
    waiting = selectors.DefaultSelector()
    waiting.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                child, says = key.data
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                _say(says, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                os.close(says)
                continue
            request, fds, _, _ = socket.recv_fds(asked, MOST, _STREAMS + 1)
            if not request:
                asked.close()
                return
            child = os.fork()
            if child == 0:
                _become(json.loads(request), fds)
            for fd in fds[:_STREAMS]:
                os.close(fd)
            waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, fds[-1]))


def _say(where: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever asked does not want to know
        os.write(where, STATUS.pack(number))


def preload(*more: str) -> None:
    """All of Holdfast, and these modules, so that no process has to load any of it."""
    _load("holdfast")
    for name in more:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a look for cycles would copy every page that the processes share


def _load(name: str) -> None:
    """A module with all below it."""
    if name.startswith(_ON_DEMAND):
        return
    loaded = importlib.import_module(name)
    for each in pkgutil.iter_modules(getattr(loaded, "__path__", ()), f"{name}."):
        _load(each.name)


def _become(request: Any, fds: list[int]) -> NoReturn:
    """What a new interpreter would be now."""
    if request["session"]:
        os.setsid()
    _say(fds[-1], os.getpid())
    for number, fd in enumerate(fds[:_STREAMS]):
        os.dup2(fd, number)
    os.closerange(_STREAMS, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    if request["weak"]:
        weaken()
    sys.path[: len(sys.argv[1:2])] = [request["cwd"]]
    module, sys.argv = request["module"], ["holdfast", *request["args"]]
    _open_streams()
    try:
        exec(request["first"], {})  # noqa: S102 - the code of a test
        if module is None:
            command.main()
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _leave(end.code)
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
        _leave(1)
    _leave(0)


def _leave(code: str | int | None) -> NoReturn:
    """As an interpreter ends, but for taking apart what it has loaded, which takes twice as long as
    the command."""
    assert code is None or isinstance(code, int)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _open_streams() -> None:
    """As Python itself opens them: a terminal gets each line at once."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        before = getattr(sys, name)
        raw = open(number, f"{mode}b", closefd=False)  # noqa: SIM115 - until it ends
        made = io.TextIOWrapper(
            raw,
            before.encoding,
            before.errors,
            line_buffering=raw.isatty() or name == "stderr",
        )
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
        before.detach()


def weaken() -> None:
    """File permissions hold from now on, for root as well, and for whatever it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ~sum(1 << each for each in (_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER))
    for each in (_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER):
        if libc.prctl(_PR_CAPBSET_DROP, each, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot drop a capability")
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    sets = ctypes.create_string_buffer(24)
    if libc.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "cannot read the capabilities")
    words = list(struct.unpack("6I", sets.raw))
    words[:3] = [word & kept for word in words[:3]]  # effective, permitted, inheritable
    if libc.capset(header, struct.pack("6I", *words)) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop the capabilities")


if __name__ == "__main__":
    main()
