"""Doers for the archive: they put files of sessions away into it, and restore sessions from it.

Write-order rule for files whose sessions stay in the store: the bundle is on the disk, was read
back, and has its line in the catalogue before the first file goes. On the way back the files come
first, then the line goes, then the bundle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_movers import FULL, NO_ROOM, WAY_OUT
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Ended, Rows
from holdfast.homes.artifact_scan import FOLDER
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.spine.keeper import Keeper, one_by_one
from holdfast.spine.outcomes import BUNDLE_MISSING, CHANGED_MEANWHILE, NOT_REACHED
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.beside import Beside
from holdfast.stores.files import version_of
from holdfast.stores.trash_folder import TrashFolder


class PutFilesAway:
    """Puts the files of ended sessions into the archive. Their rows stay where they are."""

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        files: SessionFolder,
        loose: Keeper,
        trash: TrashFolder,
        *,
        packer: Packer,
    ) -> None:
        """`loose` removes single files, with all their checks, by way of `trash`."""
        self._archive = archive
        self._rows = rows
        self._files = files
        self._loose = loose
        self._trash = trash
        self._packer = packer
        self._returner = Returner(archive, rows, files)

    def prepare(self, items: Sequence[PlanItem]) -> None:
        with contextlib.suppress(HoldfastError, OSError):  # said of each session
            self._archive.make()
            self._archive.heal()

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        freed: dict[str, int] = {}
        ended = _each(batch, lambda each: self._put_away(each, freed))
        return [
            each.end(*end, freed=freed.get(each.item.id, 0))
            for each, end in zip(batch, ended, strict=True)
        ]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Back to where they were. If something is in the way there, they stay in the archive."""
        return _ends(batch, self._settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _ends(batch, self._bring_back)

    # --- Out --------------------------------------------------------------------------------------

    def _put_away(self, removal: Removal, freed: dict[str, int]) -> Ended:
        name = removal.item.id
        rows = self._rows()
        session = None if rows is None else rows.read([name]).get(name)
        if session is None:
            return Result.SKIPPED, "its session is not in the store"
        if not session.ended:
            return Result.SKIPPED, "its session is open"
        sources = self._files.of([name]).get(name, ())
        if not sources:
            return Result.SKIPPED, "it has no files"
        going = [self._loose_one(removal, each.name, each.version) for each in sources]
        self._archive.make()
        try:
            made = self._packer.files(removal, session, sources)
        except bundle.ChangedError:
            return Result.SKIPPED, CHANGED_MEANWHILE
        self._archive.catalogue.add([made])
        done = self._loose.do(going)
        freed[name] = sum(each.bytes_freed for each in done)
        stayed = [each for each in done if each.result is not Result.REMOVED]
        if len(stayed) == len(done):  # nothing was put away, so nothing is archived
            self._archive.drop([made.file], removal.operation)
            return stayed[0].result, stayed[0].reason
        return Result.REMOVED, "; ".join(f"{each.id} stayed: {each.reason}" for each in stayed)

    def _loose_one(self, removal: Removal, name: str, version: str) -> Removal:
        """One file as something that can be removed by itself. The name alone tells its kind."""
        parsed = self._files.parse(name)
        item = PlanItem(
            kind="" if parsed is None else parsed.kind,
            id=f"{FOLDER}/{name}",
            source=removal.item.source,
            session=removal.item.session,
            bytes=0,
            last_active_at=removal.item.last_active_at,
            version=version,
            action=Action.REMOVE,
            reason=removal.item.reason,
            owned=True,
        )
        return Removal(operation=removal.operation, number=removal.number, item=item)

    # --- After a kill -----------------------------------------------------------------------------

    def _settle(self, removal: Removal) -> Ended:
        self._archive.clear_unfinished()
        entry = self._entries().get((removal.item.id, removal.operation))
        if entry is None:
            return Result.SKIPPED, NOT_REACHED
        self._archive.heal()  # it may have no line yet
        result, reason = self._returned(removal, entry)
        if result is Result.BROUGHT_BACK:
            return Result.SKIPPED, NOT_REACHED
        return (Result.REMOVED, reason) if result is Result.FAILED else (result, reason)

    # --- Back -------------------------------------------------------------------------------------

    def _bring_back(self, removal: Removal) -> Ended:
        self._archive.clear_unfinished()  # a killed undo is settled here, too
        entry = self._entries().get((removal.item.id, removal.operation))
        if entry is not None:
            return self._returned(removal, entry)
        if self._files.of([removal.item.id]):
            return Result.BROUGHT_BACK, ""  # a killed undo had come this far
        return Result.DAMAGED, BUNDLE_MISSING

    def _returned(self, removal: Removal, entry: ArchivedSession) -> Ended:
        """The files where they were, and then the bundle gone; or everything as it is."""
        try:
            copies = self._copies(removal, self._archive.beside(entry.file))
        except DamageError:
            copies = ()  # the returner says what is wrong
        if copies:  # killed while they went: these are the originals
            self._loose.undo(copies)
        result, reason = self._returner.bring_back(entry.file)
        if result is Result.BROUGHT_BACK:
            self._loose.discard(copies)  # what was in the archive is in its place
            self._archive.drop([entry.file], removal.operation)
        return result, reason

    def _copies(self, removal: Removal, beside: Beside) -> Sequence[Removal]:
        """Files that a killed run had moved into the trash, to look at them once more there."""
        found = []
        for file in beside.files:
            each = self._loose_one(removal, file.name, "")
            path = self._trash.path(each)
            with contextlib.suppress(FileNotFoundError):
                found.append(self._loose_one(removal, file.name, version_of(path.lstat())))
        return found

    def _entries(self) -> Mapping[tuple[str, str], ArchivedSession]:
        """The bundles of files by session and by the operation that made them."""
        return {
            (each.session.id, each.operation): each
            for each in self._archive.look().entries
            if each.holds is Holds.FILES
        }


class Restore:
    """Puts archived sessions back into the store. What a killed run began is finished."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], returner: Returner
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._returner = returner

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing has to be ready."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "it is in the archive already") for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self.undo(batch)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        outcomes = _ends(batch, self._bring_back)
        back = [
            removal.item.id
            for removal, outcome in zip(batch, outcomes, strict=True)
            if outcome.result is Result.BROUGHT_BACK
        ]
        self._archive.drop(back, batch[0].operation)
        return outcomes

    def _bring_back(self, removal: Removal) -> Ended:
        if self._archive.check() and self._archive.find(removal.item.id) is not None:
            return self._returner.bring_back(removal.item.id)
        rows = self._rows()
        if rows is not None and removal.item.session in rows.read([removal.item.session]):
            return Result.BROUGHT_BACK, ""  # a killed run had come this far
        return Result.DAMAGED, BUNDLE_MISSING


def _ends(batch: Sequence[Removal], step: Callable[[Removal], Ended]) -> Sequence[Outcome]:
    ended = zip(batch, _each(batch, step), strict=True)
    return [each.end(result, reason) for each, (result, reason) in ended]


def _each(batch: Sequence[Removal], step: Callable[[Removal], Ended]) -> Sequence[Ended]:
    """Run a step for each item; one that fails does not cost the others."""

    def guarded(removal: Removal) -> Ended:
        try:
            return step(removal)
        except OSError as error:
            if error.errno in FULL:
                return Result.FAILED, f"{NO_ROOM}. {WAY_OUT}"
            raise

    return one_by_one(batch, guarded, lambda why: (Result.FAILED, why))
