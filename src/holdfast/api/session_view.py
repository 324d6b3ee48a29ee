"""The sessions of a home as lists and pages show them. Reading creates and holds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from holdfast.errors import HoldfastError, UsageError
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.model.archive import Holds
from holdfast.model.argument_checks import checked
from holdfast.model.session import (
    Search,
    Session,
    SessionFilter,
    SessionOrder,
    SessionRef,
    id_of,
)
from holdfast.policy.lifecycle import NOT_ENDED
from holdfast.policy.prices import Prices, session_cost
from holdfast.value import dataclass, field

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from collections.abc import Mapping, Sequence

    from holdfast.api.place import Place
    from holdfast.model.item import Problem
    from holdfast.model.session import Hit
    from holdfast.model.usage import Cost
    from holdfast.ports.runs import Clock
    from holdfast.ports.sessions import SessionStore
    from holdfast.services.restore import Whereabouts
    from holdfast.services.session_reader import SearchOptions, SessionFilters


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Sessions in the requested order. `total` counts all that match, on every page. `openings`
    has, by id, the first lines of sessions without a title, if requested. `problems` are what
    could not be read. If nothing matches, `unknown_sources` are requested sources that no session
    here has, each with the nearest one that exists."""

    sessions: Sequence[Session]
    total: int
    prices: Prices
    problems: Sequence[Problem] = ()
    openings: Mapping[str, str] = field(default_factory=dict)
    unknown_sources: Mapping[str, str | None] = field(default_factory=dict)

    def cost(self, session: Session) -> Cost:
        """The cost of a session by its own figures and the configured prices."""
        return session_cost(self.prices, session)

    def full_cost(self, session: Session) -> float | None:
        """The full cost; None if a part of it is unknown."""
        return self.prices.cost_of_session(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search. If there are no hits, `close_words` are similar words that do occur,
    `archive_unread` is True if the archive has sessions that were not searched, `in_trash` if the
    trash has some, which no search reads, and `unknown_sources` are as in a `SessionPage`.
    `problems` are sessions that could not be searched, and bundles of the archive that cannot be
    read."""

    hits: Sequence[Hit]
    close_words: Sequence[str] = ()
    archive_unread: bool = False
    in_trash: bool = False
    problems: Sequence[Problem] = ()
    unknown_sources: Mapping[str, str | None] = field(default_factory=dict)


def filtered(
    wanted: SessionFilter | None, filters: SessionFilters, clock: Clock
) -> SessionFilter | None:
    """Add the keyword filters of a call to a filter."""
    if not filters:
        return wanted
    from holdfast.services.session_reader import filter_of  # noqa: PLC0415 - the command needs none

    return filter_of(wanted, filters, clock)


def searched(asked: Search | str, options: SearchOptions, clock: Clock) -> Search:
    """The search for the arguments of a call."""
    if isinstance(asked, Search) and not options:
        return asked
    from holdfast.services.session_reader import search_of  # noqa: PLC0415 - as above

    return search_of(asked, options, clock)


@checked
class SessionView:
    """Lists, searches and resolves the sessions in the store of a home."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def session_store(self) -> SessionStore | None:
        """The store to read from, for tools; None if the home has none. Creates nothing."""
        return self._place.home.session_store()

    def need_store(self) -> SessionStore:
        """The store to read from; raises `UsageError` if the home has none."""
        store = self.session_store
        if store is None:
            raise UsageError(
                f"{self._place.root} has no session store yet.",
                hint="Agents that embed Holdfast create one; so does `holdfast sessions import`.",
            )
        return store

    @one_look()
    def list_sessions(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder | str = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        openings: bool = False,
        **filters: Unpack[SessionFilters],
    ) -> SessionPage:
        """One page of the sessions in the store, empty if the home has no store. Filters are those
        of `home.sessions.find`."""
        order = SessionOrder.of(order_by)
        wanted = filtered(wanted, filters, self._place.clock)
        store, prices = self.session_store, self._place.prices()
        if store is None:
            lost = self._place.home.lost_store()
            return SessionPage(sessions=(), total=0, prices=prices, problems=lost)
        chosen = SessionFilter() if wanted is None else wanted
        found = store.find(chosen, order_by=order, limit=limit, offset=offset, prices=prices)
        total = store.count(chosen)
        return SessionPage(
            sessions=found,
            total=total,
            prices=prices,
            problems=store.unlisted(),
            openings=self.openings(found) if openings else {},
            unknown_sources={} if total else _unknown_sources(store, chosen),
        )

    def openings(self, sessions: Sequence[Session]) -> Mapping[str, str]:
        """The first lines of sessions without a title, by id: a list shows them instead."""
        untitled = [each.id for each in sessions if not each.title and each.message_count]
        return self.need_store().openings(untitled) if untitled else {}

    @one_look()
    def search_sessions(
        self, asked: Search | str, **options: Unpack[SearchOptions]
    ) -> SearchResult:
        """Find messages by their words, the best matches first. Options are those of
        `home.sessions.search`."""
        asked = searched(asked, options, self._place.clock)
        store = self.session_store
        hits = () if store is None else store.search(asked)
        problems = () if store is None else store.unsearched()
        if hits:
            return SearchResult(hits=hits, problems=problems)
        close = () if store is None or asked.substring else store.close_words(asked.text)
        return SearchResult(
            hits=(),
            close_words=close,
            archive_unread=self._has_archived(),
            in_trash=self._has_trash(),
            problems=problems,
            unknown_sources={} if store is None else _unknown_sources(store, asked.wanted),
        )

    def sign_of_life(self, session: SessionRef) -> str | None:
        """The reason why a session in the store counts as in use: a process, a lease or a file.
        None if it is not in use, or only counts because it has not ended."""
        why = self._place.home.sign_of_life(id_of(session), self._place.clock())
        return None if why == NOT_ENDED else why

    def resolve(self, prefix: SessionRef) -> str:
        """The whole id of a session in the store, from a unique prefix.

        Raises `UnknownSessionError`. If the session is in the archive or in the trash, the error
        says so, and how to restore it.
        """
        from holdfast.services.restore import resolved  # noqa: PLC0415 - no list needs it

        return resolved(self._place.home, self.need_store(), id_of(prefix))

    def whereabouts(self, prefix: SessionRef) -> Whereabouts | None:
        """Find a session that is no longer in the store: in the archive, or in the trash."""
        from holdfast.services.restore import whereabouts  # noqa: PLC0415 - as above

        if not (wanted := id_of(prefix)):
            raise UsageError("A session id must not be empty.")
        return whereabouts(self._place.home, wanted)

    def _has_trash(self) -> bool:
        from holdfast.model.item import SESSION  # noqa: PLC0415 - as above

        try:
            trash = self._place.home.log.read().trash
        except HoldfastError:  # as below
            return False
        return any(each.removal.item.kind == SESSION for each in trash)

    def _has_archived(self) -> bool:
        try:
            archived = self._place.home.archive.find(SessionFilter())
            return any(each.holds is Holds.SESSION for each in archived)
        except HoldfastError:  # `doctor` reports an archive that cannot be read; this is a hint
            return False


def _unknown_sources(store: SessionStore, wanted: SessionFilter) -> Mapping[str, str | None]:
    if not wanted.sources:
        return {}
    from holdfast.policy.session_filter import unknown_sources  # noqa: PLC0415 - as above

    return unknown_sources(wanted, store.sources())
