"""Threads in which the page queries the homes.

A store that waits for a lock, or a scan of minutes, must not hold up other requests. So there is
one thread for quick requests, one for searches, one for scans and plans. Each runs one request
after the other, in a child process that opens the homes and ends with its result (see
`child_process`).
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.api.machine import Machine
from holdfast.web.child_process import Children

_T = TypeVar("_T")
#: None ends a thread.
_Job = tuple[Callable[[Machine], Any], Future[Any]] | None


class QueryThreads:
    """`machine` opens the homes; its argument is the command name for the log. `clock` may jump:
    nothing important depends on it."""

    def __init__(
        self,
        machine: Callable[[str], Machine],
        clock: Callable[[], float],
        children: Children | None = None,
    ) -> None:
        self.machine = machine
        self.clock = clock
        self.children = Children() if children is None else children
        #: How often something was changed here: what was read before is out of date.
        self.changes = 0
        self._quick, self._searches, self._slow = (self._started() for _ in range(3))

    def _started(self) -> queue.SimpleQueue[_Job]:
        """Start a thread that runs the requests put into the returned queue. It is a daemon: reads
        end with the process, and nothing here changes a home."""
        jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(
            target=self._work_on, args=(jobs,), name="holdfast-web", daemon=True
        ).start()
        return jobs

    def close(self) -> None:
        """End the threads after the requests already queued."""
        for each in (self._quick, self._searches, self._slow):
            each.put(None)
        self.children.close()

    async def read(self, what: Callable[[Machine], _T]) -> _T:
        """Run a quick request: a few files, a part of a conversation."""
        return await asyncio.wrap_future(_asked(what, self._quick))

    async def work(self, what: Callable[[Machine], _T]) -> _T:
        """Run a request that may take long: a scan, a plan."""
        return await asyncio.wrap_future(_asked(what, self._slow))

    async def search(self, what: Callable[[Machine], _T]) -> _T:
        """Run a search that the user is typing, and that must not wait for a scan."""
        return await asyncio.wrap_future(_asked(what, self._searches))

    async def in_own_thread(self, what: Callable[[Machine], _T], *, keeps: int | None = None) -> _T:
        """Run a request that may take minutes, such as a check that reads everything, without
        making others wait. It may write to the file `keeps`."""
        return await asyncio.to_thread(self._ask, what, keeps)

    def begin(self, what: Callable[[Machine], _T]) -> Future[_T]:
        """Like `work`, for a caller that does not wait."""
        return _asked(what, self._slow)

    def changed(self) -> None:
        """Note that something was changed, so that it is read again."""
        self.changes += 1

    def _work_on(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while (job := jobs.get()) is not None:
            what, answer = job
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(self._ask(what))
                except BaseException as error:  # noqa: BLE001 - the caller gets it
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
