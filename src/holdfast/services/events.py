"""Events that a user should know about, each sent once as long as nothing changes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.errors import BusyError, HoldfastError
from holdfast.model.alarm import Alarm
from holdfast.model.guard import Alert, AlertKind
from holdfast.model.item import Item
from holdfast.model.maintenance import Event, EventKind, StepResult, Told
from holdfast.model.plan import Shortfall
from holdfast.model.session import Session
from holdfast.model.text import format_bytes, format_count
from holdfast.policy.cap_use import CapUse
from holdfast.policy.caps import MAX_BYTES
from holdfast.policy.session_limits import SessionLimits, alerts, near
from holdfast.ports.sessions import SessionStore
from holdfast.ports.upkeep import MaintenanceGate, Notifier
from holdfast.services.figures import too_large
from holdfast.value import replace

_MOST = 10
_log = logging.getLogger("holdfast")


def cap_events(
    home: str, at: float, uses: Iterable[CapUse], share: float, *, unreached: Iterable[Shortfall]
) -> list[Event]:
    """Caps that are nearly used up. Caps that a run could not reach get an event of another
    kind."""
    told = {shortfall.cap for shortfall in unreached}
    return [_near(home, at, use) for use in uses if use.is_near(share) and use.cap not in told]


def _near(home: str, at: float, use: CapUse) -> Event:
    state = "over" if use.exceeded else "near"
    used, limit = use.amount(use.used), use.amount(use.limit)
    return Event(
        kind=EventKind.CAP_NEAR,
        home=home,
        at=at,
        subject=use.cap,
        state=state,
        message=f"{home} {'is over' if use.exceeded else 'is near'} its cap {use.cap} of {limit}: "
        f"{used} are used ({use.percent} %)",
        details={"used": use.used, "limit": use.limit, "percent": use.percent},
    )


def shortfall_events(home: str, at: float, shortfalls: Iterable[Shortfall]) -> list[Event]:
    return [_not_reached(home, at, shortfall) for shortfall in shortfalls]


def _not_reached(home: str, at: float, shortfall: Shortfall) -> Event:
    def amount(number: int) -> str:
        in_bytes = shortfall.cap.startswith(MAX_BYTES)
        return format_bytes(number) if in_bytes else format_count(number, "item")

    held = ", ".join(f"{why} ({amount(much)})" for why, much in shortfall.held_by.items())
    return Event(
        kind=EventKind.CAP_NOT_REACHED,
        home=home,
        at=at,
        subject=shortfall.cap,
        # The reasons, but not the amounts: those change with every message.
        state=f"{shortfall.limit}: {', '.join(sorted(shortfall.held_by))}",
        message=f"{home} cannot be brought below its cap {shortfall.cap} of "
        f"{amount(shortfall.limit)}: {amount(shortfall.remaining)} remain, held by {held}",
        details=shortfall.to_json(),
    )


def session_events(
    home: str, at: float, store: SessionStore | None, limits: SessionLimits
) -> list[Event]:
    """Events for open sessions that are near a limit or have passed it."""
    return [
        session_event(home, at, alert)
        for session in near_limit_sessions(store, limits)
        for alert in alerts(limits, replace(session, message_count=0, bytes=0), session)
    ]


def near_limit_sessions(store: SessionStore | None, limits: SessionLimits) -> tuple[Session, ...]:
    """Open sessions that have reached the warning share of a limit: a few for each limit."""
    if store is None:
        return ()
    found = [session for wanted in near(limits) for session in store.find(wanted, limit=_MOST)]
    return tuple({session.id: session for session in found}.values())


def session_event(home: str, at: float, alert: Alert) -> Event:
    return Event(
        kind=EventKind.SESSION_TOO_LARGE,
        home=home,
        at=at,
        subject=f"{alert.session_id} {alert.what}",
        state="over" if alert.kind is AlertKind.OVER_LIMIT else "near",
        message=alert.message,
        details={
            "session": alert.session_id,
            "what": alert.what,
            "value": alert.value,
            "limit": alert.limit,
        },
    )


def file_events(home: str, at: float, items: Iterable[Item], limits: SessionLimits) -> list[Event]:
    """Events for session files that are larger than a session may be."""
    return [
        Event(
            kind=EventKind.FILE_TOO_LARGE,
            home=home,
            at=at,
            subject=each.file,
            state="over",
            message=f"{home}/{each.file} takes {format_bytes(each.bytes)}, more than the "
            f"{format_bytes(limits.max_bytes)} that one session may take (max_size_mb)",
            details={**each.to_json(), "limit": limits.max_bytes},
        )
        for each in too_large(items, limits)
    ]


def growth_event(alarm: Alarm) -> Event:
    return Event(
        kind=EventKind.GROWS_TOO_FAST,
        home=alarm.home,
        at=alarm.last_at if alarm.ended_at is None else alarm.ended_at,
        subject=alarm.path,
        state="growing" if alarm.active else "ended",
        message=alarm.message,
        details=alarm.to_json(),
    )


def failure_events(home: str, at: float, steps: Iterable[StepResult]) -> list[Event]:
    """Events for failed steps. A step that found another process at work has not failed: the next
    run does it."""
    return [
        Event(
            kind=EventKind.MAINTENANCE_FAILED,
            home=home,
            at=at,
            subject=step.step.value,
            state=step.error,
            message=f"maintenance of {home} failed in the step {step.step.value}: {step.error}",
            details={"step": step.step.value, "error": step.error, "kind": step.error_kind},
        )
        for step in steps
        if step.error is not None and step.error_kind != BusyError.kind
    ]


# --- Telling --------------------------------------------------------------------------------------


def fresh(
    events: Iterable[Event], told: Mapping[str, Told], now: float, interval: float
) -> list[Event]:
    """The events that are new, or due again after the interval."""
    # A time in the future means that the record is wrong, so the event is sent again.
    recent = {key: last.state for key, last in told.items() if 0 <= now - last.at < interval}
    return [event for event in events if recent.get(event.key) != event.state]


def remember(
    events: Iterable[Event], told: Mapping[str, Told], now: float, interval: float
) -> dict[str, Told]:
    """The record after these events were sent, without entries older than the interval."""
    recent = {key: last for key, last in told.items() if 0 <= now - last.at < interval}
    return recent | {event.key: Told(state=event.state, at=event.at) for event in events}


def tell(
    events: Sequence[Event],
    notifier: Notifier | None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Event]:
    """Log each event and pass it to the notifier. Returns the events that were sent."""
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
    """Report caps that a run by hand could not reach. Never raises: the run itself is done."""
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
