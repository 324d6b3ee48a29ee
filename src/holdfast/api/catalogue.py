"""The sessions of all homes as a list that is made once and shown page by page.

A long-running process that lists very many sessions, such as the web page, should not hold them all
in memory. One look writes them to a file. Pages are read from that file, and a session that the
user opens is found without another look at its home. Each look makes a new file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.agent_home import AgentHome, Looked, UnreadHome
from holdfast.api.machine_sessions import FoundSession, MachinePage, MachineSearch
from holdfast.api.session_view import SearchResult, SessionPage, SessionView
from holdfast.api.transcript_pages import Part, SessionFacts, Window, session_facts, window
from holdfast.errors import HoldfastError
from holdfast.model.item import Problem
from holdfast.model.session import Search, Session, SessionFilter, SessionOrder
from holdfast.policy.prices import Prices, session_cost
from holdfast.stores.sqlite.catalogue import CatalogueFile, Entry, write
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.machine import Machine
    from holdfast.api.place import Place
    from holdfast.ports.runs import Progress
    from holdfast.ports.sessions import SessionStore

#: How many sessions one batch reads to count their messages, and how many bytes one look may read.
_AT_ONCE = 1_000
_MOST_BYTES = 512 * 1024**2
_MOST_CHILDREN = 50
#: A larger transcript is not read to its end just to list or open its session.
LARGE = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHome:
    """A home in the list. `problems` are about what could not be read in it."""

    home: AgentHome
    prices: Prices
    problems: Sequence[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a look found, apart from the sessions. Entries refer to their home by its index here."""

    homes: Sequence[ListedHome]
    unread: Sequence[UnreadHome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A session that was in the list, with its children."""

    home: AgentHome
    entry: Entry
    children: Sequence[Session]


# --- Making it ------------------------------------------------------------------------------------


def write_catalogue(machine: Machine, path: Path) -> Listing:
    """Look at every home, and write its sessions to a file without reading them."""
    homes: list[ListedHome] = []

    def rows() -> Iterator[Entry]:
        looked = machine.look(_listed)
        unread.extend(looked.unread)
        for number, (home, (prices, problems, entries)) in enumerate(looked.seen):
            homes.append(ListedHome(home=home, prices=prices, problems=problems))
            for session, opening, unit in entries:
                yield _entry(number, session, opening, unit, prices)

    unread: list[UnreadHome] = []
    with machine.one_look():
        write(path, rows())
    return Listing(homes=homes, unread=unread)


_Row = tuple[Session, str | None, bytes | None]


def _listed(place: Place) -> tuple[Prices, Sequence[Problem], Sequence[_Row]]:
    store, prices = place.home.session_store(), place.prices()
    if store is None:
        return prices, (), ()
    return prices, store.unlisted(), list(_of(store))


def _of(store: SessionStore) -> Iterable[_Row]:
    found = getattr(store, "catalogued", None)
    if found is not None:
        known: Iterable[_Row] = found()
        return known
    return ((session, None, None) for session in store.find(SessionFilter()))


def count_more(
    machine: Machine, listing: Listing, ends: Callable[[], bool]
) -> Iterator[Sequence[Entry]]:
    """Count the messages of sessions that are not counted yet, the last active first, in batches,
    up to `_MOST_BYTES`. The counts are kept in each home, so the next look already has them."""
    left = _MOST_BYTES
    for number, listed in enumerate(listing.homes):
        try:
            store = machine.place(listed.home).home.session_store()
        except HoldfastError:
            continue
        if store is None or not hasattr(store, "catalogued"):
            continue
        waiting = [
            (each.last_active_at, each.id, unit) for each, _, unit in _of(store) if not each.counted
        ]
        waiting.sort(key=lambda each: each[:2], reverse=True)
        units = iter(waiting)
        while left > 0 and not ends() and (batch := [*islice(units, _AT_ONCE)]):
            known = {name: unit for _, name, unit in batch}
            counted = store.find(SessionFilter(ids=tuple(known)), limit=len(known))
            openings = store.openings([each.id for each in counted])
            left -= sum(each.bytes for each in counted)
            yield [
                _entry(number, each, openings.get(each.id, ""), known[each.id], listed.prices)
                for each in counted
            ]


def count_all(machine: Machine) -> None:
    """Count every session that changed since it was last counted, and keep the counts. Some sort
    orders need them."""

    def count(place: Place) -> None:
        store = place.home.session_store()
        if store is not None:
            store.count_messages()

    machine.look(count)


def _entry(
    home: int, session: Session, opening: str | None, unit: bytes | None, prices: Prices
) -> Entry:
    price = _price(session, prices)
    return Entry(home=home, session=session, opening=opening, unit=unit, price=price)


def _price(session: Session, prices: Prices) -> float:
    cost = prices.cost_of_session(session)
    return session.cost if cost is None else cost  # sorting cannot represent an unknown cost


# --- Showing it -----------------------------------------------------------------------------------


class Catalogue:
    """The list that one look made, open for one reader."""

    def __init__(self, path: Path, listing: Listing) -> None:
        self._file = CatalogueFile(path)
        self.listing = listing

    def close(self) -> None:
        self._file.close()

    def page(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int,
        offset: int = 0,
        home: AgentHome | None = None,
    ) -> tuple[Sequence[Entry], int]:
        """Return one page, and the number of sessions on all pages."""
        among = None if home is None else [self._number(home)]
        return self._file.page(wanted, among, order_by=order_by, limit=limit, offset=offset)

    def known(self, home: AgentHome, session_id: str) -> Known | None:
        number = self._number(home)
        for entry in self._file.named(number, [session_id]):
            came = self._file.children(number, session_id, limit=_MOST_CHILDREN)
            return Known(home=home, entry=entry, children=[each.session for each in came])
        return None

    def sessions(self, home: AgentHome, ids: Iterable[str]) -> dict[str, Session]:
        """Return which of these sessions are in the list, by id."""
        found = self._file.named(self._number(home), ids)
        return {each.session.id: each.session for each in found}

    def learn(self, entries: Sequence[Entry]) -> None:
        """Store what was read since the look."""
        self._file.learn(entries)

    def shown(self, entries: Sequence[Entry], total: int, home: AgentHome | None) -> MachinePage:
        """Return the entries as a page of the machine, or of one home."""
        among = [each for each in self.listing.homes if home is None or each.home == home]
        pages = {
            each.home.path: SessionPage(
                sessions=(), total=0, prices=each.prices, problems=each.problems
            )
            for each in among
        }
        return MachinePage(
            found=[self._found(each, pages) for each in entries],
            total=total,
            looked=Looked(
                seen=[(each.home, pages[each.home.path]) for each in among],
                unread=() if home is not None else self.listing.unread,
            ),
        )

    def _found(self, entry: Entry, pages: dict[Path, SessionPage]) -> FoundSession:
        home = self.listing.homes[entry.home].home
        return FoundSession(
            home=home,
            session=entry.session,
            page=pages[home.path],
            opening=entry.opening or "",
        )

    def waiting(self, entries: Iterable[Entry]) -> dict[AgentHome, list[Entry]]:
        """Return the entries that a list still has to read something for, by home."""
        found: dict[AgentHome, list[Entry]] = {}
        for each in entries:
            if _is_unread(each):
                found.setdefault(self.listing.homes[each.home].home, []).append(each)
        return found

    def _number(self, home: AgentHome) -> int:
        for number, each in enumerate(self.listing.homes):
            if each.home.path == home.path:
                return number
        return -1


def _is_unread(entry: Entry) -> bool:
    session = entry.session
    if not session.counted and entry.unit is not None:
        return session.bytes <= LARGE
    return entry.opening is None and not session.title and bool(session.message_count)


# --- Searching what is in it ----------------------------------------------------------------------


def make_indexes(machine: Machine, progress: Progress | None = None) -> Sequence[UnreadHome]:
    """Bring every search index up to date, as a search would do first. Return the homes where that
    failed."""
    return machine.look(lambda place: place.home.make_index(progress)).unread


def search_indexes(
    machine: Machine, asked: Search, *, homes: Sequence[AgentHome] | None = None
) -> tuple[MachineSearch, Collection[Path]]:
    """Find messages as `Machine.search_sessions` does, but in the indexes as they were last built.
    Return the result and the homes with such an index. Hits in those homes may be of sessions that
    were removed since."""
    wider = replace(asked, limit=asked.offset + asked.limit, offset=0)
    indexed: set[Path] = set()

    def search(place: Place) -> SearchResult:
        found = place.home.search_index(wider)
        if found is None:
            return SessionView(place).search_sessions(wider)
        indexed.add(place.root)
        hits, close, problems = found
        return SearchResult(hits=hits, close_words=close, problems=problems)

    looked = machine.look(search, homes=homes)
    hits = [(home, hit) for home, result in looked.seen for hit in result.hits]
    hits.sort(key=lambda each: each[1].score, reverse=True)
    return MachineSearch(hits=hits[asked.offset : wider.limit], looked=looked), indexed


# --- Reading what is in it ------------------------------------------------------------------------


def read_entries(machine: Machine, home: AgentHome, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries with what can only be read from their messages. Empty if anything in this
    home cannot be read: a list does without it."""
    try:
        place = machine.place(home)
        store = place.home.store_of([each.unit for each in entries if each.unit is not None])
        if store is None:
            return ()
        prices = place.prices()
        return [_read(store, each, prices) for each in entries]
    except HoldfastError:
        return ()


def _read(store: SessionStore, entry: Entry, prices: Prices) -> Entry:
    session = entry.session
    if not session.counted and entry.unit is not None:
        read = store.get(session.id)
        session = replace(
            session,
            message_count=read.message_count,
            tool_call_count=read.tool_call_count,
            tokens=read.tokens,
            cost=read.cost,
            unpriced=read.unpriced,
            counted=read.counted,
        )
    opening = entry.opening
    if opening is None:
        known = session.title or not session.message_count
        opening = "" if known else store.openings([session.id]).get(session.id, "")
    return replace(entry, session=session, opening=opening, price=_price(session, prices))


def read_session(
    machine: Machine,
    home: AgentHome,
    session_id: str,
    known: Known | None,
    part: Part,
) -> tuple[SessionFacts, Window]:
    """Return the facts about a session and one part of its transcript. Uses the list's entry
    (`known`), or a look at the home if there is no entry or the session is not where it was."""
    opened = machine.open(home)
    if known is not None:
        try:
            unit = known.entry.unit
            store = machine.place(home).home.store_of([] if unit is None else [unit])
            if store is not None and _is_there(store, session_id):
                return _facts(machine, known, store), window(store, session_id, part)
        except (HoldfastError, OSError):
            pass  # the look below reports what is wrong
    return session_facts(opened, session_id), window(opened.need_store(), session_id, part)


def _is_there(store: SessionStore, session_id: str) -> bool:
    find = getattr(store, "transcript", None)
    if find is None:
        store.get(session_id)
        return True
    path: Path | None = find(session_id)
    return path is None or path.exists()


def _facts(machine: Machine, known: Known, store: SessionStore) -> SessionFacts:
    place = machine.place(known.home)
    entry = known.entry
    if entry.unit is None:  # its store finds it directly, with newer data
        entry = replace(entry, session=store.get(entry.session.id))
    elif entry.session.counted or entry.session.bytes <= LARGE:
        entry = _read(store, entry, place.prices())
    session = entry.session
    alive = None
    if not session.ended:
        seen = getattr(store, "sign_of_life", machine.open(known.home).sign_of_life)
        alive = seen(session.id)
    return SessionFacts(
        session=session,
        opening=entry.opening or "",
        cost=session_cost(place.prices(), session),
        alive=alive,
        edits=store.edits,
        children=known.children,
    )
