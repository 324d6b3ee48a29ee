"""A plan for sessions that somebody named. No rule is asked; only the living are safe.

A pin protects from rules and caps, not from a person who names the session.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.model.inventory import Inventory
from holdfast.model.item import SESSION
from holdfast.model.plan import Action, Plan
from holdfast.policy.decision import Decision, spare_living
from holdfast.policy.draft import Draft, files_in_use, owned_files


def plan_named(
    ids: Collection[str],
    inventory: Inventory,
    now: float,
    *,
    command: str,
    reason: str,
    undoable: bool,
    action: Action = Action.REMOVE,
) -> Plan:
    """Remove or archive these sessions with their files; what else was scanned is no part of it."""
    named = frozenset(ids)
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)
    decisions = [
        spare_living(item, in_use) or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.items
        if item.kind == SESSION and item.id in named
    ]
    draft = Draft(decisions, owned, in_use, is_pinned=lambda _: False, leaving=action)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=draft.plan_items((), inventory.space),
    )
