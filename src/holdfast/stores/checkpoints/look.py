"""Look at a working tree: what differs from the last checkpoint, and what cannot be captured."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress

from holdfast.errors import GitFailedError, StorageError
from holdfast.stores.checkpoints.agent_homes import home_at
from holdfast.stores.checkpoints.default_excludes import Ignoring
from holdfast.stores.checkpoints.look_state import KnownFile, Listed, State
from holdfast.stores.checkpoints.private_index import PrivateIndex
from holdfast.stores.checkpoints.read_file import (
    NO_SIGNATURE,
    TICK,
    UNFIT_NAME,
    YOUNG,
    Content,
    Directory,
    Left,
    Signature,
    read,
    signature_at,
    signature_of,
)
from holdfast.stores.checkpoints.walk import (
    ATTRIBUTES,
    GIT,
    RULES,
    UNREADABLE_RULES,
    Walk,
    Walked,
    has_unreadable_rules,
    is_special,
    is_worktree,
    join,
    parent,
    place,
    rules_digest,
)
from holdfast.stores.git.index_file import status_bytes
from holdfast.stores.git.object import Kind, object_id
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.quick_process import QuickProcess
from holdfast.stores.git.trees import LINK, TREE, Node, Trees
from holdfast.value import dataclass, field

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from holdfast.stores.checkpoints.early_look import EarlyLook

#: Starting other processes takes as long as reading this many files.
_MANY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeing:
    """The input of a look: a working tree, and the `files` tree of the last checkpoint."""

    root: bytes
    trees: Trees
    base: bytes
    index: PrivateIndex
    state: State
    listed: Listed
    standing: str
    limit: int | None
    moment: int
    #: There is no index yet, so one will be created from this look.
    indexing: bool
    #: Read every file, regardless of its times.
    hash_all: bool = False
    #: The device whose directory times can be trusted; None if unknown.
    device: int | None = None
    early: EarlyLook | None = None


@dataclass(slots=True, kw_only=True)
class Looked:
    """What a look found. `paths` are the paths to check more closely; `whole` means that the walk
    saw every directory. `look` fills in the patch for the last tree and the permissions."""

    walked: Walked
    paths: frozenset[bytes]
    whole: bool
    patch: dict[bytes, Node | None] = field(default_factory=dict)
    permissions: dict[bytes, int] = field(default_factory=dict)
    left: dict[bytes, str] = field(default_factory=dict)
    young: dict[bytes, Signature] = field(default_factory=dict)
    #: Index rows of the files that were read or known to be unchanged.
    rows: dict[bytes, bytes] = field(default_factory=dict)
    #: Files that were read; no need to read them again while they have this signature.
    known: dict[bytes, KnownFile] = field(default_factory=dict)
    #: For a first look: the directories that contain files.
    folders: Container[bytes] | None = None
    size: int = 0


def find_all(seeing: Seeing) -> Looked:
    """Find the paths of a whole look. Names are compared here while git compares times."""
    early = None if seeing.early is None else seeing.early.used()
    with ExitStack() as cleanup:
        process = early
        if process is None and seeing.index.path.exists():
            process = seeing.index.start_look()
        if process is not None:
            cleanup.enter_context(process)
        ignoring = cleanup.enter_context(Ignoring(seeing.index.git))
        walked = _walk(seeing, ignoring).below(b"", seeing.standing)
        if walked.left.get(b"") == UNREADABLE_RULES:
            raise StorageError(
                f"Cannot look at {os.fsdecode(seeing.root)}: its .gitignore is a pipe, a socket or"
                " a device, so its rules are unknown.",
                hint="Move it away and try again.",
            )
        if b"" not in walked.directories:
            raise StorageError(
                f"Cannot look at {os.fsdecode(seeing.root)}: it disappeared, or cannot be read."
            )
        paths = set() if process is None else _dirty(seeing, walked, process, early)
        paths |= walked.new | seeing.state.ahead | seeing.state.left.keys() | _grown(seeing)
        rows: dict[bytes, bytes] = {}
        if seeing.hash_all:
            paths |= {path for path, _ in seeing.trees.files(seeing.base)}
        else:
            rows = _still_known(seeing, walked, paths)
            paths -= rows.keys()
        if not seeing.indexing:  # otherwise the walk has judged all new names
            paths -= ignoring.ask(_unsure(seeing, walked, paths))
    return Looked(walked=walked, paths=frozenset(paths), whole=True, rows=rows)


def _still_known(seeing: Seeing, walked: Walked, paths: set[bytes]) -> dict[bytes, bytes]:
    """Return the rows of files that were read before and did not change since. git lists them as
    changed until the index has caught up."""
    rows: dict[bytes, bytes] = {}
    for path in paths & seeing.state.known.keys():
        folder, _, name = path.rpartition(b"/")
        if folder not in walked.directories or path in walked.left:
            continue
        names = walked.fresh.get(folder)
        if names is not None and name not in names:
            continue  # gone, or ignored by now
        signature, kind, oid = seeing.state.known[path]
        with suppress(OSError):
            status = os.lstat(place(seeing.root, path))
            if status.st_dev == seeing.device and signature_of(status) == signature:
                rows[path] = status_bytes(status, kind) + oid
    return rows


def _dirty(
    seeing: Seeing, walked: Walked, process: QuickProcess, early: QuickProcess | None
) -> set[bytes]:
    """Return the known files that may have changed, according to their times."""
    if _has_pipe_for_attributes(seeing, walked):
        process.kill()  # git would block forever reading it
        return seeing.index.known()
    try:
        return seeing.index.finish_look(process)
    except GitFailedError:
        if process is not early:
            raise
    # It ran without the lock, so maintenance may have interfered.
    with seeing.index.start_look() as again:
        return seeing.index.finish_look(again)


def _has_pipe_for_attributes(seeing: Seeing, walked: Walked) -> bool:
    return any(
        path.rpartition(b"/")[2] == ATTRIBUTES and is_special(place(seeing.root, path))
        for path in (*walked.left, *seeing.state.left)
    )


def _grown(seeing: Seeing) -> set[bytes]:
    """Return young files that have changed, or may have changed in the same clock tick."""
    return {
        path
        for path, signature in seeing.state.young.items()
        if signature_at(place(seeing.root, path)) != signature
    }


def _unsure(seeing: Seeing, walked: Walked, paths: Iterable[bytes]) -> list[bytes]:
    """Return files that the last checkpoint lacks, in directories whose names did not change: they
    were ignored, or absent for a while."""
    return [
        path
        for path in paths
        if parent(path) in walked.directories
        and parent(path) not in walked.fresh
        and path not in seeing.state.left
        and seeing.trees.at(seeing.base, path) is None
        and _mode(place(seeing.root, path)) is not None
    ]


def find_known(seeing: Seeing, given: Sequence[bytes]) -> Looked | None:
    """Look at the given paths and everything below them; None if that needs a whole look."""
    if any(path.rpartition(b"/")[2] == RULES or not path for path in given):
        return None
    with Ignoring(seeing.index.git) as ignoring:
        walk = _walk(seeing, ignoring)
        paths = set()
        for path in _unignored(seeing, walk.walked, ignoring, _real(seeing, given)):
            _note_above(seeing, walk.walked, path)
            mode = _mode(place(seeing.root, path))
            if mode is not None and stat.S_ISDIR(mode):
                above = rules_digest(seeing.root, parent(path), seeing.standing)
                walk.below(path, above)
                paths |= _captured_below(seeing, path)
                paths |= {left for left in seeing.state.left if left.startswith(path + b"/")}
            paths.add(path)
    return Looked(walked=walk.walked, paths=frozenset(paths | walk.walked.new), whole=False)


def look(seeing: Seeing, looked: Looked, new: Pack) -> None:
    """Read the files that may have changed, and store new contents."""
    looked.left.update(looked.walked.left)
    for path in looked.walked.gone:
        if seeing.trees.at(seeing.base, path) is not None:
            looked.patch[path] = None
    if seeing.indexing and len(looked.paths) > _MANY:
        _read_all(seeing, looked, new)
        return
    for path in looked.paths:
        _look_at(seeing, looked, path, new)


def _read_all(seeing: Seeing, looked: Looked, new: Pack) -> None:
    """Read every file that the walk found, in several processes, and store its content."""
    from holdfast.stores.checkpoints.readers import Readers, Reading  # noqa: PLC0415 - few need it

    how = Reading(
        root=seeing.root,
        limit=seeing.limit,
        moment=seeing.moment,
        objects=seeing.trees.objects.folder,
    )
    # No longer needed, and as large as everything else.
    looked.walked.new.clear()
    looked.walked.fresh = {folder: set() for folder in looked.walked.fresh}
    modes: dict[int, int] = {}  # shares one int object per mode
    with Readers(how) as readers:
        for path, found in readers.read(sorted(looked.paths)):
            if isinstance(found, str):
                looked.left.setdefault(path, found)
            elif found is not None:
                kind, permissions, size, signature, status, oid, stored = found
                looked.size += size
                note_young(seeing, looked, path, signature)
                looked.rows[path] = status + oid
                if kind != LINK:
                    looked.permissions[path] = modes.setdefault(permissions, permissions)
                new.copy(oid, stored)


def _look_at(seeing: Seeing, looked: Looked, path: bytes, new: Pack) -> None:
    held = seeing.trees.at(seeing.base, path)
    here = _read(seeing, looked.walked, path, looked.whole)
    if isinstance(here, Content):
        looked.size += len(here.data)
        note_young(seeing, looked, path, here.signature)
        if here.kind != LINK:
            looked.permissions[path] = here.permissions
        oid = object_id(Kind.BLOB, here.data)
        looked.rows[path] = status_bytes(here.status, here.kind) + oid
        if here.status.st_dev == seeing.device and here.signature[-1] < seeing.moment - TICK:
            looked.known[path] = here.signature, here.kind, oid
        if held != (here.kind, oid):
            if held is None or held[1] != oid:
                new.add(oid, Kind.BLOB, here.data)
            looked.patch[path] = (here.kind, oid)
        else:
            looked.patch.pop(path, None)
        return
    if isinstance(here, Left):
        looked.left.setdefault(path, here.reason)  # a directory has its reason from the walk
    # A directory replaces a file. Its content is covered by its own paths.
    if held is not None and not (isinstance(here, Directory) and held[0] == TREE):
        looked.patch[path] = None


def note_young(seeing: Seeing, looked: Looked, path: bytes, signature: Signature) -> None:
    changed = signature[-1]
    if changed > seeing.moment - YOUNG:
        # If it changed in this clock tick, no signature is safe, so it is read again next time.
        looked.young[path] = signature if changed < seeing.moment - TICK else NO_SIGNATURE


def _read(
    seeing: Seeing, walked: Walked, path: bytes, whole: bool
) -> Content | Left | Directory | None:
    folder, _, name = path.rpartition(b"/")
    if whole and folder not in walked.directories:
        return None
    names = walked.fresh.get(folder)
    if names is not None and name not in names:
        # Gone, ignored by now, or a name that git reserves.
        return Left(UNFIT_NAME) if path in walked.left else None
    if name.lower() == GIT:
        exists = _mode(place(seeing.root, path)) is not None
        return Left(UNFIT_NAME) if exists else None
    return read(place(seeing.root, path), seeing.limit, moment=seeing.moment)


def _walk(seeing: Seeing, ignoring: Ignoring) -> Walk:
    return Walk(
        root=seeing.root,
        trees=seeing.trees,
        base=seeing.base,
        listed=seeing.listed,
        ignoring=ignoring,
        moment=seeing.moment,
        device=None if seeing.hash_all else seeing.device,
    )


def _real(seeing: Seeing, given: Iterable[bytes]) -> list[bytes]:
    """Return the given paths. A path below a symbolic link, a missing directory, another worktree,
    a home or a directory with unreadable rules is replaced by that place."""
    real: dict[bytes, None] = {}
    for path in given:
        names = path.split(b"/")
        if GIT in names:
            continue
        so_far = b""
        for name in names:
            mode = _mode(place(seeing.root, so_far))
            if mode is None or not stat.S_ISDIR(mode):
                break
            here = place(seeing.root, so_far)
            if has_unreadable_rules(here) or (so_far and (is_worktree(here) or home_at(here))):
                break
            so_far = join(so_far, name)
        real[so_far] = None
    return list(real)


def _note_above(seeing: Seeing, walked: Walked, path: bytes) -> None:
    """Record the directories above a path with their permissions."""
    while path and (path := parent(path)) not in walked.directories:
        mode = _mode(place(seeing.root, path))
        if mode is not None and stat.S_ISDIR(mode):
            walked.directories[path] = stat.S_IMODE(mode)


def _unignored(
    seeing: Seeing, walked: Walked, ignoring: Ignoring, paths: Sequence[bytes]
) -> list[bytes]:
    """Return the paths that the rules keep. For a checkpoint, the others are gone.

    Skips git for files that were captured under the same rules.
    """
    asked = [path for path in paths if not _surely_kept(seeing, path)]
    ignored = ignoring.ask(asked)
    walked.gone |= ignored
    return [path for path in paths if path not in ignored]


def _surely_kept(seeing: Seeing, path: bytes) -> bool:
    folder = parent(path)
    seen = seeing.listed.directories.get(folder)
    held = seeing.trees.at(seeing.base, path)
    if seen is None or held is None or held[0] == TREE:
        return False
    mode = _mode(place(seeing.root, path))
    if mode is not None and stat.S_ISDIR(mode):
        return False
    return seen[1] == rules_digest(seeing.root, folder, seeing.standing)


def _captured_below(seeing: Seeing, path: bytes) -> set[bytes]:
    node = seeing.trees.at(seeing.base, path)
    if node is None or node[0] != TREE:
        return set()
    return {below for below, _ in seeing.trees.files(node[1], path)}


def _mode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None


def carried_young(seeing: Seeing, looked: Looked) -> Mapping[bytes, Signature]:
    """Return the files that are young now, and young files that have changed since and were not
    looked at.

    If a file is unchanged and no longer young, git will notice its next change.
    """
    oldest = seeing.moment - YOUNG
    before = {
        path: signature
        for path, signature in seeing.state.young.items()
        if path not in looked.paths
        and (
            signature[-1] > oldest
            or (not looked.whole and signature_at(place(seeing.root, path)) != signature)
        )
    }
    return before | looked.young


def carried_known(
    seeing: Seeing, looked: Looked, changed: Container[bytes]
) -> Mapping[bytes, KnownFile]:
    """Return the files that the next look does not have to read: those that this look read, and
    earlier ones that are unchanged or that this look did not cover."""
    before = {
        path: known
        for path, known in seeing.state.known.items()
        if path not in looked.paths
        and path not in changed
        and (path in looked.rows or not looked.whole)
    }
    return before | looked.known


def carried_left(state: State, looked: Looked) -> Mapping[bytes, str]:
    """Return the paths that are not captured: from this look, or from before where it did not
    look."""
    if looked.whole:
        return looked.left
    seen = looked.paths | looked.walked.directories.keys() | looked.walked.gone
    before = {path: why for path, why in state.left.items() if path not in seen}
    return before | looked.left
