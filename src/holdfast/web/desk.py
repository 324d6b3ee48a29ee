"""Threads in which a page asks the homes, and when it asks again.

A store that waits, or a scan of minutes, must not hold up others. So one thread is for what answers
at once, one for searches, one for scans and plans. Each asks one thing after the other, in a child
process that opens the homes and ends with its answer (see `apart`).

A list is answered by the last look while the next one runs in the background. A look that takes
long is not repeated all the time; what was changed on the page is seen at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.api.machine import Machine
from holdfast.web.apart import Children

_T = TypeVar("_T")
#: None ends a thread.
_Job = tuple[Callable[[Machine], Any], Future[Any]] | None
#: What was seen longer ago is not shown: who comes back waits for a new look.
_KEPT = 60.0
#: After so long it is looked again, once somebody asks.
_LOOKED = 2.0
#: Looking again takes at most one part in so many of the time.
_PART = 20.0

#: Does the work. It calls its argument as soon as there is something to show.
Look = Callable[[Callable[[], None]], None]


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
        self.clock = clock
        self.children = Children() if children is None else children
        #: How often something was changed here: what was seen before counts no longer.
        self.changes = 0
        self._quick, self._searches, self._slow = (self._started() for _ in range(3))

    def _started(self) -> queue.SimpleQueue[_Job]:
        """A thread that answers what is put here. A daemon: reading ends with the process, and
        nothing here changes a home."""
        jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(
            target=self._work_on, args=(jobs,), name="holdfast-web", daemon=True
        ).start()
        return jobs

    def close(self) -> None:
        """End the threads once they have answered what was asked before."""
        for each in (self._quick, self._searches, self._slow):
            each.put(None)
        self.children.close()

    async def read(self, what: Callable[[Machine], _T]) -> _T:
        """Ask what takes no time: a few files, a part of a conversation."""
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

    def _work_on(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while (job := jobs.get()) is not None:
            what, answer = job
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(self._ask(what))
                except BaseException as error:  # noqa: BLE001 - whoever asked gets it
                    answer.set_exception(error)

    def _ask(self, what: Callable[[Machine], _T], keeps: int | None = None) -> _T:
        def ask(_: object) -> _T:
            with self.machine("web") as machine:
                return what(machine)

        return self.children.read(ask, keeps=keeps)


def _asked(what: Callable[[Machine], _T], of: queue.SimpleQueue[_Job]) -> Future[_T]:
    answer: Future[_T] = Future()
    of.put((what, answer))
    return answer


class Renewal:
    """One thing that is looked at again and again, never twice at once."""

    def __init__(self, desk: Desk, look: Look) -> None:
        self._desk = desk
        self._look = look
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._seen: tuple[float, int] | None = None
        self._took = 0.0

    def wanted(self) -> Future[None] | None:
        """None if what was seen can be shown. Otherwise whoever shows it waits for this. Begins to
        look when it is time to."""
        with self._lock:
            usable = self.is_usable()
            if usable and not self._is_due():
                return None
            running = self._running
            if running is None or running.is_over(self._desk.changes, usable=usable):
                running = self._running = _Running(self._desk.changes)
                threading.Thread(
                    target=self._run, args=(running,), name="holdfast-look", daemon=True
                ).start()
            return None if usable else running.shown

    def is_busy(self) -> bool:
        """Whether somebody waits for a look that goes on."""
        running = self._running
        return running is not None and not running.shown.done()

    def forget(self) -> None:
        """What was seen is not enough: the next one who asks waits."""
        with self._lock:
            self._seen = None

    def is_usable(self) -> bool:
        """Whether what was seen may be shown. A clock that was set back proves nothing."""
        if self._seen is None or self._seen[1] != self._desk.changes:
            return False
        return 0 <= self._desk.clock() - self._seen[0] < _KEPT

    def _is_due(self) -> bool:
        if self._seen is None:
            return True
        age = self._desk.clock() - self._seen[0]
        return age >= min(max(_LOOKED, _PART * self._took), _KEPT / 2)

    def _run(self, running: _Running) -> None:
        began = time.monotonic()

        def shown() -> None:
            if running.shown.done():
                return
            with self._lock:
                if running is self._running:
                    # From now on: one that took minutes can be shown, too.
                    self._seen = (self._desk.clock(), running.after)
                    self._took = time.monotonic() - began
            running.shown.set_result(None)

        try:
            self._look(shown)
            shown()
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            if not running.shown.done():
                running.shown.set_exception(error)
        finally:
            running.ended = True


class _Running:
    """A look that began after so many changes."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.shown: Future[None] = Future()
        self.ended = False

    def is_over(self, changes: int, *, usable: bool) -> bool:
        """Whether whoever wants to see the homes as they are now needs another one. One that has
        shown what it saw may go on with something else."""
        return self.ended or self.after != changes or (self.shown.done() and not usable)
