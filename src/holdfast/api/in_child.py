"""Work in a child process: its memory, its imports and any damage are gone when it ends.

A watcher that runs for months does nothing heavy itself. Its children do, one at a time, and the
memory that a large home needs is returned to the system when they end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from holdfast.value import dataclass

_PIECE = 65_536
_log = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of the work, None if it failed, and the processor time in seconds."""

    result: bytes | None
    cost: float


class Working(Protocol):
    """Work in progress."""

    def poll(self) -> Done | None:
        """Return the result; None while the work goes on. Does not wait."""

    def stop(self) -> None:
        """Ask it to end soon."""


class Child:
    """Work in a child process."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self._said = bytearray()
        self._pid = os.fork()
        if self._pid == 0:
            _work(work, write)
        os.close(write)

    def poll(self) -> Done | None:
        self._hear()
        pid, status, used = os.wait4(self._pid, os.WNOHANG)
        if pid == 0:
            return None
        self._hear()  # the rest of its output
        os.close(self._read)
        result = bytes(self._said) if status == 0 else None
        return Done(result=result, cost=used.ru_utime + used.ru_stime)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._read, _PIECE):
                self._said += piece

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)


def _work(work: Callable[[], bytes], write: int) -> None:
    """Run in the child. It must never return into the parent's code."""
    code = 1
    try:
        _hear_once()
        with os.fdopen(write, "wb") as file:
            file.write(work())
        code = 0
    except BaseException:  # noqa: BLE001 - or the child would continue in the parent's code
        _log.exception("a child process of the watcher failed")
    finally:
        os._exit(code)


def _hear_once() -> None:
    """Pass on only the first signal. A signal to the process group reaches the child twice:
    directly, and through its parent. Our signal handlers take a second one as a demand to end at
    once."""
    usual = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        handler = usual[signal.Signals(number)]
        if not heard and callable(handler):
            heard.append(number)
            handler(number, frame)

    for each, handler in usual.items():
        if callable(handler):
            signal.signal(each, hear)


class AtOnce:
    """The same in this process, for hosts that must not start another process."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._done = Done(result=work(), cost=0.0)

    def poll(self) -> Done:
        return self._done

    def stop(self) -> None:
        """Nothing to do: the work has ended."""
