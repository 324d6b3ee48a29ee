"""When a page looks again at what it shows.

A list is answered by the last look while the next one runs in the background. A look that takes
long is not repeated all the time; what was changed on the page is seen at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from holdfast.web.query_threads import QueryThreads

#: What was seen longer ago is not shown: who comes back waits for a new look.
_KEPT = 60.0
#: After so long it is looked again, once somebody asks.
_LOOKED = 2.0
#: Looking again takes at most one part in so many of the time.
_PART = 20.0

#: Does the work. It calls its argument as soon as there is something to show.
Look = Callable[[Callable[[], None]], None]


class Refresh:
    """One thing that is looked at again and again, never twice at once."""

    def __init__(self, threads: QueryThreads, look: Look) -> None:
        self._threads = threads
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
            if running is None or running.is_over(self._threads.changes, usable=usable):
                running = self._running = _Running(self._threads.changes)
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
        if self._seen is None or self._seen[1] != self._threads.changes:
            return False
        return 0 <= self._threads.clock() - self._seen[0] < _KEPT

    def _is_due(self) -> bool:
        if self._seen is None:
            return True
        age = self._threads.clock() - self._seen[0]
        return age >= min(max(_LOOKED, _PART * self._took), _KEPT / 2)

    def _run(self, running: _Running) -> None:
        began = time.monotonic()

        def shown() -> None:
            if running.shown.done():
                return
            with self._lock:
                if running is self._running:
                    # From now on: one that took minutes can be shown, too.
                    self._seen = (self._threads.clock(), running.after)
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
