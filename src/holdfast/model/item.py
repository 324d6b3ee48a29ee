"""One thing in a home that a policy can keep or remove."""

from __future__ import annotations

from holdfast.value import dataclass

SESSION = "session"
TRANSCRIPT = "transcript"
REQUEST_DUMP = "request_dump"
TRASH = "trash"
ARCHIVED = "archived_session"
#: The files of a session that stays in the store: on their way into the archive, and there.
FILES = "files"
ARCHIVED_FILES = "archived_files"
#: What lies in the archive.
ARCHIVED_KINDS = (ARCHIVED, ARCHIVED_FILES)
CHECKPOINT = "checkpoint"
#: Older repositories of checkpoints, one for each directory, moved aside together.
LEGACY = "legacy_checkpoints"
#: What lies in the checkpoint folder, and is bounded together.
CHECKPOINT_KINDS = (CHECKPOINT, LEGACY)
#: A working directory that has checkpoints.
PROJECT = "project"
#: What an agent left that no session owns: logs, caches, temporary files. Its source says which.
LEFTOVER = "leftover"
#: What a store could give back to the file system: free pages, its write-ahead log.
SPACE = "space"
#: The item of kind `SPACE` that stands for the checkpoint store.
CHECKPOINT_SPACE = "checkpoints"

#: The source of an item that does not say where it came from.
UNKNOWN_SOURCE = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What a scan saw of one thing: its size, its age, its version, its signs of life.

    `version` changes whenever the thing changes; a removal goes ahead only while it is
    still the version that was judged. `alive` is the evidence of life in words, or None. A session
    without an end always has one; `abandoned` is then the proof that it may be given an end.

    `owned` says of a file that its session is in the store: it has no life of its own, it stays
    and goes with that. `messages` is None for what is no session. `parent` is the id of the session
    that this one came from, `delegate` that it came as its delegate. `archived_in` names the agent
    in which its user archived it: put away there, and meant to be kept. `capped_elsewhere` says
    that it lies in another store, whose caps count its bytes: no byte counts twice.
    """

    kind: str
    id: str
    source: str = UNKNOWN_SOURCE
    session: str = ""
    bytes: int
    last_active_at: float
    version: str
    pinned: bool = False
    alive: str | None = None
    abandoned: str | None = None
    owned: bool = False
    messages: int | None = None
    titled: bool = False
    parent: str = ""
    delegate: bool = False
    archived_in: str = ""
    capped_elsewhere: bool = False

    @property
    def capped_bytes(self) -> int:
        """The bytes that count against the caps of the store in which it was found."""
        return 0 if self.capped_elsewhere else self.bytes

    @property
    def group(self) -> tuple[str, str]:
        """Keep rules count inside a group: the items of one kind and one source."""
        return (self.kind, self.source)
