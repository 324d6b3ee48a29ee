"""What earlier versions left beside the archive, taken into it.

    <name>.gz                 a file of a session that was reset
    replaced_<when>.jsonl     sessions that an import replaced

Nothing listed, bounded or removed these. As bundles with lines in the catalogue they are like
everything else in the archive. Write-order rule: the bundle and its line are on the disk before the
file goes. After a kill, the name of the operation follows from that of the file and tells what is
done.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from holdfast.errors import UNREADABLE, DamageError, HoldfastError
from holdfast.homes import artifact_names
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_rows import Rows
from holdfast.model.archive import ArchivedSession
from holdfast.model.item import FILES, UNKNOWN_SOURCE
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.session import Session, SessionFilter
from holdfast.ports import Clock
from holdfast.services.exchange.session_import import import_sessions
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.bundle import SourceFile
from holdfast.stores.archive.codec import CORRUPT
from holdfast.stores.files import check_regular, open_regular, sync_dir
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore

_REPLACED = re.compile(r"replaced_\d{8}_\d{6}\.jsonl", re.ASCII)
_GZIPPED = re.compile(r"(.+?)(?:\.\d+)?\.gz", re.ASCII)
_SCRATCH = ".adopting.db"


class Adopter:
    """Takes such files into an archive, while this process alone may change it."""

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        packer: Packer,
        clock: Clock,
        local: Path | None,
    ) -> None:
        """`local` is the folder of the archive; None when another store of blobs holds it, where
        no earlier version left anything."""
        self._archive = archive
        self._local = local
        self._rows = rows
        self._packer = packer
        self._clock = clock

    def adopt(self) -> int:
        """How many files were taken in. One that cannot be read stays, and costs no other."""
        done = 0
        for path in leftovers(self._archive, self._local):
            with contextlib.suppress(HoldfastError, OSError, *CORRUPT, *UNREADABLE):
                self._adopt(path)
                done += 1
        return done

    def _adopt(self, path: Path) -> None:
        operation = f"adopted-{hashlib.sha256(path.name.encode()).hexdigest()[:12]}"
        known = {
            each.session.id for each in self._archive.look().entries if each.operation == operation
        }
        if _REPLACED.fullmatch(path.name):
            made = list(self._replaced(path, operation, known))
        else:
            made = list(self._file(path, operation, known))
        self._archive.catalogue.add(made)
        path.unlink()
        sync_dir(path.parent)

    def _file(self, path: Path, operation: str, known: set[str]) -> Iterator[ArchivedSession]:
        name = _original(path.name)
        parsed = artifact_names.parse(name)
        if parsed is None:
            raise DamageError(f"{path.name} is not the name of a session's file")
        if parsed.session in known:
            return
        check_regular(path)
        status = path.lstat()
        rows = self._rows()
        found = {} if rows is None else rows.read([parsed.session])
        session = found.get(parsed.session) or Session(
            id=parsed.session,
            source=parsed.source or UNKNOWN_SOURCE,
            started_at=status.st_mtime,
            last_active_at=status.st_mtime,
            ended_at=status.st_mtime,
            end_reason="unknown",
        )
        source = SourceFile(
            name=name, status=status, open=lambda: cast("IO[bytes]", gzip.GzipFile(path, "rb"))
        )
        yield self._packer.files(self._removal(operation, 0, session.id), session, [source])

    def _replaced(self, path: Path, operation: str, known: set[str]) -> Iterator[ArchivedSession]:
        """By way of a store of their own, which knows their totals."""
        with _scratch(path.with_name(_SCRATCH)) as store:
            with os.fdopen(open_regular(path), "rb") as lines:
                importing = SqliteImport(store, count_usage=False)
                report = import_sessions(importing, lines, replace=False, now=self._clock())
            if report.refused:
                raise DamageError(f"{path.name} has lines that are no sessions")
            for number, session in enumerate(store.find(SessionFilter())):
                if session.id not in known:
                    removal = self._removal(operation, number, session.id)
                    yield self._packer.session(removal, session, store.messages(session.id))

    def _removal(self, operation: str, number: int, session_id: str) -> Removal:
        item = PlanItem(
            kind=FILES,
            id=session_id,
            source=UNKNOWN_SOURCE,
            session=session_id,
            bytes=0,
            last_active_at=self._clock(),
            version="",
            action=Action.ARCHIVE,
            reason="left by an earlier version",
        )
        return Removal(operation=operation, number=number, item=item)


def leftovers(archive: SessionArchive, local: Path | None) -> Sequence[Path]:
    """Files of earlier versions. A name that no version gave is somebody else's."""
    try:
        found = sorted(local.iterdir()) if local is not None and archive.check() else []
    except (HoldfastError, OSError):
        return ()
    return [path for path in found if _is_ours(path.name) and stat.S_ISREG(path.lstat().st_mode)]


def _is_ours(name: str) -> bool:
    if _REPLACED.fullmatch(name):
        return True
    packed = _GZIPPED.fullmatch(name)
    return packed is not None and artifact_names.parse(_original(name)) is not None


def _original(name: str) -> str:
    """`a.jsonl` of `a.jsonl.gz`, and of `a.jsonl.2.gz`, which came after it."""
    match = _GZIPPED.fullmatch(name)
    return name if match is None else match[1]


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[SqliteSessionStore]:
    """A store for a moment. A killed run may have left its files."""

    def clear() -> None:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)

    clear()
    store = SqliteSessionStore(path)
    try:
        yield store
    finally:
        store.close()
        clear()
