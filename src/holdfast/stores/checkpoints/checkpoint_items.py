"""Checkpoints as items of a plan: their size, and whether they must stay now."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint import ProjectState
from holdfast.model.checkpoint_inventory import Weights
from holdfast.model.item import CHECKPOINT, Item
from holdfast.stores.checkpoints import restore_record
from holdfast.stores.checkpoints.checkpoint_commit import Ref, order_of, read_checkpoint
from holdfast.stores.checkpoints.object_graph import root_name
from holdfast.stores.checkpoints.projects import (
    RUNNING,
    ProjectRecord,
    is_unreadable,
    read_record,
    state_of,
    under_a_run,
)
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.trees import Trees

_MILLISECONDS = 1000
#: Why all checkpoints of a project stay.
UNREADABLE = "the record of its project, which has the pins, cannot be read"
CUT_SHORT = "a restore between it and another one was cut short"


def version_of(checkpoint: str, record: ProjectRecord | None) -> str:
    """Return the id, which covers everything immutable, and whether it is pinned or named."""
    kept = record is not None and (checkpoint in record.pins or checkpoint in record.names)
    return f"{checkpoint}+kept" if kept else checkpoint


def in_use(layout: Layout, project: str) -> Callable[[str], str | None]:
    """Return why a checkpoint must stay now: it was taken before a run that is in progress, or it
    is one of the two of an interrupted restore, unless the project's directory is missing. All must
    stay while the record, which has their pins, is there and cannot be read."""
    if is_unreadable(layout, project):
        return lambda _: UNREADABLE
    found = dict.fromkeys(under_a_run(layout.private(project)), RUNNING)
    cut = restore_record.under_way(layout.private(project))
    if cut is None:
        return found.get
    record = read_record(layout, project)
    if record is not None and state_of(record) is ProjectState.MISSING:
        return found.get
    return (found | dict.fromkeys((cut.target, cut.safety), CUT_SHORT)).get


def items(
    layout: Layout,
    objects: Objects,
    refs: Sequence[Ref],
    records: Mapping[str, ProjectRecord],
    weights: Weights,
) -> Iterator[Item]:
    """Yield each checkpoint once, even if it cannot be read: it takes space like any other."""
    trees, what_if = Trees(objects), weights.what_if()
    used_in = functools.cache(lambda project: in_use(layout, project))
    for ref in {ref.checkpoint: ref for ref in refs}.values():
        record = records.get(ref.project)
        yield Item(
            kind=CHECKPOINT,
            id=ref.checkpoint,
            source=ref.project,
            session=_session(trees, ref.checkpoint),
            bytes=what_if.alone(root_name(ref)),
            # The reference has the time to the millisecond, and the right order.
            last_active_at=order_of(ref.path) / _MILLISECONDS,
            version=version_of(ref.checkpoint, record),
            pinned=record is not None and ref.checkpoint in record.pins,
            alive=used_in(ref.project)(ref.checkpoint),
        )


def _session(trees: Trees, checkpoint: str) -> str:
    try:
        return read_checkpoint(trees, checkpoint).session or ""
    except DamageError:
        return ""
