"""The disk usage of a home, down to the last file, by category.

Items account for most of it. The rest is measured folder by folder, so that the sum matches the
disk. Links are not followed, and the size of a folder itself is not counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.kind import LOG
from holdfast.homes.options import VAULT
from holdfast.model.item import (
    ARCHIVED_FILES,
    ARCHIVED_KINDS,
    CHECKPOINT_KINDS,
    LEGACY,
    SESSION,
    VAULTED_BUNDLE,
    Inventory,
    Item,
    Problem,
)
from holdfast.model.operation import TrashEntry
from holdfast.stores.files import RESERVE, Doubled, allocated_bytes
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.homes.home import Ground
    from holdfast.model.archive import ArchiveWeight


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of scanning what is specific to one kind of home.

    `counted` are folders whose bytes are already in the items and in `other_bytes`, and homes
    inside this one. `database` is a file that sessions share; its write-ahead log counts with it.
    `in_items` are bytes of items outside both. `read_only` is true if nothing here may be changed.
    """

    items: tuple[Item, ...] = ()
    space: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    other_bytes: int = 0
    counted: Sequence[Path] = ()
    database: Path | None = None
    in_items: int = 0
    read_only: bool = False
    stored_trash: int = 0


def trash_of(entries: Iterable[TrashEntry]) -> tuple[Item, ...]:
    """The trash of a home, without that of checkpoints and of vault bundles: their own scans report
    it. Trash of the archive is in the archive folder, and the archive's caps count it."""
    kinds = ((entry, entry.removal.item.kind) for entry in entries)
    return tuple(
        replace(entry.as_item(), capped_elsewhere=kind in ARCHIVED_KINDS)
        for entry, kind in kinds
        if kind not in (*CHECKPOINT_KINDS, VAULTED_BUNDLE)
    )


def beside_checkpoints(entries: Iterable[TrashEntry]) -> int:
    """Bytes of checkpoint undo copies that are in the trash of the home rather than in the
    checkpoint store."""
    return sum(entry.bytes for entry in entries if entry.removal.item.kind == LEGACY)


def counted(
    found: Inventory,
    survey: Survey,
    ground: Ground,
    archive: ArchiveWeight | None,
    *,
    checkpoint_folders: Sequence[Path],
    whole: bool,
    checkpoint_trash: int,
    doubled: Doubled | None = None,
) -> Inventory:
    """The inventory with everything that is not an item. `whole` is true if it has every stored
    session. `checkpoint_trash` is the result of `beside_checkpoints`: the caps on checkpoints count
    it."""
    problems: list[Problem] = [] if archive is None else [*archive.problems]

    def below(*tops: Path, without: Collection[Path] = ()) -> int:
        return sum(bytes_below(top, without, problems) for top in tops)

    trash_folder, log_folder = ground.trash.root, ground.state / LOG
    vault_folder, reserved = ground.state / VAULT, ground.state / RESERVE
    log = below(log_folder)
    # Whatever goes to the trash is in the log first. Without one, a folder of that name is another
    # program's, and no command empties it.
    in_trash = below(trash_folder) if log_folder.is_dir() else 0
    older = [each for folder in checkpoint_folders for each in _older_layouts(folder)]
    legacy = below(*older)
    checkpoints = below(*checkpoint_folders, without=older) + legacy
    fitted, loose_trash = _fitted(
        (each for each in found.trash if not each.capped_elsewhere),
        in_trash + survey.stored_trash,
    )
    archived, loose_archive = _fitted(
        (each for each in found.trash if each.capped_elsewhere),
        0 if archive is None else archive.trash_bytes,
    )
    by_id = {each.id: each for each in (*fitted, *archived)}
    of_checkpoints = min(checkpoint_trash, loose_trash)
    checkpoints += of_checkpoints
    loose_trash -= of_checkpoints
    in_archive = 0
    if archive is not None and ground.archive.is_relative_to(ground.root):
        files = sum(each.bytes for each in found.items if each.kind == ARCHIVED_FILES)
        in_archive = max(0, archive.bytes - files) + loose_archive
    database = survey.in_items if survey.database is None else _database_bytes(survey.database)
    vault = below(vault_folder)
    ours = [
        *([trash_folder] if log_folder.is_dir() else []),
        log_folder,
        reserved,
        ground.archive,
        vault_folder,
        *checkpoint_folders,
    ]
    by_themselves = [*ours, *_files_of(survey.database), *survey.counted]
    rest = bytes_below(ground.root, by_themselves, problems, doubled) - survey.in_items
    items, space, empty_database = found.items, found.space, 0
    if whole and survey.database is not None:
        items, space, empty_database = _database(found, database)
    rest = max(0, rest)
    return replace(
        found,
        items=items,
        trash=tuple(by_id[each.id] for each in found.trash),
        space=space,
        problems=(*found.problems, *problems),
        other_bytes=survey.other_bytes
        + rest
        + loose_trash
        + in_archive
        + vault
        + checkpoints
        + log
        + empty_database,
        checkpoint_bytes=checkpoints,
        legacy_bytes=legacy,
        archive_bytes=in_archive,
        vault_bytes=vault,
        log_bytes=log,
        reserve_bytes=_set_aside(reserved),
        loose_trash_bytes=loose_trash,
        database_bytes=database,
        empty_database_bytes=empty_database,
    )


def _older_layouts(folder: Path) -> list[Path]:
    """Folders that an older layout left in a checkpoint folder, moved aside or not."""
    try:
        found = list(folder.iterdir())
    except OSError:
        return []  # the walk over the folder reports why
    return [each for each in found if re.fullmatch(r"legacy-.+|[0-9a-f]{16}", each.name)]


def bytes_below(
    top: Path,
    left_out: Collection[Path],
    problems: list[Problem],
    doubled: Doubled | None = None,
) -> int:
    """The bytes below a folder. Paths are plain strings and `left_out` is never read, because a
    checkpoint folder may hold very many files. Links are not followed; if `top` is a link, nothing
    is below it. Files in `doubled` have a second name in the vault, and count here."""
    skipped = {str(each) for each in left_out}
    total = 0
    waiting = [] if top.is_symlink() else [str(top)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = [each for each in entries if each.path not in skipped]
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(Problem(path=folder, reason=str(error.strerror)))
            continue
        for each in found:
            if each.is_dir(follow_symlinks=False):
                waiting.append(each.path)
                continue
            with suppress(FileNotFoundError):
                total += allocated_bytes(each.stat(follow_symlinks=False), doubled)
    return total


def _fitted(trash: Iterable[Item], on_disk: int) -> tuple[list[Item], int]:
    """The trash as the log has it, and the bytes on disk beyond that. If the log has more than the
    disk, because copies shared a file, the disk is right."""
    left = on_disk
    fitted = []
    for item in trash:
        fitted.append(item if item.bytes <= left else replace(item, bytes=left))
        left -= fitted[-1].bytes
    return fitted, left


def _database(found: Inventory, on_disk: int) -> tuple[tuple[Item, ...], tuple[Item, ...], int]:
    """Items, reclaimable space, and the part of the database file that neither accounts for: tables
    and indexes, which take space even when empty.

    The shares of sessions are rounded, and pages may be only in the write-ahead log.
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


def _files_of(database: Path | None) -> list[Path]:
    return [] if database is None else [database, database.with_name(f"{database.name}-wal")]


def _database_bytes(database: Path) -> int:
    return sum(map(_file_bytes, _files_of(database)))


def _set_aside(path: Path) -> int:
    """The reserve's full size, even if several homes have a name for it: it belongs to none of
    them."""
    with suppress(FileNotFoundError):
        return path.lstat().st_blocks * 512
    return 0


def _file_bytes(path: Path) -> int:
    with suppress(FileNotFoundError):
        return allocated_bytes(path.lstat())
    return 0
