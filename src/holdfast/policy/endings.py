"""Which sessions without an end get one: those whose process is provably gone.

This is a plan of its own. It removes nothing, and no plan that removes ends anything: what was
ended counts as active at that moment, and retention begins there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.model.inventory import Inventory
from holdfast.model.item import SESSION, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy.decision import REASONS, in_use_because, plan_item
from holdfast.policy.draft import files_in_use, owned_files


def plan_endings(inventory: Inventory, now: float, *, command: str) -> Plan:
    """End what was abandoned. A file that is open shows that somebody still works with a session,
    whatever became of its process. Sessions that have an end are no part of this."""
    in_use = files_in_use(owned_files(inventory.items))
    alive = (item for item in inventory.items if item.kind == SESSION and item.alive is not None)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=tuple(_judged(item, in_use) for item in alive),
    )


def _judged(item: Item, in_use: Mapping[str, str]) -> PlanItem:
    if item.abandoned is None or item.id in in_use:
        evidence = in_use.get(item.id, item.alive or "")
        return plan_item(item, Action.KEEP, in_use_because(evidence))
    return plan_item(item, Action.END, _abandoned_because(item.abandoned), undoable=True)


@lru_cache(REASONS)
def _abandoned_because(evidence: str) -> str:
    return f"abandoned: {evidence}"
