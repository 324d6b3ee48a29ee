"""Sessions of other agents in the archive: whole units, packed as they were in the trash.

A unit is archived by removing it into the trash, packing that folder into a bundle, reading the
bundle back, and then emptying the folder. So the original is in place, or in the trash, until the
bundle is verified. Restoring unpacks the same folder and puts the unit back from there, exactly as
an undo does.

Like every bundle, it has the session as a line, so that archived sessions can be listed, shown and
searched. Its files are those of the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError, UnreachableError
from holdfast.homes.archive.bundles import Packer
from holdfast.homes.archive.home_archive import Entries, HomeArchive, IntoArchive
from holdfast.homes.archive.packed_folder import packed, unpack, whole_or_gone
from holdfast.homes.archive.session_rows import Ended
from holdfast.homes.foreign.moved_paths import MOVING, Moving, move
from holdfast.homes.foreign.sessions import FormatSessions
from holdfast.homes.home import Ground
from holdfast.model.archive import ArchivedSession
from holdfast.model.arguments import check_foreign_id
from holdfast.model.item import SESSION
from holdfast.model.operation import Removal
from holdfast.model.path_map import MAPPED, from_texts
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import UNMOVED, Moved, Presence, Result, failed
from holdfast.model.session import Message, Session
from holdfast.parts.trees import is_same_tree, remove_tree
from holdfast.parts.unit_record import RECORD, BatchRecord
from holdfast.parts.units import UnitMover, not_a_place
from holdfast.spine.keeper import Keeper, in_a_word, one_by_one
from holdfast.spine.outcomes import NOT_REACHED, TAKEN
from holdfast.stores.archive.archive import SessionArchive
from holdfast.value import replace

_TAKEN = f"{TAKEN}; the session stays in the archive"
_OTHER_HOME = "it comes from another home ({home}); to restore it here: --map OLD=NEW"
_ONLY_THERE = "it comes from another home ({home}), and can only be restored there"
_HERE_ALREADY = "a session with this id already exists here, and was not changed"
_THE_SAME = "it is already here, unchanged"


def unit_archive(
    ground: Ground,
    units: UnitMover,
    sessions: FormatSessions,
    ids: Callable[[], Collection[str]],
    kind: str,
) -> HomeArchive:
    """The archive of a home whose kind has a format. `ids` returns the ids of its units."""
    made = HomeArchive(ground, check=check_foreign_id)
    moving = MOVING.get(kind)
    mover = UnitArchiveMover(made.folder, made.packer, units, sessions, ground.state, moving)

    def restore(batch: Sequence[Removal], again: bool) -> Sequence[Ended]:
        return one_by_one(
            batch, lambda each: restore_one(each, again), lambda why: (Result.FAILED, why)
        )

    def restore_one(removal: Removal, again: bool) -> Ended:
        if moving is None or removal.item.target != MAPPED:
            return mover.restore(removal)
        moved = MovedRestore(made.folder, units, ground, moving, ids)
        return moved.restore(removal, again=again)

    made.serve(mover, restore, lambda session_id: session_id in ids(), moves=kind in MOVING)
    return made


class MovedRestore:
    """Restores units under other paths. The bundle stays: it has the session under its old
    paths."""

    def __init__(
        self,
        archive: SessionArchive,
        units: UnitMover,
        ground: Ground,
        moving: Moving,
        ids: Callable[[], Collection[str]],
    ) -> None:
        self._archive = archive
        self._units = units
        self._ground = ground
        self._moving = moving
        self._ids = ids

    def restore(self, removal: Removal, *, again: bool) -> Ended:
        """Restore one unit. `again` finishes what a killed run began: it may have restored
        everything already."""
        here = replace(removal, item=_as_session(removal.item))
        folder = self._units.folder(here)
        try:
            if not (folder / RECORD).exists():
                with whole_or_gone(folder):
                    self._stage(removal, folder, self._moving)
                    self._check_places(here)
            [seen] = self._units.look([here])
        except (HoldfastError, OSError) as error:
            self._units.forget_empty(here)
            damaged = isinstance(error, DamageError)
            return Result.DAMAGED if damaged else Result.FAILED, in_a_word(error)
        # Ids are unique, wherever the transcript is. Other files of a session, such as file
        # history, have the same place under every path, so they prove nothing.
        known = removal.item.session in self._ids()
        if seen.changed or (known and not (again and seen.here)):
            same = known and seen.here and _is_in_place(folder)
            remove_tree(folder)
            self._units.forget_empty(here)
            if same:
                return Result.SKIPPED, _THE_SAME
            return Result.FAILED, _HERE_ALREADY if known else _TAKEN
        [done] = Keeper(self._units).undo([here])
        return done.result, done.reason

    def _check_places(self, here: Removal) -> None:
        """A bundle may have been edited. Raise while the copies can still be discarded."""
        strange = self._units.misplaced(here)
        if strange is not None:
            raise HoldfastError(not_a_place(strange))

    def _stage(self, removal: Removal, folder: Path, moving: Moving) -> None:
        """Unpack the bundle, and turn it into copies that belong here. The record of the copies is
        written last, so that after a kill the next run starts again."""
        unpacked = folder.with_name(f"moving-{removal.number}")
        file, maps = removal.item.id, from_texts(removal.item.paths)
        remove_tree(folder)
        try:
            unpack(self._archive, file, unpacked)
            found = BatchRecord.read(unpacked)
            if found is None or len(found.records) != 1:
                raise DamageError(f"The record in {file} is missing or does not list one session")
            [record] = found.records.values()
            move(moving, record, self._ground.root, maps, into=folder, number=removal.number)
        finally:
            remove_tree(unpacked)


class UnitArchiveMover(IntoArchive):
    """Moves units into the archive and back, one at a time: a bundle holds one unit."""

    def __init__(
        self,
        archive: SessionArchive,
        packer: Packer,
        units: UnitMover,
        sessions: FormatSessions,
        state: Path,
        moving: Moving | None = None,
    ) -> None:
        """`state` is the state folder of the home: paths in its bundles are paths of this home.
        `moving` is set for an agent whose sessions can be restored under other paths."""
        super().__init__(archive, packer)
        self._state = state
        self._moving = moving
        self._units = units
        self._sessions = sessions
        #: Why the store of the archive cannot be reached: the rest of a batch would wait as long.
        self._unreachable = ""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        """Look at the home once for the whole batch: one by one, each would look at every
        session."""
        self._archive.clear_unfinished()
        entries = self._entries()
        proved = {each.key: self._is_proved(each, entries) for each in batch}
        for each in batch:
            if proved[each.key] is True and not self._is_staged(each):
                remove_tree(self._units.folder(each))  # partly unpacked by a killed run
        looked = [each for each in batch if not isinstance(proved[each.key], str)]
        seen = dict(
            zip((each.key for each in looked), self._units.look(looked), strict=True)
            if looked
            else ()
        )
        return [self._presence(each, proved[each.key], seen.get(each.key)) for each in batch]

    def _is_proved(self, removal: Removal, entries: Entries) -> bool | str:
        """True if a complete bundle holds the unit. A message if the bundle is damaged and the only
        copy."""
        entry = entries.get((removal.item.id, removal.operation))
        if entry is None or self._is_whole(entry.file):
            return entry is not None
        if not self._is_staged(removal):
            return f"its bundle is damaged: {entry.file}"
        self._archive.drop([entry.file], removal.operation)
        return False

    def _presence(self, removal: Removal, proved: bool | str, seen: Presence | None) -> Presence:
        if isinstance(proved, str) or seen is None:
            return Presence(here=False, copied=True, damage=str(proved))
        if proved and seen.here is False:
            # Killed after the bundle was verified: it holds everything that is in the trash.
            remove_tree(self._units.folder(removal))
            return Presence(here=False, copied=True)
        if proved:
            return replace(seen, copied=True)
        if seen.partly or (seen.copied and seen.here is False):
            # The unit is in the trash, or on its way there, and not in a bundle: it is put back,
            # and the next plan takes it again. It cannot continue from here, because a bundle is
            # created from the agent's files.
            return replace(seen, copied=True, partly=True, obstacle=seen.obstacle or NOT_REACHED)
        return seen

    def _is_staged(self, removal: Removal) -> bool:
        return (self._units.folder(removal) / RECORD).exists()

    def _is_whole(self, file: str) -> bool:
        try:
            self._archive.verify(file)
        except DamageError:
            return False
        return True

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Each unit is copied when its turn comes: only then are its entries in a shared file where
        they are after the removal of the earlier units, which is where an undo puts them back."""
        return [Moved(copied=True)] * len(batch)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        self._unreachable = ""
        return [
            failed(self._unreachable) if self._unreachable else self._drop(each) for each in batch
        ]

    def _drop(self, removal: Removal) -> Moved:
        if not self._is_staged(removal):
            [copied] = self._units.copy([removal])
            if not copied.done:
                return copied
        # Read everything while the files are still in place.
        session, said = self._sessions.taken_out(removal.item.id)
        children = self._sessions.child_ids(session.id)
        [moved] = self._units.drop([removal])
        if not moved.done:
            return moved
        left = self._units.file_bytes(removal)
        try:
            made = self._pack(removal, session, said, children)
        except (HoldfastError, OSError) as error:
            self._units.put_back([removal])
            self._units.discard([removal])
            if isinstance(error, UnreachableError):
                self._unreachable = error.message
            return failed(in_a_word(error))
        self._clear(removal)
        weight = sum(self._archive.weights([made.file]))
        return Moved(reason=moved.reason, copied=True, bytes=left, in_archive=weight)

    def _pack(
        self,
        removal: Removal,
        session: Session,
        said: Iterable[Message],
        children: Sequence[str],
    ) -> ArchivedSession:
        staged = self._units.folder(removal)
        made = self._packer.session(removal, session, said, children=children, files=packed(staged))
        self._archive.catalogue.add([made])
        return made

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        entries = self._entries()

        def put_back(removal: Removal) -> Moved:
            return self._put_back(removal, entries.get((removal.item.id, removal.operation)))

        return one_by_one(batch, put_back, failed)

    def _put_back(self, removal: Removal, entry: ArchivedSession | None) -> Moved:
        if entry is None:
            [moved] = self._units.put_back([removal])
            return moved
        moved = UNMOVED
        try:
            self._unpack(removal, entry.file)
            [moved] = self._units.put_back([removal])
        finally:
            if not (moved.done and moved.copied):
                self._clear_if_away(removal)
        return moved

    def _clear_if_away(self, removal: Removal) -> None:
        """Discard copies in the trash of what is in the archive: nothing else would. But while a
        part of the unit is in place, the copies are needed to restore the others."""
        with contextlib.suppress(HoldfastError, OSError):
            [seen] = self._units.look([removal])
            if not seen.here:
                self._clear(removal)

    def _unpack(self, removal: Removal, file: str) -> None:
        """Unpack the bundle into its folder in the trash. The record is written last, so that the
        next run after a kill starts again."""
        if not self._is_staged(removal):
            unpack(self._archive, file, self._units.folder(removal))

    def restore(self, removal: Removal) -> Ended:
        """Restore a unit from its bundle. The caller drops the bundle."""
        file = removal.item.id
        try:
            manifest = self._archive.manifest(file)
            is_own = self._archive.is_own(file, manifest.operation)
            there = "" if is_own else self._archive.home_of(file)
            if not is_own and there != str(self._state):
                return Result.FAILED, self._from_elsewhere(Path(there).parent)
            # Operation numbers of another home may be the same as ours, so its bundles are unpacked
            # under the operation that restores them.
            by = manifest if is_own else removal
            archived = Removal(
                operation=by.operation, number=by.number, item=_as_session(removal.item)
            )
            self._unpack(archived, file)
            if refused := self._refused(archived):
                self._clear(archived)
                return Result.FAILED, refused
            [seen] = self._units.look([archived])
        except DamageError as error:
            return Result.DAMAGED, in_a_word(error)
        except (HoldfastError, OSError) as error:
            return Result.FAILED, in_a_word(error)
        if seen.here and seen.changed:
            self._clear(archived)
            return Result.FAILED, _TAKEN
        [done] = Keeper(self._units).undo([archived])
        if done.result is not Result.BROUGHT_BACK:
            self._clear_if_away(archived)
        return done.result, done.reason

    def _refused(self, archived: Removal) -> str | None:
        """Why an unpacked unit may not be restored here. A bundle that was copied here does not
        name its home, but the paths of its files do; and a bundle may have been edited."""
        outside = self._units.outside(archived)
        if outside is not None:
            unit, place = outside
            home = None if self._moving is None else self._moving.root(unit.parts)
            return self._from_elsewhere(home or place)
        place_of_another = self._units.misplaced(archived)
        return None if place_of_another is None else not_a_place(place_of_another)

    def _from_elsewhere(self, home: object) -> str:
        return (_ONLY_THERE if self._moving is None else _OTHER_HOME).format(home=home)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        moved = [one for each in batch for one in self._units.discard([each])]
        self._drop_bundles(batch)
        return moved

    def _clear(self, removal: Removal) -> None:
        """Empty the folder in the trash. Hidden references stay: the bundle does not hold their
        objects, so a restore needs them."""
        staged = self._units.folder(removal)
        remove_tree(staged)
        self._units.forget_empty(removal)


def _is_in_place(folder: Path) -> bool:
    """True if everything staged is already in place, byte for byte: a stamp cannot distinguish two
    paths of the same length."""
    found = BatchRecord.read(folder)
    slots = () if found is None else [s for each in found.records.values() for s in each.slots]
    return bool(slots) and all(is_same_tree(slot.copy, slot.part.place) for slot in slots)


def _as_session(item: PlanItem) -> PlanItem:
    """The session of a bundle, as an item of the plan that archived it."""
    return PlanItem(
        kind=SESSION,
        id=item.session,
        source=item.source,
        session=item.session,
        bytes=item.bytes,
        last_active_at=item.last_active_at,
        version="",
        action=Action.ARCHIVE,
        reason=item.reason,
        undoable=True,
    )
