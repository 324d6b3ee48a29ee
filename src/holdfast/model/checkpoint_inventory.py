"""What one scan of the checkpoint folder found."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.checkpoint import Project
from holdfast.model.checkpoint_inventory import Weights
from holdfast.model.item import Item, Problem
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInventory:
    """Everything in the checkpoint folder, and what it weighs.

    `checkpoints` are items whose source is their project; `rotated` those that made room for newer
    ones and are hidden since; `trash` the undo copies of others. `legacy` are archives of an older
    layout, which wait for the user, and single repositories of it, which `older` knows more about:
    these go by the rules for projects. `names` are by checkpoint; `needed` says of checkpoints
    between which a project was last rolled back when that was: without them it cannot be undone.

    `total_bytes` is what the folder takes on the disk, `garbage` what of that nobody holds; `space`
    may promise more, which only packing shows. `weights` is how checkpoints share all that: their
    roots are those of `root_of` and its neighbours below.
    """

    home: str
    scanned_at: float
    projects: Mapping[str, Project]
    checkpoints: tuple[Item, ...]
    rotated: tuple[Item, ...] = ()
    trash: tuple[Item, ...] = ()
    legacy: tuple[Item, ...] = ()
    older: Mapping[str, Project] = field(default_factory=dict)
    space: tuple[Item, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, float] = field(default_factory=dict)
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
