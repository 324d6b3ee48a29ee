"""A decision in the making: caps may still turn a keep into a removal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from holdfast.model.item import Item
from holdfast.model.plan import Action, PlanItem
from holdfast.policy.rules import Policy

PINNED = "pinned"
IN_USE = "in use"

#: How many different reasons are remembered, so that equal ones are one string: a plan of 200,000
#: sessions has a few hundred.
REASONS = 4_096


@dataclass(slots=True)
class Decision:
    """What becomes of one item, and with a session of all that is a part of it.

    `held` says why nothing may take this item; `newest` that it leads its group. `bytes` are what
    a cap gets when it goes: its own, and those of the files that go with it, `files` in number.
    `without_end` says of a removal that a person named this session, which has no end.
    """

    item: Item
    action: Action
    reason: str
    undoable: bool = False
    held: str | None = None
    newest: bool = False
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
        """True while its bytes stay on the disk: kept, or about to move to the trash."""
        return self.action is Action.KEEP or self.undoable

    @property
    def holder(self) -> str | None:
        """Why a cap may not take this item, or None when it may."""
        return self.held or ("newest of its kind and source" if self.newest else None)

    def remove(self, reason: str, *, undoable: bool) -> None:
        self.action = Action.REMOVE
        self.reason = reason
        self.undoable = undoable

    def as_plan_item(self) -> PlanItem:
        return plan_item(self.item, self.action, self.reason, undoable=self.undoable)


def hold(policy: Policy, item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """Pinned and living items stay, whatever the rules say, and so do those that were archived in
    their agent; None when it is none of these."""
    if policy.pins_item(item):
        return Decision(item, Action.KEEP, PINNED, held=PINNED)
    if item.archived_in and not policy.agent_archived:
        why = f"archived in {item.archived_in}"
        return Decision(item, Action.KEEP, why, held=why)
    return spare_living(item, in_use)


def spare_living(item: Item, in_use: Mapping[str, str]) -> Decision | None:
    """`in_use` are the sessions whose files show that they live: the evidence, by id."""
    alive = in_use.get(item.id) if item.alive is None else item.alive
    if alive is None:
        return None
    return Decision(item, Action.KEEP, in_use_because(alive), held=IN_USE)


@lru_cache(REASONS)
def in_use_because(evidence: str) -> str:
    return f"{IN_USE}: {evidence}"


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
