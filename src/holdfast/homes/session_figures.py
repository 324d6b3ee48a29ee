"""What the sessions of another agent add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.guard import Booked, Guarded
from holdfast.model.part import Unit
from holdfast.model.session import Session
from holdfast.model.usage import Share, StoreStats
from holdfast.stores.sessions import ledger
from holdfast.stores.sessions.survey import AVERAGES, SIZES


def booked(unit: Unit) -> Guarded | None:
    """What a session used apart from its messages, on the day of its last use."""
    if unit.used is None:
        return None
    on = ledger.day(unit.active)
    return Guarded(booked=(Booked(day=on, model=unit.model, usage=unit.used),))


def statistics(
    sessions: Sequence[Session], now: float, ages: Sequence[tuple[str, float]]
) -> StoreStats:
    def shares(
        classes: Sequence[tuple[str, float]], place: Callable[[Session, float], bool]
    ) -> tuple[Share, ...]:
        found = {name: Share(name=name, count=0, bytes=0) for name, _ in classes}
        for each in sessions:
            fitting = (name for name, bound in classes if place(each, bound))
            name = next(fitting, classes[-1][0])
            old = found[name]
            found[name] = Share(name=name, count=old.count + 1, bytes=old.bytes + each.bytes)
        return tuple(found.values())

    sources = sorted({each.source for each in sessions})
    return StoreStats(
        sessions=len(sessions),
        open_sessions=sum(not each.ended for each in sessions),
        messages=sum(each.message_count for each in sessions),
        tokens=sum(each.tokens.total for each in sessions),
        cost=sum(each.cost for each in sessions),
        message_bytes=sum(each.bytes for each in sessions),
        database_bytes=0,
        free_bytes=0,
        wal_bytes=0,
        by_source=shares(
            [(name, number) for number, name in enumerate(sources)],
            lambda each, number: each.source == sources[int(number)],
        )
        if sources
        else (),
        by_age=shares(ages, lambda each, bound: now - each.last_active_at < bound),
        by_size=shares(SIZES, lambda each, bound: each.message_count <= bound),
        by_average_message=shares(
            AVERAGES, lambda each, bound: each.bytes / max(1, each.message_count) < bound
        ),
    )
