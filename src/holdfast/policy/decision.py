"""A decision about one item while the plan is being made: a cap may still turn a keep into a
removal, and a delegate may still follow its parent (`holdfast.policy.delegates`)."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.item import Item
from holdfast.model.plan import Action, PlanItem
from holdfast.value import dataclass, field

#: How many different reasons are cached, so that equal reasons are one string object. A plan for
#: 200,000 sessions has a few hundred.
REASONS = 4_096


@dataclass(slots=True, eq=False)
class Decision:
    """The decision about one item and, for a session, about everything that is part of it.

    `held` is why nothing may remove this item. `newest` names the group that the item leads as its
    newest one: caps spare it. `bytes` is what a cap gains by removing the item: its own bytes and
    those of the `files` that follow it. `without_end` marks the removal of a session that has no
    end, which only a person may ask for.
    """

    item: Item
    action: Action
    reason: str
    undoable: bool = False
    held: str | None = None
    newest: str | None = None
    without_end: bool = False
    files: int = 0
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.item.capped_bytes

    @property
    def kept(self) -> bool:
        return self.action is Action.KEEP

    @property
    def holds_space(self) -> bool:
        """True if its bytes stay on the disk: it is kept, or moves to the trash."""
        return self.action is Action.KEEP or self.undoable

    @property
    def holder(self) -> str | None:
        """Why a cap may not take this item, or None if it may."""
        return self.held or self.newest

    def remove(self, reason: str, *, undoable: bool) -> None:
        self.action = Action.REMOVE
        self.reason = reason
        self.undoable = undoable

    def as_plan_item(self) -> PlanItem:
        return plan_item(self.item, self.action, self.reason, undoable=self.undoable)


def kept_because(item: Item, why: str) -> Decision:
    """The item stays, and nothing may remove it."""
    return Decision(item, Action.KEEP, why, held=why)


def oldest_first(decisions: Iterable[Decision]) -> list[Decision]:
    return sorted(decisions, key=lambda each: (each.item.last_active_at, each.item.id))


def plan_item(
    item: Item,
    action: Action,
    reason: str,
    *,
    undoable: bool = False,
    goes_with: str = "",
    without_end: bool = False,
) -> PlanItem:
    return PlanItem(
        kind=item.kind,
        id=item.id,
        source=item.source,
        session=item.session,
        bytes=item.bytes,
        last_active_at=item.last_active_at,
        version=item.version,
        action=action,
        reason=reason,
        undoable=undoable,
        goes_with=goes_with,
        owned=item.owned,
        without_end=without_end,
    )
