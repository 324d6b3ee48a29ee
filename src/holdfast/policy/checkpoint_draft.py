"""Decisions about a checkpoint folder, and what it takes when they are carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.model.checkpoint_inventory import (
    CheckpointInventory,
    index_root,
    root_of,
    rotated_root,
    trash_root,
)
from holdfast.model.plan import Action, PlanItem
from holdfast.model.weights import WhatIf
from holdfast.policy.decision import Decision


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """One decision and the root of what it is about; of live checkpoints also their project."""

    decision: Decision
    root: str
    project: str = ""


class Trial:
    """What a folder takes as things leave it. Something without a root weighs what it says."""

    def __init__(self, inventory: CheckpointInventory, beside: int) -> None:
        self._roots = inventory.weights.roots
        self._what_if: WhatIf = inventory.weights.what_if()
        self._staying = Counter(item.source for item in inventory.checkpoints)
        self._beside = beside

    @property
    def bytes(self) -> int:
        return self._what_if.held + self._beside

    def release(self, share: Share) -> int:
        """It leaves for good; says how many bytes that frees."""
        before = self.bytes
        self.hide(share)
        self.forget(share)
        return before - self.bytes

    def hide(self, share: Share) -> None:
        """It leaves its project. The private index goes with the last that does."""
        if share.project:
            self._staying[share.project] -= 1
            if not self._staying[share.project]:
                self._what_if.drop(index_root(share.project))

    def show(self, share: Share) -> None:
        if share.project:
            if not self._staying[share.project]:
                self._what_if.put_back(index_root(share.project))
            self._staying[share.project] += 1

    def forget(self, share: Share) -> None:
        """Nobody keeps it any more, the trash included."""
        if share.root in self._roots:
            self._what_if.drop(share.root)
        else:
            self._beside -= share.decision.item.bytes

    def remember(self, share: Share) -> None:
        if share.root in self._roots:
            self._what_if.put_back(share.root)
        else:
            self._beside += share.decision.item.bytes


class Draft:
    """The decisions of one plan. `bytes` follows them."""

    def __init__(
        self,
        inventory: CheckpointInventory,
        *,
        trash: Sequence[Decision],
        rotated: Sequence[Decision],
        live: Sequence[Decision],
        legacy: Sequence[Decision],
    ) -> None:
        self.trash = [Share(each, trash_root(each.item.id)) for each in trash]
        self.rotated = [Share(each, rotated_root(each.item.id)) for each in rotated]
        self.live = [Share(each, root_of(each.item.id), each.item.source) for each in live]
        self.legacy = [Share(each, each.item.id) for each in legacy]
        self._inventory = inventory
        self._weights = inventory.weights
        # What nobody holds is given back at the end of the run, so it does not count here.
        self._beside = inventory.total_bytes - inventory.weights.held - inventory.garbage
        self._now = self.trial()

    @property
    def bytes(self) -> int:
        """What the folder takes once the plan was carried out."""
        return self._now.bytes

    @property
    def chained(self) -> set[str]:
        """Projects of which only the oldest can go without a change to the others."""
        return {name for name, each in self._inventory.projects.items() if each.chained}

    @property
    def frees(self) -> bool:
        """Whether something goes for good."""
        return any(not each.decision.holds_space for each in self._every())

    def trial(self) -> Trial:
        """The folder as the decisions leave it, to try more on."""
        trial = Trial(self._inventory, self._beside)
        for each in self._every():
            if not each.decision.kept:
                trial.hide(each)
            if not each.decision.holds_space:
                trial.forget(each)
        return trial

    def take(self, share: Share, reason: str) -> None:
        """It goes for good, even if it was meant for the trash."""
        if share.decision.kept:
            self._now.hide(share)
        self._now.forget(share)
        share.decision.remove(reason, undoable=False)

    def put_back(self, share: Share, action: Action, reason: str) -> None:
        """Undo `take`: what was kept is kept, what was meant for the trash goes there."""
        kept = action is Action.KEEP
        share.decision.action, share.decision.reason = action, reason
        share.decision.undoable = not kept
        self._now.remember(share)
        if kept:
            self._now.show(share)

    def plan_items(self) -> tuple[PlanItem, ...]:
        """Everything in the order of the run, trash first.

        What stays says what it alone holds. What goes says what that frees, after those that went
        before it: so what a plan says in all is what the store gives back.
        """
        weights = self._weights.what_if()
        alone = {id(each): weights.alone(each.root) for each in self._every()}
        trial = Trial(self._inventory, self._beside)
        every = list(self._every())
        for each in (each for each in every if not each.decision.holds_space):
            alone[id(each)] = trial.release(each)
        for each in (each for each in every if each.decision.undoable):
            alone[id(each)] = trial.release(each)
        return tuple(
            replace(each.decision.as_plan_item(), bytes=alone[id(each)])
            if each.root in self._weights.roots
            else each.decision.as_plan_item()
            for each in every
        )

    def _every(self) -> Iterator[Share]:
        yield from (*self.trash, *self.rotated, *self.live, *self.legacy)
