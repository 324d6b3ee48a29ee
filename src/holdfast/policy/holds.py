"""What stays whatever the rules say: what is pinned, and what is in use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.model.item import Item
from holdfast.model.plan import Action
from holdfast.policy.decision import REASONS, Decision, kept_because
from holdfast.policy.rules import Policy

PINNED = "pinned"
IN_USE = "in use"


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
