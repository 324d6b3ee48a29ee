"""Delegates that cannot be without the session they worked for: they go and stay with it.

An agent lists such a delegate under its session or not at all, and deletes both together. So no
rule and no cap takes one of them alone, and a session stays as long as one of its delegates must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from holdfast.model.item import Item
from holdfast.model.plan import Action
from holdfast.policy.decision import REASONS, Decision

_TOGETHER = "goes and stays with the session it worked for"


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
