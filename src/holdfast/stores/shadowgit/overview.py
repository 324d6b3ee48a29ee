"""Every project with checkpoints, without reading a single checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from holdfast.model.checkpoint import Project
from holdfast.stores.shadowgit.listing import CheckpointRef, checkpoints, refs
from holdfast.stores.shadowgit.projects import ProjectRecord, recorded, state_of
from holdfast.stores.shadowgit.repository import Layout

_MILLISECONDS = 1000


def projects(layout: Layout, *, stale_before: float | None) -> Sequence[Project]:
    """Projects that have checkpoints, the one used last first."""
    by_project: dict[str, list[CheckpointRef]] = {}
    for ref in refs(layout):
        by_project.setdefault(ref.project, []).append(ref)
    records = recorded(layout)
    found = [
        _project(record, len(held), stale_before)
        for project, held in by_project.items()
        if (record := _record(layout, records, project, held)) is not None
    ]
    return sorted(found, key=lambda project: (-project.last_touch, project.workdir))


def _record(
    layout: Layout,
    records: dict[str, ProjectRecord],
    project: str,
    held: Sequence[CheckpointRef],
) -> ProjectRecord | None:
    """The project's record, or what its checkpoints say when that is lost."""
    touched = held[0].order / _MILLISECONDS
    record = records.get(project)
    if record is not None:
        return replace(record, last_touch=max(record.last_touch, touched))
    with contextlib.suppress(IndexError):
        workdir = checkpoints(layout, project)[0].workdir
        return ProjectRecord(
            project=project, workdir=workdir, created_at=touched, last_touch=touched
        )
    return None


def _project(record: ProjectRecord, count: int, stale_before: float | None) -> Project:
    return Project(
        id=record.project,
        workdir=record.workdir,
        state=state_of(record, stale_before=stale_before),
        checkpoints=count,
        last_touch=record.last_touch,
        mount=record.mount,
    )
