"""Pins and names of Hermes's checkpoints: in our notes. Hermes does not know them."""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import UnknownCheckpointError
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.changing import changing
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout
from holdfast.homes.hermes.repository.notes import Mark, read_notes, write_notes
from holdfast.model.checkpoint import Checkpoint

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
