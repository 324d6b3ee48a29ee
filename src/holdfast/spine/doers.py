"""Doers for what neither leaves a home nor comes back: space that is given back, and the trash."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.model.operation import Removal, TrashEntry
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import Space
from holdfast.spine.keeper import Keeper
from holdfast.spine.outcomes import ALREADY_GONE, NOT_REACHED
from holdfast.value import replace

NOTHING_TO_RETURN = "there is nothing to bring back"
EMPTIED = "emptied from the trash for good"
NOT_IN_TRASH = "no longer in the trash"
UNKNOWN_KIND = "this version does not know what it is; it stays in the trash"


class Reclaim:
    """Gives back the space that the stores of a home do not use. `spaces` are by the id of their
    item, which stands last in a plan: after everything that frees space inside its store."""

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self._spaces = spaces

    def prepare(self, items: Sequence[PlanItem]) -> None:
        for item in items:
            if item.id in self._spaces:
                self._spaces[item.id].measure()

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(each) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Nothing is half gone: what a killed run did not give back, the next run does."""
        return [each.end(Result.SKIPPED, NOT_REACHED) for each in batch]

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, NOTHING_TO_RETURN) for each in batch]

    def _give_back(self, removal: Removal) -> Outcome:
        space = self._spaces.get(removal.item.id)
        if space is None:  # a saved plan may name a store that this home does not have
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        return space.give_back(removal)


class EmptyTrash:
    """Discards undo copies for good. `keepers` are by the kind that a copy was before."""

    def __init__(
        self, entries: Callable[[], Sequence[TrashEntry]], keepers: Mapping[str, Keeper]
    ) -> None:
        self._entries = entries
        self._keepers = keepers

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """The trash needs nothing."""

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
        """Emptying was asked for and is safe to repeat: finish it."""
        return self.do(batch)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [removal.end(Result.FAILED, EMPTIED) for removal in batch]

    def _discard(self, copies: Sequence[Removal]) -> Iterator[Outcome]:
        for kind, group in itertools.groupby(copies, key=lambda copy: copy.item.kind):
            keeper = self._keepers.get(kind)
            if keeper is None:  # the log may be of a version that knows more kinds
                yield from (each.end(Result.FAILED, UNKNOWN_KIND) for each in group)
            else:
                yield from keeper.discard(tuple(group))


def _known(removal: Removal, known: Mapping[str, Removal]) -> Removal | None:
    """What the log has under this id, as long as it is still the same thing."""
    original = known.get(removal.item.id)
    if original is None or original.item.version != removal.item.version:
        return None
    return original
