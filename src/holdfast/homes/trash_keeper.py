"""The trash as a kind of item: removing one means discarding its undo copy for good."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.model.operation import Removal, TrashEntry
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import Keeper


class TrashKeeper:
    """Passes each entry on to the keeper of what it was before."""

    def __init__(
        self, entries: Callable[[], Sequence[TrashEntry]], keeper: Callable[[str], Keeper]
    ) -> None:
        self._entries = entries
        self._keeper = keeper

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """The trash needs nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        known = {entry.as_item().id: entry.removal for entry in self._entries()}
        copies = [_known(removal, known) for removal in batch]
        discarded = iter(self._discard([copy for copy in copies if copy is not None]))
        return [
            removal.end(Result.SKIPPED, "no longer in the trash")
            if copy is None
            else replace(next(discarded), kind=removal.item.kind, id=removal.item.id)
            for removal, copy in zip(batch, copies, strict=True)
        ]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Emptying was asked for and is safe to repeat: finish it."""
        return self.remove(batch)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """What leaves the trash leaves no copy to discard."""
        return [removal.end(Result.REMOVED) for removal in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [removal.end(Result.FAILED, "emptied from the trash for good") for removal in batch]

    def _discard(self, copies: Sequence[Removal]) -> Iterator[Outcome]:
        for kind, group in itertools.groupby(copies, key=lambda copy: copy.item.kind):
            yield from self._keeper(kind).discard(tuple(group))


def _known(removal: Removal, known: Mapping[str, Removal]) -> Removal | None:
    """What the log has under this id, as long as it is still the same thing."""
    original = known.get(removal.item.id)
    if original is None or original.item.version != removal.item.version:
        return None
    return original
