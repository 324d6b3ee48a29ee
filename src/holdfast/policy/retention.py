"""The planner: inventory, policy and time in, a plan out. The same in gives the same out.

Order of the decisions, each of which can only be overruled by the next:

1. pinned and living items stay, whatever the rules say;
2. the rules of the item's source decide about the rest, group by group;
3. trash that has been there long enough goes;
4. caps take the fewest, oldest items on top, trash first, and never a group's newest.

Only `max_age` can empty a group: a keep rule always keeps the newest, and caps spare it.

A reason reads "rule" or "rule: detail", so that reasons can be counted by rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from holdfast.errors import EmptyPolicyError
from holdfast.model.inventory import Inventory
from holdfast.model.item import Item
from holdfast.model.plan import Action, Plan, Shortfall
from holdfast.model.units import format_duration
from holdfast.policy.caps import cap_bytes, cap_count
from holdfast.policy.decision import Decision
from holdfast.policy.rules import Caps, Policy, Rules

_EMPTY_HINT = (
    "Say what may go, for example --older-than 90d, or set retention_days in the configuration."
)


def plan(policy: Policy, inventory: Inventory, now: float, *, command: str) -> Plan:
    """Decide about every scanned item. Raises `EmptyPolicyError` for a policy without a rule."""
    if policy.empty:
        raise EmptyPolicyError(
            "The policy is empty: no age, no keep rule and no cap is set.", hint=_EMPTY_HINT
        )
    decisions = _decide_items(policy, inventory.items, now)
    trash = [_decide_trash(policy, item, now) for item in inventory.trash]
    shortfalls = _apply_caps(policy, decisions, trash)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=tuple(decision.as_plan_item() for decision in [*decisions, *trash]),
        shortfalls=tuple(shortfalls),
    )


def plan_all(
    items: Iterable[Item],
    home: str,
    now: float,
    *,
    command: str,
    reason: str,
    undoable: bool = False,
) -> Plan:
    """A plan that removes just these items, because somebody named them."""
    return Plan(
        home=home,
        command=command,
        made_at=now,
        items=tuple(
            Decision(item, Action.REMOVE, reason, undoable=undoable).as_plan_item()
            for item in items
        ),
    )


def _decide_items(policy: Policy, items: Iterable[Item], now: float) -> list[Decision]:
    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    decisions: list[Decision] = []
    for (_, source), members in sorted(groups.items()):
        members.sort(key=lambda item: (-item.last_active_at, item.id))
        decisions += _decide_group(policy, policy.rules_for(source), members, now)
    return decisions


def _decide_group(
    policy: Policy, rules: Rules, newest_first: list[Item], now: float
) -> list[Decision]:
    kept = _kept_by_rules(rules, newest_first, now)
    decisions = []
    for position, item in enumerate(newest_first):
        # Pinned and living items take their places in the keep rules like any other: they are
        # among "the last five" too.
        if policy.pins_item(item):
            decision = Decision(item, Action.KEEP, "pinned", held="pinned")
        elif item.alive is not None:
            decision = Decision(item, Action.KEEP, f"in use: {item.alive}", held="in use")
        else:
            decision = _judge(rules, item, kept.get(item.id), now, use_trash=policy.use_trash)
        decision.newest = position == 0
        decisions.append(decision)
    return decisions


def _judge(rules: Rules, item: Item, kept: str | None, now: float, *, use_trash: bool) -> Decision:
    if rules.empty:
        return Decision(item, Action.KEEP, "no rule for this source")
    if kept is not None:
        return Decision(item, Action.KEEP, kept)
    age = now - item.last_active_at
    if rules.max_age is None:
        return Decision(item, Action.REMOVE, "not kept by any keep rule", undoable=use_trash)
    limit = format_duration(rules.max_age)
    if age <= rules.max_age:
        return Decision(item, Action.KEEP, f"active within {limit}")
    reason = f"older than {limit}: last active {format_duration(age)} ago"
    return Decision(item, Action.REMOVE, reason, undoable=use_trash)


def _kept_by_rules(rules: Rules, newest_first: list[Item], now: float) -> Mapping[str, str]:
    """Why the keep rules keep an item, by item id; the first rule that does is named."""
    kept: dict[str, str] = {}
    for number, item in enumerate(newest_first[: rules.keep_last], start=1):
        kept.setdefault(item.id, f"last: {number} of {rules.keep_last}")
    if rules.keep_within is not None and newest_first:
        # One file dated 2099 must not make everything else look old.
        moments = [item.last_active_at for item in newest_first]
        newest = next((moment for moment in moments if moment <= now), now)
        reason = f"within {format_duration(rules.keep_within)} of the newest"
        for item in newest_first:
            if newest - item.last_active_at <= rules.keep_within:
                kept.setdefault(item.id, reason)
    for name, count in rules.buckets().items():
        seen: set[str] = set()
        for item in newest_first:
            bucket = _bucket(name, item.last_active_at)
            if bucket in seen:
                continue
            if len(seen) == count:
                break
            seen.add(bucket)
            kept.setdefault(item.id, f"{name}: {bucket}, {len(seen)} of {count}")
    return kept


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


def _decide_trash(policy: Policy, item: Item, now: float) -> Decision:
    if policy.pins_item(item):
        return Decision(item, Action.KEEP, "pinned", held="pinned")
    age = now - item.last_active_at
    if policy.trash_age is None:
        return Decision(item, Action.KEEP, "in the trash")
    limit = format_duration(policy.trash_age)
    if age > policy.trash_age:
        reason = f"in the trash longer than {limit}: for {format_duration(age)}"
        return Decision(item, Action.REMOVE, reason, undoable=False)
    return Decision(item, Action.KEEP, f"in the trash for less than {limit}")


def _apply_caps(
    policy: Policy, decisions: list[Decision], trash: list[Decision]
) -> Iterable[Shortfall]:
    """Caps of single sources first: what they take may already satisfy the cap on everything."""
    scopes: list[tuple[str, Caps, list[Decision], list[Decision]]] = [
        (
            f" of {source}",
            limits.caps,
            [each for each in decisions if each.item.source == source],
            [each for each in trash if each.item.source == source],
        )
        for source, limits in sorted(policy.by_source.items())
    ]
    scopes.append(("", policy.everywhere.caps, decisions, trash))
    shortfalls: list[Shortfall] = []
    for label, caps, members, copies in scopes:
        if caps.max_count is not None:
            shortfalls += cap_count(
                members, caps.max_count, f"max_count{label}", use_trash=policy.use_trash
            )
        if caps.max_bytes is not None:
            shortfalls += cap_bytes(members, copies, caps.max_bytes, f"max_total_size{label}")
    return shortfalls
