"""Checkpoints that are dropped, and come back.

Dropping one changes a reference and nothing else: what it holds stays until space is reclaimed. A
batch is one transaction of git's, so a kill leaves each checkpoint in one place, and its place in
the trash follows from the operation and its number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import BusyError, GitFailedError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.checkpoints.checkpoint_commit import Move, Ref, all_refs, move
from holdfast.stores.checkpoints.projects import read_record
from holdfast.stores.checkpoints.reclaim import unlock
from holdfast.stores.checkpoints.repository import Layout, alone, used
from holdfast.stores.checkpoints.sizes import CUT_SHORT, in_use, version_of

_NO_STORE = "there is no checkpoint store in this home"
_NOT_REACHED = "the run ended before its turn"
#: How often to look when references are changed between the look and the change, before nobody
#: else may.
_ATTEMPTS = 4
#: What git says of a lock that somebody has, or had when it was killed.
_LOCKED = ".lock': File exists"

_Step = tuple[Sequence[Move], Outcome]


@dataclass(frozen=True, slots=True)
class _Refs:
    """Every reference as it is now, by where it is."""

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
        """Those that make a checkpoint of this project there; hidden ones only if none is shown."""
        found = self.shown.get(removal.item.id) or self.rotated.get(removal.item.id) or ()
        return [ref for ref in found if ref.project == removal.item.source]

    def copy(self, removal: Removal) -> Ref | None:
        """Its undo copy. What else has taken that place is none."""
        ref = self.trash.get((removal.operation, removal.number))
        return ref if ref is not None and ref.checkpoint == removal.item.id else None


_Judge = Callable[[_Refs, Removal], _Step]


class CheckpointKeeper:
    """Drops checkpoints of a store and brings them back."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """References need nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._remove)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._settle)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._discard)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._bring_back)

    def _remove(self, refs: _Refs, removal: Removal) -> _Step:
        item, there = removal.item, refs.of(removal)
        if refs.copy(removal) is not None and not there:
            return (), _in_trash(removal)
        if not there:
            return (), removal.end(Result.SKIPPED, "already gone")
        if not there[0].rotated:
            obstacle = self._obstacle(item)
            if obstacle is not None:
                return (), removal.end(Result.SKIPPED, obstacle)
        gone = [Move(old=ref, new=None) for ref in there]
        if not item.undoable:
            return gone, removal.end(Result.REMOVED)
        if (removal.operation, removal.number) in refs.trash:
            return (), removal.end(Result.FAILED, "its place in the trash is taken")
        copy = there[0].hidden(removal.operation, removal.number)
        return [Move(old=None, new=copy), *gone], _in_trash(removal)

    def _obstacle(self, item: PlanItem) -> str | None:
        record = read_record(self._layout, item.source)
        if version_of(item.id, record) != item.version:
            return "changed since the plan was made"
        busy = item.id in in_use(self._layout, item.source)
        return f"in use: {CUT_SHORT}" if busy else None

    def _settle(self, refs: _Refs, removal: Removal) -> _Step:
        if refs.copy(removal) is not None:
            return (), _in_trash(removal)
        if refs.of(removal):
            return (), removal.end(Result.SKIPPED, _NOT_REACHED)
        if removal.item.undoable:
            return (), removal.end(Result.FAILED, "gone, and not through Holdfast")
        return (), removal.end(Result.REMOVED)

    def _discard(self, refs: _Refs, removal: Removal) -> _Step:
        copy = refs.copy(removal)
        if copy is None:
            return (), removal.end(Result.REMOVED, "its trash copy was gone already")
        # Its bytes come back when space is reclaimed, and are counted there.
        return [Move(old=copy, new=None)], removal.end(Result.REMOVED)

    def _bring_back(self, refs: _Refs, removal: Removal) -> _Step:
        copy, there = refs.copy(removal), refs.shown.get(removal.item.id, ())
        if copy is None:
            if there:
                return (), removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
            return (), removal.end(Result.DAMAGED, "its copy is no longer in the trash")
        shown = [] if there else [Move(old=None, new=copy.shown())]
        return [*shown, Move(old=copy, new=None)], removal.end(Result.BROUGHT_BACK)

    def _carry_out(self, batch: Sequence[Removal], step: _Judge) -> Sequence[Outcome]:
        if not self._layout.exists():
            return [removal.end(Result.FAILED, _NO_STORE) for removal in batch]
        try:
            return self._in_one_step(batch, step)
        except BusyError:
            raise  # each batch to come would wait as long; the next run settles this one
        except HoldfastError as error:
            return [removal.end(Result.FAILED, error.message) for removal in batch]

    def _in_one_step(self, batch: Sequence[Removal], step: _Judge) -> Sequence[Outcome]:
        """Look, and change everything at once. Somebody may take a checkpoint meanwhile, which
        moves the references of older ones: then nothing was changed, and it is looked at again."""
        for _ in range(_ATTEMPTS):
            try:
                with used(self._layout):
                    return self._at_once(batch, step)
            except GitFailedError as error:
                if _LOCKED in error.said:
                    unlock(self._layout, holder="checkpoints")
        # Whoever takes one checkpoint after the other would come first every time.
        with alone(self._layout, holder="checkpoints"):
            return self._at_once(batch, step)

    def _at_once(self, batch: Sequence[Removal], step: _Judge) -> Sequence[Outcome]:
        refs = _Refs.look(self._layout)
        steps = [step(refs, removal) for removal in batch]
        move(self._layout, [each for moves, _ in steps for each in moves])
        return [outcome for _, outcome in steps]


def _by_checkpoint(refs: Iterable[Ref]) -> Mapping[str, Sequence[Ref]]:
    found: dict[str, list[Ref]] = defaultdict(list)
    for ref in refs:
        found[ref.checkpoint].append(ref)
    return found


def _in_trash(removal: Removal) -> Outcome:
    return removal.end(Result.REMOVED, in_trash=removal.item.bytes)
