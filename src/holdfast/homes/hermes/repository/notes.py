"""Our own notes on the projects of Hermes, beside its files and never in them.

Which disk a project lies on, so that one that is not mounted is not taken for a deleted one; its
record, for when it comes back; pins and names; and what was once before a commit that we wrote.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.homes.hermes.repository.commits import Link
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.homes.hermes.repository.records import PROJECT, HermesRecord
from holdfast.stores.files import make_private_dir, read_file, storage_errors
from holdfast.stores.files import replace as replace_file

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A pin or a name. Hermes gives checkpoints new ids, so what they are is noted as well."""

    tree: str
    reason: str
    pinned: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What is noted of one project. `marks` are by checkpoint; `followed` says of a commit that we
    wrote anew which one was before it at first."""

    record: HermesRecord | None = None
    mount: str = ""
    disk: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    followed: Mapping[str, str] = field(default_factory=dict)

    def marks_of(self, chain: Iterable[Link]) -> Mapping[str, Mark]:
        """The marks by the ids that the checkpoints have now. Where two look alike, both have it:
        a mark protects, so one too many is the safe side."""
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
        """After commits were written anew, each with what it was: marks follow it."""
        links = list(pairs)
        new_ids = {old.id: new.id for old, new in links}
        marks = {new_ids.get(key, key): mark for key, mark in self.marks.items()}
        followed = dict(self.followed)
        for old, new in links:
            followed[new.id] = self.followed.get(old.id, old.parent)
        followed = {key: before for key, before in followed.items() if key in staying}
        return replace(self, marks=marks, followed=followed)


def read_notes(layout: HermesLayout, project: str) -> Notes:
    """What is noted; nothing, when it cannot be read."""
    with contextlib.suppress(OSError):
        return parse(read_file(_path(layout, project)))
    return Notes()


def parse(data: bytes) -> Notes:
    """What a file of ours says; nothing, when it is damaged."""
    try:
        return _from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Notes()


def all_notes(layout: HermesLayout) -> Mapping[str, Notes]:
    try:
        names = [path.stem for path in layout.notes.iterdir() if path.suffix == ".json"]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: read_notes(layout, name) for name in names if PROJECT.fullmatch(name)}


def write_notes(layout: HermesLayout, project: str, notes: Notes) -> None:
    """For whoever has the lock. Nothing is written when nothing changed."""
    path = _path(layout, project)
    if notes == read_notes(layout, project):
        return
    with storage_errors(f"write {path}"):
        make_private_dir(path.parent)
        replace_file(path, json.dumps(_to_json(notes)).encode("ascii"))


def _to_json(notes: Notes) -> dict[str, Any]:
    record = notes.record
    return {
        "format": _FORMAT,
        "record": None
        if record is None
        else {
            "workdir": record.workdir,
            "created_at": record.created_at,
            "last_touch": record.last_touch,
            "text": record.text,
        },
        "mount": notes.mount,
        "disk": notes.disk,
        "marks": {
            key: {
                "tree": mark.tree,
                "reason": mark.reason,
                "pinned": mark.pinned,
                "name": mark.name,
            }
            for key, mark in notes.marks.items()
        },
        "followed": dict(notes.followed),
    }


def _from_json(data: Mapping[str, Any]) -> Notes:
    record = data["record"]
    return Notes(
        record=None
        if record is None
        else HermesRecord(
            workdir=str(record["workdir"]),
            created_at=float(record["created_at"]),
            last_touch=float(record["last_touch"]),
            text=str(record.get("text", "")),
        ),
        mount=str(data["mount"]),
        disk=str(data["disk"]),
        marks={
            str(key): Mark(
                tree=str(mark["tree"]),
                reason=str(mark["reason"]),
                pinned=bool(mark["pinned"]),
                name=None if mark["name"] is None else str(mark["name"]),
            )
            for key, mark in data["marks"].items()
        },
        followed={str(key): str(before) for key, before in data["followed"].items()},
    )


def _path(layout: HermesLayout, project: str) -> Path:
    return layout.notes / f"{project}.json"
