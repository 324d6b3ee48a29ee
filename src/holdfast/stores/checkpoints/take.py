"""Take a checkpoint: look, write the objects, write the reference, update the private index.

Write-order rule: objects are durable before the reference that makes them a checkpoint, and the
private index comes after the reference. A kill leaves a complete checkpoint or none. The index may
be behind, which the next look notices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.errors import DamageError, GitFailedError, StorageError
from holdfast.model.checkpoint import (
    Capturing,
    Checkpoint,
    Lines,
    NotCaptured,
    Sight,
    TakeOutcome,
    Taking,
)
from holdfast.stores.checkpoints import look_state as states
from holdfast.stores.checkpoints.checkpoint_commit import (
    order_after,
    write_checkpoint,
)
from holdfast.stores.checkpoints.comparison import count_lines
from holdfast.stores.checkpoints.content import Base, find_base, modes_changed, write_root
from holdfast.stores.checkpoints.default_excludes import digest_of
from holdfast.stores.checkpoints.look import (
    Looked,
    Seeing,
    carried_known,
    carried_left,
    carried_young,
    find_all,
    find_known,
    look,
)
from holdfast.stores.checkpoints.look_state import Listed, Listings, State
from holdfast.stores.checkpoints.private_index import PrivateIndex
from holdfast.stores.checkpoints.repository import Layout, opened
from holdfast.stores.checkpoints.walk import is_local, mounts, parent
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.index_file import row_kind, row_oid
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Pack, Reserve
from holdfast.stores.git.program import EXCLUDES, Git
from holdfast.stores.git.trees import EMPTY, TREE, Node, Trees, path_text
from holdfast.value import dataclass, replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from holdfast.stores.checkpoints.early_look import EarlyLook

#: The index is updated if the next look would have to re-read more than this.
_BEHIND_FILES = 64
#: Writing a larger index takes longer: one more file is allowed for every so many bytes of it.
_BEHIND_PER_FILE = 100_000
_BEHIND_BYTES = 4_000_000
#: Up to this many more directories, plus this fraction of all, may lack their stamps in the
#: listing: reading their names takes as long as writing the listing.
_UNSTAMPED = 32
_UNSTAMPED_PART = 64
_UNCHANGED = "nothing changed since the last checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to take, and the details of the checkpoint."""

    workdir: Path
    project: str
    reason: str
    now: float
    session: str | None
    turn: str | None
    #: If the last checkpoint is a different one, look at the whole tree.
    after: str | None = None
    early: EarlyLook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLook:
    """A look whose objects are in the store."""

    base: Base | None
    seeing: Seeing
    looked: Looked
    root: bytes
    files: bytes
    changed: Mapping[bytes, tuple[Node | None, Node | None]]

    @property
    def not_captured(self) -> tuple[NotCaptured, ...]:
        left = sorted(carried_left(self.seeing.state, self.looked).items())
        return tuple(NotCaptured(path=path_text(path), reason=why) for path, why in left)

    def taking(self, outcome: TakeOutcome, commit: str | None, reason: str) -> Taking:
        looked = self.looked
        counts = looked.walked.excluded if looked.whole else self.seeing.listed.excluded
        return Taking(
            outcome=outcome,
            id=commit,
            reason=reason,
            not_captured=self.not_captured,
            excluded=sum(counts.values()),
        )


class Taker:
    """Takes checkpoints of one project, under its lock."""

    def __init__(
        self,
        layout: Layout,
        project: str,
        workdir: Path,
        how: Capturing,
        listings: Listings,
        reserve: Reserve | None,
        early: EarlyLook | None = None,
    ) -> None:
        self._layout = layout
        self._project = project
        self._workdir = workdir
        self._limit = how.max_file_size
        self._folder = layout.private(project)
        self._listings = listings
        self._hash_all = how.hash_all
        self._early = early
        objects = opened(layout)
        self._objects = Pack(layout.packs, objects.stored, reserve)
        self._trees = Trees(objects, self._objects)
        git = Git(store=layout.store, folder=self._folder, work_tree=workdir)
        self._index = PrivateIndex(git=git, folder=self._folder)

    def take(self, order: Order, paths: Sequence[bytes] | None) -> Taking:
        with self._objects:
            seen = self._seen(paths, order.after)
            base, reason = seen.base, order.reason
            if base is not None and seen.root == base.content.root:
                outcome, commit = TakeOutcome.UNCHANGED, base.commit
                reason = _UNCHANGED
            else:
                outcome, commit = TakeOutcome.TAKEN, self._commit(order, seen)
            # The checkpoint is taken. If this fails, the next look is only slower.
            with suppress(StorageError):
                self._remember(seen)
            return seen.taking(outcome, commit, reason)

    def foresee(self, paths: Sequence[bytes] | None) -> Taking:
        """Return what `take` would do now. The objects that it would write are discarded."""
        with self._objects:
            seen = self._seen(paths)
            base = seen.base
            if base is not None and seen.root == base.content.root:
                return seen.taking(TakeOutcome.UNCHANGED, base.commit, _UNCHANGED)
            files = len(seen.changed) + self._modes(seen)
            return replace(seen.taking(TakeOutcome.TAKEN, None, ""), files_changed=files)

    def look(self) -> Sight:
        with self._objects:
            seen = self._seen(None)
            self._objects.flush()
        return Sight(
            tree=seen.root.hex(), not_captured=seen.not_captured, rules=seen.seeing.standing
        )

    def _seen(self, paths: Sequence[bytes] | None, after: str | None = None) -> StoredLook:
        self._index.unlock()
        state = states.read_state(self._folder)
        base = find_base(self._trees, self._layout, self._project)
        if after is not None and (base is None or base.commit != after):
            paths = None
        try:
            return self._look(base, state, paths)
        except DamageError:
            if base is None:
                raise
            # The last checkpoint is damaged: start over without it.
            return self._look(None, State(), None)

    def _look(self, base: Base | None, state: State, paths: Sequence[bytes] | None) -> StoredLook:
        if base is None:
            state, listed = State(), states.NOTHING_LISTED
            self._index.remove()
        else:
            listed = self._listings.read(self._folder)
            state = self._in_step(state, base)
            state = replace(state, left=dict.fromkeys(listed.left, "") | dict(state.left))
        seeing = self._seeing(base, state, listed, whole=paths is None)
        found = find_known(seeing, paths) if base is not None and paths is not None else None
        if found is None:
            found = self._found(seeing, base)
        return self._stored(seeing, found, base)

    def _seeing(self, base: Base | None, state: State, listed: Listed, *, whole: bool) -> Seeing:
        files = EMPTY if base is None else base.content.files
        excludes = read_file(self._layout.store / EXCLUDES)
        locked = (self._folder / "lock").stat()
        return Seeing(
            root=os.fsencode(self._workdir),
            trees=self._trees,
            base=files,
            index=self._index,
            state=state,
            listed=listed,
            standing=digest_of(excludes),
            limit=self._limit,
            # The time on the kernel's file clock: taking the lock wrote to this file.
            moment=locked.st_mtime_ns,
            indexing=base is None,
            hash_all=self._hash_all,
            device=_device(self._workdir, locked) if whole else None,
            early=self._early,
        )

    def _in_step(self, state: State, base: Base) -> State:
        """Return the state for the tree of this checkpoint, no matter which tree it was for."""
        tree = base.content.files.hex()
        ahead = state.ahead
        known = state.known if state.tree == tree else {}
        if state.tree != tree and self._index.wake(self._trees):
            try:
                ahead |= self._index.differing(tree)
            except GitFailedError:
                self._index.remove()
        if not state.tree or _lower(self._limit, state.limit):
            # The young files are unknown, or a file may be above the new size limit: read all.
            ahead |= {path for path, _ in self._trees.files(base.content.files)}
            known = {}
        return replace(state, tree=tree, ahead=ahead, known=known)

    def _found(self, seeing: Seeing, base: Base | None) -> Looked:
        if base is None:
            return find_all(seeing)
        with suppress(GitFailedError):
            if self._index.wake(self._trees):
                return find_all(seeing)
        # The index is missing or damaged.
        self._index.rebuild(base.content.files.hex())
        return find_all(seeing)

    def _stored(self, seeing: Seeing, looked: Looked, base: Base | None) -> StoredLook:
        """Store new contents, trees, and the record of permissions."""
        look(seeing, looked, self._objects)
        if base is None:
            rows = looked.rows
            ordered = ((path, _node(rows[path])) for path in sorted(rows))
            files, looked.folders = self._trees.built(ordered)
        else:
            files = self._trees.patched(seeing.base, looked.patch)
        before = None if base is None else base.content
        root = write_root(self._trees, files, looked, before)
        changed: Mapping[bytes, tuple[Node | None, Node | None]] = {}
        if base is None:
            changed = _NewFiles(looked.rows)
        elif files != seeing.base:
            differing = self._trees.differing(seeing.base, files)
            changed = {path: (old, new) for path, old, new in differing}
        return StoredLook(
            base=base, seeing=seeing, looked=looked, root=root, files=files, changed=changed
        )

    def _commit(self, order: Order, seen: StoredLook) -> str:
        lines, base = self._lines(seen), seen.base
        checkpoint = Checkpoint(
            id="",
            project=self._project,
            workdir=str(self._workdir),
            time=order.now,
            reason=order.reason,
            session=order.session,
            turn=order.turn,
            files_changed=len(seen.changed) + self._modes(seen),
            insertions=None if lines is None else lines.insertions,
            deletions=None if lines is None else lines.deletions,
            tree=seen.root.hex(),
            not_captured=seen.not_captured,
            rules=seen.seeing.standing,
        )
        number = order_after(order.now, "" if base is None else base.ref)
        with storage_errors("write a checkpoint"):
            return write_checkpoint(self._layout, self._trees, self._objects, checkpoint, number).id

    def _modes(self, seen: StoredLook) -> int:
        """Count the files that differ from the last checkpoint only in their permissions."""
        if seen.base is None:
            return 0
        return modes_changed(seen.looked, seen.base.content.record, seen.changed)

    def _lines(self, seen: StoredLook) -> Lines | None:
        if seen.looked.size > _BEHIND_BYTES:
            return None
        return count_lines(seen.changed.values(), self._content)

    def _content(self, blob: bytes) -> bytes:
        new = self._objects.data(blob)
        return self._trees.raw(blob, Kind.BLOB) if new is None else new

    def _ahead(self, seen: StoredLook) -> frozenset[bytes]:
        """Return the paths where the index is behind. A path that is gone from a directory whose
        names were just read is left out: if it comes back, the names will show it."""
        ahead = seen.seeing.state.ahead | seen.changed.keys()
        fresh = seen.looked.walked.fresh if seen.looked.whole else ()
        return frozenset(
            path
            for path in ahead
            if parent(path) not in fresh or self._trees.at(seen.files, path) is not None
        )

    def _remember(self, seen: StoredLook) -> None:
        """Save what this look learned. Update the index if it is far behind."""
        looked, seeing = seen.looked, seen.seeing
        state = State(
            tree=seen.files.hex(),
            limit=self._limit,
            # After a first look, the index has everything that the look saw.
            ahead=frozenset() if seen.base is None else self._ahead(seen),
            left=carried_left(seeing.state, looked),
            young=carried_young(seeing, looked),
            known={} if seen.base is None else carried_known(seeing, looked, seen.changed),
        )
        if looked.whole and _is_to_be_listed(looked, seeing, state):
            listed = Listed(
                directories=looked.walked.listing,
                left=frozenset(state.left),
                excluded=looked.walked.excluded,
                stamps=looked.walked.stamps,
            )
            states.write_listing(self._folder, listed)
        if seen.base is None:
            self._index.write(looked.rows)
        if state != seeing.state:
            states.write_state(self._folder, state)
        if seen.base is not None and self._is_caught_up(seen, state):
            states.write_state(self._folder, replace(state, ahead=frozenset(), known={}))

    def _is_caught_up(self, seen: StoredLook, state: State) -> bool:
        """Update the index if it is missing or far behind; return whether it is up to date now."""
        if not self._index.is_there():
            self._index.rebuild(state.tree)
            return True
        behind = state.ahead | state.known.keys() | (seen.looked.paths - state.left.keys())
        most = _BEHIND_FILES + self._index.size() // _BEHIND_PER_FILE
        if len(behind) <= most and seen.looked.size <= _BEHIND_BYTES:
            return False
        nodes = {path: self._trees.at(seen.files, path) for path in state.ahead}
        files = {
            path: None if node is None or node[0] == TREE else node for path, node in nodes.items()
        }
        rows = _rows(self._trees, seen, files)
        if rows is not None and self._index.wake(self._trees) and self._index.patch(rows):
            return True
        return self._index.wake(self._trees) and self._index.update(files)


def _rows(
    trees: Trees, seen: StoredLook, files: Mapping[bytes, Node | None]
) -> Mapping[bytes, bytes | None] | None:
    """Return the rows that the index lacks: the files that were read, as they were then, and None
    for those that are gone. Returns None if a file was not read: then git has to read it."""
    read = seen.looked.rows
    rows: dict[bytes, bytes | None] = {
        path: row for path, row in read.items() if trees.at(seen.files, path) == _node(row)
    }
    for path, node in files.items():
        if node is None:
            rows[path] = None
        elif path not in rows:
            return None
    return rows


def _node(row: bytes) -> Node:
    return row_kind(row), row_oid(row)


class _NewFiles(Mapping[bytes, tuple[Node | None, Node | None]]):
    """The changes of a first look, created from the rows of its index on demand."""

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        self._rows = rows

    def __getitem__(self, path: bytes) -> tuple[Node | None, Node | None]:
        return None, _node(self._rows[path])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _is_to_be_listed(looked: Looked, seeing: Seeing, state: State) -> bool:
    walked, listed = looked.walked, seeing.listed
    if walked.listing != listed.directories or state.left.keys() != seeing.state.left.keys():
        return True
    if walked.stamps == listed.stamps:
        return False
    other = sum(listed.stamps.get(path) != stamp for path, stamp in walked.stamps.items())
    return other > _UNSTAMPED + len(walked.listing) // _UNSTAMPED_PART


def _device(workdir: Path, locked: os.stat_result) -> int | None:
    """Return the device of a working directory, if its directory times can be trusted. The lock has
    to be on such a device too: its time is compared with theirs."""
    mounted = mounts()
    try:
        device = workdir.stat().st_dev
    except OSError:
        return None
    return device if all(is_local(mounted, each) for each in {device, locked.st_dev}) else None


def _lower(limit: int | None, before: int | None) -> bool:
    return limit is not None and (before is None or limit < before)
