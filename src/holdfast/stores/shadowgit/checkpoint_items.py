"""Checkpoints as items that a policy can judge."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint import ProjectState
from holdfast.model.item import CHECKPOINT, Item
from holdfast.model.weights import Weights
from holdfast.stores.shadowgit import restore_record
from holdfast.stores.shadowgit.commits import order_of, parse
from holdfast.stores.shadowgit.dropping import Ref, read_commit
from holdfast.stores.shadowgit.projects import ProjectRecord, read_record, state_of
from holdfast.stores.shadowgit.repository import Layout
from holdfast.stores.shadowgit.sizes import root_name
from holdfast.stores.shadowgit.trees import Trees

_MILLISECONDS = 1000
CUT_SHORT = "a restore between it and another one was cut short"


def version_of(checkpoint: str, record: ProjectRecord | None) -> str:
    """Its id, which says everything of it that never changes, and whether somebody keeps it."""
    kept = record is not None and (checkpoint in record.pins or checkpoint in record.names)
    return f"{checkpoint}+kept" if kept else checkpoint


def in_use(layout: Layout, project: str) -> frozenset[str]:
    """A restore that was cut short is finished from its two checkpoints: they must stay, as long
    as there is a directory to finish it in, or may be one again."""
    cut = restore_record.under_way(layout.private(project))
    if cut is None:
        return frozenset()
    record = read_record(layout, project)
    if record is not None and state_of(record, stale_before=None) is ProjectState.MISSING:
        return frozenset()
    return frozenset((cut.target, cut.safety))


def items(
    layout: Layout,
    trees: Trees,
    refs: Sequence[Ref],
    records: Mapping[str, ProjectRecord],
    weights: Weights,
) -> Iterator[Item]:
    """Each checkpoint once, also one that cannot be read: it takes room like any other."""
    what_if = weights.what_if()
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
            alive=CUT_SHORT if ref.checkpoint in used_in(ref.project) else None,
        )


def _session(trees: Trees, checkpoint: str) -> str:
    try:
        return parse(checkpoint, *read_commit(trees, checkpoint)).session or ""
    except DamageError:
        return ""
