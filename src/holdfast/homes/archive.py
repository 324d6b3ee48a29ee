"""The archive of a home, put together: who archives, who restores, and who reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.homes.archive_adopting import Adopter
from holdfast.homes.archive_doers import PutFilesAway, Restore
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_movers import ArchiveMover, BundleMover
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_reader import ArchiveReader
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Rows
from holdfast.homes.options import ArchiveOptions, archive_folder
from holdfast.model.ids import check_id
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES, FILES, SESSION
from holdfast.model.plan import Action
from holdfast.ports import Clock, Doer
from holdfast.spine.keeper import Keeper
from holdfast.stores.archive.codec import Codec
from holdfast.stores.archive.folder import SessionArchive
from holdfast.stores.trash_folder import TrashFolder


class HomeArchive:
    """`keepers` are those of bundles, by kind; `doers` are those of the other actions that have to
    do with the archive."""

    def __init__(
        self,
        files: SessionFolder,
        loose: Keeper,
        trash: TrashFolder,
        state: Path,
        options: ArchiveOptions,
        rows: Callable[[], Rows | None],
        clock: Clock,
        check: Callable[[str], str] = check_id,
    ) -> None:
        """`check` is for the ids of this home's agent; `loose` removes its files one by one, by way
        of `trash`."""
        folder = archive_folder(state, options)
        archive = SessionArchive(folder, chosen_by=state if options.folder else None)
        self.folder = archive
        self.packer = packer = Packer(archive, Codec(options.codec), clock)
        self.reader = ArchiveReader(archive, rows, check)
        bundles = Keeper(BundleMover(archive, Adopter(archive, rows, packer, clock)))
        self.keepers: Mapping[str, Keeper] = {ARCHIVED: bundles, ARCHIVED_FILES: bundles}
        # An operation that restores brings back what was archived.
        restore = Restore(archive, rows, Returner(archive, rows, files))
        self.doers: Mapping[tuple[str, Action], Doer] = {
            (SESSION, Action.ARCHIVE): Keeper(
                ArchiveMover(archive, rows, files, packer=packer), keeps_copies=True
            ),
            (FILES, Action.ARCHIVE): PutFilesAway(
                archive, rows, files, loose, trash, packer=packer
            ),
            (ARCHIVED, Action.ARCHIVE): restore,
            (ARCHIVED_FILES, Action.ARCHIVE): restore,
        }
