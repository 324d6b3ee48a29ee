"""When maintenance is due."""

from __future__ import annotations

from holdfast.model.maintenance import MaintenanceResult, Marker

#: After a run in which something failed, the next one is due after this long, or after the interval
#: if that is shorter: not at every start of a process, but not only the next day either.
RETRY = 3_600.0
_SPREAD = 0.1  # of the interval
_WIDEST_SPREAD = 1_800.0


def is_due(marker: Marker, now: float, interval: float, settings: str | None = None) -> bool:
    """True if a run is due. A marker from the future is ignored."""
    return next_due(marker, now, interval, settings) <= now


def next_due(marker: Marker, now: float, interval: float, settings: str | None = None) -> float:
    """When the next run may start; `now` if it may start already.

    With `settings`, only runs with exactly these settings count: after a change the next run does
    not wait for the interval to end.
    """
    finished = marker.finished_at if settings is None else marker.done.get(settings)
    # Written so that NaN, which compares false with everything, is due.
    if finished is None or not finished <= now:
        return now
    return max(now, finished + (interval if marker.ok else min(interval, RETRY)))


def jitter(interval: float, share: float) -> float:
    """How long to wait after a run is due, so that many processes do not run at once.

    `share` is a number from 0 to 1, random or derived from a name.
    """
    return min(interval * _SPREAD, _WIDEST_SPREAD) * share


def next_run(result: MaintenanceResult, share: float) -> float:
    """When to call again: when a run is due, or after `RETRY` if that is unknown."""
    due = result.finished_at + RETRY if result.next_due is None else result.next_due
    return due + jitter(max(0.0, due - result.finished_at), share)
