"""Creates bundles: of sessions that are removed, of files whose session stays, of sessions that an
import replaces, and of files that earlier versions left in the archive folder."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from holdfast.errors import UNREADABLE, DamageError, HoldfastError, StorageError, UsageError
from holdfast.homes.archive.session_rows import Rows
from holdfast.homes.sessions import folder as session_folder
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.item import FILES, SESSION, UNKNOWN_SOURCE
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.ports.archive import Puts
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Doer, Journal
from holdfast.services.exchange.json_lines import LONGEST, ByteLines, raw_lines
from holdfast.services.exchange.line_reader import read_session
from holdfast.services.exchange.session_import import import_sessions
from holdfast.services.exchange.session_line import session_line
from holdfast.spine.outcomes import BY_AN_IMPORT
from holdfast.spine.settle import record_settled, settle
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.bundle import SourceFile
from holdfast.stores.archive.bundle_manifest import BundleManifest, PackedFile
from holdfast.stores.archive.codec import CORRUPT, Codec
from holdfast.stores.files import check_regular, open_regular, sync_dir
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.value import dataclass

_REPLACED = re.compile(r"replaced_\d{8}_\d{6}\.jsonl", re.ASCII)
_GZIPPED = re.compile(r"(.+?)(?:\.\d+)?\.gz", re.ASCII)
_SCRATCH = ".adopting.db"


class Packer:
    """Writes bundles into an archive. Each is read back and compared before it gets its name; the
    caller makes the name and its line in the catalogue durable."""

    def __init__(self, archive: SessionArchive, codec: Codec, clock: Clock) -> None:
        self._archive = archive
        self._codec = codec
        self._clock = clock

    def session(
        self,
        removal: Removal,
        session: Session,
        messages: Iterable[Message],
        *,
        children: Sequence[str] = (),
        files: Sequence[SourceFile] = (),
        among: Puts | None = None,
    ) -> ArchivedSession:
        """Pack a session, with everything needed to restore it. Durable on return, or together with
        the others in `among`."""
        counted = _Counted(iter(messages))
        return self._put(removal, session, files, counted=counted, children=children, among=among)

    def files(
        self, removal: Removal, session: Session, files: Sequence[SourceFile]
    ) -> ArchivedSession:
        """Pack the files of a session, without its rows."""
        return self._put(removal, session, files)

    def _put(
        self,
        removal: Removal,
        session: Session,
        files: Sequence[SourceFile],
        *,
        counted: _Counted | None = None,
        children: Sequence[str] = (),
        among: Puts | None = None,
    ) -> ArchivedSession:
        """Write one bundle. Without `counted` messages it holds only files."""
        holds = Holds.FILES if counted is None else Holds.SESSION

        def describe(size: int, sha256: str, packed: tuple[PackedFile, ...]) -> BundleManifest:
            if counted is not None and counted.said != session.message_count:
                raise bundle.ChangedError("it changed while it was archived")
            return BundleManifest(
                operation=removal.operation,
                number=removal.number,
                archived_at=self._clock(),
                session=session,
                children=tuple(children),
                line_bytes=size,
                line_sha256=sha256,
                first_message=None if counted is None else counted.first,
                files=packed,
                holds=holds,
            )

        def write(raw: IO[bytes]) -> BundleManifest:
            return bundle.write(
                raw,
                self._codec,
                line=None if counted is None else session_line(session, counted),
                files=files,
                describe=describe,
                spool=self._archive.spool,
                longest_line=LONGEST,
            )

        def check(line: ByteLines) -> None:
            _check_return(line, session)

        wanted = None if counted is None else check
        return self._archive.put(removal, self._codec, write, wanted, holds=holds, among=among)


def _check_return(line: ByteLines, session: Session) -> None:
    """Raise unless the session restored from its line would be identical: a store accepts some
    values that an import rejects or corrects."""
    for raw in raw_lines(line):
        try:
            read = read_session(raw.text(), keep=False, foreign=True)
        except UsageError as error:
            why = f"not archived, as it could not be restored: {error.message}"
            raise StorageError(why) from None
        was, would_be = (
            (each.source, each.title, each.cwd, each.model, each.ended_at, each.end_reason)
            for each in (session, read.session)
        )
        if read.notes or was != would_be or read.said_count != session.message_count:
            raise StorageError("not archived, as a restored copy would differ")


@dataclass(slots=True)
class _Counted:
    """Messages on their way into a bundle, with the number of the first, and the count of those
    said: a session does not count messages that its user took back, but its bundle has them."""

    messages: Iterator[Message]
    said: int = 0
    first: int | None = None

    def __iter__(self) -> Iterator[Message]:
        for message in self.messages:
            if self.first is None:
                self.first = message.number
            self.said += not message.taken_back
            yield message


# --- Sessions that an import replaces -------------------------------------------------------------


class Replacing:
    """Called with each session before it is replaced, in the transaction that replaces it.

    When the call returns, the session's bundle is complete, on the disk and in the catalogue.
    Whether the transaction was committed can be seen from the rows afterwards: a bundle of a
    session that was not replaced is dropped again, by this run or by the one that settles it.
    """

    def __init__(
        self, begin: Callable[[], Journal], archive: SessionArchive, packer: Packer
    ) -> None:
        """`begin` opens the journal, but only once there is something to write into it."""
        self._begin = begin
        self._archive = archive
        self._packer = packer
        self._journal: Journal | None = None
        self._kept: list[Removal] = []
        #: Sessions that the import left unchanged: none of them was archived.
        self.same: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The place of the replaced sessions."""
        return self._archive.place

    @property
    def operation(self) -> str | None:
        """The operation that can be undone; None if nothing was replaced."""
        if self._journal is None or len(self.same) == len(self._kept):
            return None
        return self._journal.operation

    def keep(self, session: Session, messages: Iterable[Message]) -> None:
        if self._journal is None:
            self._archive.make()
            self._journal = self._begin()
        item = PlanItem(
            kind=SESSION,
            id=session.id,
            source=session.source,
            session=session.id,
            bytes=session.bytes,
            last_active_at=session.last_active_at,
            version=session.version,
            action=Action.ARCHIVE,
            reason=BY_AN_IMPORT,
            undoable=True,
        )
        removal = Removal(operation=self._journal.operation, number=len(self._kept), item=item)
        self._journal.intend([removal])
        self._kept.append(removal)
        made = self._packer.session(removal, session, messages)
        self._archive.catalogue.add([made])

    def finish(self, doer: Doer, at: float) -> None:
        """Check the rows for the result of each session, and record it."""
        if self._journal is None:
            return
        outcomes = doer.settle(self._kept)
        self.same = tuple(each.id for each in outcomes if each.result is Result.SKIPPED)
        if record_settled(self._journal, self._kept, outcomes):
            self._journal.finish(at=at)


@contextmanager
def replacing(
    home: Home, archive: SessionArchive, packer: Packer, *, command: str, clock: Clock
) -> Iterator[Replacing]:
    """For one import, during which no other process changes the home."""
    with home.log.writing(command) as log, ExitStack() as stack:
        settle(log, home, clock=clock)

        def begin() -> Journal:
            made = log.begin(action=OperationAction.REMOVE, command=command, at=clock())
            return stack.enter_context(made)

        kept = Replacing(begin, archive, packer)
        try:
            yield kept
        finally:
            kept.finish(home.doer(SESSION, Action.ARCHIVE), clock())


# --- Files of earlier versions --------------------------------------------------------------------


class Adopter:
    """Moves files that earlier versions left in the archive folder into the archive. The caller has
    excluded other processes.

        <name>.gz                 a file of a session that was reset
        replaced_<when>.jsonl     sessions that an import replaced

    These files were never listed, limited or removed. Write-order rule: the bundle and its line are
    on the disk before the file is removed. After a kill, the operation's name, which is derived
    from the file's name, shows what is done.
    """

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        packer: Packer,
        clock: Clock,
        local: Path | None,
    ) -> None:
        """`local` is the folder of the archive; None if another blob store holds it, where no
        earlier version left anything."""
        self._archive = archive
        self._local = local
        self._rows = rows
        self._packer = packer
        self._clock = clock

    def adopt(self) -> int:
        """Return the number of files moved. A file that cannot be read stays, and does not affect
        the others."""
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
        parsed = session_folder.parse(name)
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
        """Import into a temporary store, which computes the totals of the sessions."""
        with _scratch(path.with_name(_SCRATCH)) as store:
            with os.fdopen(open_regular(path), "rb") as lines:
                importing = SqliteImport(store, count_usage=False)
                report = import_sessions(importing, lines, replace=False, now=self._clock())
            if report.refused:
                raise DamageError(f"{path.name} has lines that are not sessions")
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
    """Files of earlier versions. A name that no version used belongs to another program."""
    try:
        found = sorted(local.iterdir()) if local is not None and archive.check() else []
    except (HoldfastError, OSError):
        return ()
    return [path for path in found if _is_ours(path.name) and stat.S_ISREG(path.lstat().st_mode)]


def _is_ours(name: str) -> bool:
    if _REPLACED.fullmatch(name):
        return True
    packed = _GZIPPED.fullmatch(name)
    return packed is not None and session_folder.parse(_original(name)) is not None


def _original(name: str) -> str:
    """`a.jsonl` for `a.jsonl.gz`, and for `a.jsonl.2.gz`, which was written later."""
    match = _GZIPPED.fullmatch(name)
    return name if match is None else match[1]


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[SqliteSessionStore]:
    """A temporary store. A killed run may have left its files."""

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
