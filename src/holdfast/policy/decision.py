"""A decision in the making: caps may still turn a keep into a removal."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.item import Item
from holdfast.model.plan import Action, PlanItem


@dataclass(slots=True)
class Decision:
    """`held` says why nothing may take this item; `newest` that it leads its group."""

    item: Item
    action: Action
    reason: str
    undoable: bool = False
    held: str | None = None
    newest: bool = False

    @property
    def kept(self) -> bool:
        return self.action is Action.KEEP

    @property
    def holds_space(self) -> bool:
        """True while its bytes stay on the disk: kept, or about to move to the trash."""
        return self.kept or self.undoable

    @property
    def holder(self) -> str | None:
        """Why a cap may not take this item, or None when it may."""
        return self.held or ("newest of its kind and source" if self.newest else None)

    def remove(self, reason: str, *, undoable: bool) -> None:
        self.action = Action.REMOVE
        self.reason = reason
        self.undoable = undoable

    def as_plan_item(self) -> PlanItem:
        return PlanItem(
            kind=self.item.kind,
            id=self.item.id,
            source=self.item.source,
            session=self.item.session,
            bytes=self.item.bytes,
            last_active_at=self.item.last_active_at,
            version=self.item.version,
            action=self.action,
            reason=self.reason,
            undoable=self.undoable,
        )
