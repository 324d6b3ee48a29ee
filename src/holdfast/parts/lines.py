"""Entries of a JSON or JSONL file that many sessions share.

The file is rewritten once per batch, and bytes that are not ours do not change: lines are moved
verbatim, and a JSON document is only changed if its style can be reproduced exactly. Lines that a
process appends during the rewrite are carried over.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from holdfast import value
from holdfast.errors import DamageError, StorageError
from holdfast.model.part import LinePart, Sight, Slot, Stamp, digest
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN
from holdfast.stores.files import (
    make_private_dir,
    open_regular,
    opened_regular,
    read_file,
    replace,
    sync_dir,
    write_all,
)
from holdfast.stores.open_files import open_elsewhere
from holdfast.value import dataclass

_Style = tuple[int | str | None, str, str, str, bool]
#: Indent, separators, text after the document, and whether non-ASCII characters are escaped.
_STYLES: tuple[_Style, ...] = tuple(
    (indent, comma, ": " if comma == ", " or indent is not None else ":", end, ascii_)
    for indent, end, ascii_ in product((2, None, 4, "\t", 1, 3), ("\n", "", "\r\n"), (False, True))
    for comma in ((",",) if indent is not None else (",", ", "))
)

#: How many preceding entries are recorded with an entry of a document.
_MOST_BEFORE = 100


class LineMover:
    """Moves `LinePart`. The copies are notes: entries, indices, and digests of what came before."""

    def look(self, batch: Sequence[Slot]) -> Sequence[Sight]:
        try:
            notes = _Notes.read(batch[0])
            document = _Document.read(_part(batch[0]))
        except (ValueError, RecursionError, OSError, DamageError):
            return [Sight(here=None) for _ in batch]
        return [_sight(slot, document, notes) for slot in batch]

    def copy(self, batch: Sequence[Slot]) -> None:
        document = _document(batch)
        notes = _Notes.read(batch[0])
        slots = {slot.name: document.find(_part(slot)) for slot in batch}
        replace(
            notes.path,
            _Notes(
                path=notes.path,
                slots={**slots, **notes.slots},
                style=document.style,
                mtime_ns=document.mtime_ns,
                checksum=document.checksum,
            ).to_bytes(),
        )

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        in_use = _in_use(_part(batch[0]))
        document = _document(batch)
        notes = _Notes.read(batch[0])
        why: list[str | None] = []
        going: list[LinePart] = []
        for slot in batch:
            found = document.find(_part(slot))
            is_copied = slot.name in notes.slots
            if not found:
                why.append(None if is_copied else ALREADY_GONE)
            elif in_use:
                why.append(in_use)
            elif stamp_of(found) != slot.stamp or notes.slots.get(slot.name) is None:
                why.append(CHANGED)
            else:
                why.append(None)
                going.append(_part(slot))
        if not going:
            return why
        document.remove(going)
        refusal = document.write(notes)
        return [refusal if each is None else each for each in why]

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        notes = _Notes.read(batch[0])
        document = _document(batch, notes)
        why: list[str | None] = []
        coming: list[_Entry] = []
        for slot in batch:
            there = document.find(_part(slot))
            kept = notes.slots.get(slot.name)
            if there:
                same = kept is None or stamp_of(there) == stamp_of(kept)
                why.append(None if same else PLACE_TAKEN)
            elif kept is None:
                why.append(COPY_MISSING)
            else:
                why.append(None)
                coming += kept
        if not coming:
            return why
        document.insert(coming)
        refusal = document.write(notes)
        return [refusal if each is None else each for each in why]

    def discard(self, batch: Sequence[Slot]) -> int:
        notes = _Notes.read(batch[0])
        _work(_real(_part(batch[0]).path), notes).unlink(missing_ok=True)  # left by a killed run
        if not notes.path.exists():
            return 0
        before = notes.path.stat().st_size
        gone = {slot.name for slot in batch}
        left = {name: each for name, each in notes.slots.items() if name not in gone}
        if not left:
            notes.path.unlink()
            sync_dir(notes.path.parent)
            return before
        replace(notes.path, value.replace(notes, slots=left).to_bytes())
        return max(0, before - notes.path.stat().st_size)


def _part(slot: Slot) -> LinePart:
    if not isinstance(slot.part, LinePart):
        raise TypeError(slot.part)
    return slot.part


def _sight(slot: Slot, document: _Document, notes: _Notes) -> Sight:
    found = document.find(_part(slot))
    kept = notes.slots.get(slot.name)
    return Sight(
        here=bool(found),
        stamp=stamp_of(found),
        bytes=sum(len(json.dumps(each.value)) for each in found),
        copied=kept is not None,
        copy_bytes=0 if kept is None else sum(len(json.dumps(each.value)) for each in kept),
    )


def _document(batch: Sequence[Slot], notes: _Notes | None = None) -> _Document:
    part = _part(batch[0])
    try:
        return _Document.read(part, notes)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{part.path} cannot be changed: {error}") from error


def _in_use(part: LinePart) -> str | None:
    """Return why the file cannot be changed now: a process has a file of lines open, and what it
    appends later would be lost. Documents are written as a whole and open only for a moment."""
    path = _real(part.path)
    if not part.lines or not path.is_file():
        return None
    why = open_elsewhere(path)
    return None if why is None else f"{path.name}: {why}"


def _real(path: Path) -> Path:
    """Resolve links: a rename must replace the file, not a link to it."""
    return Path(os.path.realpath(path))


def _work(path: Path, notes: _Notes) -> Path:
    """The path of the new file until it is renamed. It follows from the intent, so that it can be
    found after a kill."""
    return path.with_name(f".holdfast-{notes.path.parent.parent.name}-{path.name}")


# --- Entries --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An entry with its position. `name` is its key in a map; `value` is JSON, or the text of a
    line. `before` are digests of the entries in front of it, the nearest first: entries that left
    one by one come back in any order, so the nearest may be missing."""

    place: int
    before: Sequence[str]
    name: str | None
    value: Any

    def to_json(self) -> list[Any]:
        return [self.place, [*self.before], self.name, self.value]

    @classmethod
    def from_json(cls, said: object) -> _Entry:
        match said:
            case [int() as place, str() as before, (str() | None) as name, value]:  # older format
                return cls(place=place, before=[before] if before else [], name=name, value=value)
            case [int() as place, list() as before, (str() | None) as name, value]:
                return cls(place=place, before=[*map(str, before)], name=name, value=value)
            case _:
                raise DamageError("a note in the trash does not describe an entry")


def stamp_of(found: Sequence[_Entry]) -> Stamp:
    """Covers neither the position of an entry nor its neighbours: other sessions change these."""
    return digest([[each.name, each.value] for each in found]) if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """The copies of a batch. `style`, `mtime_ns` and `checksum` are those before the change."""

    path: Path
    slots: Mapping[str, Sequence[_Entry]]
    style: _Style | None = None
    mtime_ns: int = 0
    checksum: str = ""

    @classmethod
    def read(cls, slot: Slot) -> _Notes:
        path = slot.folder / f"lines-{digest(slot.part.container)}.json"
        try:
            said = json.loads(read_file(path))
        except FileNotFoundError:
            return cls(path=path, slots={})
        except (ValueError, RecursionError) as error:
            raise DamageError(f"{path} is damaged: {error}") from None
        try:
            slots = {
                name: [_Entry.from_json(each) for each in entries]
                for name, entries in said["slots"].items()
            }
            style: _Style | None = None if said["style"] is None else tuple(said["style"])
            return cls(
                path=path,
                slots=slots,
                style=style,
                mtime_ns=int(said["mtime_ns"]),
                checksum=str(said["checksum"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DamageError(f"{path} is damaged: {error}") from None

    def to_bytes(self) -> bytes:
        said = {
            "slots": {name: [each.to_json() for each in kept] for name, kept in self.slots.items()},
            "style": self.style,
            "mtime_ns": self.mtime_ns,
            "checksum": self.checksum,
        }
        return json.dumps(said).encode("ascii")


# --- The shared file ------------------------------------------------------------------------------


class _Document:
    """A shared file as a list of entries, and what surrounds the list."""

    def __init__(self, part: LinePart, raw: bytes | None, status: os.stat_result | None) -> None:
        self._part = part
        self._raw = raw
        self._status = status
        self._whole: Any = None
        self._is_map = False
        self.style: _Style | None = None
        self.entries: list[tuple[str | None, Any]] = []
        self._index: dict[str | None, dict[str, list[int]]] = {}
        self._digests: dict[int, str] = {}

    @property
    def mtime_ns(self) -> int:
        return 0 if self._status is None else self._status.st_mtime_ns

    @property
    def checksum(self) -> str:
        return "" if self._raw is None else _checksum(self._raw)

    @classmethod
    def read(cls, part: LinePart, notes: _Notes | None = None) -> _Document:
        """Raises `ValueError` for a file that cannot be written back byte for byte."""
        try:
            with os.fdopen(open_regular(_real(part.path)), "rb") as file:
                found = cls(part, file.read(), os.fstat(file.fileno()))
        except FileNotFoundError:
            found = cls(part, None, None)
        found._parse(notes)
        return found

    def _parse(self, notes: _Notes | None) -> None:
        if self._part.lines:
            text = (self._raw or b"").decode("utf-8", "surrogateescape")
            # Lines end with a newline only; `splitlines` would split at more.
            self.entries = [(None, line) for line in io.StringIO(text, newline="\n")]
            return
        if self._raw is None:
            self._is_map = notes is not None and any(
                each.name is not None for kept in notes.slots.values() for each in kept
            )
            self.style = (notes.style if notes else None) or _STYLES[0]
            self._whole = _nested(self._part.at, {} if self._is_map else [])
            return
        self._whole = json.loads(self._raw)
        self.style = self._style_of(notes)
        inner = self._whole
        for step in self._part.at:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if not isinstance(inner, dict | list):
            raise ValueError("the list or map of entries is missing")  # noqa: TRY004 - a style of the file
        self._is_map = isinstance(inner, dict)
        self.entries = (
            list(inner.items()) if isinstance(inner, dict) else [(None, each) for each in inner]
        )

    def _style_of(self, notes: _Notes | None) -> _Style:
        """Find the style of the document. An empty list does not show it, so try the notes
        first."""
        kept: tuple[_Style, ...] = ()
        if notes is not None and notes.style is not None:
            kept = (notes.style,)
        for style in (*kept, *_STYLES):
            if _render(self._whole, style) == self._raw:
                return style
        raise ValueError("it is written in a style that cannot be reproduced byte for byte")

    def find(self, part: LinePart) -> list[_Entry]:
        return [
            _Entry(place=place, before=self._before(place), name=name, value=value)
            for place in self._places(part.key).get(part.value, ())
            for name, value in [self.entries[place]]
        ]

    def _before(self, place: int) -> Sequence[str]:
        most = 1 if self._part.lines else _MOST_BEFORE
        return [self._digest(each) for each in range(place - 1, max(-1, place - 1 - most), -1)]

    def _digest(self, place: int) -> str:
        """Cached: each digest is needed by many of the entries behind it."""
        if place not in self._digests:
            here = 0 <= place < len(self.entries)
            self._digests[place] = digest(list(self.entries[place])) if here else ""
        return self._digests[place]

    def _places(self, key: str | None) -> Mapping[str, Sequence[int]]:
        """Return the indices of each value. Indexed once per batch, not once per entry."""
        if key not in self._index:
            index: dict[str, list[int]] = defaultdict(list)
            for place, (name, entry) in enumerate(self.entries):
                value = self._value(name, entry, key)
                if isinstance(value, str):
                    index[value].append(place)
            self._index[key] = index
        return self._index[key]

    def _value(self, name: str | None, entry: Any, key: str | None) -> object:
        if self._part.lines:
            try:
                entry = json.loads(entry)
            except (ValueError, RecursionError):
                return None  # not our line; leave it alone
        if key is None:
            return entry if name is None else name
        return entry.get(key) if isinstance(entry, dict) else None

    def remove(self, parts: Sequence[LinePart]) -> None:
        gone = {place for part in parts for place in self._places(part.key).get(part.value, ())}
        self.entries = [each for place, each in enumerate(self.entries) if place not in gone]
        self._index, self._digests = {}, {}

    def insert(self, kept: Sequence[_Entry]) -> None:
        """Insert entries behind their old neighbours, or at their old index if those are gone."""
        for each in sorted(kept, key=lambda entry: entry.place):
            at = min(self._place_for(each), self._most())
            value = each.value
            if self._part.lines and at < len(self.entries) and not value.endswith("\n"):
                value += "\n"  # lines were appended since, so ours is no longer the last
            self.entries.insert(at, (each.name, value))
            self._digests = {}
        self._index = {}

    def _place_for(self, entry: _Entry) -> int:
        """Return the index behind the nearest old neighbour that still exists. Without one: the
        front, if all former predecessors are known, otherwise the old index."""
        for wanted in entry.before:
            places: list[int] = [entry.place, *range(1, len(self.entries) + 1)]
            for place in places:
                if self._digest(place - 1) == wanted:
                    return place
        return 0 if len(entry.before) == entry.place and not self._part.lines else entry.place

    def _most(self) -> int:
        """Return the last index for an insert: not behind an unfinished line."""
        torn = self._part.lines and self.entries and not self.entries[-1][1].endswith("\n")
        return len(self.entries) - bool(torn)

    def write(self, notes: _Notes) -> str | None:
        """Replace the file unless it changed since it was read. Returns a refusal, or None."""
        new = self._bytes()
        path = _real(self._part.path)
        make_private_dir(path.parent)
        with contextlib.ExitStack() as stack:
            old = None
            if self._raw is not None:
                old = stack.enter_context(os.fdopen(open_regular(path), "rb"))
                now = old.read()
                appended = self._part.lines and now.startswith(self._raw)
                if not appended and now != self._raw:
                    return CHANGED
                new += now[len(self._raw) :]
            # The content is byte for byte as before the operation, so restore its mtime too.
            mtime = notes.mtime_ns if _checksum(new) == notes.checksum else None
            work = _work(path, notes)
            self._write_new(work, new, mtime)
            work.rename(path)
            sync_dir(path.parent)
            if old is not None and self._part.lines:
                _carry_over(old.read(), path)
        return None

    def _bytes(self) -> bytes:
        if self._part.lines:
            return "".join(line for _, line in self.entries).encode("utf-8", "surrogateescape")
        inner: Any = dict(self.entries) if self._is_map else [each for _, each in self.entries]
        whole = self._whole
        if self._part.at:
            outer = whole
            for step in self._part.at[:-1]:
                outer = outer[step]
            outer[self._part.at[-1]] = inner
        else:
            whole = inner
        assert self.style is not None  # noqa: S101 - set whenever a document was parsed
        return _render(whole, self.style)

    def _write_new(self, work: Path, data: bytes, mtime_ns: int | None) -> None:
        work.unlink(missing_ok=True)
        fd = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
            if self._status is not None:
                os.fchmod(fd, stat.S_IMODE(self._status.st_mode))
                with contextlib.suppress(OSError):  # only root may change an owner
                    os.fchown(fd, self._status.st_uid, self._status.st_gid)
            if mtime_ns is not None:
                os.utime(fd, ns=(mtime_ns, mtime_ns))
            os.fsync(fd)
        finally:
            os.close(fd)


def _carry_over(late: bytes, path: Path) -> None:
    """Append what a process wrote to the old file through a descriptor opened before the rename."""
    if late:
        with opened_regular(path, os.O_WRONLY | os.O_APPEND) as fd:
            write_all(fd, late)
            os.fsync(fd)


def _checksum(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _nested(at: Sequence[str], inner: Any) -> Any:
    for step in reversed(at):
        inner = {step: inner}
    return inner


def _render(value: Any, style: _Style) -> bytes:
    indent, comma, colon, end, escaped = style
    text = json.dumps(value, indent=indent, ensure_ascii=escaped, separators=(comma, colon))
    return (text + end).encode("utf-8", "surrogatepass")
