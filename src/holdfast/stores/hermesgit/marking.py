"""Pins and names of Hermes's checkpoints: in our notes. Hermes does not know them."""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import UnknownCheckpointError
from holdfast.model.checkpoint import Checkpoint
from holdfast.stores.hermesgit.chains import Chains
from holdfast.stores.hermesgit.changing import changing
from holdfast.stores.hermesgit.layout import PROJECT_PREFIX, HermesLayout
from holdfast.stores.hermesgit.notes import Mark, read_notes, write_notes

_HOLDER = "checkpoints"


def pin(layout: HermesLayout, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    _change(layout, checkpoint, pinned=pinned, name=checkpoint.name)
    return replace(checkpoint, pinned=pinned)


def rename(layout: HermesLayout, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
    _change(layout, checkpoint, pinned=checkpoint.pinned, name=name)
    return replace(checkpoint, name=name)


def _change(
    layout: HermesLayout, checkpoint: Checkpoint, *, pinned: bool, name: str | None
) -> None:
    project = checkpoint.project.removeprefix(PROJECT_PREFIX)
    with changing(layout, holder=_HOLDER):
        chain = Chains.look(layout).of(project)
        link = next((each for each in chain if each.id == checkpoint.id), None)
        if link is None:
            raise UnknownCheckpointError(
                f"There is no checkpoint {checkpoint.id} any more.",
                hint="Hermes may have given it another id; see `holdfast checkpoints list`.",
            )
        notes = read_notes(layout, project)
        marks = dict(notes.marks_of(chain))
        marks[link.id] = Mark(tree=link.tree, reason=link.reason, pinned=pinned, name=name)
        kept = {key: mark for key, mark in marks.items() if mark.pinned or mark.name}
        write_notes(layout, project, replace(notes, marks=kept))
