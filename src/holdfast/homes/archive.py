"""The archive of a home, put together: who archives, who restores, and who reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_keeper import ArchiveKeeper
from holdfast.homes.archive_reader import ArchiveReader
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Rows
from holdfast.homes.archived_keeper import ArchivedKeeper, RestoreKeeper
from holdfast.homes.options import ArchiveOptions
from holdfast.model.ids import check_id
from holdfast.model.item import ARCHIVED, SESSION
from holdfast.model.plan import Action
from holdfast.ports import Clock, Keeper
from holdfast.stores.archive.codec import Codec
from holdfast.stores.archive.folder import SessionArchive

USUAL_FOLDER = "archive"


class HomeArchive:
    """`keepers` are those of the actions that have to do with the archive, by kind and action."""

    def __init__(
        self,
        files: SessionFolder,
        state: Path,
        options: ArchiveOptions,
        rows: Callable[[], Rows | None],
        clock: Clock,
        check: Callable[[str], str] = check_id,
    ) -> None:
        """`check` is for the ids of this home's agent."""
        folder = state / (options.folder or USUAL_FOLDER)
        archive = SessionArchive(folder, is_usual=not options.folder)
        self.reader = ArchiveReader(archive, check)
        self.keepers: Mapping[tuple[str, Action], Keeper] = {
            (SESSION, Action.ARCHIVE): ArchiveKeeper(
                archive, rows, files, codec=Codec(options.codec), clock=clock
            ),
            (ARCHIVED, Action.REMOVE): ArchivedKeeper(archive),
            # An operation that restores brings back what was archived.
            (ARCHIVED, Action.ARCHIVE): RestoreKeeper(
                archive, rows, Returner(archive, rows, files)
            ),
        }
