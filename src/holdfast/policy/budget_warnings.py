"""When to warn of a budget: at each of its shares, and at its limit, once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.model.alert import Alert, AlertKind
from holdfast.policy.spending import Measure, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Warnings:
    """What is to be told now, and everything that has been told by then."""

    alerts: tuple[Alert, ...]
    told: tuple[str, ...]


def warnings(
    session_id: str,
    found: Sequence[Measure],
    told: Collection[str],
    *,
    passed: Measure | None = None,
) -> Warnings:
    """Of each budget the largest share that was reached, once; the whole of it also by a call
    that would have `passed` it. A limit that was changed since warns anew."""
    alerts: list[Alert] = []
    now_told: list[str] = []
    for measure in found:
        reached = [
            share for share in _shares(measure) if measure is passed or _has_reached(measure, share)
        ]
        new = [share for share in reached if _key(measure, share) not in told]
        if new and max(new) == max(reached):
            alerts.append(alert(session_id, measure, over=max(new) >= 1))
        keys = {_key(measure, share): share for share in _shares(measure)}
        now_told += [key for key, share in keys.items() if share in new or key in told]
    return Warnings(alerts=tuple(alerts), told=tuple(now_told))


def alert(session_id: str, measure: Measure, *, over: bool) -> Alert:
    return Alert(
        kind=AlertKind.OVER_LIMIT if over else AlertKind.NEAR_LIMIT,
        session_id=session_id,
        what=measure.words,
        value=shown(measure.used or 0),
        limit=shown(measure.limit),
    )


def _shares(measure: Measure) -> tuple[float, ...]:
    return (*measure.warn_shares, 1.0)


def _has_reached(measure: Measure, share: float) -> bool:
    return measure.used is not None and measure.used >= share * measure.limit


def _key(measure: Measure, share: float) -> str:
    return f"{measure.budget}@{share:g}@{measure.limit:g}@{measure.source or ''}"
