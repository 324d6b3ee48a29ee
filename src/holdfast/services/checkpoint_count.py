"""How many checkpoints a home has, for screens that show more than checkpoints."""

from __future__ import annotations

from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.item import Inventory, Problem
from holdfast.ports import Home
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCount:
    """`bytes` is everything in the checkpoint folder; what could not be read is a problem."""

    count: int
    projects: int
    bytes: int
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "projects": self.projects, "bytes": self.bytes}


def count_checkpoints(home: Home, inventory: Inventory) -> CheckpointCount:
    """No checkpoint is read for this. One store that is damaged does not hide the sessions."""
    try:
        # Without a checkpoint folder the modules of the store need not be loaded.
        store = home.checkpoint_store() if inventory.checkpoint_bytes else None
        projects = () if store is None else store.projects()
    except HoldfastError as error:
        problem = Problem(path=str(home.root / "checkpoints"), reason=error.message)
        return CheckpointCount(
            count=0, projects=0, bytes=inventory.checkpoint_bytes, problems=(problem,)
        )
    return CheckpointCount(
        count=sum(project.checkpoints for project in projects),
        projects=len(projects),
        bytes=inventory.checkpoint_bytes,
    )
