"""Holdfast's own notes on Hermes's projects, stored outside Hermes's files.

They record the disk of a project, so that an unmounted project is not mistaken for a deleted one;
the project's record, to restore it; pins and names; and the original parent of each commit that
Holdfast rewrote.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError, UnknownCheckpointError
from holdfast.homes.hermes.repository.chains import Chains, Link
from holdfast.homes.hermes.repository.layout import (
    PROJECT,
    PROJECT_PREFIX,
    HermesLayout,
    HermesRecord,
    read_record,
)
from holdfast.homes.hermes.repository.locks import changing
from holdfast.model.checkpoint import Checkpoint
from holdfast.model.checkpoint_inventory import Weights, root_of
from holdfast.model.item import CHECKPOINT, Item
from holdfast.model.json_value import NO_RECORD, JsonValue, fields_from_json, fields_to_json
from holdfast.stores.checkpoints.checkpoint_items import UNREADABLE
from holdfast.stores.files import make_private_dir, read_file, storage_errors
from holdfast.stores.files import replace as replace_file
from holdfast.value import dataclass, field, replace

_FORMAT = 1

_HOLDER = "checkpoints"

#: Hermes records whole seconds; the order of a chain is finer.
_TICK = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(JsonValue):
    """A pin or a name. Tree and reason are noted as well, because Hermes gives checkpoints new
    ids."""

    tree: str
    reason: str
    pinned: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes on one project. `marks` are by checkpoint; `followed` has the original parent of
    each commit that Holdfast rewrote."""

    record: HermesRecord | None = None
    mount: str = ""
    disk: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    followed: Mapping[str, str] = field(default_factory=dict)

    def marks_of(self, chain: Iterable[Link]) -> Mapping[str, Mark]:
        """The marks by the current ids of the checkpoints. If two look alike, both get the mark: a
        mark protects, so an extra one is the safe choice."""
        links = list(chain)
        known = {link.id for link in links}
        found = {key: mark for key, mark in self.marks.items() if key in known}
        lost = [mark for key, mark in self.marks.items() if key not in known]
        for mark in lost:
            for link in links:
                if (link.tree, link.reason) == (mark.tree, mark.reason):
                    found.setdefault(link.id, mark)
        return found

    def renewed(self, pairs: Iterable[tuple[Link, Link]], staying: Collection[str]) -> Notes:
        """Move the marks to the new commits after a rewrite. `pairs` are (old, new)."""
        links = list(pairs)
        new_ids = {old.id: new.id for old, new in links}
        marks = {new_ids.get(key, key): mark for key, mark in self.marks.items()}
        followed = dict(self.followed)
        for old, new in links:
            followed[new.id] = self.followed.get(old.id, old.parent)
        followed = {key: before for key, before in followed.items() if key in staying}
        return replace(self, marks=marks, followed=followed)


def read_notes(layout: HermesLayout, project: str) -> Notes:
    """The notes on a project; empty if they cannot be read."""
    with contextlib.suppress(OSError):
        return parse_notes(read_file(_path(layout, project)))
    return Notes()


def is_unreadable(layout: HermesLayout, project: str) -> bool:
    """True if there are notes that cannot be read: what they pin is unknown."""
    path = _path(layout, project)
    try:
        return _parsed(read_file(path)) is None
    except OSError:
        return os.path.lexists(path)


def parse_notes(data: bytes) -> Notes:
    """Parse a notes file; empty notes if it is damaged."""
    return _parsed(data) or Notes()


def _parsed(data: bytes) -> Notes | None:
    try:
        said = json.loads(data)
        record = said["record"]
        marks = {str(key): fields_from_json(Mark, mark) for key, mark in said["marks"].items()}
        known = None if record is None else fields_from_json(HermesRecord, record)
        return fields_from_json(Notes, said, record=known, marks=marks)
    except NO_RECORD:
        return None


def all_notes(layout: HermesLayout) -> Mapping[str, Notes]:
    try:
        names = [path.stem for path in layout.notes.iterdir() if path.suffix == ".json"]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: read_notes(layout, name) for name in names if PROJECT.fullmatch(name)}


def write_notes(layout: HermesLayout, project: str, notes: Notes) -> None:
    """Write the notes if they changed. The caller holds the lock. Raises `StorageError` rather than
    replace notes that cannot be read."""
    path = _path(layout, project)
    if notes == read_notes(layout, project):
        return
    if is_unreadable(layout, project):
        raise StorageError(
            f"Cannot read {path}, so it was not changed: it has the names and pins of checkpoints.",
            hint="Fix the file, or delete it and pin the checkpoints again.",
        )
    with storage_errors(f"write {path}"):
        make_private_dir(path.parent)
        replace_file(path, json.dumps(_to_json(notes)).encode("ascii"))


def _to_json(notes: Notes) -> dict[str, Any]:
    marks = {key: mark.to_json() for key, mark in notes.marks.items()}
    return {"format": _FORMAT, **fields_to_json(notes, without=("marks",)), "marks": marks}


def _path(layout: HermesLayout, project: str) -> Path:
    return layout.notes / f"{project}.json"


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
                f"Checkpoint {checkpoint.id} no longer exists.",
                hint="Hermes may have given it another id; see `holdfast checkpoints list`.",
            )
        notes = read_notes(layout, project)
        marks = dict(notes.marks_of(chain))
        marks[link.id] = Mark(tree=link.tree, reason=link.reason, pinned=pinned, name=name)
        kept = {key: mark for key, mark in marks.items() if mark.pinned or mark.name}
        write_notes(layout, project, replace(notes, marks=kept))


def marks(layout: HermesLayout, chains: Chains) -> Mapping[str, Mark]:
    """Pins and names, by the current ids of the checkpoints."""
    found: dict[str, Mark] = {}
    for project in chains.tips:
        found |= read_notes(layout, project).marks_of(chains.of(project))
    return found


def items(layout: HermesLayout, chains: Chains, weights: Weights) -> Iterator[Item]:
    """Every checkpoint as an item. Times are made unique within a project, to preserve the order of
    the chain."""
    what_if = weights.what_if()
    marked = marks(layout, chains)
    for project in chains.tips:
        chain = chains.of(project)
        last = float("-inf")
        unknown = UNREADABLE if is_unreadable(layout, project) else None
        for link in reversed(chain):
            last = max(link.time, last + _TICK)
            mark = marked.get(link.id)
            yield Item(
                kind=CHECKPOINT,
                id=link.id,
                source=f"{PROJECT_PREFIX}{project}",
                bytes=what_if.alone(root_of(link.id)),
                last_active_at=last,
                version=version_of(layout, project, link, mark, is_tip=link is chain[0]),
                pinned=mark is not None and mark.pinned,
                alive=unknown,
            )


def version_of(
    layout: HermesLayout, project: str, link: Link, mark: Mark | None, *, is_tip: bool
) -> str:
    """The id, and whether the checkpoint is kept. For the newest one also the last use of the
    project: it is removed only with its whole project, and only if that was not used since."""
    kept = "+kept" if mark is not None and (mark.pinned or mark.name) else ""
    if not is_tip:
        return f"{link.id}{kept}"
    record = read_record(layout, project)
    touched = "" if record is None else f"{record.last_touch:.3f}"
    return f"{link.id}@{touched}{kept}"
