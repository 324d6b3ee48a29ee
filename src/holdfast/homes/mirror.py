"""What we remember of another agent's sessions, so that nothing is read twice.

Both files are a cache: deleting them loses nothing, and only what changed is read again.

    <state>/index/units.json    what each session's files said, and their version
    <state>/index/sessions.db   messages, for search and statistics; made when first asked for
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import BusyError, DamageError, HoldfastError, SchemaError, StorageError
from holdfast.model.item import Problem
from holdfast.model.part import Counts, FilePart, Unit
from holdfast.model.session import Relation, Session, Tokens
from holdfast.parts.trees import tree_stamp
from holdfast.ports import Format
from holdfast.stores import files
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.mirror import MirrorStore
from holdfast.value import dataclass, replace

_FORMAT = 2
#: What a note keeps of a unit, apart from its relation, which is no text.
_FACTS = ("id", "active", "started", "parent", "source", "cwd", "title", "model")
#: Above this the index takes no more messages: sessions are listed, and not searched.
_MOST_BYTES = 2 * 1024**3
#: Sessions that are stored in one transaction of the index.
_BATCH = 50


class Looked(Protocol):
    """A unit and the version that its parts have now."""

    @property
    def unit(self) -> Unit: ...

    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A session for the index, with the unit that its messages are read from."""

    session: Session
    unit: Unit
    version: str


class Mirror:
    """Keeps the cache of one home in step with it."""

    def __init__(self, folder: Path, form: Format, root: Path) -> None:
        self._folder = folder
        self._format = form
        self._root = root
        self._store: MirrorStore | None = None
        self._notes: dict[str, _Note] | None = None
        self._by_path: dict[str, _Note] = {}
        self._changed = False

    # --- Notes ------------------------------------------------------------------------------------

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

    def note(self, seen: Iterable[Looked]) -> None:
        """Remember what a look found. What counted before still counts for an equal version."""
        notes = self._read_notes()
        current = {}
        for each in seen:
            old = notes.get(each.unit.id)
            same = old is not None and old.version == each.version
            current[each.unit.id] = old if same and old is not None else _Note.of(each)
        if current != notes:
            self._keep(current)
            self._changed = True
        self.save()

    def counts(self, session_id: str) -> Counts | None:
        note = self._read_notes().get(session_id)
        return None if note is None else note.counts

    def keep_counts(self, session_id: str, counts: Counts) -> None:
        notes = self._read_notes()
        notes[session_id] = replace(notes[session_id], counts=counts)
        self._changed = True

    def save(self) -> None:
        """Write the notes, where we may: a home that can only be read is looked at again."""
        if not self._changed:
            return
        said = {
            "format": _FORMAT,
            "units": [each.to_json() for each in self._read_notes().values()],
        }
        with contextlib.suppress(OSError, StorageError):
            make_private_dir(self._folder)
            files.replace(self._folder / "units.json", json.dumps(said).encode("ascii"))
        self._changed = False

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

    # --- Index ------------------------------------------------------------------------------------

    def refresh(self, sessions: Sequence[Indexed]) -> Sequence[Problem]:
        """Bring the index up to date. Raises `StorageError` when there is no place for one."""
        store = self.store()
        there = store.versions()
        wanted = {each.session.id for each in sessions}
        store.forget([gone for gone in there if gone not in wanted])
        return self.feed(_parents_first(sessions))

    def feed(self, sessions: Iterable[Indexed]) -> Sequence[Problem]:
        """Store sessions that the index does not have, or has in another version."""
        store = self.store()
        there = dict(store.versions())
        stale = [each for each in sessions if there.get(each.session.id) != _version(each)]
        problems: list[Problem] = []
        for start in range(0, len(stale), _BATCH):
            with store.transaction():
                for each in stale[start : start + _BATCH]:
                    problems += self._feed(store, each, there)
                    there[each.session.id] = _version(each)
        return problems

    def forget_all_but(self, ids: Collection[str]) -> None:
        """What is gone for good leaves the index at once."""
        if self.database.exists():
            store = self.store()
            store.forget([each for each in store.versions() if each not in ids])

    def _feed(self, store: MirrorStore, each: Indexed, there: Collection[str]) -> list[Problem]:
        try:
            said = self._format.messages(self._root, each.unit)
            if store.size() > _MOST_BYTES:
                said = iter(())
            session = each.session
            if session.parent_id not in there:  # the index may hold a child alone
                session = replace(session, parent_id=None, relation=None)
            store.feed(session, said, version=_version(each))
        except BusyError:
            raise
        except (HoldfastError, OSError, ValueError, KeyError, TypeError) as error:
            # One session that cannot be read costs itself.
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            return [Problem(path=each.session.id, reason=f"cannot be read: {reason}")]
        return []

    def store(self) -> MirrorStore:
        """The index, made again when it is damaged or from another version."""
        if self._store is None:
            try:
                self._store = self._opened()
            except (DamageError, SchemaError):
                self.clear()
                self._store = self._opened()
        return self._store

    def _opened(self) -> MirrorStore:
        make_private_dir(self._folder)
        return MirrorStore(self.database, self._format.facts.agent)

    @property
    def database(self) -> Path:
        return self._folder / "sessions.db"

    def clear(self) -> None:
        """Remove everything. The next look and the next search make it again."""
        self.close()
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._keep({})

    def close(self) -> None:
        store, self._store, self._notes = self._store, None, None
        if store is not None:
            store.close()


def _version(each: Indexed) -> str:
    return f"{each.version} {int(each.session.ended)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What we remember of one unit. `unit` has no parts: those are found again each time."""

    version: str
    unit: Unit
    stamps: Mapping[str, str]
    counts: Counts | None = None

    @classmethod
    def of(cls, each: Looked) -> _Note:
        paths = [part.path for part in each.unit.parts if isinstance(part, FilePart)]
        stamps = {}
        for path in paths:
            with contextlib.suppress(OSError):
                stamps[str(path)] = tree_stamp(path)
        return cls(version=each.version, unit=replace(each.unit, parts=()), stamps=stamps)

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        return {
            **{name: getattr(self.unit, name) for name in _FACTS},
            "relation": self.unit.relation.value if self.unit.relation else None,
            "version": self.version,
            "stamps": dict(self.stamps),
            "counts": None
            if counts is None
            else [
                counts.messages,
                counts.tool_calls,
                counts.cost,
                *_three(counts.tokens),
                *_three(counts.unpriced),
            ],
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> _Note:
        facts = {name: said[name] for name in _FACTS}
        relation = Relation(said["relation"]) if said["relation"] else None
        return cls(
            version=said["version"],
            stamps=said["stamps"],
            counts=_counts(said["counts"]),
            unit=Unit(parts=(), relation=relation, **facts),
        )


def _three(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.output, tokens.cached


def _counts(said: list[Any] | None) -> Counts | None:
    if said is None:
        return None
    messages, calls, cost, *tokens = said
    read, unpriced = (Tokens(input=a, output=b, cached=c) for a, b, c in (tokens[:3], tokens[3:]))
    return Counts(messages=messages, tool_calls=calls, cost=cost, tokens=read, unpriced=unpriced)


def _parents_first(sessions: Sequence[Indexed]) -> Iterable[Indexed]:
    """A child is stored after its parent. A ring has no first: its members come last."""
    by_id = {each.session.id: each for each in sessions}
    done: dict[str, Indexed] = {}
    for each in sessions:
        chain: list[Indexed] = []
        current: Indexed | None = each
        while current is not None and current.session.id not in done and current not in chain:
            chain.append(current)
            current = by_id.get(current.session.parent_id or "")
        for link in reversed(chain):
            done[link.session.id] = link
    return done.values()
