"""`holdfast maintain --watch`: one process that looks after a home for as long as it lives."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import signal
from collections.abc import Iterator
from types import FrameType

from holdfast.cli.invocation import Invocation
from holdfast.cli.log_lines import log_to_stderr
from holdfast.cli.output import print_json, when
from holdfast.cli.show_maintenance import summary
from holdfast.errors import HoldfastError
from holdfast.homes.maintenance import ConfigWatch
from holdfast.model.maintenance import MaintenanceResult
from holdfast.policy.schedule import next_run
from holdfast.services.maintain import failed
from holdfast.stores.maintenance_marker import FileMaintenanceGate

#: The longest sleep in one piece: a machine that slept meanwhile counts no time of its own, and
#: whoever edits the configuration does not want to wait until tomorrow.
_NAP = 30.0
_log = logging.getLogger("holdfast")


class _Stop:
    """A progress that shows nothing; a signal asks it to stop, and wakes whoever sleeps.

    A pipe, because it may be written to from a signal handler at any moment.
    """

    def __init__(self) -> None:
        self._requested = False
        self._asleep, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def step(self, label: str, done: int, total: int | None) -> None:
        """Nobody is watching."""

    def stop_requested(self) -> bool:
        return self._requested

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        with contextlib.suppress(OSError):
            os.write(self._wake, b".")

    def sleep(self, seconds: float) -> None:
        select.select([self._asleep], [], [], seconds)

    def close(self) -> None:
        os.close(self._asleep)
        os.close(self._wake)


def watch(invocation: Invocation, *, force: bool) -> int:
    """Run whenever it is due, until a signal comes. Only one at a time may watch a home."""
    home = invocation.open_place().home  # whatever is wrong now is told now
    gate = FileMaintenanceGate(home.state)
    watched = ConfigWatch(home.root)
    runs = failures = 0
    with (
        gate.watching("maintain --watch"),
        log_to_stderr(dated=True, debug=invocation.debug),
        _stoppable() as stop,
    ):
        _log.info("watching %s", home.root)
        while not stop.stop_requested():
            result = _once(invocation, stop, force=force and runs == 0)
            due = next_run(result, random.random())  # noqa: S311 - only to spread runs
            runs += result.ran
            failures += bool(result.errors)
            again = "" if stop.stop_requested() else f"; again at {when(due)}"
            _log.info("maintenance of %s: %s%s", home.root, summary(result), again)
            _sleep_until(due, stop, invocation, watched)
        _log.info("no longer watching %s", home.root)
    if invocation.json:
        print_json({"home": str(home.root), "runs": runs, "failed": failures})
    return 0


def _once(invocation: Invocation, stop: _Stop, *, force: bool) -> MaintenanceResult:
    """One run, with the settings as they are now. One that fails does not end the watch."""
    started_at = invocation.clock()
    try:
        home = invocation.open_home()
    except (HoldfastError, OSError) as error:
        root = str(invocation.home_path)
        return failed(root, started_at, invocation.clock, error)
    result = home.maintain(force=force, progress=stop)
    invocation.close()  # or each run would leave one more home open
    return result


def _sleep_until(moment: float, stop: _Stop, invocation: Invocation, watched: ConfigWatch) -> None:
    """Sleep until then, or until the configuration changes."""
    while not stop.stop_requested() and (left := moment - invocation.clock()) > 0:
        if watched.changed():
            return
        stop.sleep(min(left, _NAP))


@contextlib.contextmanager
def _stoppable() -> Iterator[_Stop]:
    """SIGINT and SIGTERM stop a run between two batches; a second one ends it at once."""
    stop = _Stop()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, stop.request) for each in signals}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        stop.close()
