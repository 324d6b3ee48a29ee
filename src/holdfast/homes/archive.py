"""The archive of a home, put together: who archives, who restores, and who reads."""

from __future__ import annotations

import contextlib
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
from holdfast.model.arguments import check_id
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES, FILES, SESSION
from holdfast.model.plan import Action
from holdfast.ports import Clock, Doer
from holdfast.spine.keeper import Keeper
from holdfast.stores.archive import USUAL_FOLDER, catalogue
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.codec import Codec, codec_of
from holdfast.stores.blobs.folder import FolderBlobs
from holdfast.stores.blobs.ownership import Ownership
from holdfast.stores.line_file import LineFile
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
        archive = folder_archive(folder, chosen_by=state if options.folder else None)
        self.folder = archive
        self.packer = packer = Packer(archive, Codec(options.codec), clock)
        local = archive.blobs.path if isinstance(archive.blobs, FolderBlobs) else None
        self.reader = ArchiveReader(archive, rows, check, local=local)
        bundles = Keeper(BundleMover(archive, Adopter(archive, rows, packer, clock, local)))
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


def folder_archive(path: Path, *, chosen_by: Path | None = None) -> SessionArchive:
    """The archive in a local folder. `chosen_by` is the state folder of the home whose
    configuration names this one; None for the usual folder, inside the home."""
    if chosen_by is None:
        blobs, former = FolderBlobs(path), None
    else:
        with contextlib.suppress(OSError, RuntimeError):  # a loop of links leads to no folder
            path = path.resolve()
        usual = chosen_by / USUAL_FOLDER
        owner = Ownership(chosen_by, path, usual=usual, is_archive=_is_archive)
        blobs, former = FolderBlobs(path, owner), FolderBlobs(usual)
        with contextlib.suppress(OSError):
            former = None if usual.samefile(path) else former
    lines = catalogue.Catalogue(LineFile(path / catalogue.NAME))
    return SessionArchive(blobs, lines, spool=blobs.spool, former=former)


def _is_archive(name: str) -> bool:
    return name == catalogue.NAME or codec_of(name) is not None
