"""What a home takes on the disk, to the last file, by what it is.

Items stand for most of it. The rest is measured, folder by folder, so that the sum is what the disk
says. Links are not followed, and what a folder itself takes is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from holdfast.homes.folder_bytes import bytes_below
from holdfast.model.item import (
    ARCHIVED_FILES,
    ARCHIVED_KINDS,
    CHECKPOINT_KINDS,
    LEGACY,
    SESSION,
    Inventory,
    Item,
    Problem,
)
from holdfast.model.operation import TrashEntry
from holdfast.stores.files import allocated_bytes
from holdfast.value import dataclass, replace

_ARCHIVE_TRASH = ".trash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the parts of a home lie. `elsewhere` is counted by others: homes inside this one."""

    root: Path
    sessions: Path
    database: Path
    trash: Path
    log: Path
    archive: Path
    checkpoints: Sequence[Path]
    elsewhere: Collection[Path] = ()


def trash_of(entries: Iterable[TrashEntry]) -> tuple[Item, ...]:
    """The trash of a home, without that of checkpoints: a scan of theirs has it. That of the
    archive lies in its folder, and its caps count it."""
    kinds = ((entry, entry.removal.item.kind) for entry in entries)
    return tuple(
        replace(entry.as_item(), capped_elsewhere=kind in ARCHIVED_KINDS)
        for entry, kind in kinds
        if kind not in CHECKPOINT_KINDS
    )


def beside_checkpoints(entries: Iterable[TrashEntry]) -> int:
    """Undo copies of checkpoints that lie in the trash of the home, and not in their store."""
    return sum(entry.bytes for entry in entries if entry.removal.item.kind == LEGACY)


def counted(found: Inventory, places: Places, *, whole: bool, checkpoint_trash: int) -> Inventory:
    """The inventory with everything that no item stands for. `found.other_bytes` is what a scan of
    `sessions/` has counted of that. It is `whole` when it has every stored session.
    `checkpoint_trash` is what `beside_checkpoints` found: their caps count it."""
    problems: list[Problem] = []

    def below(*tops: Path, without: Collection[Path] = ()) -> int:
        return sum(bytes_below(top, without, problems) for top in tops)

    archive_trash = places.archive / _ARCHIVE_TRASH
    log = below(places.log)
    checkpoints = below(*places.checkpoints)
    fitted, loose_trash = _fitted(
        (each for each in found.trash if not each.capped_elsewhere), below(places.trash)
    )
    archived, loose_archive = _fitted(
        (each for each in found.trash if each.capped_elsewhere), below(archive_trash)
    )
    by_id = {each.id: each for each in (*fitted, *archived)}
    of_checkpoints = min(checkpoint_trash, loose_trash)
    checkpoints += of_checkpoints
    loose_trash -= of_checkpoints
    archive = 0
    if places.archive.is_relative_to(places.root):
        files = sum(each.bytes for each in found.items if each.kind == ARCHIVED_FILES)
        bundles = max(0, below(places.archive, without=[archive_trash]) - files)
        archive = bundles + loose_archive
    database = _size(places.database) + _size(_write_ahead_log(places.database))
    rest = below(places.root, without=_counted_by_themselves(places))
    items, space = found.items, found.space
    if whole:
        items, space, more = _database(found, database)
        rest += more
    return replace(
        found,
        items=items,
        trash=tuple(by_id[each.id] for each in found.trash),
        space=space,
        problems=(*found.problems, *problems),
        other_bytes=found.other_bytes + rest + loose_trash + archive + checkpoints + log,
        checkpoint_bytes=checkpoints,
        archive_bytes=archive,
        log_bytes=log,
        loose_trash_bytes=loose_trash,
        database_bytes=database,
    )


def _counted_by_themselves(places: Places) -> list[Path]:
    scanned = [places.sessions] if _is_folder(places.sessions) else []
    return [
        *scanned,
        places.trash,
        places.log,
        places.archive,
        places.database,
        _write_ahead_log(places.database),
        *places.checkpoints,
        *places.elsewhere,
    ]


def _fitted(trash: Iterable[Item], on_disk: int) -> tuple[list[Item], int]:
    """The trash as the log has it, and what lies there beyond that. Where the log has more than the
    disk, because copies that shared a file left it, the disk is right."""
    left = on_disk
    fitted = []
    for item in trash:
        fitted.append(item if item.bytes <= left else replace(item, bytes=left))
        left -= fitted[-1].bytes
    return fitted, left


def _database(found: Inventory, on_disk: int) -> tuple[tuple[Item, ...], tuple[Item, ...], int]:
    """Items, what a store could give back, and what of its file neither of them stands for.

    Shares of sessions are rounded, and pages may lie in the write-ahead log alone.
    """
    items = list(found.items)
    places = [place for place, item in enumerate(items) if item.kind == SESSION]
    left = on_disk - sum(items[place].bytes for place in places)
    if left < 0:
        largest = max(places, key=lambda place: items[place].bytes)
        less = max(0, items[largest].bytes + left)
        items[largest] = replace(items[largest], bytes=less)
        left = 0
    space = []
    for item in found.space:
        space.append(replace(item, bytes=max(0, min(item.bytes, left))))
        left -= space[-1].bytes
    return tuple(items), tuple(space), left


def _write_ahead_log(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _size(path: Path) -> int:
    try:
        return allocated_bytes(path.lstat())
    except FileNotFoundError:
        return 0
