"""Removing checkpoints from their store and restoring them, rolling back projects, and freeing
space.

Dropping a checkpoint only changes a reference: its objects stay until space is reclaimed. A batch
is one git transaction, so a kill leaves each checkpoint in one place. The name in the trash follows
from the operation and the number.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import (
    BusyError,
    GitFailedError,
    HoldfastError,
    UnknownCheckpointError,
    UsageError,
)
from holdfast.model.checkpoint import RestoreState
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import (
    Moved,
    Outcome,
    Presence,
    Result,
    damaged,
    failed,
    refused,
    stayed,
    unseen,
)
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Clock
from holdfast.services.rollback import left_alone, perform
from holdfast.spine.keeper import OneStepMover, in_a_word, one_by_one
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    CHANGED,
    COPY_MISSING,
    NO_CHECKPOINT_STORE,
    NOT_REACHED,
    PLACE_TAKEN,
    TRASH_TAKEN,
)
from holdfast.stores.checkpoints.checkpoint_commit import Ref, all_refs, change
from holdfast.stores.checkpoints.checkpoint_items import in_use, version_of
from holdfast.stores.checkpoints.older_layout import version_at
from holdfast.stores.checkpoints.projects import read_record
from holdfast.stores.checkpoints.reclaim import reclaim, unlock
from holdfast.stores.checkpoints.repository import Layout, alone, is_older_name, used
from holdfast.stores.checkpoints.restore import can_follow, was_left
from holdfast.stores.files import allocated_below, make_private_dir, sync_dir
from holdfast.stores.trash_paths import TrashFolder
from holdfast.value import dataclass, replace

#: How often to retry when references changed between look and update, before locking others out.
_ATTEMPTS = 4
#: git's message when another process holds a lock, or held it when it was killed.
_LOCKED = ".lock': File exists"
_FOREIGN_NAME = "not the name of an archive of older checkpoints"


@dataclass(frozen=True, slots=True)
class _Step:
    """What happens to a checkpoint and its references."""

    moved: Moved
    create: Sequence[Ref] = ()
    delete: Sequence[Ref] = ()


@dataclass(frozen=True, slots=True)
class _Refs:
    """All references as they are now, by location."""

    shown: Mapping[str, Sequence[Ref]]
    rotated: Mapping[str, Sequence[Ref]]
    trash: Mapping[tuple[str, int], Ref]

    @classmethod
    def look(cls, layout: Layout) -> _Refs:
        refs = all_refs(layout)
        return cls(
            shown=_by_checkpoint(ref for ref in refs if not ref.operation),
            rotated=_by_checkpoint(ref for ref in refs if ref.rotated),
            trash={
                (ref.operation, ref.number): ref
                for ref in refs
                if ref.operation and not ref.rotated
            },
        )

    def of(self, removal: Removal) -> Sequence[Ref]:
        """Return the references that show a checkpoint. Rotated ones count if there is no other,
        unless the checkpoint has a copy in the trash: then it left that way."""
        shown = self.shown.get(removal.item.id)
        hidden = None if self.copy(removal) else self.rotated.get(removal.item.id)
        return [ref for ref in shown or hidden or () if ref.project == removal.item.source]

    def copy(self, removal: Removal) -> Ref | None:
        """Return its undo copy. Any other reference at that place is not a copy."""
        ref = self.trash.get((removal.operation, removal.number))
        return ref if ref is not None and ref.checkpoint == removal.item.id else None

    def has_taken(self, removal: Removal) -> bool:
        return (removal.operation, removal.number) in self.trash


class CheckpointMover(OneStepMover):
    """Moves checkpoints of a store into the trash and back."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        if not self._layout.exists():
            return [unseen(NO_CHECKPOINT_STORE)] * len(batch)
        with used(self._layout):
            refs = _Refs.look(self._layout)
            return [self._seen(refs, each) for each in batch]

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._in_one_step(batch, self._drop)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._in_one_step(batch, _put_back)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        if not self._layout.exists():
            return [failed(NO_CHECKPOINT_STORE)] * len(batch)
        return self._in_one_step(batch, _discard)

    def _seen(self, refs: _Refs, removal: Removal) -> Presence:
        there, copy = refs.of(removal), refs.copy(removal)
        rotated = bool(there) and there[0].rotated
        return Presence(
            here=bool(there),
            copied=copy is not None,
            obstacle=self._obstacle(removal.item) if there and not rotated else "",
            taken=copy is None and removal.item.undoable and refs.has_taken(removal),
            damage=COPY_MISSING if rotated else "",  # it cannot be listed
            bytes=0 if copy is None else removal.item.bytes,
        )

    def _drop(self, refs: _Refs, removal: Removal) -> _Step:
        seen = self._seen(refs, removal)
        if not seen.here:
            return _Step(stayed(ALREADY_GONE))
        if seen.obstacle:
            return _Step(stayed(seen.obstacle))
        if seen.taken or seen.copied:
            return _Step(failed(TRASH_TAKEN))
        there = refs.of(removal)
        if not removal.item.undoable:
            return _Step(Moved(), delete=there)
        copy = there[0].hidden(removal.operation, removal.number)
        return _Step(Moved(copied=True, bytes=removal.item.bytes), [copy], there)

    def _obstacle(self, item: PlanItem) -> str:
        record = read_record(self._layout, item.source)
        if version_of(item.id, record) != item.version:
            return CHANGED
        why = in_use(self._layout, item.source)(item.id)
        return f"in use: {why}" if why else ""

    def _in_one_step(
        self, batch: Sequence[Removal], step: Callable[[_Refs, Removal], _Step]
    ) -> Sequence[Moved]:
        """Look, then change everything in one transaction. A concurrent take may move the
        references of older checkpoints; then git changes nothing, and we look again."""
        for _ in range(_ATTEMPTS):
            try:
                with used(self._layout):
                    return self._at_once(batch, step)
            except GitFailedError as error:
                if _LOCKED in error.said:
                    unlock(self._layout, holder="checkpoints")
        # A process that keeps taking checkpoints would win every time.
        with alone(self._layout, holder="checkpoints"):
            return self._at_once(batch, step)

    def _at_once(
        self, batch: Sequence[Removal], step: Callable[[_Refs, Removal], _Step]
    ) -> Sequence[Moved]:
        refs = _Refs.look(self._layout)
        steps = [step(refs, removal) for removal in batch]
        change(
            self._layout,
            create=[ref for each in steps for ref in each.create],
            delete=[ref for each in steps for ref in each.delete],
        )
        return [each.moved for each in steps]


def _put_back(refs: _Refs, removal: Removal) -> _Step:
    copy = refs.copy(removal)
    if copy is None:
        return _Step(damaged(COPY_MISSING))
    return _Step(Moved(), [] if refs.of(removal) else [copy.shown()], [copy])


def _discard(refs: _Refs, removal: Removal) -> _Step:
    copy = refs.copy(removal)
    if copy is None:
        return _Step(Moved())
    # Its bytes are freed when space is reclaimed, and counted there.
    return _Step(Moved(copied=True), delete=[copy])


def _by_checkpoint(refs: Iterable[Ref]) -> Mapping[str, Sequence[Ref]]:
    found: dict[str, list[Ref]] = defaultdict(list)
    for ref in refs:
        found[ref.checkpoint].append(ref)
    return found


class LegacyMover(OneStepMover):
    """Moves `legacy-<timestamp>` folders of a checkpoint folder, and single older repositories: one
    rename into the trash, and one back. `protects` returns why an item must stay."""

    def __init__(
        self,
        layout: Layout,
        trash: TrashFolder,
        protects: Callable[[PlanItem], str | None] = lambda _: None,
    ) -> None:
        self._layout = layout
        self._trash = trash
        self._protects = protects

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        return one_by_one(batch, self._look, unseen)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._drop, failed)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._put_back, failed)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._discard, failed)

    def _look(self, removal: Removal) -> Presence:
        if not is_older_name(removal.item.id):
            return refused(_FOREIGN_NAME)
        place, copy = self._places(removal)
        if copy.exists():
            # One rename moves it, so whatever is in its place came later.
            here = place.exists()
            return Presence(here=here, ours=False, copied=True, bytes=allocated_below(copy))
        if not place.is_dir() or place.is_symlink():
            return Presence(here=False, bytes=removal.item.bytes)
        return Presence(here=True, obstacle=self._obstacle(removal, place))

    def _obstacle(self, removal: Removal, place: Path) -> str:
        changed = version_at(place) != removal.item.version
        return self._protects(removal.item) or (CHANGED if changed else "")

    def _drop(self, removal: Removal) -> Moved:
        place, copy = self._places(removal)
        obstacle = self._obstacle(removal, place)
        if obstacle:
            return stayed(obstacle)
        make_private_dir(copy.parent)
        place.rename(copy)
        sync_dir(copy.parent)
        sync_dir(place.parent)
        return Moved(copied=True, bytes=allocated_below(copy))

    def _put_back(self, removal: Removal) -> Moved:
        place, copy = self._places(removal)
        if place.exists():
            return failed(PLACE_TAKEN)
        copy.rename(place)
        sync_dir(place.parent)
        self._trash.drop_if_empty(removal.operation)
        return Moved()

    def _discard(self, removal: Removal) -> Moved:
        _, copy = self._places(removal)
        if not copy.exists():
            return Moved()
        freed = allocated_below(copy)
        shutil.rmtree(copy)
        self._trash.drop_if_empty(removal.operation)
        return Moved(copied=True, bytes=freed)

    def _places(self, removal: Removal) -> tuple[Path, Path]:
        """Return its path and the path of its copy. Anyone may have written a saved plan, so the
        name is checked."""
        if not is_older_name(removal.item.id):
            raise UsageError(_FOREIGN_NAME)
        return self._layout.folder / removal.item.id, self._trash.path(removal)


class RollBack:
    """The doer for rollbacks of working trees.

    The undo copy of a rollback is the safety checkpoint. Undo is a restore between the same two
    checkpoints in the other direction. What changed since the rollback matches neither of them, so
    it stays and is reported.
    """

    def __init__(self, store: Callable[[], CheckpointStore | None], clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._do)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._undo)

    def _do(self, store: CheckpointStore, removal: Removal) -> Outcome:
        outcome, done = perform(store, removal, now=self._clock())
        if isinstance(done, HoldfastError):
            return outcome
        return replace(outcome, written=done.written, deleted=done.deleted)

    def _settle(self, store: CheckpointStore, removal: Removal) -> Outcome:
        item = removal.item
        state = store.restore_state(item.target, item.version, paths=item.paths or None)
        if state is RestoreState.CUT:
            return self._do(store, removal)
        if state is RestoreState.DONE:
            return removal.end(Result.ROLLED_BACK)
        return removal.end(Result.SKIPPED, NOT_REACHED)

    def _undo(self, store: CheckpointStore, removal: Removal) -> Outcome:
        item = removal.item
        try:
            done = store.restore(
                item.version,
                item.target,
                paths=item.paths or None,
                now=self._clock(),
                undoing=True,
            )
        except UnknownCheckpointError as error:
            return removal.end(Result.FAILED, f"a checkpoint that it needs is gone: {error}")
        kept = [each for each in done.kept if not was_left(each)]
        if kept and not done.written and not done.deleted:
            return removal.end(Result.FAILED, left_alone(kept))
        outcome = removal.end(Result.BROUGHT_BACK, left_alone(kept))
        return replace(
            outcome,
            written=done.written,
            deleted=done.deleted,
            paths=len(done.written) + len(done.deleted),
            in_part=any(map(can_follow, kept)),
        )

    def _each(
        self,
        batch: Sequence[Removal],
        step: Callable[[CheckpointStore, Removal], Outcome],
    ) -> Sequence[Outcome]:
        """Run a step for each item. One failure does not block the others: what it left can be
        finished or undone later."""
        store = self._store()
        if store is None:
            return [each.end(Result.FAILED, NO_CHECKPOINT_STORE) for each in batch]
        outcomes = []
        for each in batch:
            try:
                outcomes.append(step(store, each))
            except BusyError:
                raise  # the next run settles it
            except HoldfastError as error:
                outcomes.append(each.end(Result.FAILED, in_a_word(error)))
        return outcomes


class CheckpointSpace:
    """Objects that no checkpoint refers to. `limit` is the cap of the store, in bytes."""

    def __init__(self, layout: Layout, limit: int | None = None) -> None:
        self._layout = layout
        self._limit = limit

    def measure(self) -> None:
        """Nothing to do: reclaiming measures by itself."""

    def give_back(self, removal: Removal) -> Outcome:
        if not self._layout.exists():
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        try:
            done = reclaim(self._layout, holder="checkpoints prune", limit=self._limit)
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message)  # the next run frees it
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error))
        return removal.end(Result.RECLAIMED, done.note, freed=done.freed)
