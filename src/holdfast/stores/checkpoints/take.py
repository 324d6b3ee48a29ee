"""Take a checkpoint: look, write the objects, write the reference, keep the private index warm.

Write-order rule: objects are flushed before the reference that makes them a checkpoint, and the
private index comes after the reference. A kill anywhere leaves a whole checkpoint or none, and an
index that is at most behind, which the next look notices.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.errors import DamageError, GitFailedError, StorageError
from holdfast.model.checkpoint import Capturing, Lines, NotCaptured, Sight, TakeOutcome, Taking
from holdfast.stores.checkpoints import look_state as states
from holdfast.stores.checkpoints.checkpoint_commit import (
    Details,
    order_after,
    write_checkpoint,
)
from holdfast.stores.checkpoints.comparison import count_lines
from holdfast.stores.checkpoints.content import Base, find_base, modes_changed, write_root
from holdfast.stores.checkpoints.file_content import Signature
from holdfast.stores.checkpoints.ignore_rules import standing_digest
from holdfast.stores.checkpoints.look import (
    Found,
    Looked,
    Seeing,
    carried_left,
    carried_young,
    find_all,
    find_all_again,
    find_known,
    look,
)
from holdfast.stores.checkpoints.look_state import Listed, Listing, Listings, State
from holdfast.stores.checkpoints.private_index import PrivateIndex
from holdfast.stores.checkpoints.repository import Layout, opened
from holdfast.stores.checkpoints.walk import parent
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Pack, Reserve
from holdfast.stores.git.program import EXCLUDES, Git
from holdfast.stores.git.trees import EMPTY, TREE, Node, Trees, path_text
from holdfast.value import dataclass, replace

#: The index is brought up to date when the next look would have to read more than this again.
_BEHIND_FILES = 32
_BEHIND_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to take, and what to say of it."""

    workdir: Path
    project: str
    reason: str
    now: float
    session: str | None
    turn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLook:
    """A working tree that was looked at and is in the store."""

    base: Base | None
    state: State
    listing: Listing
    standing: str
    excluded: int
    looked: Looked
    root: bytes
    files: bytes
    changed: Mapping[bytes, tuple[Node | None, Node | None]]
    modes_changed: int
    young: Mapping[bytes, Signature]

    @property
    def not_captured(self) -> tuple[NotCaptured, ...]:
        left = sorted(carried_left(self.state, self.looked).items())
        return tuple(NotCaptured(path=path_text(path), reason=why) for path, why in left)


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
    ) -> None:
        self._layout = layout
        self._project = project
        self._workdir = workdir
        self._limit = how.max_file_size
        self._folder = layout.private(project)
        self._listings = listings
        self._hash_all = how.hash_all
        objects = opened(layout)
        self._objects = Pack(layout.packs, objects.stored, reserve)
        self._trees = Trees(objects, self._objects)
        git = Git(store=layout.store, folder=self._folder, work_tree=workdir)
        self._index = PrivateIndex(git=git, folder=self._folder)

    def take(self, order: Order, paths: Sequence[bytes] | None) -> Taking:
        with self._objects:
            return self._take(order, paths)

    def _take(self, order: Order, paths: Sequence[bytes] | None) -> Taking:
        seen = self._seen(paths)
        if seen.base is not None and seen.root == seen.base.content.root:
            self._keep(seen)
            return Taking(
                outcome=TakeOutcome.UNCHANGED,
                id=seen.base.commit,
                reason="nothing changed since the last checkpoint",
                not_captured=seen.not_captured,
                excluded=seen.excluded,
            )
        commit = self._commit(order, seen)
        self._keep(seen)
        return Taking(
            outcome=TakeOutcome.TAKEN,
            id=commit,
            reason=order.reason,
            not_captured=seen.not_captured,
            excluded=seen.excluded,
        )

    def look(self) -> Sight:
        with self._objects:
            seen = self._seen(None)
            self._objects.flush()
        return Sight(tree=seen.root.hex(), not_captured=seen.not_captured, rules=seen.standing)

    def _seen(self, paths: Sequence[bytes] | None) -> StoredLook:
        self._index.unlock()
        state = states.read_state(self._folder)
        base = find_base(self._trees, self._layout, self._project)
        try:
            return self._look(base, state, paths)
        except DamageError:
            if base is None:
                raise
            # What the last checkpoint has lost cannot be built upon: start over without it.
            return self._look(None, State(), None)

    def _look(self, base: Base | None, state: State, paths: Sequence[bytes] | None) -> StoredLook:
        if base is None:
            state, listed = State(), states.NOTHING_LISTED
            self._index.remove()
        else:
            listed = self._listings.read(self._folder)
            state = self._in_step(state, base)
            state = replace(state, left=dict.fromkeys(listed.left, "") | dict(state.left))
        seeing = self._seeing(base, state, listed)
        found = find_known(seeing, paths) if base is not None and paths is not None else None
        if found is None:
            found = self._found(seeing, base)
        return self._stored(seeing, found, base)

    def _seeing(self, base: Base | None, state: State, listed: Listed) -> Seeing:
        files = EMPTY if base is None else base.content.files
        excludes = read_file(self._layout.store / EXCLUDES)
        return Seeing(
            root=os.fsencode(self._workdir),
            trees=self._trees,
            base=files,
            index=self._index,
            state=state,
            listing=listed.directories,
            excluded=listed.excluded,
            standing=standing_digest(excludes),
            limit=self._limit,
            # The kernel's clock, as files have it: the lock was written when it was taken.
            moment=(self._folder / "lock").stat().st_mtime_ns,
            indexing=base is None,
            hash_all=self._hash_all,
        )

    def _in_step(self, state: State, base: Base) -> State:
        """The state, made to speak of this checkpoint's tree whatever happened since."""
        tree = base.content.files.hex()
        ahead = state.ahead
        if state.tree != tree and self._index.wake(self._trees):
            try:
                ahead |= self._index.differing(tree)
            except GitFailedError:
                self._index.remove()
        if not state.tree or _lower(self._limit, state.limit):
            # The files that had just changed are forgotten; or what was small enough may be too
            # large now.
            ahead |= {path for path, _ in self._trees.files(base.content.files)}
        return replace(state, tree=tree, ahead=ahead)

    def _found(self, seeing: Seeing, base: Base | None) -> Found:
        if base is None:
            return find_all(seeing)
        tree = base.content.files.hex()
        if not self._index.wake(self._trees):
            return find_all_again(seeing, tree)
        try:
            return find_all(seeing)
        except GitFailedError:
            return find_all_again(seeing, tree)

    def _stored(self, seeing: Seeing, found: Found, base: Base | None) -> StoredLook:
        """Write what is new: contents, trees, the record of permissions."""
        looked = look(seeing, found, self._objects)
        files = self._trees.patched(seeing.base, looked.patch)
        before = None if base is None else base.content
        root = write_root(self._trees, files, looked, before)
        changed: dict[bytes, tuple[Node | None, Node | None]] = {}
        if files != seeing.base:
            differing = self._trees.differing(seeing.base, files)
            changed = {path: (old, new) for path, old, new in differing}
        return StoredLook(
            base=base,
            state=seeing.state,
            listing=seeing.listing,
            standing=seeing.standing,
            excluded=sum((looked.walked.excluded if looked.whole else seeing.excluded).values()),
            looked=looked,
            root=root,
            files=files,
            changed=changed,
            modes_changed=0 if before is None else modes_changed(looked, before.record, changed),
            young=carried_young(seeing, looked),
        )

    def _commit(self, order: Order, seen: StoredLook) -> str:
        lines = self._lines(seen)
        details = Details(
            project=self._project,
            workdir=str(self._workdir),
            time=order.now,
            reason=order.reason,
            session=order.session,
            turn=order.turn,
            files_changed=len(seen.changed) + seen.modes_changed,
            insertions=None if lines is None else lines.insertions,
            deletions=None if lines is None else lines.deletions,
            not_captured=seen.not_captured,
            rules=seen.standing,
        )
        last = "" if seen.base is None else seen.base.ref
        number = order_after(order.now, last)
        with storage_errors("write a checkpoint"):
            return write_checkpoint(
                self._layout, self._trees, self._objects, details, seen.root, number
            )

    def _lines(self, seen: StoredLook) -> Lines | None:
        if seen.looked.size > _BEHIND_BYTES:
            return None
        return count_lines(seen.changed.values(), self._content)

    def _content(self, blob: bytes) -> bytes:
        new = self._objects.data(blob)
        return self._trees.raw(blob, Kind.BLOB) if new is None else new

    def _keep(self, seen: StoredLook) -> None:
        # The checkpoint is taken. What is not remembered only makes the next look slower.
        with suppress(StorageError):
            self._remember(seen)

    def _ahead(self, seen: StoredLook) -> frozenset[bytes]:
        """Paths where the index is behind, but for what is gone from a directory whose names were
        just read: if it comes back, they tell."""
        ahead = seen.state.ahead | seen.changed.keys()
        fresh = seen.looked.walked.fresh if seen.looked.whole else ()
        return frozenset(
            path
            for path in ahead
            if parent(path) not in fresh or self._trees.at(seen.files, path) is not None
        )

    def _remember(self, seen: StoredLook) -> None:
        """Write down what this look knew; bring the index up to date if it fell far behind."""
        looked = seen.looked
        state = State(
            tree=seen.files.hex(),
            limit=self._limit,
            ahead=self._ahead(seen),
            left=carried_left(seen.state, looked),
            young=seen.young,
        )
        if looked.whole and (
            looked.walked.listing != seen.listing or state.left.keys() != seen.state.left.keys()
        ):
            states.write_listing(
                self._folder, looked.walked.listing, state.left, looked.walked.excluded
            )
        if seen.base is None:
            self._index.write(_entries(looked))
            state = replace(state, ahead=frozenset())
        if state != seen.state:
            states.write_state(self._folder, state)
        behind = state.ahead | (looked.paths - state.left.keys())
        if seen.base is None:
            return
        if not self._index.is_there():
            self._index.rebuild(state.tree)
        elif len(behind) > _BEHIND_FILES or looked.size > _BEHIND_BYTES:
            nodes = {path: self._trees.at(seen.files, path) for path in state.ahead}
            files = {
                path: None if node is None or node[0] == TREE else node
                for path, node in nodes.items()
            }
            if not (self._index.wake(self._trees) and self._index.update(files)):
                return
        else:
            return
        states.write_state(self._folder, replace(state, ahead=frozenset()))


def _entries(looked: Looked) -> dict[bytes, tuple[bytes, bytes]]:
    """An index of all that a first look captured."""
    nodes = looked.patch.items()
    return {path: (looked.statuses[path], node[1]) for path, node in nodes if node is not None}


def _lower(limit: int | None, before: int | None) -> bool:
    return limit is not None and (before is None or limit < before)
