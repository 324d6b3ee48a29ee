"""Whether an item stays: whatever the rules say, because it is pinned, in use or part of a family;
or by the rules of its group. Sessions, files, checkpoints, bundles of the archive and leftovers are
judged alike; a `Group` has the differences.

A delegate may be unable to exist without the session it worked for: some agents list it only under
that session, and delete both together. So no rule and no cap takes such a delegate alone, and a
session stays as long as one of these delegates must.

A reason has the form "rule" or "rule: detail", so that reasons can be counted by rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter

from holdfast.model.item import ARCHIVED_KINDS, VAULTED_KINDS, Item
from holdfast.model.plan import Action
from holdfast.model.text import format_duration
from holdfast.policy.decision import REASONS, Decision, kept_because
from holdfast.policy.rules import HOUR, Policy, Rules
from holdfast.value import dataclass, field

PINNED = "pinned"
IN_USE = "in use"
_TOGETHER = "kept or removed with its parent session"


def spare_living(item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """Keep an item that is alive, or in which something is. `in_use` has the signs of life from
    files, by session id."""
    alive = in_use.get(item.id) if item.alive is None else item.alive
    if alive is not None:
        return Decision(item, Action.KEEP, in_use_because(alive), held=IN_USE)
    inner = next((each.alive for each in item.inside if each.alive is not None), None)
    if inner is not None:
        return Decision(item, Action.KEEP, because_of(in_use_because(inner)), held=IN_USE)
    return None


def spare_pinned_inside(item: Item, is_pinned: Callable[[Item], bool]) -> Decision | None:
    """Keep a session while something is pinned that can only leave with it."""
    if any(map(is_pinned, item.inside)):
        return Decision(item, Action.KEEP, because_of(PINNED), held=PINNED)
    return None


@lru_cache(REASONS)
def in_use_because(evidence: str) -> str:
    return f"{IN_USE}: {evidence}"


def hold(policy: Policy, item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """Keep what is pinned, archived in its own agent, or alive, whatever the rules say."""
    if policy.pins_item(item):
        return kept_because(item, PINNED)
    if item.archived_in and not policy.agent_archived:
        return kept_because(item, f"archived in {item.archived_in}")
    return spare_pinned_inside(item, policy.pins_item) or spare_living(item, in_use)


def apart(items: Iterable[Item]) -> tuple[list[Item], list[Item]]:
    """Split items into those that are judged on their own, and those that follow their session."""
    alone: list[Item] = []
    followers: list[Item] = []
    for item in items:
        (followers if item.follows else alone).append(item)
    return alone, followers


def kept_with_parents(
    followers: Iterable[Item], holds: Callable[[Item], Decision | None]
) -> list[Decision]:
    """A follower stays until its session goes. Caps cannot take it."""
    return [
        holds(item) or Decision(item, Action.KEEP, _TOGETHER, newest=_TOGETHER)
        for item in followers
    ]


def hold_parents(decisions: Sequence[Decision]) -> None:
    """If a delegate must stay, so must its session, and in turn the session that that one worked
    for."""
    by_id = {each.item.id: each for each in decisions}
    for each in [each for each in decisions if each.item.follows and each.held is not None]:
        parent = by_id.get(each.item.parent)
        while parent is not None and parent.held is None:
            parent.action, parent.held = Action.KEEP, each.held
            parent.reason = because_of(each.reason)
            parent = by_id.get(parent.item.parent) if parent.item.follows else None


@lru_cache(REASONS)
def because_of(why: str) -> str:
    return f"one of its delegates stays: {why}"


# --- The trash ------------------------------------------------------------------------------------


def decide_trash(item: Item, now: float, trash_age: float | None, *, pinned: bool) -> Decision:
    if pinned:
        return kept_because(item, PINNED)
    if trash_age is None:
        return Decision(item, Action.KEEP, "in the trash")
    age, limit = now - item.last_active_at, format_duration(trash_age)
    if age > trash_age:
        reason = f"in the trash longer than {limit}: for {format_duration(age)}"
        return Decision(item, Action.REMOVE, reason)
    return Decision(item, Action.KEEP, f"in the trash for less than {limit}")


def judged_trash(policy: Policy, trash: Iterable[Item], now: float) -> list[Decision]:
    return [
        decide_trash(item, now, policy.trash_age, pinned=policy.pins_item(item)) for item in trash
    ]


#: The event from which the age of an item counts, as a word. For all other kinds it is their last
#: activity.
_SINCE = {**dict.fromkeys(ARCHIVED_KINDS, "archived"), **dict.fromkeys(VAULTED_KINDS, "deleted")}
#: The name of a bucket, and the format of its calendar date.
_PERIODS = {
    "hourly": ("hour", "%Y-%m-%d %H h"),
    "daily": ("day", "%Y-%m-%d"),
    "weekly": ("week", "%G-W%V"),
    "monthly": ("month", "%Y-%m"),
    "yearly": ("year", "%Y"),
}


def kept_by_rules(rules: Rules, newest_first: list[Item], now: float) -> list[str | None]:
    """For each item of a group, the first rule that keeps it, as a reason; None if no rule does."""
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
    # A single file dated 2099 must not make everything else look old.
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
            continue  # no bucket is shorter than an hour, and formatting a date is slow
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
        return "outside the calendar"  # one bucket for all times outside the calendar


Hold = Callable[[Item], Decision | None]


def _nothing_holds(_: Item) -> Decision | None:
    return None


NO_RULE = "no rule for this source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How the items of one group are judged. The first of these that applies decides:

    `holds` keeps single items whatever the rules say; `goes` is why the group is removed as a
    whole; `spares` keeps single items of a group that is not; `stays` is why all the others stay;
    then the `rules` decide. `unruled` is the reason to keep an item that has no rule, `newest` the
    reason why caps spare the newest.
    """

    holds: Hold = _nothing_holds
    goes: str | None = None
    spares: Hold = _nothing_holds
    stays: str | None = None
    rules: Rules = field(default_factory=Rules)
    unruled: str = NO_RULE
    newest: str = "newest of its kind and source"


def decide(group: Group, members: Iterable[Item], now: float, *, use_trash: bool) -> list[Decision]:
    """Decide about the items of one group, the newest first."""
    newest_first = sorted(members, key=attrgetter("id"))  # the first of equals counts as the newest
    newest_first.sort(key=attrgetter("last_active_at"), reverse=True)
    reasons = kept_by_rules(group.rules, newest_first, now)
    decisions = []
    for item, kept_by in zip(newest_first, reasons, strict=True):
        # Held items take their places in the keep rules like any other: they too are among "the
        # last five".
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
    """The items grouped by kind and source."""
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
