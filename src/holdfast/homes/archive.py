"""The archive of a home, put together: who archives, who restores, and who reads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.homes.archive_adopting import Adopter
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_keeper import ArchiveKeeper
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_reader import ArchiveReader
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Rows
from holdfast.homes.archived_keeper import ArchivedKeeper, RestoreKeeper
from holdfast.homes.artifacts import ArtifactKeeper
from holdfast.homes.files_keeper import FilesKeeper
from holdfast.homes.options import ArchiveOptions, archive_folder
from holdfast.model.ids import check_id
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES, FILES, SESSION
from holdfast.model.plan import Action
from holdfast.ports import Clock, Keeper
from holdfast.stores.archive import USUAL_FOLDER, catalogue
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.codec import Codec, codec_of
from holdfast.stores.blobs.folder import FolderBlobs
from holdfast.stores.blobs.ownership import Ownership
from holdfast.stores.line_file import LineFile


class HomeArchive:
    """`keepers` are those of the actions that have to do with the archive, by kind and action."""

    def __init__(
        self,
        files: SessionFolder,
        loose: ArtifactKeeper,
        state: Path,
        options: ArchiveOptions,
        rows: Callable[[], Rows | None],
        clock: Clock,
        check: Callable[[str], str] = check_id,
    ) -> None:
        """`check` is for the ids of this home's agent; `loose` removes its files one by one."""
        folder = archive_folder(state, options)
        archive = folder_archive(folder, chosen_by=state if options.folder else None)
        self.folder = archive
        self.packer = Packer(archive, Codec(options.codec), clock)
        local = archive.blobs.path if isinstance(archive.blobs, FolderBlobs) else None
        self.reader = ArchiveReader(archive, rows, check, local=local)
        adopter = Adopter(archive, rows, self.packer, clock, local)
        removing = ArchivedKeeper(archive, adopter)
        restoring = RestoreKeeper(archive, rows, Returner(archive, rows, files))
        self.keepers: Mapping[tuple[str, Action], Keeper] = {
            (SESSION, Action.ARCHIVE): ArchiveKeeper(archive, rows, files, packer=self.packer),
            (FILES, Action.ARCHIVE): FilesKeeper(archive, rows, files, loose, packer=self.packer),
            (ARCHIVED, Action.REMOVE): removing,
            (ARCHIVED_FILES, Action.REMOVE): removing,
            # An operation that restores brings back what was archived.
            (ARCHIVED, Action.ARCHIVE): restoring,
            (ARCHIVED_FILES, Action.ARCHIVE): restoring,
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
