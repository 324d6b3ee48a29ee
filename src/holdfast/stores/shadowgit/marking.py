"""Pins and names of checkpoints: what a person says of them, kept in the project's record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.model.checkpoint import Checkpoint
from holdfast.stores.shadowgit.projects import ProjectRecord, read_record, write_record
from holdfast.stores.shadowgit.repository import Layout, project_lock, used


def pin(layout: Layout, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    """Pin a checkpoint, or take its pin away."""

    def change(record: ProjectRecord) -> ProjectRecord:
        pins = record.pins | {checkpoint.id} if pinned else record.pins - {checkpoint.id}
        return replace(record, pins=pins)

    _change(layout, checkpoint, change)
    return replace(checkpoint, pinned=pinned)


def rename(layout: Layout, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
    """Give a checkpoint a name; None takes it away."""

    def change(record: ProjectRecord) -> ProjectRecord:
        others = {key: value for key, value in record.names.items() if key != checkpoint.id}
        return replace(record, names=others | ({checkpoint.id: name} if name else {}))

    _change(layout, checkpoint, change)
    return replace(checkpoint, name=name)


def _change(
    layout: Layout, checkpoint: Checkpoint, change: Callable[[ProjectRecord], ProjectRecord]
) -> None:
    with used(layout), project_lock(layout, checkpoint.project, checkpoint.workdir):
        record = read_record(layout, checkpoint.project) or ProjectRecord(
            project=checkpoint.project,
            workdir=checkpoint.workdir,
            created_at=checkpoint.time,
            last_touch=checkpoint.time,
        )
        write_record(layout, change(record))
