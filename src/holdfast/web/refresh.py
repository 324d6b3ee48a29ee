"""When the page scans again what it shows.

A request is answered from the last scan while the next one runs in the background. A slow scan is
not repeated all the time; changes made on the page are seen at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from holdfast.web.query_threads import QueryThreads

#: An older scan is not shown: a user who returns later waits for a new one.
_KEPT = 60.0
#: A scan of this age is renewed at the next request.
_LOOKED = 2.0
#: Scanning takes at most one part in this many of the time.
_PART = 20.0

#: Does the work. It calls its argument as soon as there is something to show.
Look = Callable[[Callable[[], None]], None]


class Refresh:
    """Something that is scanned repeatedly, but never twice at the same time."""

    def __init__(self, threads: QueryThreads, look: Look) -> None:
        self._threads = threads
        self._look = look
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._seen: tuple[float, int] | None = None
        self._took = 0.0

    def wanted(self) -> Future[None] | None:
        """Start a scan if one is due. Returns None if the last one can be shown; otherwise the
        future that the caller has to wait for."""
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
        """True if a scan is running that callers have to wait for."""
        running = self._running
        return running is not None and not running.shown.done()

    def forget(self) -> None:
        """Discard the last scan: the next caller waits for a new one."""
        with self._lock:
            self._seen = None

    def is_usable(self) -> bool:
        """True if the last scan may be shown. If the clock was set back, its age is unknown, and it
        may not."""
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
                    # Its age counts from now, so that a scan that took minutes can be shown too.
                    self._seen = (self._threads.clock(), running.after)
                    self._took = time.monotonic() - began
            running.shown.set_result(None)

        try:
            self._look(shown)
            shown()
        except BaseException as error:  # noqa: BLE001 - those who wait get it
            if not running.shown.done():
                running.shown.set_exception(error)
        finally:
            running.ended = True


class _Running:
    """A running scan. `after` is the number of changes made before it began."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.shown: Future[None] = Future()
        self.ended = False

    def is_over(self, changes: int, *, usable: bool) -> bool:
        """True if a caller that wants the current state needs another scan. A scan that has
        published its result may still be busy with something else."""
        return self.ended or self.after != changes or (self.shown.done() and not usable)
