"""The archive of a home: its reader, the doers that archive and restore, and the keepers of
bundles."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import DamageError, HoldfastError, UnreachableError
from holdfast.homes.archive.bundles import Adopter, Packer
from holdfast.homes.archive.place import archive_at
from holdfast.homes.archive.reader import ArchiveReader
from holdfast.homes.archive.session_rows import Ended, Rows
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.arguments import check_id
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES, SESSION
from holdfast.model.operation import Removal
from holdfast.model.path_map import MAPPED
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Moved, Outcome, Presence, Result, damaged, failed, unseen
from holdfast.ports.runs import Doer, Mover
from holdfast.spine.keeper import Keeper, one_by_one
from holdfast.spine.outcomes import BUNDLE_MISSING
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.codec import Codec
from holdfast.stores.blobs.folder import FolderBlobs

if TYPE_CHECKING:
    from holdfast.homes.home import Ground

NO_ROOM = "not archived: the disk of the archive is full"
WAY_OUT = (
    "To remove without archiving, run `holdfast sessions prune --now`. "
    "To archive elsewhere, set `folder` of [archive]."
)
_NOT_MOVABLE = "only sessions of Claude Code and Codex can be restored under other paths"
FULL = (errno.ENOSPC, errno.EDQUOT)
Entries = Mapping[tuple[str, str], ArchivedSession]
BringBack = Callable[[Sequence[Removal], bool], Sequence[Ended]]


class HomeArchive:
    """`keepers` are the keepers of bundles, by kind; `doers` carry out the other actions on the
    archive."""

    def __init__(
        self,
        ground: Ground,
        rows: Callable[[], Rows | None] = lambda: None,
        check: Callable[[str], str] = check_id,
    ) -> None:
        """`rows` returns the rows of the store with this home's sessions, if there is one; `check`
        checks ids of its agent."""
        chosen = ground.options.archive
        self.folder = archive = archive_at(ground)
        self.packer = Packer(archive, Codec(chosen.codec), ground.clock)
        local = archive.blobs.path if isinstance(archive.blobs, FolderBlobs) else None
        self.reader = ArchiveReader(archive, rows, check, local=local)
        adopter = Adopter(archive, rows, self.packer, ground.clock, local)
        bundles = Keeper(BundleMover(archive, adopter, rows))
        self.keepers: Mapping[str, Keeper] = {ARCHIVED: bundles, ARCHIVED_FILES: bundles}
        self.doers: dict[tuple[str, Action], Doer] = {}

    def serve(
        self,
        sessions: Mover,
        bring_back: BringBack,
        is_back: Callable[[str], bool],
        *,
        moves: bool = False,
    ) -> None:
        """Register the doers. `sessions` moves sessions into the archive. `bring_back` restores
        bundles; its second argument is true if a killed run may already have done so. `is_back`
        tells whether the session of a bundle is in the home; `moves` is true if sessions can also
        be restored under other paths."""
        self.doers[SESSION, Action.ARCHIVE] = Keeper(sessions, keeps_copies=True)
        # An operation that restores undoes the archiving.
        restore = Restore(self.folder, bring_back, is_back, moves=moves)
        self.doers[ARCHIVED, Action.ARCHIVE] = restore
        self.doers[ARCHIVED_FILES, Action.ARCHIVE] = restore


class IntoArchive:
    """Base of the movers that create bundles. The bundle is the undo copy, but not trash:
    it stays until it is restored."""

    holds = Holds.SESSION

    def __init__(self, archive: SessionArchive, packer: Packer) -> None:
        self._archive = archive
        self._packer = packer
        self._seen_last: Entries = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Write lines that bundles have lost. Errors are ignored here: they are reported later, for
        each session."""
        with contextlib.suppress(HoldfastError, OSError):
            self._archive.make()
            self._archive.heal()

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        self._drop_bundles(batch)
        return [Moved(copied=True)] * len(batch)

    def _entries(self) -> Entries:
        """The bundles by session and the operation that archived it."""
        self._seen_last = {
            (each.session.id, each.operation): each
            for each in self._archive.look().entries
            if each.holds is self.holds
        }
        return self._seen_last

    def _drop_bundles(self, batch: Sequence[Removal]) -> None:
        if batch:
            try:
                entries = self._entries()
            except UnreachableError:  # these bundles are still the ones that were restored from
                entries = self._seen_last
            keys = [(each.item.id, each.operation) for each in batch]
            files = [entries[key].file for key in keys if key in entries]
            self._archive.drop_in_time(files, batch[0].operation)


class Restore:
    """Restores archived sessions, and finishes what a killed run began."""

    def __init__(
        self,
        archive: SessionArchive,
        bring_back: BringBack,
        is_back: Callable[[str], bool],
        *,
        moves: bool,
    ) -> None:
        self._moves = moves
        self._archive = archive
        self._bring_back = bring_back
        self._is_back = is_back

    def prepare(self, items: Sequence[PlanItem]) -> None:
        with contextlib.suppress(HoldfastError, OSError):
            self._archive.pay()

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "it is already in the archive") for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._ended(batch, again=True)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._ended(batch, again=False)

    def _ended(self, batch: Sequence[Removal], *, again: bool) -> Sequence[Outcome]:
        seen = one_by_one(batch, self._without_bundle, lambda why: (Result.FAILED, why))
        there = [each for each, end in zip(batch, seen, strict=True) if end is None]
        back = iter(self._bring_back(there, again) if there else ())
        ended = [next(back) if end is None else end for end in seen]
        outcomes = [each.end(*end) for each, end in zip(batch, ended, strict=True)]
        restored = [
            removal.item.id
            for removal, outcome in zip(batch, outcomes, strict=True)
            if outcome.result is Result.BROUGHT_BACK and removal.item.target != MAPPED
        ]
        self._archive.drop_in_time(restored, batch[0].operation)
        return outcomes

    def _without_bundle(self, removal: Removal) -> Ended | None:
        """How the restore of an item without a bundle ends; None if it has a bundle."""
        if removal.item.target == MAPPED and not (self._moves and removal.item.kind == ARCHIVED):
            return Result.FAILED, _NOT_MOVABLE
        if self._archive.check() and self._archive.find(removal.item.id) is not None:
            return None
        if self._is_back(removal.item.session):
            return Result.BROUGHT_BACK, ""  # a killed run got this far
        return Result.DAMAGED, BUNDLE_MISSING


class BundleMover:
    """Moves bundles out of the archive, into the archive's own trash: the home's trash may be on
    another file system."""

    def __init__(
        self,
        archive: SessionArchive,
        adopter: Adopter,
        rows: Callable[[], Rows | None] = lambda: None,
    ) -> None:
        self._archive = archive
        self._adopter = adopter
        self._rows = rows

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Adopt files that earlier versions left in the archive folder."""
        with contextlib.suppress(HoldfastError, OSError):  # errors are reported one by one later
            self._adopter.adopt()

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        self._archive.heal()  # a killed run may have dropped the line of a bundle that stays
        entries = {each.file: each for each in self._archive.look().entries}
        seen = one_by_one(batch, lambda each: self._seen(each, entries), unseen)
        gone = (not one.here and not one.copied for one in seen)
        if any(one and not each.item.undoable for each, one in zip(batch, gone, strict=True)):
            self._archive.catalogue.forget_gone()  # a permanent removal must leave no title behind
        return seen

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._copy, failed)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        if any(each.item.kind == ARCHIVED and not each.item.undoable for each in batch):
            # Before the first bundle is dropped. If the store cannot be written to, for example on
            # a full disk, the bundles must be dropped anyway, to free space.
            with contextlib.suppress(HoldfastError, OSError):
                rows = self._rows()
                if rows is not None:
                    rows.left_for_good()
        return one_by_one(batch, self._drop, failed)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        same = {each.sha256 for each in self._archive.look().entries}
        return one_by_one(batch, lambda each: self._put_back(each, same), failed)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        moved = one_by_one(batch, self._discard, failed)
        self._archive.catalogue.forget_gone()
        return moved

    def _seen(self, removal: Removal, entries: Mapping[str, ArchivedSession]) -> Presence:
        version = removal.item.version
        in_trash = self._archive.in_trash(removal)
        if in_trash is not None:
            # It has both names if a run was killed between creating the new one and removing the
            # old one.
            here = any(each.sha256 == version for each in entries.values())
            return Presence(here=here, copied=True, bytes=in_trash)
        entry = entries.get(removal.item.id)
        if entry is None:
            return Presence(here=False, bytes=removal.item.bytes)
        return Presence(here=True, changed=entry.sha256 != version)

    def _copy(self, removal: Removal) -> Moved:
        self._archive.copy_to_trash(removal)
        return Moved(copied=True)

    def _drop(self, removal: Removal) -> Moved:
        try:
            self._archive.drop([removal.item.id], removal.operation, forget=False)
        except (HoldfastError, OSError):
            with contextlib.suppress(HoldfastError, OSError):
                if self._archive.find(removal.item.id) is not None:
                    self._archive.empty(removal)  # the bundle stays, so it needs no copy
            raise
        return Moved(copied=True, bytes=self._archive.in_trash(removal) or 0)

    def _put_back(self, removal: Removal, same: Collection[str]) -> Moved:
        if removal.item.version in same:
            return Moved(copied=True)
        try:
            file = self._archive.from_trash(removal)
        except DamageError as error:
            where = self._archive.place_in_trash(removal)
            return damaged(f"its copy was changed, {error.message}: {where}")
        return Moved(reason="" if file == removal.item.id else f"as {file}")

    def _discard(self, removal: Removal) -> Moved:
        self._archive.check()  # if the disk is not mounted, the trash is not lost
        in_trash = self._archive.in_trash(removal)
        if in_trash is None:
            return Moved()
        self._archive.empty(removal)
        return Moved(copied=True, bytes=in_trash)
