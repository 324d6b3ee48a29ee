"""The files of sessions that stay in the store: put away into the archive, and back.

Write-order rule: the bundle is on the disk, was read back, and has its line in the catalogue before
the first file goes. On the way back the files come first, then the line goes, then the bundle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_keeper import outcome, outcomes
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Ended, Rows
from holdfast.homes.artifact_scan import FOLDER
from holdfast.homes.artifacts import ArtifactKeeper
from holdfast.model.archived import ArchivedSession, Holds
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.beside import Beside
from holdfast.stores.files import version_of

_NOT_REACHED = "the run ended before its turn"


class FilesKeeper:
    """Puts the files of ended sessions into the archive. Their rows stay where they are."""

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        files: SessionFolder,
        loose: ArtifactKeeper,
        *,
        packer: Packer,
    ) -> None:
        """`loose` removes single files, with all their checks."""
        self._archive = archive
        self._rows = rows
        self._files = files
        self._loose = loose
        self._packer = packer
        self._returner = Returner(archive, rows, files)

    def prepare(self, items: Sequence[PlanItem]) -> None:
        with contextlib.suppress(HoldfastError, OSError):  # said of each session
            self._archive.make()
            self._archive.heal()

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        freed: dict[str, int] = {}
        ended = outcomes(
            batch, lambda _: {each.item.id: self._put_away(each, freed) for each in batch}
        )
        return [
            each.end(done.result, done.reason, freed=freed.get(each.item.id, 0))
            for each, done in zip(batch, ended, strict=True)
        ]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Back to where they were. If something is in the way there, they stay in the archive."""
        return outcomes(batch, lambda _: {each.item.id: self._settle(each) for each in batch})

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """What is archived is no trash: emptying that leaves the bundle alone."""
        return [outcome(each, (Result.REMOVED, "")) for each in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return outcomes(batch, lambda _: {each.item.id: self._bring_back(each) for each in batch})

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
            return Result.SKIPPED, "changed while it was archived"
        self._archive.catalogue.add([made])
        done = self._loose.remove(going)
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
            return Result.SKIPPED, _NOT_REACHED
        self._archive.heal()  # it may have no line yet
        result, reason = self._returned(removal, entry)
        if result is Result.BROUGHT_BACK:
            return Result.SKIPPED, _NOT_REACHED
        return (Result.REMOVED, reason) if result is Result.FAILED else (result, reason)

    # --- Back -------------------------------------------------------------------------------------

    def _bring_back(self, removal: Removal) -> Ended:
        entry = self._entries().get((removal.item.id, removal.operation))
        if entry is not None:
            return self._returned(removal, entry)
        if self._files.of([removal.item.id]):
            return Result.BROUGHT_BACK, ""  # a killed undo had come this far
        return Result.DAMAGED, "its bundle is no longer in the archive"

    def _returned(self, removal: Removal, entry: ArchivedSession) -> Ended:
        """The files where they were, and then the bundle gone; or everything as it is."""
        try:
            copies = self._copies(removal, self._archive.beside(entry.file))
        except DamageError:
            copies = ()  # the returner says what is wrong
        if copies:  # killed while they went: these are the originals
            self._loose.bring_back(copies)
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
            path = self._loose.trash.path(each)
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
