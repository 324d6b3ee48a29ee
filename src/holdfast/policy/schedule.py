"""When maintenance is due. Pure: the marker, the time and the interval come in."""

from __future__ import annotations

from holdfast.model.maintenance import MaintenanceResult, Marker

#: A run in which something failed is tried again after this long, or after the interval if that
#: is shorter: neither at every start of a process, nor only tomorrow.
RETRY = 3_600.0
_SPREAD = 0.1  # of the interval
_WIDEST_SPREAD = 1_800.0


def is_due(marker: Marker, now: float, interval: float, settings: str | None = None) -> bool:
    """Whether the time has come. What lies in the future was not: it counts as never."""
    return next_due(marker, now, interval, settings) <= now


def next_due(marker: Marker, now: float, interval: float, settings: str | None = None) -> float:
    """From when on the next run may take place; `now` when that is already so.

    With `settings`, only runs with these very settings count: whoever changes them does not wait
    for the interval to end.
    """
    finished = marker.finished_at if settings is None else marker.done.get(settings)
    # Written so that NaN, which compares false with everything, is due.
    if finished is None or not finished <= now:
        return now
    return max(now, finished + (interval if marker.ok else min(interval, RETRY)))


def jitter(interval: float, share: float) -> float:
    """How much later than due to run, so that many processes do not run at once.

    `share` is a number from 0 to 1, by chance or from a name.
    """
    return min(interval * _SPREAD, _WIDEST_SPREAD) * share


def next_run(result: MaintenanceResult, share: float) -> float:
    """When to call again: once it is due, or after a while when nobody knows when that is."""
    due = result.finished_at + RETRY if result.next_due is None else result.next_due
    return due + jitter(max(0.0, due - result.finished_at), share)
