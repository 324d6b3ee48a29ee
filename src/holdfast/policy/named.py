"""A plan for sessions that somebody named. No rule is asked; only the living are safe.

A pin protects from rules and caps, not from a person who names the session. Neither does a missing
end, if it is proved that nobody goes on with the session: it can be deleted by name, and nothing
else takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from holdfast.model.inventory import Inventory
from holdfast.model.item import SESSION, Item
from holdfast.model.plan import Action, Plan
from holdfast.policy.decision import Decision, spare_living
from holdfast.policy.draft import Draft, files_in_use, owned_files
from holdfast.policy.lineage import Along, Delegates


def plan_named(
    ids: Collection[str],
    inventory: Inventory,
    now: float,
    *,
    command: str,
    reason: str,
    undoable: bool,
    action: Action = Action.REMOVE,
    along: Along | None = None,
) -> Plan:
    """Remove or archive these sessions with their files; what else was scanned is no part of it.

    With `along`, such delegates of theirs go too, if they were scanned.
    """
    named = frozenset(ids)
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)
    decisions = [
        _left_without_end(item, in_use, action, reason, undoable=undoable)
        or spare_living(item, in_use)
        or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.items
        if item.kind == SESSION and item.id in named
    ]
    if along is not None:
        decisions += _followers(decisions, named, inventory, in_use, along)
    draft = Draft(decisions, owned, is_pinned=lambda _: False, leaving=action)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=draft.plan_items((), inventory.space),
    )


def _left_without_end(
    item: Item, in_use: Mapping[str, str], action: Action, reason: str, *, undoable: bool
) -> Decision | None:
    if action is not Action.REMOVE or item.abandoned is None or item.id in in_use:
        return None
    return Decision(item, Action.REMOVE, reason, undoable=undoable, without_end=True)


def _followers(
    gone: Sequence[Decision],
    named: Collection[str],
    inventory: Inventory,
    in_use: Mapping[str, str],
    along: Along,
) -> list[Decision]:
    """The delegates that go along. Those that live, or hold too much, are no part of the plan."""
    others = [
        spare_living(item, in_use) or Decision(item, Action.KEEP, "")
        for item in inventory.items
        if item.kind == SESSION and item.delegate and item.id not in named
    ]
    return Delegates(others, along.trivial_max).follow(each for each in gone if not each.kept)
