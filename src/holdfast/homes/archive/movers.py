"""Moves sessions of a store, or only their files, into the archive and back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import (
    DamageError,
    HoldfastError,
    StorageError,
    UnknownSessionError,
    UnreachableError,
    in_voice,
)
from holdfast.homes.archive.bundles import Packer
from holdfast.homes.archive.home_archive import (
    FULL,
    NO_ROOM,
    WAY_OUT,
    Entries,
    HomeArchive,
    IntoArchive,
)
from holdfast.homes.archive.return_many import bring_back_many
from holdfast.homes.archive.session_files import SessionFolder
from holdfast.homes.archive.session_return import TAKEN, Returner
from holdfast.homes.archive.session_rows import Ended, Rows
from holdfast.homes.sessions.folder import FOLDER
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.item import FILES
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Moved, Presence, Result, damaged, failed, stayed, unseen
from holdfast.model.stored_session import MOST_MESSAGES
from holdfast.ports.archive import Puts
from holdfast.spine.keeper import Keeper, in_a_word, one_by_one
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    BUNDLE_MISSING,
    CHANGED,
    CHANGED_MEANWHILE,
    NO_SESSION_STORE,
    NOT_REACHED,
)
from holdfast.stores.archive import bundle
from holdfast.stores.files import version_of
from holdfast.stores.trash_paths import TrashFolder

if TYPE_CHECKING:
    from holdfast.homes.sessions.stored import StoredContents

_CHANGED_SINCE = "it is already in the store, and has changed since"
_NO_FILES = "it has no files"


def stored_archive(contents: StoredContents, loose: Keeper) -> HomeArchive:
    """The archive of a home that has a session store. `loose` removes single files."""
    ground, rows = contents.ground, contents.rows
    made = HomeArchive(ground, rows, contents.check_id)
    files = SessionFolder(ground.root, contents.parse, contents.stems)
    returner = Returner(made.folder, rows, files)

    def is_back(session_id: str) -> bool:
        return session_id in contents.stored([session_id])

    def bring_back(batch: Sequence[Removal], again: bool) -> Sequence[Ended]:
        return bring_back_many(returner, [each.item.id for each in batch], again=again)

    made.serve(ArchiveMover(returner, made.packer), bring_back, is_back)
    of_files = FilesMover(returner, made.packer, loose, ground.trash)
    made.doers[FILES, Action.ARCHIVE] = Keeper(of_files, keeps_copies=True)
    return made


class _FromStore(IntoArchive):
    """Base of the movers of sessions and of their files."""

    def __init__(self, returner: Returner, packer: Packer) -> None:
        super().__init__(returner.archive, packer)
        self._rows = returner.rows
        self._files = returner.files
        self._returner = returner


class ArchiveMover(_FromStore):
    """Moves sessions of a store into the archive, and back.

    Write-order rule: the bundle is on the disk and was read back before the catalogue gets its
    line, and the line is on the disk before the rows are deleted. A restore writes rows and files
    first, then removes the line, then the bundle. The bundle itself is the undo copy; it is not
    trash.
    """

    def __init__(self, returner: Returner, packer: Packer) -> None:
        super().__init__(returner, packer)
        self._coming: Sequence[PlanItem] = ()
        self._most = MOST_MESSAGES
        #: The size of each bundle of the batch, by session.
        self._weights: dict[str, int] = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        super().prepare(items)
        self._coming, self._most = items, MOST_MESSAGES

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        rows = self._rows()
        if rows is None:
            return [unseen(NO_SESSION_STORE)] * len(batch)
        entries = self._settled_entries()
        obstacles = rows.obstacles(batch)
        return [self._seen(rows, each, entries, obstacles.get(each.item.id, "")) for each in batch]

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Create the bundles. One that fails does not affect the others, unless the disk is
        full."""
        rows = self._rows()
        if rows is None:
            return [failed(NO_SESSION_STORE)] * len(batch)
        packed: list[ArchivedSession] = []
        try:
            self._archive.make()
            moved = self._packed(rows, batch, packed)
            self._archive.catalogue.add(packed)
            weights = self._archive.weights([made.file for made in packed])
            self._weights = dict(zip((made.session.id for made in packed), weights, strict=True))
        except (HoldfastError, OSError) as error:
            self._archive.drop_in_time([made.file for made in packed], batch[0].operation)
            if isinstance(error, OSError) and error.errno in FULL:
                raise StorageError(f"{NO_ROOM}.", hint=WAY_OUT) from error
            raise
        return moved

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        rows = self._rows()
        if rows is None:
            return [failed(NO_SESSION_STORE)] * len(batch)
        if self._coming:
            # Only now, when the first sessions are in the archive. If nothing can be archived, no
            # session leaves the store, and its search index must not be rebuilt in vain.
            coming, self._coming = self._coming, ()
            with contextlib.suppress(HoldfastError):  # only saves time
                self._most = rows.make_ready(coming)
        ended = rows.remove_if_unchanged(batch, self._most)
        stayed_there = [each for each in batch if ended[each.item.id][0] is not Result.REMOVED]
        # A session whose rows are still there is not archived: only the rows can tell.
        there = rows.read([each.item.id for each in stayed_there]) if stayed_there else {}
        self._drop_bundles([each for each in stayed_there if each.item.id in there])
        return [
            _moved(*ended[each.item.id])
            if each.item.id in there
            else Moved(copied=True, in_archive=self._weights.get(each.item.id, 0))
            for each in batch
        ]

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        entries = self._entries()
        found = [_entry(each, entries) for each in batch]
        files = [entry.file for entry in found if entry is not None]
        ended = iter(bring_back_many(self._returner, files))
        return [
            damaged(BUNDLE_MISSING) if entry is None else _moved(*next(ended), copied=True)
            for entry in found
        ]

    def _seen(
        self, rows: Rows, removal: Removal, entries: Entries | None, obstacle: str
    ) -> Presence:
        here = obstacle != ALREADY_GONE
        changed = obstacle == CHANGED
        if entries is None:
            # The disk of the archive is not mounted, so only the rows can tell. They are deleted
            # last: if they are gone, bundle and line exist.
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
        why, original = "", True  # with a damaged bundle, existing rows were not reached
        try:
            with self._archive.at_hand(entry.file):
                manifest = self._archive.verify(entry.file)
                # A killed undo may have restored the rows: then their messages have new numbers.
                original = here and (
                    rows.is_original(manifest) or self._returner.is_back(manifest, entry.file)
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
        """Make the bundles durable together: one by one, each would wait for the disk twice."""
        with self._archive.together(len(batch)) as among:
            moved = self._pack(rows, batch, packed, among)
            unnamed = among.finish()
        files = {made.session.id: made.file for made in packed}
        packed[:] = [made for made in packed if made.file not in unnamed]
        for place, each in enumerate(batch):
            error = unnamed.get(files.get(each.item.id, ""))
            if error is not None:
                moved[place] = failed(in_a_word(error))
        return moved

    def _pack(
        self, rows: Rows, batch: Sequence[Removal], packed: list[ArchivedSession], among: Puts
    ) -> list[Moved]:
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
                    among=among,
                )
            except (UnknownSessionError, bundle.ChangedError):
                moved.append(stayed(CHANGED_MEANWHILE))
            except UnreachableError as error:  # the others would wait just as long
                return moved + [failed(error.message)] * (len(batch) - len(moved))
            except HoldfastError as error:
                moved.append(failed(error.message))
            except OSError as error:
                if error.errno in FULL:
                    moved.append(failed(f"{NO_ROOM}. {in_voice(WAY_OUT)}"))
                    return moved + [failed(NO_ROOM)] * (len(batch) - len(moved))
                moved.append(failed(str(error.strerror or error)))
            else:
                packed.append(made)
                moved.append(Moved(copied=True))
        return moved

    def _settled_entries(self) -> Entries | None:
        """All bundles, each with its line, after cleaning up after killed runs; None if the disk of
        the archive is not mounted."""
        try:
            entries = self._entries()
            self._archive.clear_unfinished()
            self._archive.heal()
        except StorageError:
            return None
        return entries


class FilesMover(_FromStore):
    """Moves the files of ended sessions into the archive, and back. The rows of the sessions stay.

    Write-order rule: the bundle is on the disk, was read back, and has its line in the catalogue
    before the first file is removed. A restore writes the files first, then removes the line, then
    the bundle.
    """

    holds = Holds.FILES

    def __init__(
        self, returner: Returner, packer: Packer, loose: Keeper, trash: TrashFolder
    ) -> None:
        """`loose` removes single files to `trash`, with all their checks."""
        super().__init__(returner, packer)
        self._loose = loose
        self._trash = trash
        #: The files of each item when they were packed, and the bundle: a file that changed since
        #: must not be removed.
        self._packed: dict[str, tuple[Sequence[Removal], str]] = {}

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        self._archive.clear_unfinished()
        entries = self._entries()
        if entries:
            self._archive.heal()  # a killed run may have left a bundle without its line
        return one_by_one(batch, lambda each: self._seen(each, entries), unseen)

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._copy, failed)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return one_by_one(batch, self._drop, failed)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        entries = self._entries()
        return one_by_one(batch, lambda each: self._put_back(each, _entry(each, entries)), failed)

    def _seen(self, removal: Removal, entries: Entries) -> Presence:
        name = removal.item.id
        entry = _entry(removal, entries)
        if entry is None:
            if not self._files.of([name]).get(name):
                return Presence(here=True, obstacle=_NO_FILES, damage=BUNDLE_MISSING)
            return Presence(here=True, obstacle=self._obstacle(name))
        try:
            taken = self._files.in_the_way(self._archive.manifest(entry.file))
        except DamageError:
            taken = ()  # restoring the files reports what is wrong
        # A killed run is rolled back. If other files have the names, the files stay archived.
        return Presence(here=False, copied=True, partly=not taken, obstacle=NOT_REACHED)

    def _obstacle(self, session_id: str) -> str:
        rows = self._rows()
        session = None if rows is None else rows.read([session_id]).get(session_id)
        if session is None:
            return "its session is not in the store"
        return "" if session.ended else "its session is open"

    def _copy(self, removal: Removal) -> Moved:
        name = removal.item.id
        rows = self._rows()
        session = None if rows is None else rows.read([name]).get(name)
        sources = self._files.of([name]).get(name, ())
        if session is None or not sources:
            return stayed(ALREADY_GONE)
        going = [self._file(removal, each.name, each.version) for each in sources]
        try:
            self._archive.make()
            made = self._packer.files(removal, session, sources)
        except bundle.ChangedError:
            return stayed(CHANGED_MEANWHILE)
        except OSError as error:
            if error.errno in FULL:
                return failed(f"{NO_ROOM}. {in_voice(WAY_OUT)}")
            raise
        self._archive.catalogue.add([made])
        self._packed[removal.key] = going, made.file
        return Moved(copied=True)

    def _drop(self, removal: Removal) -> Moved:
        going, file = self._packed.pop(removal.key)
        done = self._loose.do(going)
        stayed_there = [each for each in done if each.result is not Result.REMOVED]
        if len(stayed_there) == len(done):  # nothing was removed, so nothing is archived
            self._drop_bundles([removal])
            return Moved(result=stayed_there[0].result, reason=stayed_there[0].reason)
        return Moved(
            reason="; ".join(f"{each.id} stayed: {each.reason}" for each in stayed_there),
            copied=True,
            bytes=sum(each.bytes_freed for each in done),
            in_archive=sum(self._archive.weights([file])),
        )

    def _put_back(self, removal: Removal, entry: ArchivedSession | None) -> Moved:
        """Restore all files, or change nothing."""
        if entry is None:
            return damaged(BUNDLE_MISSING)
        copies = self._in_trash(removal, entry.file)
        if copies:  # killed while moving the files: these are the originals
            self._loose.undo(copies)
        result, reason = self._returner.bring_back(entry.file)
        if result is Result.BROUGHT_BACK:
            self._loose.discard(copies)  # the files from the archive are restored
        return _moved(result, reason, copied=True)

    def _in_trash(self, removal: Removal, file: str) -> Sequence[Removal]:
        """Files that a killed run had moved into the trash, to be checked there again."""
        try:
            packed = self._archive.manifest(file).files
        except DamageError:
            return ()  # the returner reports what is wrong
        found = []
        for each in packed:
            path = self._trash.path(self._file(removal, each.name, ""))
            with contextlib.suppress(FileNotFoundError):
                found.append(self._file(removal, each.name, version_of(path.lstat())))
        return found

    def _file(self, removal: Removal, name: str, version: str) -> Removal:
        """One file as a separate removal. Its kind follows from its name."""
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


def _entry(removal: Removal, entries: Entries) -> ArchivedSession | None:
    return entries.get((removal.item.id, removal.operation))


def _moved(result: Result, reason: str, *, copied: bool = False) -> Moved:
    """A success has no result of its own."""
    done = result in (Result.REMOVED, Result.BROUGHT_BACK)
    return Moved(result=None if done else result, reason=reason, copied=copied)
