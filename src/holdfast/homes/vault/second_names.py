"""Takes a session into a folder of the vault: the parts needed to bring it back, by second names or
as copies, with the record that an undo needs. Parts that the vault already had and that the agent
deleted or replaced with less content are carried over."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.vault.names import Entry
from holdfast.homes.vault.superseded import goes_on, is_document, is_part_superseded, says_nothing
from holdfast.model.part import FilePart, FolderPart, Part, RefPart, Role, Slot, Unit
from holdfast.parts.trees import below, clone, is_folder, remove_tree, tree_stamp
from holdfast.parts.unit_record import RECORD, BatchRecord, State, UnitRecord
from holdfast.parts.units import Movers, by_container
from holdfast.stores.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    give_to,
    link_new,
    make_private_dir,
    write_all,
)
from holdfast.value import replace

#: Temporary files of an agent at work; restored, they would mislead it.
_PASSING = (".lock", ".tmp", ".pid")
_VANISHED = "it disappeared while it was being added to the vault"
_IS_A_LINK = "its transcript is a link"


def stage(unit: Unit, folder: Path, earlier: Sequence[Slot], movers: Movers) -> UnitRecord:
    """Create second names and copies of all parts, with the record for a restore.

    Parts in `earlier` that the agent has deleted since, or replaced with less content, are carried
    over. A symbolic link inside a folder is taken in as a link, unless the vault has something
    better: its target does not belong to the session. A part that is itself a link is left out.
    """
    number = int(folder.name.rpartition("-")[2])
    record = UnitRecord.of(number, unit, folder)
    make_folder(folder)
    stamps: dict[int, str] = {}
    others, less = [], []
    for slot in record.slots:
        if not isinstance(slot.part, FilePart | FolderPart):
            others.append(slot)
        elif os.path.lexists(slot.part.path) and not slot.part.path.is_symlink():
            name_again(slot.part.path, slot.copy)
            but = _below(unit.transcript, slot)
            if but is not None and leads_out(slot.copy, but.relative_to(slot.copy)):
                raise StorageError(_IS_A_LINK)
            for each in earlier:
                if each.part.place == slot.part.place and os.path.lexists(each.copy):
                    less += [] if carry_over(each.copy, slot.copy, but=but) else [each]
            stamps[slot.index] = tree_stamp(slot.copy)
    for mover, group in by_container(movers, others):
        sights = mover.look(group)
        if any(sight.here is None for sight in sights):
            raise StorageError(f"{group[0].part.place} cannot be read")
        here = [slot for slot, sight in zip(group, sights, strict=True) if sight.here]
        stamps |= {slot.index: s.stamp for slot, s in zip(group, sights, strict=True) if s.here}
        if here:
            mover.copy(here)
    slots = [
        replace(slot, stamp=stamps[slot.index]) for slot in record.slots if slot.index in stamps
    ]
    gone, more = _one_of_each(_vanished(earlier, slots))
    less += more
    slots += _carried(gone, folder, first=len(record.slots))
    slots += _carried(_beside(less, slots), folder, first=len(record.slots) + len(slots))
    kept = replace(record, slots=tuple(slots))
    record_of_it = BatchRecord(folder=folder, records={number: kept}, state=State.DROPPED)
    write_plainly(folder / RECORD, record_of_it.to_bytes())
    return kept


def roots_before(parts: Iterable[Part], slots: Sequence[Slot], root: Path) -> Sequence[Path]:
    """Return where a home was before it was moved or copied: records have absolute paths. `slots`
    are what the vault has of a session, `parts` what the home at `root` has of it."""
    inside = [each.place for each in parts if each.place.is_relative_to(root)]
    found = set()
    for each in (slot.part.place for slot in slots):
        for place in inside if not each.is_relative_to(root) else ():
            below_root = place.relative_to(root).parts
            if below_root and each.parts[-len(below_root) :] == below_root:
                found.add(each.parents[len(below_root) - 1])
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def place_now(place: Path, before: Sequence[Path], root: Path) -> Path:
    """Return where something of a session is after its home was moved or copied (`roots_before`).
    At its earlier path it would count as deleted, and be kept a second time."""
    was = None if place.is_relative_to(root) else next(filter(place.is_relative_to, before), None)
    return place if was is None else root / place.relative_to(was)


def slots_now(slots: Iterable[Slot], before: Sequence[Path], root: Path) -> Iterator[Slot]:
    """Yield parts that the vault has with the paths that they have now."""
    for each in slots:
        if isinstance(each.part, FilePart | FolderPart):
            path = place_now(each.part.path, before, root)
            yield replace(each, part=replace(each.part, path=path))


def trees_of(entry: Entry) -> Sequence[Slot]:
    """Return the files and folders of a session that the vault holds by second names."""
    slots: tuple[Slot, ...] = ()
    with suppress(*UNREADABLE):  # a damaged record has no usable slots
        record = None if entry.bundle else BatchRecord.read(entry.folder)
        slots = () if record is None else record.records[entry.number].slots
    return [slot for slot in slots if isinstance(slot.part, FilePart | FolderPart)]


def _vanished(earlier: Sequence[Slot], slots: Sequence[Slot]) -> Iterator[Slot]:
    """Yield parts that a session had and no longer has."""
    here = [slot.part.place for slot in slots]
    for each in earlier:
        is_file = os.path.lexists(each.copy) and not each.copy.is_symlink()
        covered = any(each.part.place.is_relative_to(place) for place in here)
        if is_file and not covered and not is_passing(each.part.place):
            yield each


def _one_of_each(slots: Iterable[Slot]) -> tuple[Sequence[Slot], Sequence[Slot]]:
    """Return the first part of each place, and others of the same place that have more."""
    first: dict[Path, Slot] = {}
    more = [
        each
        for each in slots
        if (kept := first.setdefault(each.part.place, each)) is not each
        and not goes_on(each.copy, kept.copy)
    ]
    return [*first.values()], more


def _beside(less: Sequence[Slot], slots: Sequence[Slot]) -> Iterator[Slot]:
    """Yield earlier parts that held more than what is in their place now, each under a free name
    next to it."""
    held = {slot.part.place: slot.copy for slot in slots}
    for each in less:
        place = place_beside(each.part.place, each.copy, held.get)
        if place is not None and isinstance(each.part, FilePart | FolderPart):
            yield replace(each, part=replace(each.part, path=place))


def _carried(gone: Iterable[Slot], folder: Path, first: int) -> Iterator[Slot]:
    """Give earlier parts of a session second names in its new folder."""
    number = int(folder.name.rpartition("-")[2])
    for index, each in enumerate(gone, first):
        slot = replace(each, number=number, index=index, folder=folder)
        name_again(each.copy, slot.copy)
        yield replace(slot, stamp=tree_stamp(slot.copy))


def _below(path: Path | None, slot: Slot) -> Path | None:
    """Return the path in the vault of the transcript, which is judged by its messages."""
    if path is None or not path.is_relative_to(slot.part.place):
        return None
    return slot.copy / path.relative_to(slot.part.place)


def transcript_in(record: UnitRecord, unit: Unit, folder: Path) -> str:
    """Return the path of the transcript of a session in its folder, "" if it has none."""
    path = unit.transcript
    found = "" if path is None else place_in(record, path, folder)
    if path is None or found:
        return found
    if any(path.is_relative_to(part.place) for part in unit.parts):
        raise StorageError(_IS_A_LINK if path.is_symlink() else _VANISHED)
    return ""


def place_in(record: UnitRecord, path: Path, folder: Path) -> str:
    """Return the path of a file of a session in its folder, "" if it is not there."""
    for slot in record.slots:
        is_tree = isinstance(slot.part, FilePart | FolderPart)
        if is_tree and path.is_relative_to(slot.part.place):
            return str((slot.copy / path.relative_to(slot.part.place)).relative_to(folder))
    return ""


def leads_out(folder: Path, place: Path) -> bool:
    """True if a path in a folder is a symbolic link or behind one: then the folder does not contain
    what the path shows."""
    return any((folder / each).is_symlink() for each in (place, *place.parents))


def make_folder(folder: Path) -> None:
    """Create the private folder of a session in the vault, without an fsync per folder."""
    make_private_dir(folder.parent.parent)
    for each in (folder.parent, folder):
        with suppress(FileExistsError):
            each.mkdir(mode=PRIVATE_DIR)
            if os.geteuid() == 0:  # below another user's folder, it belongs to that user
                above = each.parent.stat()
                give_to(each, above.st_uid, above.st_gid)


def write_plainly(path: Path, data: bytes) -> None:
    """Write a private file in a folder that is not read yet. No fsync."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def kept_parts(unit: Unit, root: Path) -> Iterator[Part]:
    """Yield the parts that bring a session back. Excluded: traces, which agents leave when they
    delete a session; git references, because the vault does not have their objects; anything
    outside the home, except what makes the agent list the session."""
    for part in unit.parts:
        if part.role is Role.TRACE or isinstance(part, RefPart):
            continue
        is_tree = isinstance(part, FilePart | FolderPart)
        if is_tree and part.role is not Role.REFERENCE and not part.place.is_relative_to(root):
            continue
        yield part


# --- Second names ---------------------------------------------------------------------------------


def name_again(source: Path, target: Path, *, alone: bool = False) -> None:
    """Give everything below `source` a second name below `target`, which must not exist yet.

    A file that cannot or should not have one is copied and compared; a symbolic link is copied as a
    link. With `alone`, files with other hard links are copied too: another process may write to
    them.
    """
    status = source.lstat()
    if stat.S_ISDIR(status.st_mode):
        make_private_dir(target)
        with os.scandir(source) as entries:
            inner = sorted(each.name for each in entries)
        for each in inner:
            name_again(source / each, target / each, alone=alone)
        shutil.copystat(source, target, follow_symlinks=False)
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise StorageError(f"{source} is neither a file nor a folder, so the vault cannot keep it.")
    is_appended = not stat.S_ISLNK(status.st_mode) and not is_document(source)
    is_shared = alone and status.st_nlink > 1
    if is_shared or not is_appended or not _linked(source, target):
        clone(source, target)


def is_passing(path: Path) -> bool:
    return path.name.endswith(_PASSING)


def _linked(source: Path, target: Path) -> bool:
    """Return False if a hard link is impossible: another file system, one without hard links, too
    many links, or a file of another user that the system protects."""
    try:
        return link_new(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EACCES):
            return False
        raise


# --- What the vault had before --------------------------------------------------------------------


def carry_over(earlier: Path, target: Path, *, but: Path | None = None) -> bool:
    """Give what is below `earlier` and missing below `target` a second name there. If the target
    has less content, the earlier file gets a name next to it. `but` is left alone. Returns False if
    `earlier` itself has more than `target` and needs a name next to it."""
    if target == but or earlier.is_symlink():
        return True
    if target.is_symlink():
        return _put_for_link(earlier, target)
    if is_folder(earlier) != is_folder(target):
        return is_folder(earlier) and all(map(is_folder, below(earlier)))
    if not is_folder(earlier):
        return _replaced(earlier, target)
    _carry_inside(earlier, target, but)
    return True


def _carry_inside(earlier: Path, target: Path, but: Path | None) -> None:
    with os.scandir(earlier) as entries:
        inner = sorted(each.name for each in entries)
    less = []
    for name in inner:
        mine, theirs = earlier / name, target / name
        if not os.path.lexists(theirs):
            if not is_passing(mine):
                name_again(mine, theirs)
        elif not carry_over(mine, theirs, but=but):
            less.append(mine)
    for mine in less:
        beside = place_beside(target / mine.name, mine, lambda path: path)
        if beside is not None:
            name_again(mine, beside)


def _put_for_link(earlier: Path, target: Path) -> bool:
    """Replace the link without following it: its target does not belong to the session."""
    if not is_passing(earlier):
        target.unlink()
        name_again(earlier, target)
    return True


def _replaced(earlier: Path, target: Path) -> bool:
    if is_part_superseded(earlier, target):
        return True
    if not says_nothing(target):
        return False
    remove_tree(target)
    name_again(earlier, target)
    return True


def place_beside(place: Path, kept: Path, held: Callable[[Path], Path | None]) -> Path | None:
    """Return the first free name next to `place` for what the vault `kept` of it; None if one of
    these names already has that content. `held` maps a name to where its content is stored."""
    for number in count(1):
        beside = place.with_name(f"earlier-{number}-{place.name}")
        there = held(beside)
        if there is None or not os.path.lexists(there):
            return beside
        are_files = not (there.is_symlink() or is_folder(there) or is_folder(kept))
        if are_files and goes_on(kept, there):
            return None
    return None
