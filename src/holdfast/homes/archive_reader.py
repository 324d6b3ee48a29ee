"""What is in the archive of a home, for whoever wants to see, read or search it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import DamageError, UnknownSessionError, UsageError
from holdfast.homes import archive_search
from holdfast.homes.archive_adopting import leftovers
from holdfast.homes.archive_rows import Rows
from holdfast.homes.archive_transcripts import transcript_messages
from holdfast.homes.folder_bytes import bytes_below
from holdfast.model.archive import ArchivedSession, ArchiveHits, Holds
from holdfast.model.arguments import check_id, named
from holdfast.model.item import Item, Problem
from holdfast.model.session import Message, Search, Session, SessionFilter, SessionOrder
from holdfast.policy.prices import Prices
from holdfast.policy.selection import matches
from holdfast.services.exchange.json_lines import raw_lines
from holdfast.services.exchange.line_reader import read_messages
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.value import replace

_LEFT = (
    "left by an earlier version; maintenance takes it into the archive, "
    "and so does `holdfast doctor --repair`"
)


class ArchiveReader:
    """The archive, to be read. It creates nothing, and waits for nobody."""

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        check: Callable[[str], str] = check_id,
        *,
        local: Path | None = None,
    ) -> None:
        """`check` is for the ids of this home's agent. `local` is the folder of the archive; None
        when another store of blobs holds it."""
        self._archive = archive
        self._local = local
        self._rows = rows
        self._check_id = check

    def check(self) -> None:
        """Raise `StorageError` when nothing can be archived here: its folder is not to be had."""
        self._archive.check_usable()

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[ArchivedSession]:
        """Archived sessions, the largest or latest first; of equal ones the last archived."""
        found = [each for each in self._archive.look().entries if matches(wanted, each.session)]
        found.reverse()
        known = prices or Prices()
        found.sort(key=lambda each: _rank(each.session, order_by, known), reverse=True)
        return found[offset : None if limit is None else offset + limit]

    def count(self, wanted: SessionFilter) -> int:
        return sum(matches(wanted, each.session) for each in self._archive.look().entries)

    def problems(self) -> Sequence[Problem]:
        """Damaged lines of the catalogue, lines without a bundle, bundles that cannot be read, what
        earlier versions left beside them, and bundles in a folder that is no longer used."""
        left = [Problem(path=str(path), reason=_LEFT) for path in self.leftovers()]
        behind = self.left_behind()
        return [*self._archive.look().problems, *left, *([behind] if behind else [])]

    def left_behind(self) -> Problem | None:
        """Bundles in the usual folder, when the configuration names another one."""
        return self._archive.left_behind()

    def leftovers(self) -> Sequence[Path]:
        """Files of earlier versions that are not in the catalogue yet."""
        return leftovers(self._archive, self._local)

    def resolve(self, prefix: str) -> str:
        """The id that starts with `prefix`, whole or unique; what is ambiguous is listed."""
        self._check_id(prefix)
        ids = sorted({each.session.id for each in self._archive.look().entries})
        found = [each for each in ids if each.startswith(prefix)]
        unknown = UnknownSessionError(
            f"There is no archived session {prefix!r}.",
            hint="`holdfast sessions list --archived` shows them.",
        )
        return named(prefix, found, unknown, "archived sessions")

    def get(self, session_id: str) -> ArchivedSession:
        """The session with this id, the one archived last if there are several; else its files."""
        found = [each for each in self._archive.look().entries if each.session.id == session_id]
        if not found:
            raise UnknownSessionError(f"There is no archived session {session_id!r}.")
        return max(found, key=lambda each: (each.holds is Holds.SESSION, each.moment))

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session in order, numbered from 1; raises `DamageError`."""
        return self._messages(self.get(session_id))

    def search(self, asked: Search) -> ArchiveHits:
        """As in the store. Every bundle that is wanted is read; one that cannot be is named. Files
        alone are read where nothing else has their text any more."""
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
        return archive_search.search(asked, read, self._messages)

    def items(self) -> Sequence[Item]:
        """The bundles as items of a plan."""
        entries = self._archive.look().entries
        sizes = self._archive.sizes() if entries else {}
        return [each.as_item(sizes[each.file]) for each in entries if each.file in sizes]

    def other_bytes(self, trash_bytes: int) -> int:
        """What the folder holds beside bundles and the trash that operations know."""
        if self._local is None:
            return 0  # an object store holds nothing else
        whole = bytes_below(self._local, (), [])
        return max(0, whole - trash_bytes - sum(item.bytes for item in self.items()))

    def _messages(self, archived: ArchivedSession) -> Iterator[Message]:
        if archived.holds is Holds.FILES:
            with self._archive.opened(archived.file) as (raw, codec):
                yield from transcript_messages(raw, codec)
            return
        try:
            with (
                self._archive.opened(archived.file) as (raw, codec),
                bundle.line_of(raw, codec) as line,
            ):
                for read in raw_lines(line):
                    messages = read_messages(read.text(), archived.session.started_at)
                    for number, message in enumerate(messages, start=1):
                        yield replace(message, number=number)
        except (UsageError, OSError) as error:
            reason = error.message if isinstance(error, UsageError) else str(error.strerror)
            raise DamageError(f"its bundle cannot be read, {reason}: {archived.file}") from error


def _rank(session: Session, order_by: SessionOrder, prices: Prices) -> float:
    match order_by:
        case SessionOrder.LAST_ACTIVE:
            return session.last_active_at
        case SessionOrder.STARTED:
            return session.started_at
        case SessionOrder.MESSAGES:
            return session.message_count
        case SessionOrder.TOKENS:
            return session.tokens.total
        case SessionOrder.COST:
            cost = prices.cost_of_session(session)
            return session.cost if cost is None else cost  # an order has no place for unknown
        case SessionOrder.BYTES:
            return session.bytes
