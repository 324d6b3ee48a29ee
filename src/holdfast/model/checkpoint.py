"""A project's tree at one moment: what was captured, what was not, and what changed.

Paths are relative to the working directory, with `/`, as text with surrogate escapes: a name that
is not UTF-8 comes back byte for byte from `os.fsencode`.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from holdfast.model.json_value import JsonValue, fields_to_json
from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

#: The shortest prefix of an id that is accepted instead of the whole id.
SHORTEST_PREFIX = 4
#: How the reason begins or ends when a path is left out although nothing went wrong.
TOO_LARGE, NO_FILE, WORKTREE = "too large: ", ", not a file", "a git worktree of its own"
A_HOME = "a home of "
#: The limits unless the configuration sets others.
MAX_SNAPSHOTS = 20
#: The same in a home with connected agents: a long session has hundreds of tool calls, and each of
#: them can be undone.
MAX_SNAPSHOTS_CONNECTED = 1_000
MAX_BYTES = 500_000_000
MAX_FILE_BYTES = 10_000_000
#: Larger files are not sent to a remote.
MAX_PUSHED_FILE_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCaptured(JsonValue):
    """A path that a checkpoint left out, and why. What ignore rules leave out is not listed."""

    path: str
    reason: str

    @property
    def by_rule(self) -> bool:
        """True if nothing went wrong: the file is larger than the user wants, or is not a regular
        file."""
        return self.reason.startswith(TOO_LARGE) or self.is_no_content

    @property
    def is_no_content(self) -> bool:
        """True if no content is missing: it is a socket or the like, or is no part of the
        project."""
        return self.reason.endswith(NO_FILE) or self.is_apart

    @property
    def is_apart(self) -> bool:
        """True if it is no part of the project: a git worktree of its own, or a home."""
        return self.reason == WORKTREE or self.reason.startswith(A_HOME)


class TakeOutcome(StrEnum):
    """How an attempt to take a checkpoint ended."""

    TAKEN = "taken"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRestore:
    """A restore of `target` that a killed process left half-done. The next take finished it, or
    `problem` says why it could not."""

    target: str
    problem: str = ""


def cut_words(cut: CutRestore, workdir: str) -> str:
    """What a take reports about the interrupted restore that it found."""
    restore = f"a restore of {workdir} to checkpoint {cut.target[:12]} was interrupted"
    if not cut.problem:
        return f"{restore}; it was finished first, and the checkpoint has the state after it"
    left = "could not be finished, so the project is only partly restored"
    return f"{restore} and {left}: {cut.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """The result of an attempt to take a checkpoint.

    `id` is the new checkpoint, the last one if nothing changed since, or None if it was skipped.
    `reason` is the reason of the checkpoint, or why none was taken. `excluded` counts the files and
    folders that the default excludes leave out; a folder counts once. `files_changed` is set by a
    dry run: how many files would differ from the last checkpoint. `cut_restore` is an interrupted
    restore of the directory that was found and dealt with before the take.
    """

    outcome: TakeOutcome
    id: str | None
    reason: str
    not_captured: tuple[NotCaptured, ...] = ()
    excluded: int = 0
    files_changed: int = 0
    cut_restore: CutRestore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A file or a whole folder that a default exclude leaves out, and the rule that does."""

    path: str
    rule: str
    is_directory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as the store knows it. `time` is in epoch seconds.

    Two checkpoints have the same `tree` exactly when they captured the same content. Files and
    lines are counted against the previous checkpoint; lines are None if they were not counted.
    `origin` is the identity that an imported checkpoint had before. `rules` identifies the default
    excludes that were in effect; None if they were not recorded. `machine` is where a fetched
    checkpoint was taken, "" for this machine; `workdir` is a path on that machine.
    """

    id: str
    project: str
    workdir: str
    time: float
    reason: str
    tree: str
    session: str | None = None
    turn: str | None = None
    name: str | None = None
    pinned: bool = False
    files_changed: int = 0
    insertions: int | None = None
    deletions: int | None = None
    not_captured: tuple[NotCaptured, ...] = ()
    origin: str | None = None
    rules: str | None = None
    machine: str = ""

    @property
    def place(self) -> str:
        """The directory, prefixed with the machine if it is on another one."""
        return f"{self.machine}:{self.workdir}" if self.machine else self.workdir

    @property
    def known_id(self) -> str:
        """The id that people know it by: an imported checkpoint keeps its former id for this
        purpose."""
        return origin_parts(self.origin)[0] or self.id


def origin_parts(origin: str | None) -> tuple[str, str]:
    """The former id and tree of an imported checkpoint; "" if unknown."""
    _, _, rest = (origin or "").partition(":")
    commit, _, tree = rest.partition(":")
    return commit, tree


class ProjectState(StrEnum):
    """The state of a working directory that has checkpoints. `UNKNOWN`: its path is not known, or
    its parent folder is gone too, so it may have been moved. `ELSEWHERE`: it is on another machine,
    and its checkpoints were fetched from a remote."""

    LIVE = "live"
    MISSING = "missing"
    UNMOUNTED = "unmounted"
    UNKNOWN = "unknown"
    STALE = "stale"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A working directory that has checkpoints. `bytes` is None if it was not measured. `mount` is
    the mount point of its disk, "" for the root disk or if unknown. `by` names the program that
    takes its checkpoints, if that is not the agent whose home it is. In a `chained` project the
    oldest checkpoints must go first: dropping one from the middle would change the ids of the newer
    ones. `machine` is where it is, "" for this machine."""

    id: str
    workdir: str
    state: ProjectState
    checkpoints: int
    last_touch: float
    bytes: int | None = None
    mount: str = ""
    by: str = ""
    chained: bool = False
    machine: str = ""

    @property
    def place(self) -> str:
        """The directory, prefixed with the machine if it is on another one."""
        return f"{self.machine}:{self.workdir}" if self.machine else self.workdir


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One captured file, symlink or directory. `mode` is its full `st_mode` from `lstat`: type and
    permissions. `oid` names the content of a file or the target of a symlink; it is empty for a
    directory."""

    mode: int
    oid: str = ""

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Everything in one tree, by path.

    `files` are files and symlinks. `directories` are only those that do not follow from the files:
    directories with nothing captured in them (`empty`), and those with unusual permissions. Any
    other directory above a file has the permissions `usual_directory`.
    """

    files: Mapping[str, Entry]
    directories: Mapping[str, Entry]
    empty: frozenset[str] = frozenset()
    usual_directory: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The working tree as it is now, as a tree in the store that belongs to no checkpoint.

    It can be compared and read like the tree of a checkpoint until space is reclaimed.
    """

    tree: str
    not_captured: tuple[NotCaptured, ...] = ()
    rules: str | None = None


class ChangeKind(StrEnum):
    """How a path differs between two trees."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    TYPE = "type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that differs. If both sides have the same `oid`, only their permissions differ."""

    path: str
    kind: ChangeKind
    old: Entry | None
    new: Entry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines that were added and removed between two trees."""

    insertions: int
    deletions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capturing:
    """What a store captures, and the limits that apply while checkpoints are taken.

    `user_home` is too broad to be captured. `max_file_size` is in bytes, None for no limit.
    `excludes` are ignore rules in addition to the default ones. `max_snapshots` limits the
    checkpoints of a project, 0 for no limit; `max_bytes` limits the size of the store on the disk,
    None for no limit. `here` is the user's working directory: it decides which project is meant if
    two have a checkpoint with the same id. With `hash_all` every file is read, even if its mtime
    suggests that it did not change.
    """

    user_home: Path | None = None
    max_file_size: int | None = MAX_FILE_BYTES
    excludes: tuple[str, ...] = ()
    max_snapshots: int = 0
    max_bytes: int | None = None
    here: Path | None = None
    hash_all: bool = False


#: The settings of a home without a configuration.
BY_DEFAULT = Capturing(max_snapshots=MAX_SNAPSHOTS, max_bytes=MAX_BYTES)
CONNECTED_BY_DEFAULT = Capturing(max_snapshots=MAX_SNAPSHOTS_CONNECTED, max_bytes=MAX_BYTES)


class RestoreState(StrEnum):
    """The progress of the latest restore of a project. Repeating an interrupted one finishes it."""

    NOT_BEGUN = "not begun"
    CUT = "cut short"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The result of a restore. `kept` are the paths that it left alone, each with the reason.
    `operation` is its number in the log, for undo; None if nothing changed."""

    written: tuple[str, ...]
    deleted: tuple[str, ...]
    kept: tuple[NotCaptured, ...]
    safety_checkpoint: str | None
    operation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Rollback):
    """What a restore would do to the working tree as it was when the preview was made.

    `seen` has every path that the restore would touch, and what was found there, or None. A restore
    that is given this preview touches only these paths, and only if they have not changed since.
    """

    seen: Mapping[str, Entry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPaths:
    """Paths that may have changed, with everything below them, relative to the directory.

    `lost` says why the list is incomplete; then only a scan of the whole tree can tell.
    """

    paths: frozenset[str] = frozenset()
    lost: str = ""

    def __bool__(self) -> bool:
        return bool(self.paths or self.lost)

    def __or__(self, other: ChangedPaths) -> ChangedPaths:
        return ChangedPaths(paths=self.paths | other.paths, lost=self.lost or other.lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The result of a watch. `looks` is how often it had to scan the whole tree."""

    taken: int = 0
    unchanged: int = 0
    failed: int = 0
    looks: int = 0
    last: str | None = None

    def to_json(self) -> dict[str, Any]:
        said = fields_to_json(self, without=("looks", "last"))
        return said | {"full_looks": self.looks, "last": self.last}


class ImportState(StrEnum):
    """What happened to a checkpoint or, in a dry run, what would happen."""

    IMPORTED = "imported"
    KNOWN = "known"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A checkpoint that another agent took, known there as `origin`. `id` is its id in our store,
    "" if it is not in the store."""

    origin: str
    id: str = ""
    workdir: str
    time: float
    reason: str
    state: ImportState
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self) | {"id": self.id or None}
