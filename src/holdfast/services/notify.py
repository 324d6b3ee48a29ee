"""Tell of events once, as long as nothing changes: in the log, and to whoever listens."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.model.maintenance import Event, Told
from holdfast.model.plan import Shortfall
from holdfast.ports import MaintenanceGate, Notifier
from holdfast.services.events import shortfall_events
from holdfast.value import replace

_log = logging.getLogger("holdfast")


def fresh(
    events: Iterable[Event], told: Mapping[str, Told], now: float, interval: float
) -> list[Event]:
    """Those that say something new, or say it again after the interval."""
    return [event for event in events if _is_fresh(event, told.get(event.key), now, interval)]


def _is_fresh(event: Event, last: Told | None, now: float, interval: float) -> bool:
    # A time in the future was never: the record is wrong, and silence would be too.
    return last is None or last.state != event.state or not 0 <= now - last.at < interval


def remember(
    events: Iterable[Event], told: Mapping[str, Told], now: float, interval: float
) -> dict[str, Told]:
    """The record after these were told; what is older than the interval says nothing any more."""
    recent = {key: last for key, last in told.items() if 0 <= now - last.at < interval}
    return recent | {event.key: Told(state=event.state, at=event.at) for event in events}


def tell(
    events: Sequence[Event],
    notifier: Notifier | None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Event]:
    """One line in the log each, and the notifier, if there is one. Those that were told."""
    told = []
    for event in events:
        if stop():
            break
        _log.warning("%s", event.message)
        if notifier is not None:
            notifier.tell(event, stop)
        told.append(event)
    return told


def tell_shortfalls(
    home: str,
    shortfalls: Sequence[Shortfall],
    *,
    gate: MaintenanceGate,
    notifier: Notifier | None,
    now: float,
    interval: float,
) -> Sequence[Event]:
    """Tell of caps that a run by hand could not reach. Never raises: the run itself is done."""
    events = shortfall_events(home, now, shortfalls)
    if not events:
        return ()
    marker = gate.read()
    new = fresh(events, marker.told, now, interval)
    tell(new, notifier)
    with contextlib.suppress(HoldfastError, OSError), gate.entered("notify"):
        # Read again: maintenance may have ended in between, and must not be forgotten.
        marker = gate.read()
        gate.write(replace(marker, told=remember(new, marker.told, now, interval)))
    return new
