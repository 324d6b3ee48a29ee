"""Plans without rules: for items that a person named, and for sessions that were abandoned.

A pin protects from rules and caps, not from a person who names the item itself. A pinned delegate
of a named session stays, and so does the session if the delegate can only leave with it.

A missing end does not protect either if it is proved that no process will continue the session: a
person can delete it by name, but nothing else removes it. A permanent removal applies everywhere,
including the archive and the trash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import ARCHIVED_KINDS, SESSION, VAULTED_KINDS, Inventory, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy.checkpoint_bytes import SharedBytes
from holdfast.policy.decision import REASONS, Decision, kept_because, plan_item
from holdfast.policy.delegates import Delegates
from holdfast.policy.draft import Draft, FreeSpace, checkpoint_space, files_in_use, owned_files
from holdfast.policy.keep_rules import (
    PINNED,
    hold_parents,
    in_use_because,
    spare_living,
    spare_pinned_inside,
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
    """Remove exactly these items."""
    decisions = (Decision(item, Action.REMOVE, reason, undoable=undoable) for item in items)
    return Plan(
        home=home,
        command=command,
        made_at=now,
        items=tuple(each.as_plan_item() for each in decisions),
    )


def plan_named(  # noqa: PLR0913 - all but two are named
    ids: Collection[str],
    inventory: Inventory,
    now: float,
    *,
    command: str,
    reason: str,
    undoable: bool,
    action: Action = Action.REMOVE,
    delegates_up_to: float | None = None,
    is_pinned: Callable[[Item], bool] = attrgetter("pinned"),
) -> Plan:
    """Remove or archive these sessions with their files; nothing else is part of the plan.

    Delegates with at most `delegates_up_to` messages go too, as far as they were scanned; None
    means that no delegates go. `ids` may name sessions that only the archive has: then their
    bundles go.
    """
    named = frozenset(ids)
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)

    def pinned_along(item: Item) -> bool:
        return item.id not in named and is_pinned(item)

    def spare_delegate(item: Item) -> Decision | None:
        pinned = kept_because(item, PINNED) if pinned_along(item) else None
        return pinned or spare_pinned_inside(item, pinned_along) or spare_living(item, in_use)

    decisions = [
        _left_without_end(item, in_use, action, reason, undoable=undoable)
        or spare_pinned_inside(item, pinned_along)
        or spare_living(item, in_use)
        or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.items
        if _is_named(item, named)
    ]
    if delegates_up_to is not None:
        followers = (i for i in inventory.items if i.follows and i.id not in named)
        held = (spare_delegate(item) or Decision(item, Action.KEEP, "") for item in followers)
        hold_parents([*decisions, *held])
        decisions += _followers(decisions, named, inventory, spare_delegate, delegates_up_to)
    gone = {each.item.session for each in decisions if not each.kept}
    for_good = action is Action.REMOVE and not undoable
    trash = [
        Decision(item, Action.REMOVE, reason)
        for item in inventory.trash
        if for_good and item.session in gone
    ]
    space = FreeSpace(items=inventory.space)
    draft = Draft(decisions, trash=trash, owned=owned, leaving=action, space=space)
    return draft.plan(inventory.home, now, command=command)


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
    spare: Callable[[Item], Decision | None],
    most: float,
) -> list[Decision]:
    """The delegates that go too. Those that are alive, pinned or too large are not part of the
    plan."""
    others = [
        spare(item) or Decision(item, Action.KEEP, "")
        for item in inventory.items
        if item.kind == SESSION and item.delegate and item.id not in named
    ]
    return Delegates(others, most).follow(each for each in gone if not each.kept)


def _is_named(item: Item, named: frozenset[str]) -> bool:
    if item.kind == SESSION:
        return item.id in named
    away = item.kind in (*ARCHIVED_KINDS, *VAULTED_KINDS)
    return away and not item.owned and item.session in named


def plan_named_checkpoints(
    ids: Collection[str] | None,
    inventory: CheckpointInventory,
    now: float,
    *,
    command: str,
    undoable: bool,
    legacy: bool = False,
) -> Plan:
    """Remove these checkpoints; None means all of them, and those that a take has hidden. With
    `legacy` also what older layouts left."""
    reason = "cleared on request" if ids is None else "deleted by id"

    def removed(items: Iterable[Item]) -> list[Decision]:
        return [Decision(item, Action.REMOVE, reason, undoable=undoable) for item in items]

    live = [
        spare_living(item, {}) or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.checkpoints
        if ids is None or item.id in ids
    ]
    rotated = removed(inventory.rotated if ids is None else ())
    older = removed(inventory.legacy if legacy else ())
    draft = Draft(
        (*rotated, *live, *older),
        shared=SharedBytes(inventory, rotated=rotated, live=live, legacy=older),
        space=checkpoint_space(inventory),
    )
    return draft.plan(inventory.home, now, command=command)


def plan_endings(inventory: Inventory, now: float, *, command: str) -> Plan:
    """End the sessions whose process is provably gone. Sessions that have an end are not part of
    this plan.

    An open file shows that some process still uses the session, whatever happened to its own. This
    plan removes nothing, and no plan that removes things ends a session: a session counts as active
    at the moment it was ended, and retention begins there.
    """
    in_use = files_in_use(owned_files(inventory.items))
    alive = (item for item in inventory.items if item.kind == SESSION and item.alive is not None)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=tuple(_ended(item, in_use) for item in alive),
    )


def _ended(item: Item, in_use: Mapping[str, str]) -> PlanItem:
    if item.abandoned is None or item.id in in_use:
        evidence = in_use.get(item.id, item.alive or "")
        return plan_item(item, Action.KEEP, in_use_because(evidence))
    return plan_item(item, Action.END, _abandoned_because(item.abandoned), undoable=True)


@lru_cache(REASONS)
def _abandoned_because(evidence: str) -> str:
    return f"abandoned: {evidence}"
