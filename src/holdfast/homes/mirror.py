"""An index of another agent's sessions: our own store, fed from what a format reads.

List, show, search, statistics and export of every format come from here, so that no agent needs
code of its own for them. It is a cache: deleting it loses nothing, and only what changed is read
again.

    <state>/index/sessions.db   the sessions and their messages
    <state>/index/units.json    which version of each session that is, and what its file said
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import BusyError, DamageError, HoldfastError, SchemaError
from holdfast.model.item import Problem
from holdfast.model.part import FilePart, Unit
from holdfast.model.session import Relation, Session
from holdfast.parts.trees import tree_stamp
from holdfast.ports import Format
from holdfast.stores import files
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.mirror import MirrorStore
from holdfast.value import dataclass, replace

_FORMAT = 1
#: What a note keeps of a unit, apart from its relation, which is not text.
_FACTS = ("id", "active", "started", "parent", "source", "cwd", "title", "model")
#: Above this the index takes no more messages: sessions are listed but not searched.
_MOST_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A unit with its version and whether it is in use."""

    unit: Unit
    version: str
    alive: bool


class Mirror:
    """Keeps the index of one home in step with it."""

    def __init__(self, folder: Path, form: Format, root: Path) -> None:
        self._folder = folder
        self._format = form
        self._root = root
        self._store: MirrorStore | None = None
        self._notes: dict[str, _Note] | None = None
        self._by_path: dict[str, _Note] = {}

    def known(self, path: Path) -> Unit | None:
        """What the last look made from a file, if the file is still the same."""
        self._read_notes()
        note = self._by_path.get(str(path))
        if note is None:
            return None
        try:
            return note.unit if tree_stamp(path) == note.stamps[str(path)] else None
        except OSError:
            return None

    def refresh(self, seen: Sequence[Indexed]) -> Sequence[Problem]:
        """Read what changed. Raises `StorageError` when there is no place for an index."""
        store = self.store()
        notes = self._read_notes()
        there = set(store.ends())
        problems: list[Problem] = []
        current: dict[str, _Note] = {}
        for each in _parents_first(seen):
            note = _Note.of(each)
            known = notes.get(each.unit.id)
            same = known is not None and (known.version, known.alive) == (each.version, each.alive)
            if not same or each.unit.id not in there:
                problem = self._feed(store, each, current)
                if problem is not None:
                    problems.append(problem)
                    continue
            current[each.unit.id] = note
        for gone in there - {each.unit.id for each in seen}:
            store.forget(gone)
        if current != notes:
            self._write_notes(current)
        return problems

    def _feed(
        self, store: MirrorStore, each: Indexed, known: Mapping[str, _Note]
    ) -> Problem | None:
        unit = each.unit
        parent = unit.parent if unit.parent in known else None
        session = Session(
            id=unit.id,
            source=unit.source or "cli",
            started_at=unit.active if unit.started is None else unit.started,
            last_active_at=unit.active,
            parent_id=parent,
            relation=(unit.relation or Relation.BRANCH) if parent else None,
            title=unit.title or None,
            cwd=unit.cwd or None,
            model=unit.model or None,
        )
        try:
            said = self._format.messages(self._root, unit) if self._has_room(store) else iter(())
            store.feed(session, said, ended=not each.alive)
        except BusyError:
            raise
        except (HoldfastError, OSError, ValueError, KeyError, TypeError) as error:
            # A session that cannot be read is skipped and reported.
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            return Problem(path=str(unit.parts[0].place), reason=f"cannot be read: {reason}")
        return None

    def _has_room(self, store: MirrorStore) -> bool:
        return store.size() < _MOST_BYTES

    def store(self) -> MirrorStore:
        """The index; a new one when it is damaged or from another version."""
        if self._store is None:
            try:
                self._store = self._made()
            except (DamageError, SchemaError):
                self.clear()
                self._store = self._made()
        return self._store

    def _made(self) -> MirrorStore:
        make_private_dir(self._folder)
        return MirrorStore(self.database, self._format.facts.agent)

    @property
    def database(self) -> Path:
        return self._folder / "sessions.db"

    def clear(self) -> None:
        """Remove the index. The next look makes a new one."""
        self.close()
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._keep({})

    def close(self) -> None:
        store, self._store, self._notes = self._store, None, None
        if store is not None:
            store.close()

    def _read_notes(self) -> dict[str, _Note]:
        if self._notes is None:
            self._notes = {}
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                said = json.loads(files.read_file(self._folder / "units.json"))
                if said["format"] == _FORMAT:
                    self._keep({each["id"]: _Note.from_json(each) for each in said["units"]})
        return self._notes

    def _keep(self, notes: dict[str, _Note]) -> None:
        self._notes = notes
        self._by_path = {path: note for note in notes.values() for path in note.stamps}

    def _write_notes(self, notes: dict[str, _Note]) -> None:
        self._keep(notes)
        said = {"format": _FORMAT, "units": [each.to_json() for each in notes.values()]}
        files.replace(self._folder / "units.json", json.dumps(said).encode("ascii"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What the index holds of one unit. `unit` has no parts: those are found again each time."""

    version: str
    alive: bool
    unit: Unit
    stamps: Mapping[str, str]

    @classmethod
    def of(cls, each: Indexed) -> _Note:
        paths = [part.path for part in each.unit.parts if isinstance(part, FilePart)]
        return cls(
            version=each.version,
            alive=each.alive,
            unit=replace(each.unit, parts=()),
            stamps={str(path): tree_stamp(path) for path in paths},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.unit, name) for name in _FACTS},
            "relation": self.unit.relation.value if self.unit.relation else None,
            "version": self.version,
            "alive": self.alive,
            "stamps": dict(self.stamps),
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> _Note:
        facts = {name: said[name] for name in _FACTS}
        relation = Relation(said["relation"]) if said["relation"] else None
        return cls(
            version=said["version"],
            alive=said["alive"],
            stamps=said["stamps"],
            unit=Unit(parts=(), relation=relation, **facts),
        )


def _parents_first(seen: Sequence[Indexed]) -> Iterable[Indexed]:
    """A child is stored after its parent. A cycle has no first member: its members come last."""
    by_id = {each.unit.id: each for each in seen}
    done: dict[str, Indexed] = {}
    for each in seen:
        chain: list[Indexed] = []
        current: Indexed | None = each
        while current is not None and current.unit.id not in done and current not in chain:
            chain.append(current)
            current = by_id.get(current.unit.parent)
        for link in reversed(chain):
            done[link.unit.id] = link
    return done.values()
