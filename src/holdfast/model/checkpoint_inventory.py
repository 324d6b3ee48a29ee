"""What one scan of the checkpoint folder found, and how checkpoints share space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.checkpoint import Project
from holdfast.model.item import Item, Problem
from holdfast.value import dataclass, field


class Weights:
    """The graph: the size of each object, the objects that it holds, and the object of each root.

    An object that holds another one twice counts twice. There are no cycles. `counts` is how often
    each object is held, `held` the total size of all objects reachable from a root.
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
        """The bytes of all objects that no root reaches."""
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
        """Add one hold on an object to these counts or, with -1, remove one. Returns the bytes of
        the objects that became held, or that nothing holds any more."""
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
    """What would still be held if certain roots were dropped. This object is mutable; the weights
    are not."""

    __slots__ = ("_counts", "_gone", "_weights", "held")

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._counts = list(weights.counts)
        self._gone: set[str] = set()
        self.held = weights.held

    def drop(self, root: str) -> int:
        """Drop a root. Returns the bytes that nothing holds any more, given the earlier drops."""
        if root in self._gone or root not in self._weights.roots:
            return 0
        self._gone.add(root)
        freed = self._weights.shift(self._counts, self._weights.roots[root], -1)
        self.held -= freed
        return freed

    def put_back(self, root: str) -> int:
        """Put a dropped root back. Returns the bytes that are held again."""
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
    """Everything in the checkpoint folder, and its size.

    `checkpoints` are items whose source is their project. `rotated` checkpoints made room for newer
    ones and are hidden; `trash` are undo copies. `legacy` are archives of an older layout, which
    wait for the user, and single repositories of that layout; `older` has the projects of the
    latter, which are judged by the rules for projects. `names` are by checkpoint. `needed` maps the
    two checkpoints of the latest rollback of each project to its time: undoing it needs them.
    `ways_back` are the checkpoints from before the last run in each project.

    `total_bytes` is the size of the folder on the disk, `garbage` the part that no checkpoint
    holds; packing may free more, which is in `space`. `weights` records how checkpoints share
    objects; its roots are named by `root_of` and the functions after it.
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
        """The bytes that the cap applies to. Archives of older layouts do not count: they wait for
        the user."""
        return self.total_bytes - sum(item.bytes for item in self.legacy)


def root_of(checkpoint: str) -> str:
    return checkpoint


def rotated_root(checkpoint: str) -> str:
    return f"rotated/{checkpoint}"


def trash_root(trash_id: str) -> str:
    """The root of an item in the trash, whose id begins with the operation and a number."""
    operation, number, *_ = trash_id.split("/")
    return f"trash/{operation}/{number}"


def index_root(project: str) -> str:
    """The root of a project's private index, which holds objects too. It goes with the project's
    last checkpoint."""
    return f"index/{project}"
