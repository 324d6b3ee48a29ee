"""Things in a home that a policy can keep or remove, and what a scan found."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.json_value import JsonValue
from holdfast.value import dataclass

SESSION = "session"
TRANSCRIPT = "transcript"
REQUEST_DUMP = "request_dump"
TRASH = "trash"
ARCHIVED = "archived_session"
#: The files of a session that stays in the store: on their way into the archive, and inside it.
FILES = "files"
ARCHIVED_FILES = "archived_files"
#: What an archive holds.
ARCHIVED_KINDS = (ARCHIVED, ARCHIVED_FILES)
#: A session that its agent deleted and the vault holds: by second names, or as a bundle.
VAULTED = "vaulted_session"
VAULTED_BUNDLE = "vaulted_bundle"
VAULTED_KINDS = (VAULTED, VAULTED_BUNDLE)
CHECKPOINT = "checkpoint"
#: Older repositories of checkpoints, one for each directory, moved aside together.
LEGACY = "legacy_checkpoints"
#: What is stored in the checkpoint folder; the caps on that folder apply to all of it together.
CHECKPOINT_KINDS = (CHECKPOINT, LEGACY)
#: A checkpoint on a git remote that this home pushed.
PUSHED = "pushed_checkpoint"
#: A working directory that has checkpoints.
PROJECT = "project"
#: A file of another program that contains entries of ours.
SETTING = "setting"
#: What an agent left that no session owns: logs, caches, temporary files. The source is its kind.
LEFTOVER = "leftover"
#: The kinds that the rules for sessions and their files can be limited to.
RULED_KINDS = (SESSION, TRANSCRIPT, REQUEST_DUMP, LEFTOVER)
#: What a store could give back to the file system: free pages, its write-ahead log.
SPACE = "space"
#: The item of kind `SPACE` for the checkpoint store.
CHECKPOINT_SPACE = "checkpoints"

#: The source of an item whose origin is not recorded.
UNKNOWN_SOURCE = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that a scan found: its size, age, version and signs of life.

    `version` changes whenever the item changes; a removal goes ahead only while the item still has
    the version that was judged. `alive` is the evidence of life in words, or None. A session
    without an end always counts as alive; `abandoned` is then the proof that it may be ended.

    An `owned` file belongs to a session in the store: it stays and goes with that session.
    `messages` is None for anything but a session. `parent` is the id of the session that this one
    came from; a `delegate` worked for its parent, and one that `follows` stays and goes with its
    parent, as in the homes of agents that delete both together. `archived_in` names the agent in
    which the user archived the session, to keep it. An item that is `capped_elsewhere` is stored in
    another store, whose caps count its bytes, so that no byte counts twice. Of its `bytes`,
    `in_rows` are rows of an agent's database; that file does not shrink, but the agent reuses their
    space. A `vaulted` item is what is left of a session that only the vault still has complete.
    `inside` are the sessions that are stored inside this one and leave only with it. `unread` is
    why the session may have more messages than were counted. Space is `owed` if a run that removed
    something was stopped before it gave the space back.
    """

    kind: str
    id: str
    source: str = UNKNOWN_SOURCE
    session: str = ""
    bytes: int
    in_rows: int = 0
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
    follows: bool = False
    archived_in: str = ""
    capped_elsewhere: bool = False
    vaulted: bool = False
    owed: bool = False
    inside: tuple[Item, ...] = ()
    unread: str = ""

    @property
    def in_use(self) -> bool:
        """True if it counts as in use for people: sessions that can be ended, and those that their
        agent deleted, do not."""
        return self.alive is not None and self.abandoned is None and not self.vaulted

    @property
    def capped_bytes(self) -> int:
        """The bytes that count against the caps of the store in which it was found."""
        return 0 if self.capped_elsewhere else self.bytes

    @property
    def group(self) -> tuple[str, str]:
        """The kind and source: keep rules count the items of one kind and one source together."""
        return (self.kind, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that the scan could not read, or left alone on purpose. `usual` problems occur in
    every home of this agent."""

    path: str
    reason: str
    usual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything that was found, and everything that could not be read.

    `space` is what stores could give back without losing anything. `other_bytes` is the size of
    everything that is not an item: state files, the archive, the operation log, and checkpoints,
    which have their own scan. Parts of it are `checkpoint_bytes`, `archive_bytes`, `vault_bytes`
    (what only the vault holds), `log_bytes`, `loose_trash_bytes` (trash of no known operation) and
    `empty_database_bytes` (what the session store takes without any session); `legacy_bytes` is the
    part of `checkpoint_bytes` that older layouts left. `reserve_bytes` are set aside for a full
    disk, once for all homes on that disk, and count in none of these. `archived` is the number of
    bundles in the archive that are not among the items. `database_bytes` is the size of the session
    store with its write-ahead log: the items of sessions and space, and `empty_database_bytes`. The
    remaining `rest_bytes` belong to the other agent if `rest_is_foreign`. If `read_only`, nothing
    here may be changed; one of the problems has the reason.
    """

    home: str
    items: tuple[Item, ...]
    trash: tuple[Item, ...] = ()
    space: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    other_bytes: int = 0
    checkpoint_bytes: int = 0
    legacy_bytes: int = 0
    archive_bytes: int = 0
    archived: int = 0
    vault_bytes: int = 0
    log_bytes: int = 0
    reserve_bytes: int = 0
    loose_trash_bytes: int = 0
    database_bytes: int = 0
    empty_database_bytes: int = 0
    rest_is_foreign: bool = False
    read_only: bool = False

    @property
    def everything(self) -> tuple[Item, ...]:
        return self.items + self.trash + self.space

    @property
    def total_bytes(self) -> int:
        return sum(item.bytes for item in self.everything) + self.other_bytes

    @property
    def trash_bytes(self) -> int:
        return sum(item.bytes for item in self.trash) + self.loose_trash_bytes

    def archive_json(self) -> dict[str, int]:
        return {"count": self.archived, "bytes": self.archive_bytes}

    @property
    def rest_bytes(self) -> int:
        """Bytes in no named part."""
        named = (
            self.checkpoint_bytes,
            self.archive_bytes,
            self.vault_bytes,
            self.log_bytes,
            self.loose_trash_bytes,
            self.empty_database_bytes,
        )
        return self.other_bytes - sum(named)

    @property
    def overhead(self) -> Mapping[str, int]:
        """What counts against the cap on everything besides items and trash, by its name.

        The archive, the vault and the checkpoints have caps of their own and are left out, so that
        every byte counts once. What belongs to another agent is not ours to limit.
        """
        found = {
            "the operation log": self.log_bytes,
            "trash of no known operation": self.loose_trash_bytes,
            "the database without its sessions": self.empty_database_bytes,
            "everything else in the home": 0 if self.rest_is_foreign else self.rest_bytes,
        }
        return {name: size for name, size in found.items() if size}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile(JsonValue):
    """`file` is its path in the home, `session` the id in its name, whether or not that session is
    in the store."""

    file: str
    kind: str
    session: str
    source: str
    bytes: int
    last_active_at: float

    @classmethod
    def of(cls, item: Item) -> SessionFile:
        return cls(
            file=item.id,
            kind=item.kind,
            session=item.session,
            source=item.source,
            bytes=item.bytes,
            last_active_at=item.last_active_at,
        )
