"""The plain model: what was ever made, and where it must be now.

It knows nothing of how Holdfast works. A session, a file or a checkpoint that was made is in one
place until a command that may do so moves it, and nothing but an explicit discard makes it `GONE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.trees import Everything

STORE = "store"
ARCHIVE = "archive"
GONE = "gone"
#: Where files lie while they are in their place.
SESSIONS = "sessions"
#: In front of the operation that put it there: from the store, and from the archive.
TRASH = "trash "
BIN = "archive trash "

AGENT = "agent"
DEAD = "dead"
RELEASED = "released"


@dataclass(eq=False, kw_only=True, slots=True)
class Session:
    """One session as it was made. An id that is used again is another one of these.

    `line` is its line of an export without its parent, `row` what only the list says of it.
    `parent` is the session it came from, wherever that is now. `holder` says who has a lease.
    """

    id: str
    line: dict[str, Any]
    row: dict[str, Any]
    parent: Session | None = None
    key: str | None = None
    holder: str | None = None
    place: str = STORE
    removed_at: float = 0.0
    #: Whether an import put another in its place.
    replaced: bool = False
    #: The store counts a reopening as activity; an export does not say when it was.
    reopened_at: float = 0.0
    #: Which operation moved it last, and which ones may have given it its end.
    operation: str = ""
    ended_by: tuple[str, ...] = ()
    #: Which operation put it into the archive, also while its bundle is in the trash of another.
    archived_by: str = ""

    @property
    def here(self) -> bool:
        return self.place == STORE

    @property
    def ended(self) -> bool:
        return self.line["ended_at"] is not None

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.line["messages"]
        return found

    @property
    def last_activity(self) -> float:
        """The latest of start, last message, end and reopening."""
        said = [float(each.get("timestamp") or 0.0) for each in self.messages]
        ended_at = float(self.line["ended_at"] or 0.0)
        return max(float(self.line["started_at"]), ended_at, self.reopened_at, *said)

    def __str__(self) -> str:
        return f"{self.id} ({self.place})"


@dataclass(eq=False, kw_only=True, slots=True)
class File:
    """One session file. `session` is the id in its name; `packed_with` the session whose bundle
    holds it while it is in the archive."""

    name: str
    session: str
    content: bytes
    touched: float
    place: str = SESSIONS
    packed_with: Session | None = None
    removed_at: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} ({self.place})"


@dataclass(eq=False, kw_only=True, slots=True)
class Checkpoint:
    id: str
    project: str
    tree: Everything
    place: str = STORE
    removed_at: float = 0.0

    def __str__(self) -> str:
        return f"checkpoint {self.id[:12]} ({self.place})"


@dataclass(eq=False, kw_only=True, slots=True)
class Bundle:
    """The files that a reset put away together. It is gone when they are back in their places."""

    id: str
    session: Session
    files: list[File]
    place: str = GONE
    removed_at: float = 0.0
    operation: str = ""
    archived_by: str = ""

    def __str__(self) -> str:
        return f"the files of {self.id} ({self.place})"


Thing = Session | File | Checkpoint | Bundle


@dataclass(kw_only=True, slots=True)
class Rollback:
    """What undoing a restore needs to know: how the project was before, and right after."""

    project: str
    before: Everything
    after: Everything


@dataclass(eq=False, kw_only=True, slots=True)
class Edit:
    """One value that a command changed: a title or a pin. `session` is an id: whatever has it was
    edited. It is not `sure` whether it is undone when a fault met the undo."""

    session: str
    field: str
    before: Any
    after: Any
    undone: bool = False
    sure: bool = True

    def value(self, line: dict[str, Any], row: dict[str, Any]) -> Any:
        return row[self.field] if self.field in row else line[self.field]


@dataclass(slots=True)
class Model:
    sessions: list[Session] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    rollbacks: dict[str, Rollback] = field(default_factory=dict)
    #: By the number of the operation.
    edits: dict[str, Edit] = field(default_factory=dict)
    #: Lines that were exported, to be imported again.
    exports: list[list[dict[str, Any]]] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)
    made: int = 0

    def things(self) -> list[Thing]:
        return [*self.sessions, *self.files, *self.checkpoints, *self.bundles]

    def here(self) -> list[Session]:
        return [each for each in self.sessions if each.here]

    def archived(self) -> list[Session]:
        return [each for each in self.sessions if each.place == ARCHIVE]

    def stored(self, name: str) -> Session | None:
        return next((each for each in self.here() if each.id == name), None)

    def files_of(self, session: Session) -> list[File]:
        """Those in `sessions/` that carry its id."""
        return [f for f in self.files if f.place == SESSIONS and f.session == session.id]

    def loose(self) -> list[File]:
        """Files in their place whose session is not in the store. One that is of no session at all
        is none of them."""
        ids = {each.id for each in self.here()} | {""}
        return [f for f in self.files if f.place == SESSIONS and f.session not in ids]

    def next_id(self) -> str:
        self.made += 1
        return f"20330518_033320_{self.made:06x}"
