"""What leaves the trash for good, and when."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.item import Item
from holdfast.model.plan import Action
from holdfast.model.text import format_duration
from holdfast.policy.decision import Decision, kept_because
from holdfast.policy.holds import PINNED
from holdfast.policy.rules import Policy


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
