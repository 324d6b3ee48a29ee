"""What one scan of the checkpoint folder found, and how checkpoints share space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.checkpoint import Project
from holdfast.model.item import Item, Problem
from holdfast.value import dataclass, field


class Weights:
    """The graph: the size of each object, the objects that it holds, and the object of each root.

    An object that holds another one twice counts twice. There are no cycles. `counts` says how
    often each object is held, `held` are the bytes of all objects that a root holds.
    """

    __slots__ = ("counts", "held", "holds", "roots", "sizes")

    def __init__(
        self, sizes: Sequence[int], holds: Sequence[Sequence[int]], roots: Mapping[str, int]
    ) -> None:
        self.sizes = sizes
        self.holds = holds
        self.roots = roots
        self.counts = [0] * len(sizes)
        self.held = sum(self.shift(self.counts, root, 1) for root in roots.values())

    @property
    def unheld(self) -> int:
        """The bytes of all objects that no root holds."""
        return sum(self.sizes) - self.held

    def is_held(self, node: int) -> bool:
        return self.counts[node] > 0

    def union(self, other: Weights) -> Weights:
        """The union of two graphs that share nothing."""
        shift = len(self.sizes)
        return Weights(
            [*self.sizes, *other.sizes],
            [*self.holds, *([node + shift for node in held] for held in other.holds)],
            {**self.roots, **{root: node + shift for root, node in other.roots.items()}},
        )

    def what_if(self) -> WhatIf:
        return WhatIf(self)

    def shift(self, counts: list[int], node: int, by: int) -> int:
        """Hold an object once more in these counts, or, with -1, once less. Returns the bytes that
        nothing held before, or that nothing holds any more."""
        sizes, holds = self.sizes, self.holds
        turned = 1 if by > 0 else 0
        changed = 0
        waiting = [node]
        while waiting:
            node = waiting.pop()
            counts[node] += by
            if counts[node] == turned:
                changed += sizes[node]
                waiting.extend(holds[node])
        return changed


class WhatIf:
    """What would still be held if certain roots were dropped. It is mutable; the weights are
    not."""

    __slots__ = ("_counts", "_gone", "_weights", "held")

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._counts = list(weights.counts)
        self._gone: set[str] = set()
        self.held = weights.held

    def drop(self, root: str) -> int:
        """The bytes that nothing holds any more after this root is dropped, given the earlier
        drops."""
        if root in self._gone or root not in self._weights.roots:
            return 0
        self._gone.add(root)
        freed = self._weights.shift(self._counts, self._weights.roots[root], -1)
        self.held -= freed
        return freed

    def put_back(self, root: str) -> int:
        """The bytes that are held again after a dropped root is put back."""
        if root not in self._gone:
            return 0
        self._gone.remove(root)
        taken = self._weights.shift(self._counts, self._weights.roots[root], 1)
        self.held += taken
        return taken

    def alone(self, root: str) -> int:
        """The bytes that only this root holds."""
        freed = self.drop(root)
        self.put_back(root)
        return freed


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInventory:
    """Everything in the checkpoint folder, and what it weighs.

    `checkpoints` are items whose source is their project. `rotated` checkpoints made room for newer
    ones and are hidden; `trash` are undo copies. `legacy` are archives of an older layout, which
    wait for the user, and single repositories of that layout; `older` has the projects of the
    latter, which go by the rules for projects. `names` are by checkpoint. `needed` are the two
    checkpoints of the latest rollback of each project, with its time: undoing it needs them.
    `ways_back` are those from before the last run in each project.

    `total_bytes` is the size of the folder on the disk, `garbage` the part that no checkpoint
    holds; packing may give back more, which is in `space`. `weights` says how checkpoints share
    objects; the names of its roots come from `root_of` and the functions after it.
    """

    home: str
    projects: Mapping[str, Project]
    checkpoints: tuple[Item, ...]
    rotated: tuple[Item, ...] = ()
    trash: tuple[Item, ...] = ()
    legacy: tuple[Item, ...] = ()
    older: Mapping[str, Project] = field(default_factory=dict)
    space: tuple[Item, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, float] = field(default_factory=dict)
    ways_back: frozenset[str] = frozenset()
    total_bytes: int
    garbage: int = 0
    weights: Weights
    problems: tuple[Problem, ...] = ()

    @property
    def bounded_bytes(self) -> int:
        """What the cap on bytes is about: archives of older layouts wait for the user."""
        return self.total_bytes - sum(item.bytes for item in self.legacy)


def root_of(checkpoint: str) -> str:
    return checkpoint


def rotated_root(checkpoint: str) -> str:
    return f"rotated/{checkpoint}"


def trash_root(trash_id: str) -> str:
    """Of an item of the trash, whose id begins with the operation and a number."""
    operation, number, *_ = trash_id.split("/")
    return f"trash/{operation}/{number}"


def index_root(project: str) -> str:
    """The private index of a project holds objects, too. It goes with its last checkpoint."""
    return f"index/{project}"
