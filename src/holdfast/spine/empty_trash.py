"""Freeing space for good: emptying the trash with a plan and a doer, and returning space that
stores do not use."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.item import CHECKPOINT, CHECKPOINT_SPACE, SPACE, TRASH, UNKNOWN_SOURCE
from holdfast.model.operation import Removal, TrashEntry
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.policy.decision import plan_item
from holdfast.policy.plan_by_name import plan_all
from holdfast.ports.home import Home
from holdfast.ports.runs import Space
from holdfast.spine.keeper import Keeper
from holdfast.spine.outcomes import ALREADY_GONE, NOT_REACHED
from holdfast.value import replace


def plan_empty(
    home: Home,
    *,
    now: float,
    command: str,
    operations: Collection[str] = (),
    before: float | None = None,
) -> Plan:
    """Plan to remove the undo copies of these operations (default: all), optionally only those made
    before a given time."""
    view = home.log.read()
    known = {operation.id for operation in view.operations}
    unknown = [operation for operation in operations if operation not in known]
    if unknown:
        raise UsageError(
            f"There is no operation {unknown[0]!r} in this home.",
            hint="`holdfast trash list` shows which operations have something in the trash.",
        )
    entries = [
        entry
        for entry in view.trash
        if (not operations or entry.removal.operation in operations)
        and (before is None or entry.removed_at < before)
    ]
    chosen = [entry.as_item() for entry in entries]
    made = plan_all(chosen, str(home.root), now, command=command, reason="emptied on request")
    if any(entry.removal.item.kind == CHECKPOINT for entry in entries):
        # These are references; their bytes are freed once nothing refers to the objects any more.
        made = replace(made, items=(*made.items, _space(now)))
    return replace(made, items=(*made.items, *to_give_back(home)))


def to_give_back(home: Home) -> Iterator[PlanItem]:
    """Yield plan items for space that a killed run did not give back."""
    for each in home.owed():
        yield plan_item(each, Action.RECLAIM, "an interrupted run did not free it")


def _space(now: float) -> PlanItem:
    return PlanItem(
        kind=SPACE,
        id=CHECKPOINT_SPACE,
        source=UNKNOWN_SOURCE,
        bytes=0,
        last_active_at=now,
        version=CHECKPOINT_SPACE,
        action=Action.RECLAIM,
        reason="objects that no checkpoint needs",
    )


def make_room(home: Home, steps: Sequence[PlanItem]) -> Mapping[str, int]:
    """Empty trash that the plan removes anyway, so that the log can be written on a full disk.

    Goes operation by operation until there is enough room. If it is killed, part of the trash is
    empty and the next run empties the rest. Returns the bytes freed per item.
    """
    freed: dict[str, int] = {}
    going = [
        Removal(operation="", number=number, item=item)
        for number, item in enumerate(each for each in steps if each.kind == TRASH)
    ]
    with contextlib.suppress(HoldfastError, OSError):  # the log will report what is wrong
        for _, alike in itertools.groupby(going, key=lambda each: each.item.id.partition("/")[0]):
            room = home.disk_room()
            if room is None or not room.is_used_up:
                break
            # One batch per operation: copies may share a file, and taking one out needs room.
            batch = list(alike)
            done = home.doer(batch[0].item.kind, batch[0].item.action).do(batch)
            freed |= {
                each.item.id: one.bytes_freed
                for each, one in zip(batch, done, strict=True)
                if one.result is Result.REMOVED
            }
    return freed


EMPTIED = "removed from the trash for good"
NOT_IN_TRASH = "no longer in the trash"
UNKNOWN_KIND = "unknown to this version; it stays in the trash"
NOTHING_TO_RETURN = "there is nothing to bring back"


class EmptyTrash:
    """Discards undo copies for good. `keepers` maps the original kind of a copy to its keeper."""

    def __init__(
        self, entries: Callable[[], Sequence[TrashEntry]], keepers: Mapping[str, Keeper]
    ) -> None:
        self._entries = entries
        self._keepers = keepers

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        known = {entry.as_item().id: entry.removal for entry in self._entries()}
        copies = [_known(removal, known) for removal in batch]
        discarded = iter(self._discard([copy for copy in copies if copy is not None]))
        return [
            removal.end(Result.SKIPPED, NOT_IN_TRASH)
            if copy is None
            else replace(next(discarded), kind=removal.item.kind, id=removal.item.id)
            for removal, copy in zip(batch, copies, strict=True)
        ]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Finish it: the user asked for it, and repeating is safe."""
        return self.do(batch)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [removal.end(Result.FAILED, EMPTIED) for removal in batch]

    def _discard(self, copies: Sequence[Removal]) -> Iterator[Outcome]:
        for kind, group in itertools.groupby(copies, key=lambda copy: copy.item.kind):
            keeper = self._keepers.get(kind)
            if keeper is None:  # a newer version may have written kinds that this one does not know
                yield from (each.end(Result.FAILED, UNKNOWN_KIND) for each in group)
            else:
                yield from keeper.discard(tuple(group))


def _known(removal: Removal, known: Mapping[str, Removal]) -> Removal | None:
    """Return the removal that the log has under this id, if its version still matches."""
    original = known.get(removal.item.id)
    if original is None or original.item.version != removal.item.version:
        return None
    return original


class Reclaim:
    """Frees space that the stores of a home do not use. `space_of` finds it by item id. The item
    comes last in a plan, after everything that frees space inside its store."""

    def __init__(self, space_of: Callable[[str], Space | None]) -> None:
        self._space_of = space_of

    def prepare(self, items: Sequence[PlanItem]) -> None:
        for item in items:
            space = self._space_of(item.id)
            if space is not None:
                space.measure()

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(each) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Nothing to do: what a killed run did not free, the next one does."""
        return [each.end(Result.SKIPPED, NOT_REACHED) for each in batch]

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, NOTHING_TO_RETURN) for each in batch]

    def _give_back(self, removal: Removal) -> Outcome:
        space = self._space_of(removal.item.id)
        if space is None:  # a saved plan may name a store that this home does not have
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        return space.give_back(removal)
