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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from holdfast.errors import BusyError, DamageError, HoldfastError, SchemaError, UsageError
from holdfast.model.inventory import Problem
from holdfast.model.lease import Holder
from holdfast.model.part import FilePart, Unit
from holdfast.model.session import Addition, Message, Relation, Session, SessionChange
from holdfast.parts.trees import tree_stamp
from holdfast.ports import Format
from holdfast.stores import files
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite import moves
from holdfast.stores.sqlite.sessions import SqliteSessionStore

_FORMAT = 1
#: Messages that are stored in one go.
_PORTION = 500
#: Above this the index takes no more messages: sessions are listed, and not searched.
_MOST_BYTES = 2 * 1024**3
#: How a session of another agent ends: nobody used it for long enough.
IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A unit with its version and whether it is in use."""

    unit: Unit
    version: str
    alive: bool


class MirrorStore(SqliteSessionStore):
    """The index to be read. What an agent does with its sessions, it does itself."""

    def __init__(self, path: Path, agent: str) -> None:
        super().__init__(path)
        self._agent = agent

    def feed(self, new: Session, messages: Iterator[Message], *, ended: bool) -> None:
        """Store a session as it is now, in place of what was here before."""
        with self.transaction():
            self.forget(new.id)
            super().create(new)
            while portion := list(islice(messages, _PORTION)):
                super().append(new.id, portion, now=new.last_active_at, book=False)
            if ended:
                super().end(new.id, IDLE, at=new.last_active_at)

    def forget(self, session_id: str) -> None:
        """Drop what the index holds of a session. The agent has the session itself, or has not."""
        with self.database.write() as db:
            numbers = db.execute("SELECT number FROM sessions WHERE id = ?", (session_id,))
            moves.delete(db, [number for (number,) in numbers.fetchall()])

    def create(self, new: Session) -> Session:
        self._refuse(f"create {new.id}")

    def append(
        self, session_id: str, messages: Sequence[Message], *, now: float, book: bool = True
    ) -> Addition:
        self._refuse(f"append to {session_id}")

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        self._refuse(f"replace messages of {session_id}")

    def update(self, session_id: str, change: SessionChange) -> Session:
        self._refuse(f"change {session_id}")

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        self._refuse(f"end {session_id}")

    def reopen(self, session_id: str, *, at: float) -> Session:
        self._refuse(f"reopen {session_id}")

    def rename(self, session_id: str, title: str | None) -> Session:
        self._refuse(f"rename {session_id}")

    def pin(self, session_id: str, pinned: bool) -> Session:
        raise UsageError(
            f"Cannot pin {session_id}: {self._agent} has no pins.",
            hint="Keep it with `pins` in the configuration: `holdfast config path` says where.",
        )

    def route(self, key: str, session_id: str) -> None:
        self._refuse(f"route to {session_id}")

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        self._refuse(f"hold {session_id}")

    def delete(self, session_id: str) -> None:
        self._refuse(f"delete {session_id}")

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(
            f"Cannot {what}: these are the sessions of {self._agent}, which writes them itself.",
            hint="Sessions of your own belong into a Holdfast home.",
        )


class Mirror:
    """Keeps the index of one home in step with it."""

    def __init__(self, folder: Path, form: Format, root: Path) -> None:
        self._folder = folder
        self._format = form
        self._root = root
        self._store: MirrorStore | None = None
        self._notes: dict[str, _Note] | None = None

    def known(self, path: Path) -> Unit | None:
        """What the last look made from a file, if the file is still the same."""
        found = self._by_path.get(str(path))
        if found is None:
            return None
        note, stamp = found
        try:
            return note.unit if tree_stamp(path) == stamp else None
        except OSError:
            return None

    @property
    def _by_path(self) -> Mapping[str, tuple[_Note, str]]:
        return {
            path: (note, stamp)
            for note in self._read_notes().values()
            for path, stamp in note.stamps.items()
        }

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
            # One session that cannot be read costs itself.
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            return Problem(path=str(unit.parts[0].place), reason=f"cannot be read: {reason}")
        return None

    def _has_room(self, store: MirrorStore) -> bool:
        return store.database.path.stat().st_size < _MOST_BYTES

    def store(self) -> MirrorStore:
        """The index, made anew when it is damaged or from another version."""
        if self._store is None:
            path = self._folder / "sessions.db"
            try:
                make_private_dir(self._folder)
                self._store = MirrorStore(path, self._format.facts.agent)
            except (DamageError, SchemaError):
                shutil.rmtree(self._folder)
                self._notes = {}
                make_private_dir(self._folder)
                self._store = MirrorStore(path, self._format.facts.agent)
        return self._store

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
                    self._notes = {each["id"]: _Note.from_json(each) for each in said["units"]}
        return self._notes

    def _write_notes(self, notes: dict[str, _Note]) -> None:
        self._notes = notes
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
        unit = self.unit
        return {
            "id": unit.id,
            "version": self.version,
            "alive": self.alive,
            "stamps": dict(self.stamps),
            "active": unit.active,
            "started": unit.started,
            "parent": unit.parent,
            "relation": unit.relation.value if unit.relation else None,
            "source": unit.source,
            "cwd": unit.cwd,
            "title": unit.title,
            "model": unit.model,
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> _Note:
        relation = said["relation"]
        return cls(
            version=said["version"],
            alive=said["alive"],
            stamps=said["stamps"],
            unit=Unit(
                id=said["id"],
                active=said["active"],
                parts=(),
                started=said["started"],
                parent=said["parent"],
                relation=Relation(relation) if relation else None,
                source=said["source"],
                cwd=said["cwd"],
                title=said["title"],
                model=said["model"],
            ),
        )


def _parents_first(seen: Sequence[Indexed]) -> Iterable[Indexed]:
    """A child is stored after its parent. A ring has no first: its members come last."""
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
