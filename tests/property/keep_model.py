"""What keep rules keep, said a second time and in another way, after restic's documentation:

    the N most recent periods that have an item at all keep one item each, their newest.

Periods are counted on the epoch clock here and not read off a formatted date.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import date

from holdfast.model.item import Item
from holdfast.policy.rules import Rules

_FIRST_DAY = -719_162  # 0001-01-01, in days from 1970-01-01
_LAST_DAY = 2_932_896  # 9999-12-31


def _day(moment: float) -> int:
    return int(moment // 86_400)


def _date(moment: float) -> date:
    return date.fromordinal(_day(moment) - _FIRST_DAY + 1)


_PERIODS: Mapping[str, Callable[[float], Hashable]] = {
    "hourly": lambda moment: moment // 3_600,
    "daily": _day,
    "weekly": lambda moment: (_day(moment) + 3) // 7,  # 1970-01-01 was a Thursday
    "monthly": lambda moment: (_date(moment).year, _date(moment).month),
    "yearly": lambda moment: _date(moment).year,
}


def kept_by_each_rule(rules: Rules, group: list[Item], now: float) -> dict[str, list[Item]]:
    """The items of one group that each rule keeps by itself, by the rule's name.

    "Within" counts from the newest item that is not in the future, or from now.
    """
    newest_first = sorted(sorted(group, key=lambda item: item.id), key=_newer, reverse=True)
    kept = {"last": newest_first[: rules.keep_last], "within": []}
    if rules.keep_within is not None:
        past = [item.last_active_at for item in group if item.last_active_at <= now]
        newest = max(past, default=now)
        kept["within"] = [
            item for item in group if newest - item.last_active_at <= rules.keep_within
        ]
    for name, period in _PERIODS.items():
        newest_of: dict[Hashable, Item] = {}
        for item in newest_first:
            newest_of.setdefault(_period_or_none(period, item.last_active_at), item)
        kept[name] = list(newest_of.values())[: getattr(rules, f"keep_{name}")]
    return kept


def _newer(item: Item) -> float:
    return item.last_active_at


def _period_or_none(period: Callable[[float], Hashable], moment: float) -> Hashable:
    """All moments that no calendar has share one period."""
    return period(moment) if _FIRST_DAY <= _day(moment) <= _LAST_DAY else None
