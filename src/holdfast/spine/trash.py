"""What is in the trash, and a plan to empty it."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.errors import UsageError
from holdfast.model.item import CHECKPOINT, CHECKPOINT_SPACE, SPACE, UNKNOWN_SOURCE
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy.by_name import plan_all
from holdfast.ports import Home
from holdfast.value import replace


def plan_empty(
    home: Home,
    *,
    now: float,
    command: str,
    operations: Collection[str] = (),
    before: float | None = None,
) -> Plan:
    """Remove the undo copies of these operations, or of all, made before a time if one is given."""
    view = home.log.read()
    known = {operation.id for operation in view.operations}
    unknown = [operation for operation in operations if operation not in known]
    if unknown:
        raise UsageError(
            f"There is no operation {unknown[0]!r} in this home.",
            hint="`holdfast trash list` shows which operations have something in the trash.",
        )
    entries = [
        entry
        for entry in view.trash
        if (not operations or entry.removal.operation in operations)
        and (before is None or entry.removed_at < before)
    ]
    chosen = [entry.as_item() for entry in entries]
    made = plan_all(chosen, str(home.root), now, command=command, reason="emptied on request")
    if any(entry.removal.item.kind == CHECKPOINT for entry in entries):
        # They are references: their bytes come back when nothing holds them any more.
        made = replace(made, items=(*made.items, _space(now)))
    return made


def _space(now: float) -> PlanItem:
    return PlanItem(
        kind=SPACE,
        id=CHECKPOINT_SPACE,
        source=UNKNOWN_SOURCE,
        bytes=0,
        last_active_at=now,
        version=CHECKPOINT_SPACE,
        action=Action.RECLAIM,
        reason="objects that no checkpoint holds",
    )
