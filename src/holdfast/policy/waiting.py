"""Caps while sessions wait for the archive.

What is to go to the archive and could not is left out of a plan: no cap takes it, and none takes
younger sessions in its place. It is still there, so whether a cap was reached is judged with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.model.inventory import Inventory
from holdfast.model.item import Item
from holdfast.model.plan import Plan, PlanItem, Shortfall
from holdfast.policy.headroom import CapUse, cap_uses
from holdfast.policy.rules import Policy

WAITS = "waiting for the archive"
_REST = "what fits the cap"


def with_waiting(made: Plan, policy: Policy, whole: Inventory, left: Inventory) -> Plan:
    """The plan that was made from what is `left` of the `whole` inventory, with its shortfalls as
    they are when the rest waits for the archive."""
    if len(whole.items) == len(left.items):
        return made
    known = {each.cap: each for each in made.shortfalls}
    with_all, without = _uses_after(made, policy, whole), _uses_after(made, policy, left)
    return replace(
        made,
        shortfalls=tuple(
            _shortfall(known.get(use.cap), use, use.used - alone.used)
            for use, alone in zip(with_all, without, strict=True)
            if use.cap in known or use.exceeded
        ),
    )


def _shortfall(known: Shortfall | None, use: CapUse, waiting: int) -> Shortfall:
    rest = {_REST: use.used - waiting} if known is None else dict(known.held_by)
    held = {WAITS: waiting, **rest}
    remaining = use.used if known is None else known.remaining + waiting
    return Shortfall(
        cap=use.cap,
        limit=use.limit,
        remaining=remaining,
        held_by={why: much for why, much in held.items() if much},
    )


def _uses_after(made: Plan, policy: Policy, inventory: Inventory) -> Sequence[CapUse]:
    """How much of each cap is used after the plan. What goes to the trash keeps its bytes."""
    counted = _after(made, inventory, lambda _: True)
    weighed = _after(made, inventory, lambda item: not item.undoable)
    uses = zip(cap_uses(policy, counted), cap_uses(policy, weighed), strict=True)
    return [in_bytes if in_bytes.in_bytes else in_items for in_items, in_bytes in uses]


def _after(made: Plan, inventory: Inventory, takes: Callable[[PlanItem], bool]) -> Inventory:
    gone = {(item.kind, item.id) for item in made.removals if takes(item)}

    def stays(item: Item) -> bool:
        return (item.kind, item.id) not in gone

    return replace(
        inventory,
        items=tuple(filter(stays, inventory.items)),
        trash=tuple(filter(stays, inventory.trash)),
    )
