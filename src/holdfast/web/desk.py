"""Threads in which a page reads. A store that waits, or a scan of minutes, must not hold up others.

One is for what answers at once: its homes stay open, and what is in them is looked at beside the
requests, not in them. One is for searches, and does the same while somebody types. One is for scans
and plans, which opens what it needs and closes it again. Each does one thing after the other.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from holdfast.api.machine import Machine
from holdfast.errors import COMMAND_FLAG
from holdfast.web.apart import Children, undisturbed

_T = TypeVar("_T")
#: None ends a thread.
_Job = tuple[Callable[[Machine], Any], Future[Any]] | None
#: What was seen longer ago is not shown: who comes back waits for a new look.
_KEPT = 60.0
#: For so long homes stay open: then a changed configuration, or a new home, is seen.
_MOST_KEPT = 300.0
#: After so long without a question they are closed.
_IDLE = 30.0
#: The same for searches: nobody types that slowly.
_TYPED = 10.0
#: Looking again takes at most one part in so many of the time.
_PART = 20.0
#: After so long what is in them is looked at again, once whoever asked has an answer.
_LOOKED = 2.0


class Desk:
    """`machine` opens the homes; the argument is what the log calls an operation. `clock` may jump:
    nothing that matters hangs on it."""

    def __init__(
        self,
        machine: Callable[[str], Machine],
        clock: Callable[[], float],
        children: Children | None = None,
    ) -> None:
        self.machine = machine
        self.children = Children() if children is None else children
        self._clock = clock
        self._quick: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._slow: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        #: How often something was changed here: what was seen before counts no longer.
        self.changes = 0
        self._searches: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        for work in (
            lambda: self._read_on(self._quick, _IDLE, _listed),
            lambda: self._work_on(self._searches),
            lambda: self._work_on(self._slow),
        ):
            # Daemons: reading ends with the process. Nothing here changes a home.
            threading.Thread(target=work, name="holdfast-web", daemon=True).start()

    def close(self) -> None:
        """End the threads once they have answered what was asked before."""
        for each in (self._quick, self._slow, self._searches):
            each.put(None)
        self.children.close()

    async def read(self, what: Callable[[Machine], _T]) -> _T:
        """Ask homes that are open already, as they were at the last look."""
        return await asyncio.wrap_future(_asked(what, self._quick))

    async def work(self, what: Callable[[Machine], _T]) -> _T:
        """Ask what may take long: a scan, a plan."""
        return await asyncio.wrap_future(_asked(what, self._slow))

    async def search(self, what: Callable[[Machine], _T]) -> _T:
        """Ask what is typed meanwhile, and must not wait for a scan."""
        return await asyncio.wrap_future(_asked(what, self._searches))

    async def apart(self, what: Callable[[Machine], _T], *, keeps: int | None = None) -> _T:
        """Ask what may take minutes, such as a check that reads everything: nothing waits for it.
        It may write to the file `keeps`."""
        return await asyncio.to_thread(self._ask, what, keeps)

    def begin(self, what: Callable[[Machine], _T]) -> Future[_T]:
        """Like `work`, for whoever does not wait."""
        return _asked(what, self._slow)

    def changed(self) -> None:
        """Something was changed: look again."""
        self.changes += 1

    def _read_on(
        self, jobs: queue.SimpleQueue[_Job], idle: float, again: Callable[[Machine], Any] | None
    ) -> None:
        """`again` is what a new look asks first; None for the last question once more."""
        COMMAND_FLAG.set("")  # hints name commands
        kept: _Kept | None = None
        while True:
            try:
                job = jobs.get(timeout=idle)
            except queue.Empty:  # nobody looks: what the homes take in memory is given back
                if kept is not None:
                    kept.close()
                    kept = None
                continue
            if job is None:
                break
            now = self._clock()
            if kept is not None and (kept.after != self.changes or not kept.is_usable(now)):
                kept.close()
                kept = None
            if kept is None:
                kept = _Kept(self.machine("web"), now, self.changes)
            with undisturbed():
                _answer(job[0], kept.machine, job[1])
                if jobs.empty() and kept.is_due(self._clock()):
                    kept.look(self._clock, again or job[0])
        if kept is not None:
            kept.close()

    def _work_on(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while (job := jobs.get()) is not None:
            what, answer = job
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(self._ask(what))
                except BaseException as error:  # noqa: BLE001 - whoever asked gets it
                    answer.set_exception(error)

    def _ask(self, what: Callable[[Machine], _T], keeps: int | None = None) -> _T:
        """In a child, which opens what it needs."""

        def ask() -> _T:
            with self.machine("web") as machine:
                return what(machine)

        return self.children.read(ask, keeps=keeps)


class _Kept:
    """Homes that stay open, and one look at them, which holds until the next. `after` so many
    changes it was opened."""

    def __init__(self, machine: Machine, now: float, after: int) -> None:
        self.machine = machine
        self.after = after
        self._since = self._looked = now
        self._took = 0.0
        self._looking = ExitStack()
        self._looking.enter_context(machine.one_look())

    def is_usable(self, now: float) -> bool:
        """Whether a list may still show it. A clock that was set back proves nothing."""
        return 0 <= now - self._looked < _KEPT and 0 <= now - self._since < _MOST_KEPT

    def is_due(self, now: float) -> bool:
        """Whether to look again. A look that takes long is not repeated all the time."""
        return now - self._looked >= min(max(_LOOKED, _PART * self._took), _KEPT / 2)

    def look(self, clock: Callable[[], float], ask: Callable[[Machine], Any]) -> None:
        """Look again, after the answer: the next list finds it done."""
        began = clock()
        self._looking.close()
        self._looking.enter_context(self.machine.one_look())
        # What is wrong is told to whoever asks for it next.
        with suppress(Exception):
            ask(self.machine)
        self._looked = clock()
        self._took = self._looked - began

    def close(self) -> None:
        self._looking.close()
        self.machine.close()


def _listed(machine: Machine) -> None:
    machine.list_sessions(limit=0)


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
