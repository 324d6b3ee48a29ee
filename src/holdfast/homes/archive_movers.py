"""How sessions move into the archive and back, and how bundles leave the archive and come back."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.errors import DamageError, HoldfastError, StorageError, UnknownSessionError
from holdfast.homes.archive_adopting import Adopter
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_return import TAKEN, Returner
from holdfast.homes.archive_rows import Rows
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Presence, Result, damaged, failed, stayed, unseen
from holdfast.spine.keeper import one_by_one
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    BUNDLE_MISSING,
    CHANGED,
    CHANGED_MEANWHILE,
    NO_SESSION_STORE,
)
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive

NO_ROOM = "no room left in the archive; it stays in the store"
WAY_OUT = (
    "Without an archive: `holdfast sessions prune --now`; in another place: `folder` of [archive]"
)
FULL = (errno.ENOSPC, errno.EDQUOT)
_CHANGED_SINCE = "it is in the store already, and changed since"
_Entries = Mapping[tuple[str, str], ArchivedSession]


class ArchiveMover:
    """Moves sessions of a store into the archive, and back.

    Write-order rule: the bundle is on the disk and was read back before the catalogue has its line,
    and that is on the disk before the rows go. On the way back the rows and files come first, then
    the line goes, then the bundle. What the log calls undo copy is the bundle itself: it is no
    trash.
    """

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        files: SessionFolder,
        *,
        packer: Packer,
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._files = files
        self._packer = packer
        self._returner = Returner(archive, rows, files)

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Lines for bundles that lost theirs. What stands in the way is said of each session."""
        with contextlib.suppress(HoldfastError, OSError):
            self._archive.make()
            self._archive.heal()

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        rows = self._rows()
        if rows is None:
            return [unseen(NO_SESSION_STORE)] * len(batch)
        entries = self._settled_entries(batch)
        obstacles = rows.obstacles(batch)
        return [self._seen(rows, each, entries, obstacles.get(each.item.id, "")) for each in batch]

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Make the bundles. One that fails does not cost the others, unless there is no room."""
        rows = self._rows()
        if rows is None:
            return [failed(NO_SESSION_STORE)] * len(batch)
        packed: list[ArchivedSession] = []
        try:
            self._archive.make()
            moved = self._packed(rows, batch, packed)
            self._archive.catalogue.add(packed)
        except (HoldfastError, OSError) as error:
            self._archive.drop([made.file for made in packed], batch[0].operation)
            if isinstance(error, OSError) and error.errno in FULL:
                raise StorageError(NO_ROOM, hint=WAY_OUT) from error
            raise
        return moved

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        rows = self._rows()
        if rows is None:
            return [failed(NO_SESSION_STORE)] * len(batch)
        ended = rows.remove_if_unchanged(batch)
        stayed_there = [each for each in batch if ended[each.item.id][0] is not Result.REMOVED]
        # What kept its rows is not archived. The rows are asked: they alone can say so.
        there = rows.read([each.item.id for each in stayed_there]) if stayed_there else {}
        self._drop_bundles([each for each in stayed_there if each.item.id in there])
        return [
            _moved(*ended[each.item.id]) if each.item.id in there else Moved(copied=True)
            for each in batch
        ]

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        entries = self._entries()
        moved = []
        for each in batch:
            entry = entries.get((each.item.id, each.operation))
            if entry is None:
                moved.append(damaged(BUNDLE_MISSING))
                continue
            result, reason = self._returner.bring_back(entry.file)
            moved.append(_moved(result, reason, copied=True))
        return moved

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        self._drop_bundles(batch)
        return [Moved(copied=True)] * len(batch)

    def _seen(
        self, rows: Rows, removal: Removal, entries: _Entries | None, obstacle: str
    ) -> Presence:
        here = obstacle != ALREADY_GONE
        changed = obstacle == CHANGED
        if entries is None:
            # Its disk is not mounted: the rows alone must answer. They go last, so without them
            # bundle and line are there.
            return Presence(here=here, copied=not here, changed=changed, obstacle=obstacle)
        entry = entries.get((removal.item.id, removal.operation))
        if entry is None:
            return Presence(
                here=here,
                changed=changed,
                obstacle=obstacle,
                in_the_way=_CHANGED_SINCE,
                damage="" if here else BUNDLE_MISSING,
            )
        why, original = "", True  # rows that are there while the bundle is damaged were not reached
        try:
            beside = self._archive.verify(entry.file)
            # A killed undo may have put the rows back: then their messages have new numbers.
            original = here and (
                rows.is_original(beside) or self._returner.is_back(beside, entry.file)
            )
        except DamageError as error:
            why = f"its bundle is damaged, {error.message}: {entry.file}"
        return Presence(
            here=here,
            copied=True,
            ours=original,
            changed=changed,
            obstacle=obstacle,
            in_the_way=TAKEN,
            damage=why,
        )

    def _packed(
        self, rows: Rows, batch: Sequence[Removal], packed: list[ArchivedSession]
    ) -> Sequence[Moved]:
        moved: list[Moved] = []
        ids = [each.item.id for each in batch]
        sessions, files = rows.read(ids), self._files.of(ids)
        for each in batch:
            name = each.item.id
            if name not in sessions:
                moved.append(stayed(ALREADY_GONE))
                continue
            try:
                made = self._packer.session(
                    each,
                    sessions[name],
                    rows.messages(name),
                    children=rows.children(name),
                    files=files.get(name, ()),
                )
            except (UnknownSessionError, bundle.ChangedError):
                moved.append(stayed(CHANGED_MEANWHILE))
            except HoldfastError as error:
                moved.append(failed(error.message))
            except OSError as error:
                if error.errno in FULL:
                    moved.append(failed(f"{NO_ROOM}. {WAY_OUT}"))
                    return moved + [failed(NO_ROOM)] * (len(batch) - len(moved))
                moved.append(failed(str(error.strerror or error)))
            else:
                packed.append(made)
                moved.append(Moved(copied=True))
        return moved

    def _settled_entries(self, batch: Sequence[Removal]) -> _Entries | None:
        """The bundles that there are, with a line for each and without what a killed run had only
        begun; None when the disk of the archive is not mounted."""
        try:
            entries = self._entries()
            self._archive.clear_unfinished()
            self._archive.heal()
        except StorageError:
            return None
        return entries

    def _drop_bundles(self, batch: Sequence[Removal]) -> None:
        if batch:
            entries = self._entries()
            keys = [(each.item.id, each.operation) for each in batch]
            files = [entries[key].file for key in keys if key in entries]
            self._archive.drop(files, batch[0].operation)

    def _entries(self) -> _Entries:
        """The bundles by session and by the operation that archived it."""
        return {
            (each.session.id, each.operation): each
            for each in self._archive.look().entries
            if each.holds is Holds.SESSION
        }


def _moved(result: Result, reason: str, *, copied: bool = False) -> Moved:
    """Without a result when it did what it was asked to."""
    done = result in (Result.REMOVED, Result.BROUGHT_BACK)
    return Moved(result=None if done else result, reason=reason, copied=copied)


class BundleMover:
    """Moves bundles out of the archive, into a trash of the archive's own: the home's may lie on
    another file system."""

    def __init__(self, archive: SessionArchive, adopter: Adopter) -> None:
        self._archive = archive
        self._adopter = adopter

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Take in what earlier versions left in the folder of the archive."""
        with contextlib.suppress(HoldfastError, OSError):  # what stands in the way is said of each
            self._adopter.adopt()

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        self._archive.heal()  # a killed run may have dropped the line of a bundle that stays
        entries = {each.file: each for each in self._archive.look().entries}
        seen = one_by_one(batch, lambda each: self._seen(each, entries), unseen)
        gone = (not one.here and not one.copied for one in seen)
        if any(one and not each.item.undoable for each, one in zip(batch, gone, strict=True)):
            self._archive.catalogue.forget_gone()  # what goes for good leaves no title behind
        return seen

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._copy, failed)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
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
            # Killed between its new name and the end of the old one, it has both.
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
                    self._archive.empty(removal)  # it stays, so it needs no copy
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
        self._archive.check()  # a disk that is not mounted has not lost its trash
        in_trash = self._archive.in_trash(removal)
        if in_trash is None:
            return Moved()
        self._archive.empty(removal)
        return Moved(copied=True, bytes=in_trash)
