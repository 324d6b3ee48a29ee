"""Maintenance whenever it is due, in a thread next to an event loop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.api.place import system_clock
from holdfast.homes.maintenance import ConfigWatch, maintain
from holdfast.model.arguments import StrPath, checked_clock
from holdfast.model.maintenance import MaintenanceResult
from holdfast.policy.maintenance_due import RETRY, next_run
from holdfast.ports.runs import Clock
from holdfast.spine.carry_out import Silent

#: The longest single sleep: the event loop's clock stops while the machine is suspended, and an
#: edit of the configuration should take effect soon.
_NAP = 30.0
#: The shortest pause after a run that failed completely, whatever time the clock returns.
_PAUSE = 1.0
_log = logging.getLogger("holdfast")


async def maintain_in_background(
    home: StrPath,
    *,
    on_result: Callable[[MaintenanceResult], None] | None = None,
    clock: Clock = system_clock,
) -> None:
    """Run maintenance now, and again whenever it is due, until this task is cancelled.

    It is due at once when the configuration changes in a way that matters here.

    The work is done in a thread of its own, so that the loop stays free. Cancelling stops a run
    between two batches and waits for that. No other exception leaves this function.
    """
    stop = _Stop()
    steady = checked_clock(clock)
    watched = ConfigWatch(home)
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-maintain")
    try:
        while True:
            run = worker.submit(maintain, home, clock=clock, progress=stop)
            result = await _finished(asyncio.wrap_future(run), stop)
            _hand_over(result, on_result)
            if result.error is not None:
                await asyncio.sleep(_PAUSE)
            await _sleep_until(next_run(result, random.random()), steady, watched)  # noqa: S311
    finally:
        worker.shutdown(wait=False)


async def _finished(run: asyncio.Future[MaintenanceResult], stop: _Stop) -> MaintenanceResult:
    """Wait for a run. If cancelled, let the run finish its batch first; if cancelled again, stop
    waiting."""
    try:
        return await asyncio.shield(run)
    except asyncio.CancelledError:
        stop.requested = True
        await asyncio.wait((run,))
        raise


class _Stop(Silent):
    """A progress object that shows nothing and can request a stop."""

    requested = False

    def stop_requested(self) -> bool:
        return self.requested


def _hand_over(
    result: MaintenanceResult, on_result: Callable[[MaintenanceResult], None] | None
) -> None:
    if on_result is None:
        return
    try:
        on_result(result)
    except Exception:  # noqa: BLE001 - a callback that fails must not end maintenance
        _log.exception("the callback for maintenance failed")


async def _sleep_until(moment: float, clock: Clock, watched: ConfigWatch) -> None:
    """Sleep until `moment`, or until the configuration changes."""
    while not watched.changed():
        try:
            left = moment - clock()
        except Exception:  # noqa: BLE001 - the next run reports that the host's clock failed
            await asyncio.sleep(RETRY)
            return
        if left <= 0:
            return
        await asyncio.sleep(min(left, _NAP))
