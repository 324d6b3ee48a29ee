"""From a bundle back into the store: rows, lineage, route, search and files."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import DamageError, HoldfastError, UsageError
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_rows import Ended, Rows
from holdfast.model.report import Result
from holdfast.stores.archive import bundle
from holdfast.stores.archive.beside import Beside, NewerBundleError
from holdfast.stores.archive.folder import SessionArchive

_TAKEN = "its place is taken; its bundle stays in the archive"


class Returner:
    """Brings archived sessions back. Safe to repeat after a kill at any point."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], files: SessionFolder
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._files = files

    def bring_back(self, file: str) -> Ended:
        """The session of one bundle, whole or not at all. The bundle is for the caller to drop."""
        try:
            return self._bring_back(file)
        except HoldfastError as error:
            return Result.FAILED, error.message
        except OSError as error:
            return Result.FAILED, str(error.strerror or error)

    def _bring_back(self, file: str) -> Ended:
        rows = self._rows()
        if rows is None:
            return Result.FAILED, "there is no session store in this home"
        try:
            beside = self._archive.verify(file)
        except NewerBundleError as error:
            return Result.FAILED, f"{error.message}; {error.hint}"
        except DamageError as error:
            return Result.DAMAGED, f"its bundle is damaged, {error.message}: {file}"
        refused = self._put_back_rows(rows, beside, file)
        if refused is not None:
            return refused
        with self._archive.opened(file) as (raw, codec):
            kept = self._files.put_back(beside, raw, codec)
        return Result.BROUGHT_BACK, f"{', '.join(kept)} was there and stayed" if kept else ""

    def _put_back_rows(self, rows: Rows, beside: Beside, file: str) -> Ended | None:
        there = rows.read([beside.session.id]).get(beside.session.id)
        if there is not None:
            same = (there.version, there.started_at) == (
                beside.session.version,
                beside.session.started_at,
            )
            return None if same else (Result.FAILED, _TAKEN)  # same: a killed run came this far
        try:
            with self._archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
                rows.put_back(beside, line)
        except UsageError as error:
            return Result.FAILED, error.message
        except DamageError as error:
            return Result.DAMAGED, f"its bundle is damaged, {error.message}: {file}"
        return None
