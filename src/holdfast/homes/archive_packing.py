"""Making bundles: a session with its files, or the files of one that stays in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from holdfast.errors import StorageError, UsageError
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.operation import Removal
from holdfast.model.session import Message, Session
from holdfast.ports import Clock
from holdfast.services.exchange.json_lines import LONGEST, ByteLines, raw_lines
from holdfast.services.exchange.line_reader import read_session
from holdfast.services.exchange.session_line import session_line
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.beside import Beside, PackedFile
from holdfast.stores.archive.bundle import SourceFile
from holdfast.stores.archive.codec import Codec
from holdfast.value import dataclass


class Packer:
    """Writes bundles into an archive. Each is read back and compared before it has its name; that
    and its line in the catalogue are for the caller to make durable."""

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
    ) -> ArchivedSession:
        """A session, with everything that it takes to put it back."""
        counted = _Counted(iter(messages))

        def describe(size: int, sha256: str, packed: tuple[PackedFile, ...]) -> Beside:
            if counted.said != session.message_count:
                raise bundle.ChangedError("it changed while it was archived")
            return Beside(
                operation=removal.operation,
                number=removal.number,
                archived_at=self._clock(),
                session=session,
                children=tuple(children),
                line_bytes=size,
                line_sha256=sha256,
                first_message=counted.first,
                files=packed,
            )

        def write(raw: IO[bytes]) -> Beside:
            return bundle.write(
                raw,
                self._codec,
                line=session_line(session, counted),
                files=files,
                describe=describe,
                spool=self._archive.spool,
                longest_line=LONGEST,
            )

        def check(raw: IO[bytes]) -> None:
            with bundle.line_of(raw, self._codec) as line:
                _check_return(line, session)

        return self._archive.put(removal, self._codec, write, check)

    def files(
        self, removal: Removal, session: Session, files: Sequence[SourceFile]
    ) -> ArchivedSession:
        """The files of a session, without what the store has of it."""

        def describe(size: int, sha256: str, packed: tuple[PackedFile, ...]) -> Beside:
            return Beside(
                operation=removal.operation,
                number=removal.number,
                archived_at=self._clock(),
                session=session,
                children=(),
                line_bytes=size,
                line_sha256=sha256,
                files=packed,
                holds=Holds.FILES,
            )

        def write(raw: IO[bytes]) -> Beside:
            return bundle.write(
                raw,
                self._codec,
                line=None,
                files=files,
                describe=describe,
                spool=self._archive.spool,
                longest_line=LONGEST,
            )

        return self._archive.put(removal, self._codec, write, lambda _: None, holds=Holds.FILES)


def _check_return(line: ByteLines, session: Session) -> None:
    """Raise unless a session would come back from its line as it is: a store takes some things
    that an import refuses or puts right."""
    for raw in raw_lines(line):
        try:
            read = read_session(raw.text(), keep=False, foreign=True)
        except UsageError as error:
            raise StorageError(f"it could not come back: {error.message}; it stays") from None
        was, would_be = (
            (each.source, each.title, each.cwd, each.model, each.ended_at, each.end_reason)
            for each in (session, read.session)
        )
        if read.notes or was != would_be or read.said_count != session.message_count:
            raise StorageError("it would not come back as it is; it stays")


@dataclass(slots=True)
class _Counted:
    """Messages on their way, with the number of the first, and how many of them were said: a
    session does not count those that its user took back, and its bundle has them all the same."""

    messages: Iterator[Message]
    said: int = 0
    first: int | None = None

    def __iter__(self) -> Iterator[Message]:
        for message in self.messages:
            if self.first is None:
                self.first = message.number
            self.said += not message.taken_back
            yield message
