"""What checkpoints take on the disk when they share most of it.

What removing one of them frees depends on which others were removed before. So bytes are counted by
reference: an object takes space until the last checkpoint that holds it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from holdfast.model.checkpoint_inventory import (
    CheckpointInventory,
    WhatIf,
    index_root,
    root_of,
    rotated_root,
    trash_root,
)
from holdfast.policy.decision import Decision


class SharedBytes:
    """The decisions about a checkpoint folder, each with its root in the graph of objects.

    Decisions about `live` checkpoints also count for their project: its private index holds objects
    too, and goes with the last checkpoint.
    """

    def __init__(
        self,
        inventory: CheckpointInventory,
        *,
        trash: Sequence[Decision] = (),
        rotated: Sequence[Decision] = (),
        live: Sequence[Decision] = (),
        legacy: Sequence[Decision] = (),
    ) -> None:
        self.live = live
        self.legacy = legacy
        self.inventory = inventory
        # In the order in which the plan is carried out.
        self.roots = (
            {each: trash_root(each.item.id) for each in trash}
            | {each: rotated_root(each.item.id) for each in rotated}
            | {each: root_of(each.item.id) for each in live}
            | {each: each.item.id for each in legacy}
        )
        self.projects = {each: each.item.source for each in live}

    def trial(self) -> Trial:
        """The folder as the decisions leave it, for trying more removals."""
        trial = Trial(self)
        for each in self.roots:
            if not each.kept:
                trial.hide(each)
            if not each.holds_space:
                trial.forget(each)
        return trial

    @cached_property
    def freed(self) -> Mapping[Decision, int]:
        """The bytes to show for each decision that the graph knows.

        An item that stays shows what it alone holds. An item that goes shows what its removal frees
        after those before it, so that the bytes of a plan add up to what the store gives back.
        """
        weights = self.inventory.weights
        what_if = weights.what_if()
        shown = {each: what_if.alone(root) for each, root in self.roots.items()}
        trial = Trial(self)
        for each in self._going():
            shown[each] = trial.release(each)
        return {each: shown[each] for each, root in self.roots.items() if root in weights.roots}

    def _going(self) -> Iterator[Decision]:
        yield from (each for each in self.roots if not each.holds_space)
        yield from (each for each in self.roots if each.undoable)


class Trial:
    """The size of the folder after some removals. Anything that is not in the graph counts with the
    size of its item."""

    def __init__(self, shared: SharedBytes) -> None:
        inventory = shared.inventory
        self._known = inventory.weights.roots
        self._what_if: WhatIf = inventory.weights.what_if()
        self._roots = shared.roots
        self._projects = shared.projects
        self._staying = Counter(item.source for item in inventory.checkpoints)
        # The end of the run reclaims what nothing holds, so that does not count here.
        self._outside = inventory.total_bytes - inventory.weights.held - inventory.garbage

    @property
    def bytes(self) -> int:
        return self._what_if.held + self._outside

    def release(self, decision: Decision) -> int:
        """Remove the item permanently. Returns the bytes that this frees."""
        before = self.bytes
        self.hide(decision)
        self.forget(decision)
        return before - self.bytes

    def hide(self, decision: Decision) -> None:
        """Remove the item from its project. The private index goes with the project's last one."""
        project = self._projects.get(decision)
        if project is not None:
            self._staying[project] -= 1
            if not self._staying[project]:
                self._what_if.drop(index_root(project))

    def show(self, decision: Decision) -> None:
        project = self._projects.get(decision)
        if project is not None:
            if not self._staying[project]:
                self._what_if.put_back(index_root(project))
            self._staying[project] += 1

    def forget(self, decision: Decision) -> None:
        """Drop the last reference to the item, that of the trash included."""
        root = self._roots[decision]
        if root in self._known:
            self._what_if.drop(root)
        else:
            self._outside -= decision.item.bytes

    def remember(self, decision: Decision) -> None:
        root = self._roots[decision]
        if root in self._known:
            self._what_if.put_back(root)
        else:
            self._outside += decision.item.bytes
