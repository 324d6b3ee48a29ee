"""The trash as a kind of item: removing one means discarding its undo copy for good."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.model.operation import Removal, TrashEntry
from holdfast.model.report import Outcome, Result
from holdfast.ports import Keeper


class TrashKeeper:
    """Passes each entry on to the keeper of what it was before."""

    def __init__(
        self, entries: Callable[[], Sequence[TrashEntry]], keeper: Callable[[str], Keeper]
    ) -> None:
        self._entries = entries
        self._keeper = keeper

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        known = {entry.removal.key: entry.removal for entry in self._entries()}
        return [self._discard(removal, known) for removal in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Emptying was asked for and is safe to repeat: finish it."""
        return self.remove(batch)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """What leaves the trash leaves no copy to discard."""
        return [_end(removal, Result.REMOVED) for removal in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [
            _end(removal, Result.FAILED, "emptied from the trash for good") for removal in batch
        ]

    def _discard(self, removal: Removal, known: Mapping[str, Removal]) -> Outcome:
        original = known.get(removal.item.id)
        if original is None or original.item.version != removal.item.version:
            return _end(removal, Result.SKIPPED, "no longer in the trash")
        [outcome] = self._keeper(original.item.kind).discard([original])
        return replace(outcome, kind=removal.item.kind, id=removal.item.id)


def _end(removal: Removal, result: Result, reason: str = "") -> Outcome:
    return Outcome(kind=removal.item.kind, id=removal.item.id, result=result, reason=reason)
