"""Sessions leave the vault: back into the home, or into the trash.

A session comes back as an undo brings one back: data before references, never over anything. What
the vault has of it goes after that; the next look after the vault gives it new second names.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.archive import BundleMover
from holdfast.homes.archive_bundles import Adopter, Packer
from holdfast.homes.archive_rows import Ended
from holdfast.homes.home import Ground
from holdfast.homes.vault import Vault
from holdfast.homes.vault_names import Entry
from holdfast.homes.vault_refresh import SET_ASIDE, check_sums, unpacked
from holdfast.model.item import SESSION
from holdfast.model.operation import Removal
from holdfast.model.part import FilePart, FolderPart, Part, Unit
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Outcome, Result
from holdfast.parts.trees import below, in_use, is_folder, remove_tree, tree_stamp
from holdfast.parts.unit_record import BatchRecord
from holdfast.parts.units import Census, Movers, UnitMover
from holdfast.spine.keeper import Keeper, in_a_word, one_by_one
from holdfast.stores.archive.codec import Codec
from holdfast.stores.trash_folder import TrashFolder
from holdfast.value import replace

NOT_HELD = "the vault does not hold it any more"
TAKEN = "it stays in the vault, because its place is taken"


class VaultRestore:
    """Puts sessions from the vault back into the home. What a killed run began is finished."""

    def __init__(
        self,
        vault: Vault,
        movers: Movers,
        census: Census,
        ids: Callable[[], Collection[str]],
        *,
        renews: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """`ids` are those of the sessions in the home. `renews` says that its agent deletes by the
        time of a file: then files come back with the time of now, or the agent would delete them
        again at its next start."""
        self._vault = vault
        self._units = UnitMover(movers, TrashFolder(vault.names.root), census)
        self._ids = ids
        self._renews = renews
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing has to be ready."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "it is in the vault already") for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self.undo(batch)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        ended = one_by_one(batch, self._restore, lambda why: (Result.FAILED, why))
        return [each.end(*end) for each, end in zip(batch, ended, strict=True)]

    def _restore(self, removal: Removal) -> Ended:
        session_id = removal.item.session
        entry = self._vault.names.find(session_id)
        if entry is None:
            is_back = re.sub(SET_ASIDE, "", session_id) in self._ids()
            return (Result.BROUGHT_BACK, "") if is_back else (Result.DAMAGED, NOT_HELD)
        try:
            folder = unpacked(self._vault, entry) if entry.bundle else self._checked(entry)
            number = int(folder.name.rpartition("-")[2])
            there = Removal(operation=entry.stem, number=number, item=_as_session(removal.item))
            taken = self._make_ready(folder, number)
            if taken:
                return Result.FAILED, f"{TAKEN}: {taken}"
            [done] = Keeper(self._units).undo([there])
        except DamageError as error:
            return Result.DAMAGED, in_a_word(error)
        if done.result is Result.BROUGHT_BACK:
            self._vault.drop(entry.stem)
        return done.result, done.reason

    def _checked(self, entry: Entry) -> Path:
        # A killed run has moved files out of the folder, and gave the others new times.
        if all((entry.folder / name).exists() for name in entry.sums):
            check_sums(entry)
        return entry.folder

    def _make_ready(self, folder: Path, number: int) -> str:
        """The record with the stamps that the files have now: an agent appends to a file after the
        last look. Returns what is in the way."""
        record = BatchRecord.read(folder)
        if record is None or number not in record.records:
            raise DamageError(f"{folder} does not say what its files are")
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
                if self._renews() and not is_folder(slot.part.path):
                    _renew(slot.copy, self._clock())
                slots.append(replace(slot, stamp=tree_stamp(slot.copy)))
            else:
                slots.append(slot)
        record.records[number] = replace(unit, slots=tuple(slots))
        record.write()
        return ""


def _is_free(place: Path, copy: Path) -> bool:
    """Whether a part can come back. Agents leave empty folders behind, and folders out of which
    they deleted something: what is left in those the vault has too. A file may be there because a
    killed run had come this far."""
    if not os.path.lexists(place):
        return True
    if is_folder(place) != is_folder(copy) or place.is_symlink() != copy.is_symlink():
        return False
    if not is_folder(place):
        return os.path.samestat(place.lstat(), copy.lstat())
    if tree_stamp(place) == tree_stamp(copy):
        return True
    left = [each for each in below(place) if not is_folder(each)]
    kept = all(_is_kept(each, copy / each.relative_to(place)) for each in left)
    return kept and in_use(place) is None


def _make_room(place: Path, copy: Path) -> None:
    """Remove what an agent left of a folder that comes back whole."""
    if is_folder(place) and tree_stamp(place) != tree_stamp(copy):
        remove_tree(place)


def _is_kept(path: Path, copy: Path) -> bool:
    """Whether the vault has a file as it is: its second name, or one of the same size and time."""
    if not os.path.lexists(copy):
        return False
    mine, theirs = copy.lstat(), path.lstat()
    return (mine.st_size, mine.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns)


def _renew(path: Path, now: float) -> None:
    """Give all files the time of now. It is not the time of a change: nothing in them changes."""
    for each in (*(below(path) if is_folder(path) else ()), path):
        if not each.is_symlink():
            os.utime(each, (now, now))


def _as_session(item: PlanItem) -> PlanItem:
    return replace(item, kind=SESSION, id=item.session, version="", undoable=True)


# --- Into the trash, and back ---------------------------------------------------------------------


class VaultCensus:
    """The sessions of the vault as units of one part: their folder."""

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

    def keeps(self, part: Part) -> str | None:
        return None


class VaultBundleMover(BundleMover):
    """Moves bundles of the vault, each with its note in the vault."""

    def __init__(self, vault: Vault, ground: Ground) -> None:
        cold = vault.cold
        packer = Packer(cold, Codec(ground.options.vault.cold.codec), ground.clock)
        super().__init__(cold, Adopter(cold, lambda: None, packer, ground.clock, None))
        self._vault = vault

    def _drop(self, removal: Removal) -> Moved:
        # The reference before the data. After a kill in between, the next look writes it again.
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
