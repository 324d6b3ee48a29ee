"""Sessions leave the vault: back into the home, or into the trash.

A session comes back as in an undo: data before references, never over anything. It comes from a
temporary folder of second names, so the vault keeps it all the time: an agent may delete it again
at its next start. A killed run changes nothing in the vault, and the next run starts over.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.archive.bundles import Adopter, Packer
from holdfast.homes.archive.home_archive import BundleMover
from holdfast.homes.archive.session_rows import Ended
from holdfast.homes.home import Ground
from holdfast.homes.vault.names import ABOUT, Entry, check_sums
from holdfast.homes.vault.refresh import own_id
from holdfast.homes.vault.second_names import name_again
from holdfast.homes.vault.vault import Vault
from holdfast.model.arguments import file_stem
from holdfast.model.item import SESSION
from holdfast.model.operation import Removal
from holdfast.model.part import FilePart, FolderPart, Part, Unit
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Outcome, Result
from holdfast.parts.trees import below, in_use, is_folder, remove_tree, tree_stamp
from holdfast.parts.unit_record import RECORD, BatchRecord
from holdfast.parts.units import UnitMover, not_a_place
from holdfast.spine.keeper import Keeper, in_a_word, one_by_one
from holdfast.spine.outcomes import TAKEN
from holdfast.stores.archive.codec import Codec
from holdfast.stores.files import make_private_dir
from holdfast.stores.trash_paths import TrashFolder
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.homes.foreign.home import FormatContents

NOT_HELD = "it is no longer in the vault"
STAYS = f"it stays in the vault, because {TAKEN}"
#: Folder of second names from which sessions are restored.
_RETURNING = "returning"


class VaultRestore:
    """Puts sessions from the vault back into the home. Finishes what a killed run began."""

    def __init__(self, contents: FormatContents) -> None:
        self._vault = contents.vault
        self._kept = contents.kept()
        self._returning = TrashFolder(self._vault.folder / _RETURNING)
        self._units = UnitMover(contents.movers, self._returning, contents.census)
        self._ids = contents.whole
        self._clock = contents.ground.clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "it is in the vault already") for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self.undo(batch)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        ended = one_by_one(batch, self._restore, lambda why: (Result.FAILED, why))
        outcomes = [each.end(*end) for each, end in zip(batch, ended, strict=True)]
        back = [
            each.item.session
            for each, (result, _) in zip(batch, ended, strict=True)
            if result is Result.BROUGHT_BACK
        ]
        if back:
            self._hold_again(back)
        return outcomes

    def _hold_again(self, back: Sequence[str]) -> None:
        """Update the vault for sessions that are back: its agent has them again. A session that was
        set aside is what the agent has now. If this fails, the vault stays as it was."""
        held: Collection[str] = {own_id(each) for each in back}
        if self._kept.is_on:
            with contextlib.suppress(HoldfastError, OSError):
                held = self._kept.take_in_again(held)
        for each in back:
            if not self._kept.is_on or (own_id(each) != each and own_id(each) in held):
                self._vault.drop(file_stem(each))

    def _restore(self, removal: Removal) -> Ended:
        session_id = removal.item.session
        entry = self._vault.names.find(session_id)
        if entry is None:
            is_back = own_id(session_id) in self._ids()
            return (Result.BROUGHT_BACK, "") if is_back else (Result.DAMAGED, NOT_HELD)
        remove_tree(self._returning.folder(entry.stem))  # left by a killed run
        try:
            folder = self._second_names(entry)
            number = int(folder.name.rpartition("-")[2])
            item = replace(removal.item, kind=SESSION, id=session_id, version="", undoable=True)
            there = Removal(operation=entry.stem, number=number, item=item)
            strange = self._units.misplaced(there)
            if strange is not None:
                return Result.FAILED, not_a_place(strange)
            taken = self._make_ready(folder, number)
            if taken:
                return Result.FAILED, f"{STAYS}: {taken}"
            [done] = Keeper(self._units).undo([there])
        except DamageError as error:
            return Result.DAMAGED, in_a_word(error)
        finally:
            remove_tree(self._returning.folder(entry.stem))
            with contextlib.suppress(OSError):
                self._returning.root.rmdir()
        return done.result, done.reason

    def _second_names(self, entry: Entry) -> Path:
        """Create a folder of second names that a restore may take apart."""
        parent = self._returning.folder(entry.stem)
        if entry.bundle:
            return self._vault.bundles.unpacked(entry, parent)
        check_sums(entry)
        folder = parent / entry.folder.name
        make_private_dir(folder)
        for each in sorted(entry.folder.iterdir()):
            if each.name not in (ABOUT, RECORD):
                name_again(each, folder / each.name)
        name_again(entry.folder / RECORD, folder / RECORD)
        return folder

    def _make_ready(self, folder: Path, number: int) -> str:
        """Prepare the places and update the stamps in the record: an agent may have appended to a
        file after the last look. Returns a path that is in the way, or ""."""
        record = BatchRecord.read(folder)
        if record is None or number not in record.records:
            raise DamageError(f"The record in {folder} is missing or does not list this session")
        unit = record.records[number]
        trees = [
            (slot.part.path, slot.copy)
            for slot in unit.slots
            if isinstance(slot.part, FilePart | FolderPart) and os.path.lexists(slot.copy)
        ]
        taken = next((place for place, copy in trees if not _is_free(place, copy)), None)
        if taken is not None:
            return str(taken)
        for place, copy in trees:
            _make_room(place, copy)
        slots = []
        for slot in unit.slots:
            if isinstance(slot.part, FilePart | FolderPart) and os.path.lexists(slot.copy):
                if os.path.lexists(slot.part.path):
                    _date_alike(slot.copy, slot.part.path)
                elif self._kept.is_swept_by_file_time:
                    # With its old mtime, the agent would delete it again at its next start.
                    _renew(slot.copy, self._clock())
                slots.append(replace(slot, stamp=tree_stamp(slot.copy)))
            else:
                slots.append(slot)
        record.records[number] = replace(unit, slots=tuple(slots))
        record.write()
        return ""


def _is_free(place: Path, copy: Path) -> bool:
    """True if a part can come back. Agents leave empty folders, and folders from which they deleted
    files: these are no obstacle if the vault has everything that is left in them. A file may be
    there because a killed run had already restored it."""
    if not os.path.lexists(place):
        return True
    if is_folder(place) != is_folder(copy) or place.is_symlink() != copy.is_symlink():
        return False
    if not is_folder(place):
        return _is_kept(place, copy)
    if tree_stamp(place) == tree_stamp(copy):
        return True
    left = [each for each in below(place) if not is_folder(each)]
    kept = all(_is_kept(each, copy / each.relative_to(place)) for each in left)
    return kept and in_use(place) is None


def _make_room(place: Path, copy: Path) -> None:
    """Remove what an agent left of a folder that will be restored whole."""
    if is_folder(place) and tree_stamp(place) != tree_stamp(copy):
        remove_tree(place)


def _is_kept(path: Path, copy: Path) -> bool:
    """True if the vault has this very file, as a second name or as a copy."""
    if not os.path.lexists(copy):
        return False
    mine, theirs = copy.lstat(), path.lstat()
    if stat.S_IFMT(mine.st_mode) != stat.S_IFMT(theirs.st_mode):
        return False
    if stat.S_ISLNK(mine.st_mode):
        return copy.readlink() == path.readlink()
    is_file = stat.S_ISREG(mine.st_mode)
    return os.path.samestat(mine, theirs) or (is_file and filecmp.cmp(copy, path, shallow=False))


def _renew(path: Path, now: float) -> None:
    """Set the mtime of all files to now. Their content does not change."""
    for each in (*(below(path) if is_folder(path) else ()), path):
        if not each.is_symlink():
            os.utime(each, (now, now))


def _date_alike(copy: Path, place: Path) -> None:
    """Copy the mtime of a file that is already restored: its content is the same."""
    if not is_folder(copy) and not copy.is_symlink():
        at = place.lstat().st_mtime_ns
        os.utime(copy, ns=(at, at))


# --- Into the trash, and back ---------------------------------------------------------------------


class VaultCensus:
    """The sessions of the vault as units with one part, their folder."""

    def __init__(self, vault: Vault, ids: Callable[[], Collection[str]]) -> None:
        self._vault = vault
        self._ids = ids

    def find(self, items: Sequence[PlanItem]) -> Mapping[str, Unit]:
        return {
            item.id: Unit(id=item.id, active=item.last_active_at, parts=(part,))
            for item in items
            if (part := self._vault.part_of(item.id)).path.is_dir()
        }

    def obstacles(self, units: Iterable[Unit]) -> Mapping[str, str]:
        here = self._ids()
        return {each.id: "its agent has it again" for each in units if each.id in here}

    def outside(self, unit: Unit) -> str | None:
        root = self._vault.names.root
        return next((str(p.place) for p in unit.parts if p.place.parent != root), None)

    def misplaced(self, unit: Unit) -> str | None:
        return None

    def keeps(self, part: Part) -> str | None:
        return None


class VaultBundleMover(BundleMover):
    """Moves bundles of the vault, each with its entry in the vault."""

    def __init__(self, vault: Vault, ground: Ground) -> None:
        cold = vault.cold
        packer = Packer(cold, Codec(ground.options.vault.cold.codec), ground.clock)
        super().__init__(cold, Adopter(cold, lambda: None, packer, ground.clock, None))
        self._vault = vault

    def _drop(self, removal: Removal) -> Moved:
        # The reference before the data. After a kill in between, the next refresh writes it again.
        entry = self._vault.names.find(removal.item.session)
        if entry is not None and entry.bundle == removal.item.id:
            remove_tree(entry.folder.parent)
        return super()._drop(removal)

    def _put_back(self, removal: Removal, same: Collection[str]) -> Moved:
        moved = super()._put_back(removal, same)
        for each in self._archive.look().entries:
            with contextlib.suppress(HoldfastError, OSError):
                if self._vault.names.find(each.session.id) is None:
                    self._vault.note(each)
        return moved
