"""What a session of another agent consists of, and what a format reports about it.

A format describes; it never removes. A `Unit` is one session as a list of parts, and every part is
a value that a mover in `holdfast.parts` can copy, remove and put back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import DamageError
from holdfast.model.json_value import Reader
from holdfast.model.opening import LOOKED_AT, Opening
from holdfast.model.session import Message, Relation, Session, Tokens
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field, replace

DAY = 24 * 3_600.0


class Role(IntEnum):
    """Parts leave in this order and return in the reverse order.

    A `REFERENCE` makes the agent list the session, `DATA` is what the reference points to. A
    `TRACE` is a line of history or a row of a log: it may stay behind, and never makes a session
    fail.
    """

    REFERENCE = 0
    DATA = 1
    TRACE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFolder:
    path: Path
    role: Role = Role.DATA

    @property
    def place(self) -> Path:
        return self.path

    @property
    def container(self) -> str:
        return str(self.path.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart(_InFolder):
    """One file, or one symbolic link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPart(_InFolder):
    """One folder with everything below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a table whose column has this value.

    `stamp` is an SQL aggregate that changes whenever these rows do. Without it, the mover counts
    the rows and adds up their lengths, which misses an update that keeps the length.
    """

    table: str
    column: str
    value: str | int
    stamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPart:
    """Rows of one SQLite file, and whatever refers to them by a foreign key.

    `numbered` are tables whose rows belong together by their rowid, and to nothing else: if the
    agent has given one of these rowids to another row meanwhile, all of them get new ones together.
    """

    store: Path
    rows: tuple[Rows, ...]
    role: Role = Role.REFERENCE
    numbered: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        return self.store

    @property
    def container(self) -> str:
        return str(self.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePart:
    """The entries of a shared JSON or JSONL file that name a session.

    `key` is the field that holds the `value`; without it the entry is the value itself, or its name
    in a map. `at` is the path to the list or map inside a JSON document. With `lines`, the file has
    one JSON document per line.
    """

    path: Path
    value: str
    key: str | None = None
    at: tuple[str, ...] = ()
    lines: bool = False
    role: Role = Role.REFERENCE

    @property
    def place(self) -> Path:
        return self.path

    @property
    def container(self) -> str:
        """Two lists in one document are two containers: each is rewritten on its own."""
        return "\0".join((str(self.path), *self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class RefPart:
    """The references of a git repository under a prefix that ends with a slash."""

    repository: Path
    prefix: str
    role: Role = Role.DATA

    @property
    def place(self) -> Path:
        return self.repository

    @property
    def container(self) -> str:
        return str(self.repository)


Part: TypeAlias = FilePart | FolderPart | RowsPart | LinePart | RefPart

#: The version of a part, from its mover. "" means that the part does not exist.
Stamp: TypeAlias = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One session as a format sees it. It has no version: that is derived from the stamps of its
    parts.

    `active` is the last use that the agent itself recorded. `source` is where the session came
    from; empty means the agent's command line. `transcript` is the file with its messages, if there
    is one; `unread` is why that could not be read, and such a session is left alone. `stays` is why
    a session that can be read is left alone, too: it holds work of the user. A unit without parts
    is stored inside its parent, like a subagent's transcript in the folder of its session: it is
    listed and read, and it goes and returns only with the parent. `used` are tokens and cost that
    the agent records for the whole session and for no message. `pinned` and `archived` are what the
    user did in the agent itself, to keep the session.
    """

    id: str
    active: float
    parts: tuple[Part, ...]
    started: float | None = None
    parent: str = ""
    relation: Relation | None = None
    source: str = ""
    cwd: str = ""
    title: str = ""
    model: str = ""
    transcript: Path | None = None
    unread: str = ""
    stays: str = ""
    used: Usage | None = None
    pinned: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The figures of a session that come from its messages."""

    messages: int = 0
    tool_calls: int = 0
    tokens: Tokens = Tokens()
    cost: float = 0.0
    unpriced: Tokens = Tokens()
    opening: Opening = Opening()

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Counts:
        found = cls()
        for message in messages:
            found = found.plus(message)
        return found

    def of_session(self, session: Session) -> Session:
        """The session with these counts filled in."""
        return replace(
            session,
            message_count=self.messages,
            tool_call_count=self.tool_calls,
            tokens=self.tokens,
            cost=self.cost,
            unpriced=self.unpriced,
            counted=True,
        )

    def plus(self, message: Message) -> Counts:
        """The counts with one more message."""
        return Counts(
            messages=self.messages + 1,
            tool_calls=self.tool_calls + message.tool_call_count,
            tokens=self.tokens if message.tokens is None else self.tokens.plus(message.usage),
            cost=self.cost + (message.cost or 0.0),
            unpriced=self.unpriced
            if message.tokens is None
            else self.unpriced.plus(message.unpriced),
            opening=self.opening.then(message) if self.messages < LOOKED_AT else self.opening,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One session from a file that may be anywhere. Its messages are read lazily from `path`."""

    path: Path
    unit: Unit
    messages: Iterable[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that no session owns: a log, a cache, a dead temporary file. Leftovers of one
    `kind` are kept and removed by the same rule."""

    kind: str
    id: str
    active: float
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Signs of life, in words. Any sign protects.

    `units` are sessions by id, `folders` working directories in which a process of the agent runs.
    `home` protects everything; it is for what could not be read. `rewrites` means that a process
    may write shared files from memory: then no entry is removed from a file that is rewritten as a
    whole.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    rewrites: str | None = None

    def protect(self, unit: Unit | Leftover) -> str | None:
        """Return why a unit must stay, or None if there is no sign of life."""
        cwd = unit.cwd if isinstance(unit, Unit) else ""
        why = self.home or self.units.get(unit.id) or (self.folders.get(cwd) if cwd else None)
        stays = any(self.keeps(each) and each.role is not Role.TRACE for each in unit.parts)
        return why or (self.rewrites if stays else None)

    def keeps(self, part: Part) -> bool:
        """True if the running agent would write this entry again."""
        return bool(self.rewrites) and isinstance(part, LinePart) and not part.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where an agent keeps the parts of a session, as patterns of paths below its home: files,
    folders, databases, and shared files with lines of sessions. `beside` are folders below the
    other roots of the home. In a name, one `*` stands for anything, and `{id}`
    for the session's id. The name `{sha}` stands for a checksum.

    A part anywhere else is neither removed nor restored. A record of parts may come from a bundle
    that was made to plant a settings file, which would run code.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is the same for every home of an agent.

    `name` is the kind of home and the word for `--home`, `agent` the name that people know.
    `folder` is the usual place below the user's home directory, `environment` the variable that can
    name another one. `processes` are the names of the agent's programs. A session counts as in use
    for `idle_after` seconds after its last activity. `versions` are the versions that were tested.
    `references` is a prefix, such as `refs/agent/`, of what the agent keeps in repositories of the
    user: a `RefPart` right below it may be in any repository, because the session that names the
    repository may be gone when its references return. `state` is the folder in the home for
    Holdfast's own files. Where the home is a project of the user, that folder has a name that the
    user's tools ignore. `read_only` means that no version of the agent allows anything to be
    removed; `doubt` then has the reason. `places` are where the parts of its sessions are; without
    them, parts may be anywhere but in the folder of Holdfast's own files.
    """

    name: str
    agent: str
    folder: str
    environment: str = ""
    processes: tuple[str, ...] = ()
    idle_after: float = DAY
    versions: tuple[str, ...] = ()
    references: str = ""
    state: str = ".holdfast"
    read_only: bool = False
    places: Places | None = None

    def newer(self, version: str) -> str | None:
        """Return why a home written by this version may only be read, or None if the first number
        of the version is among those that were tested."""
        if version.partition(".")[0] in self.versions:
            return None
        return f"{self.agent} {version} is newer than Holdfast supports"


#: Returns the unit that the last look made from a file, unless the file has changed since. A format
#: tries it before it reads: `known(path) or read(path)`.
Known: TypeAlias = Callable[[Path], Unit | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One part of one item of one operation. Its place in the trash follows from its numbers.

    `folder` is shared by a batch: movers may keep one file there for several slots of a container.
    """

    number: int
    index: int
    part: Part
    stamp: Stamp
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.number}.{self.index}"

    @property
    def copy(self) -> Path:
        return self.folder / self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a mover sees of a slot. `here` is None if its container cannot be inspected.

    `spoiled` means that the copy is no longer what was removed.
    """

    here: bool | None
    stamp: Stamp = ""
    bytes: int = 0
    copied: bool = False
    copy_bytes: int = 0
    spoiled: bool = False


_NAMES = {
    FilePart: "file",
    FolderPart: "folder",
    RowsPart: "rows",
    LinePart: "line",
    RefPart: "ref",
}


def part_to_json(part: Part) -> dict[str, Any]:
    """Return a part as JSON, for the trash, bundles and the index."""
    said: dict[str, Any] = {"kind": _NAMES[type(part)], "role": int(part.role)}
    match part:
        case FilePart() | FolderPart():
            said["path"] = str(part.path)
        case RowsPart():
            said["store"] = str(part.store)
            said["rows"] = [[each.table, each.column, each.value, each.stamp] for each in part.rows]
            said |= {"numbered": list(part.numbered)} if part.numbered else {}
        case LinePart():
            said |= {"path": str(part.path), "value": part.value, "key": part.key}
            said |= {"at": list(part.at), "lines": part.lines}
        case RefPart():
            said |= {"repository": str(part.repository), "prefix": part.prefix}
    return said


def part_from_json(value: object) -> Part:
    """Return the part that `part_to_json` wrote; raises `DamageError` for anything else."""
    read = Reader(value, "part", DamageError)
    role = _role(read)
    match read.text("kind"):
        case "file":
            return FilePart(path=Path(read.text("path")), role=role)
        case "folder":
            return FolderPart(path=Path(read.text("path")), role=role)
        case "rows":
            rows = tuple(map(_rows, read.array("rows")))
            numbered = tuple(map(str, read.array("numbered"))) if "numbered" in read else ()
            return RowsPart(store=Path(read.text("store")), rows=rows, role=role, numbered=numbered)
        case "line":
            key = read.value("key")
            return LinePart(
                path=Path(read.text("path")),
                value=read.text("value"),
                key=key if isinstance(key, str) else None,
                at=tuple(map(str, read.array("at"))),
                lines=read.flag("lines"),
                role=role,
            )
        case "ref":
            return RefPart(
                repository=Path(read.text("repository")), prefix=read.text("prefix"), role=role
            )
        case other:
            raise DamageError(f"{other!r} is not a kind of part")


def version_of_parts(parts: tuple[Part, ...], stamps: tuple[Stamp, ...]) -> str:
    """The version of a unit: its parts and their stamps, without traces, which change on their
    own."""
    said = [
        [part_to_json(part), stamp]
        for part, stamp in zip(parts, stamps, strict=True)
        if stamp and part.role is not Role.TRACE
    ]
    return digest(said)


def digest(value: object) -> str:
    """A short checksum of any JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:20]


def _role(read: Reader) -> Role:
    try:
        return Role(read.whole("role"))
    except ValueError:
        raise DamageError(f"{read.whole('role')} is not a role of a part") from None


def _rows(value: object) -> Rows:
    match value:
        case [str(table), str(column), (str() | int()) as wanted, str(stamp)]:
            return Rows(table=table, column=column, value=wanted, stamp=stamp)
        case _:
            raise DamageError("a part names no rows")
