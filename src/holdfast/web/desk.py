"""Threads in which a page reads. A store that waits, or a scan of minutes, must not hold up others.

There are two: one for what answers at once, with homes that stay open, and one for scans and plans,
which opens what it needs and closes it again. Each does one thing after the other.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.api.machine import Machine
from holdfast.errors import COMMAND_FLAG

_T = TypeVar("_T")
#: None ends a thread.
_Job = tuple[Callable[[Machine], Any], Future[Any]] | None
#: For so long homes stay open: then a changed configuration, or a new home, is seen.
_KEPT = 30.0


class Desk:
    """`machine` opens the homes; the argument is what the log calls an operation. `clock` may jump:
    nothing that matters hangs on it."""

    def __init__(self, machine: Callable[[str], Machine], clock: Callable[[], float]) -> None:
        self.machine = machine
        self._clock = clock
        self._quick: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._slow: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._stale = threading.Event()
        self._threads = [
            # Daemons: reading ends with the process. Nothing here changes a home.
            threading.Thread(target=each, name=f"holdfast-web{each.__name__}", daemon=True)
            for each in (self._read_on, self._work_on)
        ]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """End both threads once they have answered what was asked before."""
        self._quick.put(None)
        self._slow.put(None)

    async def read(self, what: Callable[[Machine], _T]) -> _T:
        """Ask homes that are open already."""
        return await asyncio.wrap_future(_asked(what, self._quick))

    async def work(self, what: Callable[[Machine], _T]) -> _T:
        """Ask what may take long: a scan, a search, a plan."""
        return await asyncio.wrap_future(_asked(what, self._slow))

    def begin(self, what: Callable[[Machine], _T]) -> Future[_T]:
        """The same for whoever does not wait."""
        return _asked(what, self._slow)

    def changed(self) -> None:
        """Something was changed: look again."""
        self._stale.set()

    def _read_on(self) -> None:
        COMMAND_FLAG.set("")  # hints name commands
        machine, since = None, 0.0
        while (job := self._quick.get()) is not None:
            age = self._clock() - since
            if machine is not None and (self._stale.is_set() or not 0 <= age < _KEPT):
                machine.close()
                machine = None
            if machine is None:
                self._stale.clear()
                machine, since = self.machine("web"), self._clock()
            _answer(job[0], machine, job[1])
        if machine is not None:
            machine.close()

    def _work_on(self) -> None:
        COMMAND_FLAG.set("")
        while (job := self._slow.get()) is not None:
            with self.machine("web") as machine:
                _answer(job[0], machine, job[1])


def _asked(what: Callable[[Machine], _T], of: queue.SimpleQueue[_Job]) -> Future[_T]:
    answer: Future[_T] = Future()
    of.put((what, answer))
    return answer


def _answer(what: Callable[[Machine], Any], machine: Machine, answer: Future[Any]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(what(machine))
    except BaseException as error:  # noqa: BLE001 - whoever asked gets it
        answer.set_exception(error)
