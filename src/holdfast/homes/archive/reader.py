"""Lists, reads and searches the archive of a home."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from holdfast.errors import DamageError, UnknownSessionError, UsageError, in_voice
from holdfast.homes.archive.bundles import leftovers
from holdfast.homes.archive.session_rows import Rows
from holdfast.homes.home_bytes import bytes_below
from holdfast.model.archive import ArchivedSession, ArchiveHits, ArchiveWeight, Holds
from holdfast.model.arguments import check_id, named
from holdfast.model.item import Item, Problem
from holdfast.model.operation import Removal
from holdfast.model.session import Hit, Message, Search, Session, SessionFilter, SessionOrder
from holdfast.policy.prices import Prices
from holdfast.policy.session_filter import matches, rank
from holdfast.ports.runs import Progress
from holdfast.services.exchange.json_lines import raw_lines
from holdfast.services.exchange.line_reader import read_message, read_messages
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import TRASH, SessionArchive
from holdfast.stores.archive.codec import Codec
from holdfast.stores.sessions.snippets import bracketed, snippet
from holdfast.stores.sessions.unindexed_search import TextSearch, searched_text, text_search
from holdfast.value import dataclass, replace

_TRANSCRIPT = ".jsonl"
#: A longer line is not a message.
_LONGEST_LINE = 16 * 1024 * 1024
_LEFT = (
    "left by an earlier version; maintenance or `holdfast doctor --repair` moves it into "
    "the archive"
)


class ArchiveReader:
    """A read-only view of the archive. It creates nothing, and never waits for another process.

    Sessions are found in the bundles of every home that shares the archive. Items and sizes cover
    only what this home archived.
    """

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        check: Callable[[str], str] = check_id,
        *,
        local: Path | None = None,
    ) -> None:
        """`check` checks ids of this home's agent. `local` is the folder of the archive; None if
        another blob store holds it."""
        self._archive = archive
        self._local = local
        self._rows = rows
        self._check_id = check

    def check(self) -> None:
        """Raise `StorageError` if nothing can be archived because the folder is not available."""
        self._archive.check_usable()

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
        everywhere: bool = True,
    ) -> Sequence[ArchivedSession]:
        """Archived sessions, largest or latest first; equal ones by when they were archived, last
        first."""
        archive = self._archive
        entries = (archive.look_everywhere() if everywhere else archive.look()).entries
        found = [each for each in entries if matches(wanted, each.session)]
        found.reverse()
        known = prices or Prices()
        found.sort(key=lambda each: rank(each.session, order_by, known))
        return found[offset : None if limit is None else offset + limit]

    def count(self, wanted: SessionFilter) -> int:
        entries = self._archive.look_everywhere().entries
        return sum(matches(wanted, each.session) for each in entries)

    def problems(self) -> Sequence[Problem]:
        """Damaged lines of the catalogue, lines without a bundle, unreadable bundles, files that
        earlier versions left next to them, and bundles in a folder that is no longer used."""
        left = [Problem(path=str(path), reason=in_voice(_LEFT)) for path in self.leftovers()]
        behind = self.left_behind()
        found = self._archive.look_everywhere().problems
        return [*found, *left, *([behind] if behind else [])]

    def damage(self, trash: Sequence[Removal], progress: Progress) -> Sequence[Problem]:
        entries = self._archive.look().entries
        names = [(each.file, each.sha256) for each in entries]
        names += [(self._archive.name_in_trash(each), each.item.version) for each in trash]
        found = []
        for done, (name, sha256) in enumerate(names):
            progress.step("reading the archive", done, len(names))
            why = self._archive.why_not(name, sha256)
            if why is not None:
                found.append(Problem(path=self._archive.shown(name), reason=why))
        return found

    def remark(self) -> str:
        return self._archive.remark()

    def left_behind(self) -> Problem | None:
        """Bundles in the default folder, if the configuration names another one."""
        return self._archive.left_behind()

    def leftovers(self) -> Sequence[Path]:
        """Files of earlier versions that are not in the catalogue yet."""
        return leftovers(self._archive, self._local)

    def resolve(self, prefix: str) -> str:
        """The id that starts with `prefix`, if it is unique or equals it; the error lists ambiguous
        ones."""
        self._check_id(prefix)
        found = [each.session.id for each in self.find(SessionFilter(id_prefix=prefix))]
        unknown = UnknownSessionError(
            f"There is no archived session {prefix!r}.",
            hint="`holdfast sessions list --archived` shows them.",
        )
        return named(prefix, list(dict.fromkeys(found)), unknown, what="archived sessions")

    def get(self, session_id: str) -> ArchivedSession:
        """The session with this id: whole sessions before files alone, this home's before others',
        and the last archived before earlier ones."""
        entries = self._archive.look_everywhere().entries
        found = [each for each in entries if each.session.id == session_id]
        if not found:
            raise UnknownSessionError(f"There is no archived session {session_id!r}.")
        own = self._archive.is_own
        return max(
            found,
            key=lambda each: (
                each.holds is Holds.SESSION,
                own(each.file, each.operation),
                each.moment,
            ),
        )

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session in order, numbered from 1; raises `DamageError`."""
        return self._messages(self.get(session_id))

    def search(self, asked: Search) -> ArchiveHits:
        """As in the store. Every matching bundle is read; those that cannot be read are reported.
        Bundles of files alone are read only if their text is not stored anywhere else."""
        found = self.find(asked.wanted)
        whole = {each.session.id for each in found if each.holds is Holds.SESSION}
        alone = sorted({each.session.id for each in found} - whole)
        rows = self._rows() if alone else None
        elsewhere = whole if rows is None else whole | rows.read(alone).keys()
        read = [
            each
            for each in found
            if each.holds is Holds.SESSION or each.session.id not in elsewhere
        ]
        return search_bundles(asked, read, self._messages)

    def items(self, *, everywhere: bool = False) -> Sequence[Item]:
        archive = self._archive
        entries = (archive.look_everywhere() if everywhere else archive.look()).entries
        sizes = archive.sizes() if entries else {}
        return [
            # A bundle of another home is not on this disk: its size comes from its line.
            each.as_item(sizes.get(each.file, each.archive_bytes))
            for each in entries
            if each.file in sizes or not archive.is_own(each.file, each.operation)
        ]

    def made_by(self, operation: str) -> Sequence[ArchivedSession]:
        return [each for each in self._archive.look().entries if each.operation == operation]

    def weight(self) -> ArchiveWeight:
        if self._local is None:  # an object store uses no blocks on this disk
            return ArchiveWeight(bytes=sum(item.bytes for item in self.items()))
        problems: list[Problem] = []
        trash = self._local / TRASH
        return ArchiveWeight(
            bytes=bytes_below(self._local, [trash], problems),
            trash_bytes=bytes_below(trash, (), problems),
            problems=tuple(problems),
        )

    def _messages(self, archived: ArchivedSession) -> Iterator[Message]:
        if archived.holds is Holds.FILES:
            with self._archive.opened(archived.file) as (raw, codec):
                yield from transcript_messages(raw, codec)
            return
        yield from bundle_messages(self._archive, archived.file, archived.session)


def bundle_messages(archive: SessionArchive, file: str, session: Session) -> Iterator[Message]:
    """The messages of a session in a bundle, in order, numbered from 1; raises `DamageError`."""
    try:
        with archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            for read in raw_lines(line):
                messages = read_messages(read.text(), session.started_at)
                for number, message in enumerate(messages, start=1):
                    yield replace(message, number=number)
    except (UsageError, OSError) as error:
        reason = error.message if isinstance(error, UsageError) else str(error.strerror)
        raise DamageError(f"its bundle cannot be read, {reason}: {file}") from error


# --- Search ---------------------------------------------------------------------------------------
# There is no index of the archive. Texts are scored in windows of bounded size; only the place and
# score of a match are kept, and only the displayed ones are read a second time.


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A message: its time, the index of its session, and its number there."""

    timestamp: float
    session: int
    number: int


def search_bundles(
    asked: Search,
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
) -> ArchiveHits:
    """The messages that match, best first; with `substring` those that contain it, newest first."""
    seeking: TextSearch[_Place] = text_search(asked)
    problems = []
    for place, session in enumerate(sessions):
        try:
            for message in messages(session):
                if asked.has(message):
                    seeking.take(
                        _Place(message.timestamp or 0.0, place, message.number or 0),
                        _text(message),
                    )
        except DamageError as error:
            problems.append(Problem(path=session.file, reason=error.message))
    chosen = seeking.best(asked.most)[asked.offset :]
    hits = _hits(chosen, sessions, messages, seeking)
    return ArchiveHits(hits=tuple(hits), problems=tuple(problems))


def _hits(
    chosen: Sequence[tuple[float, _Place]],
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
    seeking: TextSearch[_Place],
) -> Iterator[Hit]:
    """Read the displayed messages again: none were kept."""
    numbers: dict[int, set[int]] = {}
    for _, place in chosen:
        numbers.setdefault(place.session, set()).add(place.number)
    found: dict[tuple[int, int], Message] = {}
    for session, wanted in numbers.items():
        try:
            for message in messages(sessions[session]):
                if message.number in wanted:
                    found[session, message.number or 0] = message
        except DamageError:
            continue  # already reported
    shown = [(score, place) for score, place in chosen if (place.session, place.number) in found]
    texts = {
        number: _text(found[place.session, place.number]) for number, (_, place) in enumerate(shown)
    }
    marks = seeking.marked(texts)
    for number, (score, place) in enumerate(shown):
        line, matches = bracketed(snippet(marks.get(number, "")))
        yield Hit(
            session=sessions[place.session].session,
            message=found[place.session, place.number],
            snippet=line,
            score=score,
            matches=matches,
        )


def _text(message: Message) -> str:
    return searched_text(message.content, message.tool_name, message.tool_calls, message.reasoning)


# --- Messages of files alone ----------------------------------------------------------------------


def transcript_messages(raw: IO[bytes], codec: Codec) -> Iterator[Message]:
    """The messages of the JSONL transcripts, numbered from 1. Anything else is skipped: a
    transcript may be truncated, or another agent's."""
    number = 0
    with bundle.reading(), bundle.members(raw, codec) as members:
        for name, link, content in members:
            if link is not None or not name.endswith(_TRANSCRIPT) or name == bundle.LINE:
                continue
            while line := content.readline(_LONGEST_LINE):
                for message in _message(line):
                    number += 1
                    yield replace(message, number=number)


def _message(line: bytes) -> Iterator[Message]:
    with suppress(ValueError, RecursionError, UsageError):
        yield read_message(json.loads(line))
