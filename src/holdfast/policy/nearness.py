"""Which sessions are near a limit or a budget, and which days near theirs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.model.guard import DayShare, Standing, Work
from holdfast.model.nearness import Near, Nearness
from holdfast.model.session import Session
from holdfast.model.usage import UsageEntry
from holdfast.policy.budgets import Budget, GuardOptions
from holdfast.policy.limits import SessionLimits
from holdfast.policy.prices import Prices
from holdfast.policy.spending import Measure, measures

#: Known only to those who are in the middle of it.
_FLEETING = (Budget.MESSAGES_PER_MINUTE,)


def nearness(
    limits: SessionLimits,
    options: GuardOptions,
    prices: Prices,
    sessions: Sequence[Session],
    today: Iterable[UsageEntry],
) -> Nearness:
    """`sessions` are open; `today` is what the ledger has of the day. A limit is near from the
    first share on at which it warns. What an agent set for one session in its code is not known
    here."""
    found = [*_of_limits(limits, sessions)]
    unknown = 0
    for source, name, measure in (
        *_of_sessions(options, prices, sessions),
        *_of_day(options, prices, today),
    ):
        if measure.used is None:
            unknown += 1
        elif measure.used >= measure.limit * min(measure.warn_shares, default=1.0):
            found.append(
                Near(
                    session=name,
                    source=source,
                    what=measure.budget.value,
                    used=measure.used,
                    limit=measure.limit,
                )
            )
    found.sort(key=lambda near: (-near.share, near.session or "", near.what))
    return Nearness(near=tuple(found), unknown_cost=unknown)


def _of_limits(limits: SessionLimits, sessions: Iterable[Session]) -> Iterator[Near]:
    for session in sessions:
        for what, used, limit in (
            ("messages", session.message_count, limits.max_messages),
            ("bytes", session.bytes, limits.max_bytes),
        ):
            if limit and used >= limit * limits.warn_share:
                yield Near(
                    session=session.id, source=session.source, what=what, used=used, limit=limit
                )


def _of_sessions(
    options: GuardOptions, prices: Prices, sessions: Iterable[Session]
) -> Iterator[tuple[str, str, Measure]]:
    for session in sessions:
        work = Work(guarded=session.guarded) if session.guarded else Work()
        standing = Standing(session=session, work=work)
        for measure in measures(options, standing, prices, at=0.0):
            if not measure.is_daily and measure.budget not in _FLEETING:
                yield session.source, session.id, measure


def _of_day(
    options: GuardOptions, prices: Prices, today: Iterable[UsageEntry]
) -> Iterator[tuple[str | None, None, Measure]]:
    """Each source that has a day of its own, and the day of all together once."""
    shares = tuple(
        DayShare(source=entry.source, model=entry.model or "", usage=entry.usage) for entry in today
    )
    told = set()
    for source in ("", *options.by_source):
        nobody = Session(id="", source=source, started_at=0.0, last_active_at=0.0)
        for measure in measures(options, Standing(session=nobody, day=shares), prices, at=0.0):
            key = measure.budget, measure.source
            if measure.is_daily and key not in told:
                told.add(key)
                yield measure.source, None, measure
