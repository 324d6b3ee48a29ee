"""A read-only view of the sessions of an agent that has a format.

Lists show what the format found on disk; nothing is read again while its files are unchanged.
Messages come straight from the agent's files. Only search, and taking out a large
session, need an index, which is built on first use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from holdfast.errors import DamageError, UnknownSessionError
from holdfast.homes.agents.json_lines import UNREADABLE, whole_records
from holdfast.homes.foreign.mirror import Mirror
from holdfast.homes.foreign.notes import Seen, packed
from holdfast.homes.foreign.pinned_sessions import Pins
from holdfast.homes.foreign.session_figures import (
    MOST_LISTED_BYTES,
    MessageCounts,
    booked,
    statistics,
)
from holdfast.homes.foreign.unread_content import unread_content
from holdfast.model.arguments import check_foreign_id, named
from holdfast.model.item import Problem
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.part import Counts, Unit
from holdfast.model.plan import Action
from holdfast.model.session import (
    Hit,
    Message,
    Relation,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
)
from holdfast.model.usage import Share, StoreStats, Usage, UsageEntry
from holdfast.model.utc_day import utc_day
from holdfast.policy.prices import Prices
from holdfast.policy.session_filter import matches, rank
from holdfast.ports.formats import Format
from holdfast.ports.runs import Progress
from holdfast.stores.sqlite.mirror import IDLE, ForeignSessions, MirrorStore
from holdfast.value import replace

_COUNTED = (*("min_messages", "max_messages", "min_tokens", "max_tokens", "min_cost", "max_cost"),)
_COUNTED_ORDERS = (SessionOrder.MESSAGES, SessionOrder.TOKENS, SessionOrder.COST)
#: Orders by a single figure that needs no reading, largest first.
_FIGURES = {
    SessionOrder.LAST_ACTIVE: "last_active_at",
    SessionOrder.STARTED: "started_at",
    SessionOrder.BYTES: "bytes",
}
#: Where documents of agents have their messages.
_LISTS = ("messages", "history")
#: The messages of a smaller session are kept in memory.
_FITS = 8 * 1024**2
_Answer = TypeVar("_Answer")


class FormatSessions(ForeignSessions):
    """The port `SessionStore`, implemented on a look at the home."""

    #: An agent that deletes a session deletes its delegates.
    deletes_every_delegate = True
    #: There is no ledger: usage is counted from the agent's files.
    keeps_usage = False
    edits = frozenset({Action.PIN})

    def __init__(
        self,
        form: Format,
        root: Path,
        pins: Pins,
        mirror: Mirror,
        look: Callable[[], Iterable[Seen]],
        unread: Callable[[], Sequence[Problem]],
        vaulted: Callable[[Iterable[Seen]], Iterable[Seen]] = lambda _: (),
    ) -> None:
        """`vaulted` returns the sessions that only the vault has, given all others."""
        super().__init__(form.facts.agent)
        self._format = form
        self._root = root
        self._pins = pins
        self._pinned: frozenset[str] = frozenset()
        self._mirror = mirror
        #: The look that was last indexed, and the index: one that was recreated has to see it
        #: again.
        self._indexed: tuple[Mapping[str, Seen], MirrorStore] | None = None
        self._look = look
        self._unread = unread
        self._vaulted = vaulted
        self._vaulted_counts: dict[str, Counts] = {}
        self._seen: Mapping[str, Seen] | None = None
        self._shown: Iterable[Seen] | None = None
        self._latest: Mapping[str, float] = {}
        self._forget_lists()
        self._counts = MessageCounts(form, root, mirror.notes)

    # --- Sessions ---------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look at the home again."""
        self.show(self._look())

    def show(self, seen: Iterable[Seen]) -> Mapping[str, Seen]:
        """Use the result of a look. If it is the same look as before, nothing is computed again."""
        if self._seen is not None and seen is self._shown:
            return self._seen
        units = {each.unit.id: each for each in seen}
        vaulted = self._vaulted(units.values())
        self._seen = units = {**units, **{each.unit.id: each for each in vaulted}}
        self._latest = _active_through_delegates(units)
        self._shown = seen
        self._pinned = self._pins.read()
        self._forget_lists()
        return units

    def _forget_lists(self) -> None:
        self._listed: dict[str, Session] | None = None
        self._chosen: tuple[SessionFilter, list[str]] | None = None

    def _units(self) -> Mapping[str, Seen]:
        return self.show(self._look()) if self._seen is None else self._seen

    def get(self, session_id: str) -> Session:
        return self._counted([self._session(self._one(session_id))])[0]

    def resolve(self, prefix: str) -> str:
        check_foreign_id(prefix)
        units = [each.unit for each in self._units().values() if each.unit.id.startswith(prefix)]
        units.sort(key=lambda unit: (unit.active, unit.id), reverse=True)
        return named(prefix, [unit.id for unit in units], _unknown(prefix))

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[Session]:
        known = prices or Prices()
        found = self.chosen(wanted, counted=order_by in _COUNTED_ORDERS)
        most = None if limit is None else offset + limit
        if most is not None and (figure := _FIGURES.get(order_by)) is not None:
            # A page out of very many: select the largest without sorting the rest.
            found = nlargest(most, found, key=attrgetter(figure, "id"))
        else:
            found.sort(key=lambda each: each.id, reverse=True)
            found.sort(key=lambda each: rank(each, order_by, known))
        return self._counted(found[offset:most], most_bytes=MOST_LISTED_BYTES)

    def count(self, wanted: SessionFilter) -> int:
        return len(self.chosen(wanted))

    def sources(self) -> Sequence[str]:
        return sorted({each.unit.source or "cli" for each in self._units().values()})

    def folders(self) -> Mapping[str, str]:
        return {each.unit.id: each.unit.cwd for each in self._units().values() if each.unit.cwd}

    def weigh(self, wanted: SessionFilter) -> Share:
        found = [each for each in self.chosen(wanted) if not each.vaulted]
        if wanted.max_messages is not None:  # unreadable does not mean short
            most = wanted.max_messages
            found = [
                each
                for each in found
                if self.understood_messages(each.id) is not None
                and not self.unread_of(each.id, most)
            ]
        return Share(name="", count=len(found), bytes=sum(each.bytes for each in found))

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        found: list[str] = []
        asked = set(ids)
        while asked:
            asked = {
                each.unit.id
                for each in self._units().values()
                if each.unit.parent in asked and each.unit.relation is Relation.DELEGATE
            } - {*found, *ids}
            found += sorted(asked)
        return found

    def children(self, session_id: str) -> Sequence[Session]:
        return self.find(SessionFilter(parent_id=session_id), order_by=SessionOrder.STARTED)

    def child_ids(self, session_id: str) -> Sequence[str]:
        """The ids of `children`, in the same order, without reading anything else about them."""
        found = [each.unit for each in self._units().values() if each.unit.parent == session_id]
        found.sort(key=lambda unit: (_started(unit), unit.id), reverse=True)
        return [unit.id for unit in found]

    def routed(self, key: str) -> Session | None:
        return None

    def pin(self, session_id: str, pinned: bool) -> Session:
        """We do not write the agent's own pins, so we store ours: our plans never remove a pinned
        session."""
        self._one(session_id)
        self._pinned = self._pins.set(session_id, pinned)
        self._forget_lists()
        return self.get(session_id)

    def pins_of(self, session_id: str) -> tuple[bool, str]:
        in_agent = self._one(session_id).unit.pinned
        return session_id in self._pins.read(), self._agent if in_agent else ""

    def pinned(self) -> frozenset[str]:
        return self._pins.read()

    def _one(self, session_id: str) -> Seen:
        try:
            return self._units()[session_id]
        except KeyError:
            raise _unknown(session_id) from None

    def chosen(self, wanted: SessionFilter, *, counted: bool = False) -> list[Session]:
        """The sessions that match a filter. Conditions that need no reading come first; messages
        are counted only if the filter needs them, or with `counted`."""
        unread = replace(wanted, **dict.fromkeys(_COUNTED))
        found = self._matching(unread)
        if wanted.max_messages is not None:
            found = [each for each in found if self._is_short(each.id, wanted.max_messages)]
        if counted or unread != wanted:
            rest = _without_mark(wanted)
            return [each for each in self._counted(found) if matches(rest, each)]
        return found

    def _matching(self, wanted: SessionFilter) -> list[Session]:
        """Sessions by the conditions that need no reading. Cached, because a page and its total
        count ask for the same."""
        units = self._units()
        if self._listed is None:
            self._listed = {each.unit.id: self._session(each) for each in units.values()}
        listed = self._listed
        if self._chosen is None or self._chosen[0] != wanted:
            rest, archived = _without_mark(wanted), wanted.agent_archived
            everything = rest == SessionFilter()
            chosen = [
                name
                for name, each in listed.items()
                if archived in (None, units[name].unit.archived)
                and (everything or matches(rest, each))
            ]
            self._chosen = wanted, chosen
        return [listed[each] for each in self._chosen[1]]

    def transcript(self, session_id: str) -> Path | None:
        """The file with the messages of a session, if it has a file of its own."""
        return self._one(session_id).unit.transcript

    def known_messages(self, session_id: str) -> int | None:
        """The number of messages of a session; None if it has not been counted yet."""
        counts = self._counts.of(session_id)
        return counts.messages if counts and self._counts.is_whole(session_id) else None

    def understood_messages(self, session_id: str) -> int | None:
        """The number of messages of a session; None if it has not been counted yet, or if it has
        content but no message that we recognise: the agent, or a script, may write messages in a
        form we do not know yet, so the session must not count as empty."""
        known = self.known_messages(session_id)
        return None if known == 0 and _says_something(self._one(session_id)) else known

    def unread_of(self, session_id: str, most: int) -> str:
        """Why a session with at most `most` messages may have more than were counted; "" if nothing
        of it was left unread."""
        seen, known = self._one(session_id), self.known_messages(session_id)
        if known is None or known > most or seen.vaulted is not None:
            return ""
        return unread_content(self._format, self._root, seen)

    def of(self, seen: Iterable[Seen], *, counted: bool) -> list[Session]:
        """The sessions of a look; with `counted`, all their messages are counted."""
        found = [self._session(each) for each in seen]
        return self._counted(found) if counted else found

    def _is_short(self, session_id: str, most: int) -> bool:
        """True if a session has at most `most` messages; a longer one is not read to the end."""
        known = self.known_messages(session_id)
        if known is not None:
            return known <= most
        return len(list(islice(self._said(session_id), most + 1))) <= most

    def described(self, seen: Seen) -> Session:
        """A session as a list shows it, without reading. `counted` is true if it has been read."""
        known = self.known_messages(seen.unit.id) is not None
        session = self._session(seen)
        return session if session.counted == known else replace(session, counted=known)

    def sign_of_life(self, session_id: str) -> str | None:
        """The reason why the latest look considers a session alive."""
        return self._one(session_id).alive

    def catalogued(self) -> Iterator[tuple[Session, str | None, bytes | None]]:
        """Every session without reading: the session, its opening if it has been read, and the
        packed data that finds it again without a look."""
        for each in self._units().values():
            session = self.described(each)
            counts = self._counts.of(session.id) if session.counted else None
            yield session, None if counts is None else counts.opening.text, packed(each)

    def _session(self, seen: Seen) -> Session:
        unit = seen.unit
        if seen.vaulted is not None:
            held = replace(seen.vaulted.session, pinned=unit.id in self._pinned)
            found = self._vaulted_counts.get(unit.id)
            return held if found is None else found.of_session(held)
        parent = unit.parent if unit.parent in self._units() else None
        counts = self._counts.of(unit.id)
        counted = counts is None or self._counts.is_whole(unit.id)
        counts = counts or Counts()
        used = Usage(tokens=counts.tokens, cost=counts.cost, unpriced=counts.unpriced)
        used = used.plus(unit.used) if unit.used else used
        active = self._latest.get(unit.id, unit.active)
        return Session(
            id=unit.id,
            source=unit.source or "cli",
            started_at=_started(unit),
            last_active_at=active,
            parent_id=parent,
            relation=(unit.relation or Relation.BRANCH) if parent else None,
            title=unit.title or None,
            cwd=unit.cwd or None,
            model=unit.model or None,
            ended_at=None if seen.alive else active,
            end_reason=None if seen.alive else IDLE,
            pinned=unit.pinned or unit.id in self._pinned,
            message_count=counts.messages,
            tool_call_count=counts.tool_calls,
            tokens=used.tokens,
            cost=used.cost,
            unpriced=used.unpriced,
            bytes=seen.bytes,
            counted=counted,
            guarded=booked(unit),
        )

    def _counted(
        self, sessions: Sequence[Session], *, most_bytes: int | None = None
    ) -> list[Session]:
        """The same sessions with the counts from their messages, reading at most `most_bytes`."""
        units = self._units()
        seen = [units[each.id] for each in sessions if not each.vaulted]
        self._counts.count(seen, most_bytes=most_bytes)
        self._count_vaulted(each.id for each in sessions if each.vaulted and not each.counted)
        counted = {each.id: self._session(units[each.id]) for each in sessions}
        if self._listed is not None:
            self._listed |= counted
        return list(counted.values())

    def _count_vaulted(self, ids: Iterable[str]) -> None:
        """The vault has no notes on what it alone holds; it is counted on demand."""
        for each in ids:
            if each not in self._vaulted_counts:
                with suppress(*UNREADABLE):
                    self._vaulted_counts[each] = Counts.of(self._said(each))

    # --- Sums -------------------------------------------------------------------------------------

    def count_messages(self) -> None:
        """Read every session that changed since it was last counted."""
        self._counted([self._session(each) for each in self._units().values()])

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats:
        """Messages and usage cover the sessions that have been read. Sessions that only the vault
        has are not included."""
        here = (each for each in self._units().values() if each.vaulted is None)
        return statistics([self._session(each) for each in here], now, ages)

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        """The usage of each session, on the day of its last activity."""
        found = []
        for each in map(self._session, self._units().values()):
            day = utc_day(each.last_active_at)
            if each.tokens.any and (on is None or day == utc_day(on)):
                usage = Usage(tokens=each.tokens, cost=each.cost, unpriced=each.unpriced)
                found.append(UsageEntry(day=day, source=each.source, model=each.model, usage=usage))
        return found

    # --- Messages ---------------------------------------------------------------------------------

    def _said(self, session_id: str) -> Iterator[Message]:
        return self._one(session_id).messages(self._format, self._root)

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        """Numbered from 1, in the order of the agent's file."""
        said = (
            replace(message, number=number)
            for number, message in enumerate(self._said(session_id), start=1)
            if number > after and (before is None or number < before)
        )
        if not newest_first:
            yield from islice(said, limit)
            return
        yield from reversed(deque(said, maxlen=limit))

    def taken_out(self, session_id: str) -> tuple[Session, Iterable[Message]]:
        """A session, and its messages in a form that can still be read after its files have
        left."""
        seen = self._one(session_id)
        if seen.bytes <= _FITS:
            said = list(self._said(session_id))
            self._mirror.notes.keep_counts(session_id, Counts.of(said))
            self._forget_lists()
            return self._session(seen), said
        session = self.get(session_id)
        self._mirror.feed(seen, session)
        return session, self._mirror.store().messages(session_id)

    # --- Operations on the index ------------------------------------------------------------------

    def index(self, progress: Progress | None = None) -> MirrorStore:
        """The index, brought up to date with the current look."""
        units, store = self._units(), self._mirror.store()
        if self._indexed is None or self._indexed[0] is not units or self._indexed[1] is not store:
            self._mirror.refresh(units, self._session, progress)
            self._indexed = units, store
        return store

    def _asked(self, question: Callable[[MirrorStore], _Answer]) -> _Answer:
        """Query the index. If it turns out to be damaged, rebuild it once."""
        try:
            return question(self.index())
        except DamageError:
            self._mirror.clear()
            return question(self.index())

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        """The openings of sessions. A counted session has been read, at least its beginning; one in
        the vault is read now."""
        units = self._units()
        vaulted = {each for each in ids if each in units and units[each].vaulted is not None}
        counted = {each: self._counts.of(each) or Counts() for each in ids if each not in vaulted}
        return {
            **{each: counts.opening.text for each, counts in counted.items()},
            **{each: self._opening(each) for each in vaulted},
        }

    def _opening(self, session_id: str) -> str:
        try:
            return opening_of(islice(self._said(session_id), LOOKED_AT))
        except UNREADABLE:
            return ""  # a list can do without it

    def search(self, asked: Search) -> Sequence[Hit]:
        """Messages are numbered as in `messages`."""
        known = self._units()
        return [
            replace(hit, session=self._session(known[hit.session.id]))
            for hit in self._asked(
                lambda index: hits_of(
                    index, asked, self._pinned, lambda: [each.unit for each in known.values()]
                )
            )
            if hit.session.id in known
        ]

    def close_words(self, text: str) -> Sequence[str]:
        return self._asked(lambda index: index.close_words(text))

    @property
    def is_empty(self) -> bool:
        return not self._units()

    def unlisted(self) -> Sequence[Problem]:
        """Problems with sessions that a list does not show or that must not be changed."""
        return self._unread()

    def unsearched(self) -> Sequence[Problem]:
        """Why a search may be incomplete, or takes long here."""
        return self._mirror.problems()

    def transaction(self) -> AbstractContextManager[object]:
        return nullcontext()

    def close(self) -> None:
        self._seen = self._shown = self._indexed = None
        self._forget_lists()


def hits_of(
    index: MirrorStore, asked: Search, pinned: Collection[str], units: Callable[[], Iterable[Unit]]
) -> Sequence[Hit]:
    """The hits in the index, with messages numbered as in their session. The index knows neither
    pins nor what is archived in the agent, so a filter on those becomes a filter on ids. `pinned`
    are our own pins."""
    wanted = asked.wanted
    if wanted.pinned is not None or wanted.agent_archived is not None:
        known = [*units()]
        marked = {each.id for each in known if each.pinned}.union(pinned)
        wanted = _by_ids(replace(wanted, pinned=None), wanted.pinned, marked)
        marked = {each.id for each in known if each.archived}
        wanted = _by_ids(_without_mark(wanted), wanted.agent_archived, marked)
        asked = replace(asked, wanted=wanted)
    hits = index.search(asked)
    return [
        replace(hit, message=replace(hit.message, number=place))
        for hit, place in zip(hits, index.places_of(hits), strict=True)
    ]


def _by_ids(wanted: SessionFilter, flag: bool | None, marked: set[str]) -> SessionFilter:
    """The filter with the ids of the sessions that have a mark, or without them."""
    if flag is None:
        return wanted
    # A filter keeps its ids as a tuple of strings.
    if not flag:
        others = map(str, wanted.not_ids) if isinstance(wanted.not_ids, tuple) else ()
        return replace(wanted, not_ids=tuple(sorted(marked.union(others))))
    named = map(str, wanted.ids) if isinstance(wanted.ids, tuple) else marked
    return replace(wanted, ids=tuple(sorted(marked.intersection(named))))


def _without_mark(wanted: SessionFilter) -> SessionFilter:
    """The filter without the mark that a `Session` does not carry."""
    return replace(wanted, agent_archived=None)


def _says_something(seen: Seen) -> bool:
    """True if the file for the messages has any content. Rows of a database are queried by session,
    so without a message there is none. A document without messages has an empty list."""
    path = seen.unit.transcript
    if path is None:
        return seen.bytes > 0 and not seen.in_rows
    try:
        if path.suffix == ".json":
            return not any(each.get(key) == [] for each in whole_records(path) for key in _LISTS)
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _active_through_delegates(units: Mapping[str, Seen]) -> Mapping[str, float]:
    """The last activity of sessions whose delegates, or the delegates of those, were active after
    them. They go together, so the age of a session is that of everything that goes with it."""
    found: dict[str, float] = {}
    for each in units.values():
        delegate = each.unit
        while delegate.relation is Relation.DELEGATE and delegate.parent in units:
            parent = units[delegate.parent].unit
            if found.get(parent.id, parent.active) >= each.unit.active:
                break
            found[parent.id] = each.unit.active
            delegate = parent
    return found


def _started(unit: Unit) -> float:
    return unit.active if unit.started is None else unit.started


def _unknown(session_id: str) -> UnknownSessionError:
    return UnknownSessionError(f"There is no session {session_id!r} in this home.")
