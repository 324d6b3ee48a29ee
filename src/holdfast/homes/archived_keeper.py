"""Archived sessions as items: removed from the archive, or put back into the store.

A bundle that is removed moves into a trash of the archive's own: the home's may lie on another file
system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.archive_adopting import Adopter
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Rows
from holdfast.model.archived import ArchivedSession
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.archive.archive import SessionArchive

_NOT_REACHED = "the run ended before its turn"
_NO_LONGER_THERE = "its bundle is no longer in the archive"


class ArchivedKeeper:
    """Removes bundles from the archive."""

    def __init__(self, archive: SessionArchive, adopter: Adopter) -> None:
        self._archive = archive
        self._adopter = adopter

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Take in what earlier versions left beside the bundles."""
        with suppress(HoldfastError, OSError):  # what stands in the way is said of each item
            self._adopter.adopt()

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        outcomes = _each(batch, self._remove, self._entries)
        self._forget(batch)
        return outcomes

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        outcomes = _each(batch, self._settle, self._entries)
        self._forget(batch)
        return outcomes

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        outcomes = _each(batch, self._discard, dict)
        self._archive.catalogue.forget_gone()
        return outcomes

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, self._bring_back, self._entries)

    def _remove(self, removal: Removal, entries: Mapping[str, ArchivedSession]) -> Outcome:
        entry = entries.get(removal.item.id)
        if entry is None:
            return removal.end(Result.SKIPPED, "already gone")
        if entry.sha256 != removal.item.version:
            return removal.end(Result.SKIPPED, "changed since the plan was made")
        return self._gone(removal, self._archive.to_trash(removal))

    def _gone(self, removal: Removal, in_trash: int) -> Outcome:
        if removal.item.undoable:
            return removal.end(Result.REMOVED, in_trash=in_trash)
        self._archive.empty(removal)
        return removal.end(Result.REMOVED, freed=in_trash)

    def _settle(self, removal: Removal, entries: Mapping[str, ArchivedSession]) -> Outcome:
        in_trash = self._archive.in_trash(removal)
        entry = entries.get(removal.item.id)
        if in_trash is not None:
            if entry is not None and entry.sha256 == removal.item.version:
                in_trash = self._archive.to_trash(removal)  # killed between copy and delete
            return self._gone(removal, in_trash)
        if entry is not None:
            self._archive.heal()  # its line may be gone already
            return removal.end(Result.SKIPPED, _NOT_REACHED)
        if removal.item.undoable:
            return removal.end(Result.FAILED, "gone, and not through Holdfast")
        return removal.end(Result.REMOVED, freed=removal.item.bytes)

    def _discard(self, removal: Removal, _: Mapping[str, ArchivedSession]) -> Outcome:
        self._archive.check()  # a disk that is not mounted has not lost its trash
        in_trash = self._archive.in_trash(removal)
        if in_trash is None:
            return removal.end(Result.REMOVED, "its trash copy was gone already")
        self._archive.empty(removal)
        return removal.end(Result.REMOVED, freed=in_trash)

    def _bring_back(self, removal: Removal, entries: Mapping[str, ArchivedSession]) -> Outcome:
        if self._archive.in_trash(removal) is None:
            there = entries.get(removal.item.id)
            if there is not None and there.sha256 == removal.item.version:
                return removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
            return removal.end(Result.DAMAGED, "its copy is no longer in the trash")
        same = [each for each in entries.values() if each.sha256 == removal.item.version]
        if same:  # killed between its new name and the end of the old one
            self._archive.heal()
            self._archive.empty(removal)
            return removal.end(Result.BROUGHT_BACK)
        try:
            file = self._archive.from_trash(removal)
        except DamageError as error:
            where = self._archive.place_in_trash(removal)
            return removal.end(Result.DAMAGED, f"its copy was changed, {error.message}: {where}")
        return removal.end(Result.BROUGHT_BACK, "" if file == removal.item.id else f"as {file}")

    def _forget(self, batch: Sequence[Removal]) -> None:
        """What goes for good leaves no title behind in the catalogue."""
        if not all(each.item.undoable for each in batch):
            self._archive.catalogue.forget_gone()

    def _entries(self) -> Mapping[str, ArchivedSession]:
        return {each.file: each for each in self._archive.look().entries}


class RestoreKeeper:
    """Puts archived sessions back into the store. What a killed run began is finished."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], returner: Returner
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._returner = returner

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing has to be ready."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "it is in the archive already") for each in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """What was restored has left no copy to discard."""
        return [each.end(Result.REMOVED) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self.bring_back(batch)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        outcomes = _each(batch, self._bring_back, dict)
        back = [
            removal.item.id
            for removal, outcome in zip(batch, outcomes, strict=True)
            if outcome.result is Result.BROUGHT_BACK
        ]
        self._archive.drop(back, batch[0].operation)
        return outcomes

    def _bring_back(self, removal: Removal, _: Mapping[str, ArchivedSession]) -> Outcome:
        if self._archive.check() and self._archive.find(removal.item.id) is not None:
            return removal.end(*self._returner.bring_back(removal.item.id))
        rows = self._rows()
        if rows is not None and removal.item.session in rows.read([removal.item.session]):
            return removal.end(Result.BROUGHT_BACK)  # a killed run had come this far
        return removal.end(Result.DAMAGED, _NO_LONGER_THERE)


_Entries = Mapping[str, ArchivedSession]


def _each(
    batch: Sequence[Removal],
    step: Callable[[Removal, _Entries], Outcome],
    entries: Callable[[], _Entries],
) -> Sequence[Outcome]:
    """Run a step for each item; one that fails does not cost the others."""
    try:
        known = entries()
    except HoldfastError as error:
        return [each.end(Result.FAILED, error.message) for each in batch]
    return [_guarded(step, each, known) for each in batch]


def _guarded(
    step: Callable[[Removal, _Entries], Outcome], removal: Removal, known: _Entries
) -> Outcome:
    try:
        return step(removal, known)
    except HoldfastError as error:
        return removal.end(Result.FAILED, error.message)
    except OSError as error:
        return removal.end(Result.FAILED, str(error.strerror or error))
