"""A plan for sessions that somebody named. No rule is asked; only the living are safe.

A pin protects from rules and caps, not from a person who names the session. Neither does a missing
end, if it is proved that nobody goes on with the session: it can be deleted by name, and nothing
else takes it. What is removed for good is removed everywhere: in the archive and in the trash, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from holdfast.model.inventory import Inventory
from holdfast.model.item import ARCHIVED_KINDS, SESSION, Item
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

    With `along`, such delegates of theirs go too, if they were scanned. `ids` may name sessions
    that only the archive has: then their bundles go.
    """
    named = frozenset(ids)
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)
    decisions = [
        _left_without_end(item, in_use, action, reason, undoable=undoable)
        or spare_living(item, in_use)
        or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.items
        if _is_named(item, named)
    ]
    if along is not None:
        decisions += _followers(decisions, named, inventory, in_use, along)
    gone = {each.item.session for each in decisions if not each.kept}
    for_good = action is Action.REMOVE and not undoable
    trash = [
        Decision(item, Action.REMOVE, reason)
        for item in inventory.trash
        if for_good and item.session in gone
    ]
    draft = Draft(decisions, owned, is_pinned=lambda _: False, leaving=action)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=draft.plan_items(trash, inventory.space),
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


def _is_named(item: Item, named: frozenset[str]) -> bool:
    if item.kind == SESSION:
        return item.id in named
    return item.kind in ARCHIVED_KINDS and not item.owned and item.session in named
