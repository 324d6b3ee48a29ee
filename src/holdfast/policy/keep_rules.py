"""Whether an item stays, by the rules of its group. Sessions, files, checkpoints, bundles of the
archive and leftovers are judged alike; a `Group` has what differs.

A reason reads "rule" or "rule: detail", so that reasons can be counted by rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter

from holdfast.model.item import ARCHIVED_KINDS, VAULTED_KINDS, Item
from holdfast.model.plan import Action
from holdfast.model.text import format_duration
from holdfast.policy.decision import REASONS, Decision, kept_because
from holdfast.policy.rules import HOUR, Rules
from holdfast.value import dataclass, field

#: Since when the age of items counts, in a word. Of all others, it is their last activity.
_SINCE = {**dict.fromkeys(ARCHIVED_KINDS, "archived"), **dict.fromkeys(VAULTED_KINDS, "deleted")}
#: What a bucket is called, and how its calendar name is written.
_PERIODS = {
    "hourly": ("hour", "%Y-%m-%d %H h"),
    "daily": ("day", "%Y-%m-%d"),
    "weekly": ("week", "%G-W%V"),
    "monthly": ("month", "%Y-%m"),
    "yearly": ("year", "%Y"),
}


def kept_by_rules(rules: Rules, newest_first: list[Item], now: float) -> list[str | None]:
    """For each item of a group, the first rule that keeps it, as a reason; None if none does."""
    kept: list[str | None] = [None] * len(newest_first)
    for place in range(min(rules.keep_last, len(kept))):
        kept[place] = (
            f"among the last {rules.keep_last}: number {place + 1}"
            if rules.keep_last > 1
            else "the last one"
        )
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
    period, written = _PERIODS[name]
    seen: set[str] = set()
    last_hour = None
    for place, item in enumerate(newest_first):
        hour = item.last_active_at // HOUR
        if hour == last_hour:
            continue  # no bucket is shorter than an hour, and a date is slow to make
        last_hour = hour
        bucket = _bucket(hour * HOUR, written)
        if bucket in seen:
            continue
        if len(seen) == count:
            break
        seen.add(bucket)
        reason = f"newest of its {period}: {bucket}, {len(seen)} of {count}"
        kept[place] = kept[place] or reason


def _bucket(moment: float, written: str) -> str:
    """The calendar bucket of a moment, in UTC so that a plan does not depend on the machine."""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime(written)
    except (ValueError, OverflowError, OSError):
        return "outside the calendar"  # one bucket for times that no calendar has


Hold = Callable[[Item], Decision | None]


def _nothing_holds(_: Item) -> Decision | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How the items of one group are judged. The first that has something to say decides:

    `holds` keeps single items whatever the rules say; `goes` is why the group goes as a whole;
    `spares` keeps single items of a group that does not; `stays` is why all the others stay; then
    the `rules` decide. `unruled` is the reason to keep an item that has no rule, `newest` the
    reason why caps spare the newest.
    """

    holds: Hold = _nothing_holds
    goes: str | None = None
    spares: Hold = _nothing_holds
    stays: str | None = None
    rules: Rules = field(default_factory=Rules)
    unruled: str = "no rule for this source"
    newest: str = "newest of its kind and source"


def decide(group: Group, members: Iterable[Item], now: float, *, use_trash: bool) -> list[Decision]:
    """Decide about the items of one group, the newest first."""
    newest_first = sorted(members, key=attrgetter("id"))  # the first of equals counts as the newest
    newest_first.sort(key=attrgetter("last_active_at"), reverse=True)
    reasons = kept_by_rules(group.rules, newest_first, now)
    decisions = []
    for item, kept_by in zip(newest_first, reasons, strict=True):
        # Items that are held take their places in the keep rules like any other: they too are
        # among "the last five".
        decision = group.holds(item)
        if decision is None and group.goes is not None:
            decision = Decision(item, Action.REMOVE, group.goes, undoable=use_trash)
        decision = decision or group.spares(item)
        if decision is None and group.stays is not None:
            decision = kept_because(item, group.stays)
        decisions.append(decision or _judge(group, item, kept_by, now, use_trash=use_trash))
    if decisions:
        decisions[0].newest = group.newest
    return decisions


def _judge(
    group: Group, item: Item, kept_by: str | None, now: float, *, use_trash: bool
) -> Decision:
    rules = group.rules
    if rules.empty:
        return Decision(item, Action.KEEP, group.unruled)
    if kept_by is not None:
        return Decision(item, Action.KEEP, kept_by)
    if rules.max_age is None:
        return Decision(item, Action.REMOVE, "not kept by any keep rule", undoable=use_trash)
    age = now - item.last_active_at
    since = _SINCE.get(item.kind, "active")
    if age <= rules.max_age:
        return Decision(item, Action.KEEP, _within(since, rules.max_age))
    reason = _older_than(rules.max_age, since, format_duration(age))
    return Decision(item, Action.REMOVE, reason, undoable=use_trash)


def by_group(items: Iterable[Item]) -> Iterator[tuple[str, str, list[Item]]]:
    """The items of each kind and source."""
    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    for (kind, source), members in sorted(groups.items()):
        yield kind, source, members


@lru_cache(REASONS)
def _within(since: str, limit: float) -> str:
    return f"{since} within {format_duration(limit)}"


@lru_cache(REASONS)
def _older_than(limit: float, since: str, ago: str) -> str:
    last = "last active" if since == "active" else since
    return f"older than {format_duration(limit)}: {last} {ago} ago"
