"""The projects that have checkpoints, their state, and the disk space they take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from holdfast.model.checkpoint import Project, ProjectState
from holdfast.model.checkpoint_inventory import (
    CheckpointInventory,
    index_root,
    root_of,
    rotated_root,
)
from holdfast.model.item import Item, Problem
from holdfast.ports.checkpoints import CheckpointUpkeep
from holdfast.value import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """`total_bytes` is everything in the checkpoint folder, `store_bytes` the same without the
    archives of older layouts; `older` has the project of each such archive. The bytes of a project
    are what removing it alone would free."""

    total_bytes: int
    store_bytes: int
    legacy_bytes: int
    projects: tuple[Project, ...]
    legacy: tuple[Item, ...]
    older: Mapping[str, Project]
    trash: int
    problems: tuple[Problem, ...]


def checkpoint_status(
    upkeep: CheckpointUpkeep, *, now: float, stale_after: float | None
) -> CheckpointStatus:
    """Scan the checkpoints once. A project is stale if it was not touched for `stale_after`."""
    found = upkeep.scan(now)
    legacy_bytes = sum(item.bytes for item in found.legacy)
    return CheckpointStatus(
        total_bytes=found.total_bytes,
        store_bytes=found.total_bytes - legacy_bytes,
        legacy_bytes=legacy_bytes,
        projects=tuple(_weighed(found, _aged(found, now, stale_after))),
        legacy=found.legacy,
        older=found.older,
        trash=len(found.trash),
        problems=found.problems,
    )


def _aged(found: CheckpointInventory, now: float, stale_after: float | None) -> Sequence[Project]:
    """The projects, most recently used first."""
    projects = sorted(found.projects.values(), key=lambda each: (-each.last_touch, each.workdir))
    return [
        replace(each, state=ProjectState.STALE)
        if stale_after is not None
        and each.state is ProjectState.LIVE
        and now - each.last_touch > stale_after
        else each
        for each in projects
    ]


def _weighed(found: CheckpointInventory, projects: Sequence[Project]) -> Sequence[Project]:
    roots: dict[str, list[str]] = defaultdict(list)
    for item in found.checkpoints:
        roots[item.source].append(root_of(item.id))
    for item in found.rotated:
        roots[item.source].append(rotated_root(item.id))
    what_if = found.weights.what_if()
    weighed = []
    for project in projects:
        mine = [*roots[project.id], index_root(project.id)]
        weighed.append(replace(project, bytes=sum(what_if.drop(root) for root in mine)))
        for root in reversed(mine):
            what_if.put_back(root)
    return weighed
