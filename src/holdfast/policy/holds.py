"""What stays whatever the rules say: what is pinned, what is in use, and families.

A delegate may be unable to be without the session it worked for: an agent lists it under its
session or not at all, and deletes both together. So no rule and no cap takes one of them alone, and
a session stays as long as one of its delegates must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from holdfast.model.item import Item
from holdfast.model.plan import Action
from holdfast.model.text import format_duration
from holdfast.policy.decision import REASONS, Decision, kept_because
from holdfast.policy.rules import Policy

PINNED = "pinned"
IN_USE = "in use"
_TOGETHER = "goes and stays with the session it worked for"


def spare_living(item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """Keep what lives. `in_use` has the evidence that files give, by session id."""
    alive = in_use.get(item.id) if item.alive is None else item.alive
    if alive is None:
        return None
    return Decision(item, Action.KEEP, in_use_because(alive), held=IN_USE)


@lru_cache(REASONS)
def in_use_because(evidence: str) -> str:
    return f"{IN_USE}: {evidence}"


def hold(policy: Policy, item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """Keep what is pinned, archived in its own agent, or alive, whatever the rules say."""
    if policy.pins_item(item):
        return kept_because(item, PINNED)
    if item.archived_in and not policy.agent_archived:
        return kept_because(item, f"archived in {item.archived_in}")
    return spare_living(item, in_use)


def apart(items: Iterable[Item]) -> tuple[list[Item], list[Item]]:
    """Items that are judged by themselves, and those that follow their session."""
    alone: list[Item] = []
    followers: list[Item] = []
    for item in items:
        (followers if item.follows else alone).append(item)
    return alone, followers


def kept_with_parents(
    followers: Iterable[Item], holds: Callable[[Item], Decision | None]
) -> list[Decision]:
    """Until its session goes, a follower stays. Caps cannot take it."""
    return [
        holds(item) or Decision(item, Action.KEEP, _TOGETHER, newest=_TOGETHER)
        for item in followers
    ]


def hold_parents(decisions: Sequence[Decision]) -> None:
    """A session whose delegate must stay stays too, and so does the one that it worked for."""
    by_id = {each.item.id: each for each in decisions}
    for each in [each for each in decisions if each.item.follows and each.held is not None]:
        parent = by_id.get(each.item.parent)
        while parent is not None and parent.held is None:
            parent.action, parent.held = Action.KEEP, each.held
            parent.reason = _because_of(each.reason)
            parent = by_id.get(parent.item.parent) if parent.item.follows else None


@lru_cache(REASONS)
def _because_of(why: str) -> str:
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
