"""Notes from the last look at another agent's home, so that nothing is read twice.

The file is a cache: without it, everything is read again. Its rows are decoded only when needed, so
that a home with very many sessions can be listed at once.
"""

from __future__ import annotations

import contextlib
import json
import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.homes.agents.appended_transcript import Point
from holdfast.homes.agents.message_blocks import numbers_of, usage_of
from holdfast.homes.foreign.unchanged import Glance
from holdfast.model.opening import Opening
from holdfast.model.part import Counts, Unit
from holdfast.model.session import Message, Relation, Session
from holdfast.model.usage import Usage
from holdfast.parts.trees import tree_stamp
from holdfast.ports.formats import Format
from holdfast.stores import files
from holdfast.stores.files import make_private_dir
from holdfast.value import dataclass, field, replace

_FORMAT = 10
#: The first columns of a row are these attributes of a unit, in this order.
_FACTS = ("id", "active", "started", "parent", "source", "cwd", "title", "model", "unread", "stays")
#: Then follow these, as 0 or 1; then its relation, its transcript, and its usage apart from
#: messages.
_MARKS = ("pinned", "archived")
_VERSION = len(_FACTS) + len(_MARKS) + 3
#: The last columns of a row: the stamps of its files, the point where a reader can continue, and
#: the counts.
_STAMPS, _POINT, _COUNTS = -3, -2, -1

#: The file is rewritten once one in this many sessions was counted: 200 of 10,000.
_WORTH = 50

_Row = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vaulted:
    """A session that only the vault has. `told` reads its messages if they are in a bundle."""

    session: Session
    told: Callable[[], Iterator[Message]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A unit, and the movers' view of its parts.

    `changed` is when its files were last written; `stamps` are the stamps of its files by path.
    `inside` is true if it is stored in its parent's folder, `outside` if a part of it is outside
    the home, `shared` if it has an entry in a document that a running agent may write back.
    `in_rows` is the share of `bytes` in rows of a database. When read from a note, the unit has no
    parts.
    """

    unit: Unit
    version: str
    bytes: int
    in_rows: int = 0
    changed: float = 0.0
    inside: bool = False
    outside: bool = False
    shared: bool = False
    stamps: Mapping[str, str] = field(default_factory=dict)
    alive: str | None = None
    vaulted: Vaulted | None = None

    def messages(self, form: Format, root: Path) -> Iterator[Message]:
        """The messages of the session, from the vault or the agent's files."""
        if self.vaulted is not None and self.vaulted.told is not None:
            return self.vaulted.told()
        return form.messages(root, self.unit)


class Notes:
    """The notes about one home, in one file."""

    def __init__(self, path: Path, *, lasting: bool = True) -> None:
        self._path = path
        self._lasting = lasting
        self._rows: dict[str, _Row] | None = None
        self._paths: dict[str, str] | None = None
        self._counts: dict[str, Counts | None] = {}
        self._checksum: str | None = None
        self._taken = 0.0
        self._changed = False
        self._unsaved = 0

    def __len__(self) -> int:
        return len(self._read())

    def known(self, path: Path) -> Unit | None:
        """The unit that the last look made from a file, if the file is unchanged."""
        rows = self._read()
        if self._paths is None:
            self._paths = {file: name for name, row in rows.items() for file in row[_STAMPS]}
        name = self._paths.get(str(path))
        if name is None:
            return None
        try:
            same = tree_stamp(path) == rows[name][_STAMPS][str(path)]
        except OSError:
            return None
        unit = _seen(rows[name]).unit if same else None
        return None if unit is None or unit.unread else unit  # it may be readable now

    def units(self) -> Sequence[Unit]:
        """The units of the last look, even if they have changed since."""
        return [_seen(row).unit for row in self._read().values()]

    def unchanged(self, now: Glance | None) -> Sequence[Seen] | None:
        """The result of the last look, if nothing changed since, without any signs of life."""
        rows = self._read()
        if (
            now is None
            or self._checksum is None
            or not now.proves(self._checksum, taken=self._taken)
        ):
            return None
        return [_seen(row) for row in rows.values()]

    def write(self, seen: Sequence[Seen], glance: Glance | None, taken: float) -> None:
        """Save the result of a look, and a glance from before it. Without a glance, the next look
        is a full one, too. Counts are kept for sessions whose version is unchanged."""
        before = self._read()
        rows = {}
        for each in seen:
            old = before.get(each.unit.id)
            same = old is not None and old[_VERSION] == each.version
            read = (None, None) if old is None else (old[_POINT], old[_COUNTS] if same else None)
            rows[each.unit.id] = [*_row(each), *read]
        checksum = None if glance is None else glance.checksum
        # The same glance taken later proves more: the last change is longer ago.
        later = checksum is not None and taken > self._taken
        if rows != before or checksum != self._checksum or later:
            self._keep(rows)
            self._checksum, self._taken = checksum, taken
            self._changed = True
        self.save()

    def counts(self, session_id: str) -> Counts | None:
        if session_id not in self._counts:
            row = self._read().get(session_id)
            self._counts[session_id] = None if row is None else _counts(row[_COUNTS])
        return self._counts[session_id]

    def keep_counts(self, session_id: str, counts: Counts) -> None:
        self._counts[session_id] = counts
        row = self._read().get(session_id)
        if row is not None:
            row[_COUNTS] = _sums(counts)
            self._changed = True
            self._unsaved += 1

    def point(self, session_id: str) -> Point | None:
        """The point where counting can continue. It stays valid when the session changes."""
        row = self._read().get(session_id)
        if row is None or row[_POINT] is None:
            return None
        try:
            offset, check, carry, said = row[_POINT]
            counts = _counts(said) or Counts()
            return Point(offset=offset, check=check, carry=dict(carry), counts=counts)
        except (ValueError, TypeError):
            return None

    def keep_point(self, session_id: str, point: Point) -> None:
        row = self._read().get(session_id)
        if row is not None:
            said = [point.offset, point.check, dict(point.carry), _sums(point.counts)]
            row[_POINT] = said
            self._changed = True

    def save_some(self) -> None:
        """Save the counts once they are worth rewriting the whole file. `save` writes the rest when
        the home is closed; a process killed before that has to count again."""
        if self._unsaved * _WORTH >= len(self._read()):
            self.save()

    def save(self) -> None:
        """Write the notes if possible: a read-only home is looked at again next time."""
        if not self._changed or not self._lasting:
            return
        said = {
            "format": _FORMAT,
            "glance": self._checksum,
            "taken": self._taken,
            "units": [*self._read().values()],
        }
        with contextlib.suppress(OSError, StorageError):
            make_private_dir(self._path.parent)
            files.replace(self._path, json.dumps(said, separators=(",", ":")).encode("ascii"))
        self._changed, self._unsaved = False, 0

    def forget(self) -> None:
        """Drop the rows; they are read from the file again when needed."""
        self._rows = None

    def _read(self) -> dict[str, _Row]:
        if self._rows is None:
            self._keep({})
            self._checksum, self._changed = None, False
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                said = json.loads(files.read_file(self._path))
                if said["format"] == _FORMAT:
                    rows = {row[0]: row for row in said["units"]}
                    for row in said["units"][:1]:
                        _seen(row), _counts(row[_COUNTS])  # raises for a row of another shape
                    self._checksum, self._taken = said["glance"], float(said["taken"])
                    self._keep(rows)
        assert self._rows is not None  # noqa: S101 - for the type checker
        return self._rows

    def _keep(self, rows: dict[str, _Row]) -> None:
        self._rows, self._paths, self._counts = rows, None, {}


def packed(seen: Seen) -> bytes | None:
    """A session in a few bytes, to be read later without looking at its home; None if only the
    vault has it."""
    if seen.vaulted is not None:
        return None
    *row, _ = _row(seen)
    return marshal.dumps((seen.alive, row))


def unpacked(data: bytes) -> Seen:
    alive, row = marshal.loads(data)  # noqa: S302 - packed by this process or its parent
    return replace(_seen([*row, {}, None, None]), alive=alive)


def _row(seen: Seen) -> _Row:
    unit = seen.unit
    return [
        *(getattr(unit, name) for name in _FACTS),
        *(int(getattr(unit, name)) for name in _MARKS),
        unit.relation.value if unit.relation else None,
        str(unit.transcript) if unit.transcript else None,
        numbers_of(unit.used) if unit.used else None,
        seen.version,
        seen.bytes,
        seen.in_rows,
        seen.changed,
        int(seen.inside),
        int(seen.shared),
        dict(seen.stamps),
    ]


def _seen(row: _Row) -> Seen:
    name, active, started, parent, source, cwd, title, model, unread, stays, *rest = row
    pinned, archived, relation, *rest = rest
    transcript, used, version, size, in_rows, changed, inside, shared, stamps, _, _ = rest
    return Seen(
        unit=Unit(
            id=name,
            active=active,
            parts=(),
            started=started,
            parent=parent,
            relation=Relation(relation) if relation else None,
            source=source,
            cwd=cwd,
            title=title,
            model=model,
            transcript=Path(transcript) if transcript else None,
            used=usage_of(used) if used else None,
            unread=unread,
            pinned=bool(pinned),
            archived=bool(archived),
            stays=stays,
        ),
        version=version,
        bytes=size,
        in_rows=in_rows,
        changed=changed,
        inside=bool(inside),
        shared=bool(shared),
        stamps=stamps,
    )


def _sums(counts: Counts) -> list[Any]:
    used = Usage(tokens=counts.tokens, cost=counts.cost, unpriced=counts.unpriced)
    opening = [counts.opening.text, counts.opening.rank]
    return [counts.messages, counts.tool_calls, opening, *numbers_of(used)]


def _counts(said: list[Any] | None) -> Counts | None:
    if said is None:
        return None
    messages, calls, (line, rank), *rest = said
    used = usage_of(rest)
    return Counts(
        messages=messages,
        tool_calls=calls,
        cost=used.cost,
        tokens=used.tokens,
        unpriced=used.unpriced,
        opening=Opening(line, rank),
    )
