"""The rules that keep items: by number, by closeness to the newest, and by calendar."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.model.item import Item
from holdfast.model.text import format_duration
from holdfast.policy.rules import HOUR, Rules


def kept_by_rules(rules: Rules, newest_first: list[Item], now: float) -> list[str | None]:
    """For each item of a group, the first rule that keeps it, as a reason; None if none does."""
    kept: list[str | None] = [None] * len(newest_first)
    for place in range(min(rules.keep_last, len(kept))):
        kept[place] = f"last: {place + 1} of {rules.keep_last}"
    if rules.keep_within is not None:
        _keep_within(rules.keep_within, newest_first, now, kept)
    for name, count in rules.buckets().items():
        _keep_buckets(name, count, newest_first, kept)
    return kept


def _keep_within(
    within: float, newest_first: list[Item], now: float, kept: list[str | None]
) -> None:
    # One file dated 2099 must not make everything else look old.
    newest = next((item.last_active_at for item in newest_first if item.last_active_at <= now), now)
    reason = f"within {format_duration(within)} of the newest"
    for place, item in enumerate(newest_first):
        if newest - item.last_active_at > within:
            break
        kept[place] = kept[place] or reason


def _keep_buckets(name: str, count: int, newest_first: list[Item], kept: list[str | None]) -> None:
    seen: set[str] = set()
    last_hour = None
    for place, item in enumerate(newest_first):
        hour = item.last_active_at // HOUR
        if hour == last_hour:
            continue  # no bucket is shorter than an hour, and a date is slow to make
        last_hour = hour
        bucket = _bucket(name, hour * HOUR)
        if bucket in seen:
            continue
        if len(seen) == count:
            break
        seen.add(bucket)
        kept[place] = kept[place] or f"{name}: {bucket}, {len(seen)} of {count}"


def _bucket(name: str, moment: float) -> str:
    """The calendar bucket of a moment, in UTC so that a plan does not depend on the machine."""
    try:
        when = datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return "outside the calendar"  # one bucket for times that no calendar has
    if name == "weekly":
        year, week, _ = when.isocalendar()
        return f"{year}-W{week:02}"
    formats = {"hourly": "%Y-%m-%d %H h", "daily": "%Y-%m-%d", "monthly": "%Y-%m", "yearly": "%Y"}
    return when.strftime(formats[name])
