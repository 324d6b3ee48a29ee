"""The sessions of all homes of a machine: listed, found, searched and exported together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Unpack

from holdfast.api.agent_home import AgentHome, HomeRef, Looked, UnreadHome
from holdfast.api.arguments import Ids, session_ids
from holdfast.api.locate import Located, locate
from holdfast.api.machine_homes import MachineHomes
from holdfast.api.place import Place
from holdfast.api.session_view import (
    SearchResult,
    SessionPage,
    SessionView,
    filtered,
    searched,
)
from holdfast.errors import HoldfastError, UnknownSessionError
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.model.argument_checks import checked
from holdfast.model.session import Search, Session, SessionFilter, SessionOrder
from holdfast.policy.session_filter import rank
from holdfast.value import dataclass, replace

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.api.archive import ArchivedSessions
    from holdfast.api.values import ExportReport
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.arguments import StrPath
    from holdfast.model.session import Hit
    from holdfast.ports.runs import Progress
    from holdfast.services.session_reader import SearchOptions, SessionFilters


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """A session with its home. `page` has its cost. `archived` is set for one from the archive.
    `opening` is the first line of a session without a title, if requested."""

    home: AgentHome
    session: Session
    page: SessionPage
    archived: ArchivedSession | None = None
    opening: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePage:
    """Sessions of all homes in the requested order; `total` counts all that match."""

    found: Sequence[FoundSession]
    total: int
    looked: Looked[SessionPage]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSearch:
    """The hits of a search in all homes, the best matches first, and the result of each home."""

    hits: Sequence[tuple[AgentHome, Hit]]
    looked: Looked[SearchResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineExport:
    """What an export wrote from all homes, and the homes that it could not read."""

    report: ExportReport
    unread: Sequence[UnreadHome]


@checked
class MachineSessions(MachineHomes):
    """The methods that read the sessions of all homes."""

    def list_sessions(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder | str = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        archived: bool = False,
        openings: bool = False,
        by_agent: bool = False,
        homes: HomeRef | Collection[HomeRef] | None = None,
        **filters: Unpack[SessionFilters],
    ) -> MachinePage:
        """One page of the sessions of all homes, or only of `homes`; with `archived`, of those in
        their archives: `list_sessions(source="cli", homes="codex")`. Filters are those of
        `home.sessions.find`. With `by_agent` sessions are grouped by agent, from A to Z."""
        wanted = filtered(wanted, filters, self.clock)
        order = SessionOrder.of(order_by)
        # With a single home, the store itself skips the sessions before the page.
        alone = len(self._chosen(homes)) == 1
        skipped, offset = (offset, 0) if alone else (0, offset)
        most = None if limit is None else offset + limit

        def page(place: Place) -> SessionPage:
            listed = _archive(place).page if archived else SessionView(place).list_sessions
            return listed(wanted, order_by=order, limit=most, offset=skipped)

        with one_look():
            looked = self.look(page, homes=homes)
        found = [
            FoundSession(home=home, session=session, page=page, archived=bundle)
            for home, page in looked.seen
            for session, bundle in _with_bundles(page)
        ]
        found.sort(key=lambda each: each.session.id, reverse=True)
        found.sort(key=lambda each: rank(each.session, order, each.page.prices))
        if by_agent:
            found.sort(key=lambda each: each.home.label)
        shown = found[offset:most]
        return MachinePage(
            found=self._with_openings(shown) if openings else shown,
            total=sum(page.total for _, page in looked.seen),
            looked=looked,
        )

    def _with_openings(self, found: Sequence[FoundSession]) -> Sequence[FoundSession]:
        by_home: dict[AgentHome, list[FoundSession]] = {}
        for each in found:
            by_home.setdefault(each.home, []).append(each)
        known = {home: self._openings(home, members) for home, members in by_home.items()}
        return [replace(each, opening=known[each.home].get(each.session.id, "")) for each in found]

    def _openings(self, home: AgentHome, found: Sequence[FoundSession]) -> Mapping[str, str]:
        bundles = [each.archived for each in found if each.archived is not None]
        if not bundles:
            return SessionView(self.place(home)).openings([each.session for each in found])
        return _archive(self.place(home)).openings(bundles)

    def search_sessions(
        self,
        asked: Search | str,
        *,
        archived: bool = False,
        homes: HomeRef | Collection[HomeRef] | None = None,
        **options: Unpack[SearchOptions],
    ) -> MachineSearch:
        """Find messages by their words in all homes, or only in `homes`, or in their archives.
        Options are those of `home.sessions.search`."""
        asked = searched(asked, options, self.clock)
        wider = replace(asked, limit=asked.offset + asked.limit, offset=0)

        def search(place: Place) -> SearchResult:
            return (_archive(place) if archived else SessionView(place)).search_sessions(wider)

        with one_look():
            looked = self.look(search, homes=homes)
        hits = [(home, hit) for home, result in looked.seen for hit in result.hits]
        hits.sort(key=lambda each: each[1].score, reverse=True)
        return MachineSearch(hits=hits[asked.offset : wider.limit], looked=looked)

    def resolve(
        self, prefix: str, *, surely: bool = False, store: bool = True, archive: bool = False
    ) -> Located:
        """Find the session with an id, or with a unique prefix of one, in any home.

        An exact id takes precedence over a prefix. Raises `UsageError`, which lists agents and ids,
        if several sessions match, and `UnknownSessionError` if none does. `store` and `archive` say
        where to look; an archive is searched only if no store has a match.

        With `surely`, for callers that change something, a prefix is refused while a home cannot be
        read, because that home may have another session that matches.
        """
        return locate(self, prefix, surely=surely, store=store, archive=archive)

    def expect(self, prefix: str, place: Place) -> None:
        """Raise the error of `resolve` if no home and no archive has the session, and the home at
        `place`, which need not be one of this machine's homes, does not have it either."""
        try:
            self.resolve(prefix, archive=True)
        except UnknownSessionError as error:
            try:
                SessionView(place).resolve(prefix)
            except HoldfastError:
                raise error from None

    def located(
        self, ids: Ids, *, surely: bool = False, store: bool = True, archive: bool = False
    ) -> Sequence[tuple[AgentHome, Sequence[str]]]:
        """Resolve ids and group them by home; raises like `resolve`."""
        by_home: dict[AgentHome, list[str]] = {}
        for each in session_ids(ids):
            found = self.resolve(each, surely=surely, store=store, archive=archive)
            by_home.setdefault(found.home, []).append(found.id)
        return list(by_home.items())

    def export(
        self,
        output: StrPath | BinaryIO,
        ids: Ids | None = None,
        *,
        wanted: SessionFilter | None = None,
        form: str = "jsonl",
        redact: bool = False,
        progress: Progress | None = None,
    ) -> MachineExport:
        """Write sessions of all homes into one file, home after home, like `Home.export`."""
        from holdfast.api.exchange import export_sink  # noqa: PLC0415 - no list needs it
        from holdfast.services.exchange.session_export import ExportReport  # noqa: PLC0415

        chosen: Sequence[tuple[AgentHome, Sequence[str] | None]]
        if ids is None:
            looked = self.look(lambda place: SessionView(place).session_store is not None)
            chosen = [(home, None) for home, has_store in looked.seen if has_store]
            unread = looked.unread
        else:
            chosen, unread = self.located(ids), self.unread
        total = ExportReport()
        with export_sink(output, [home.path for home, _ in chosen]) as sink:
            for home, named in chosen:
                done = self.open(home).export(
                    sink.file, named, wanted=wanted, form=form, redact=redact, progress=progress
                )
                total = total.plus(done)
                if done.stopped:
                    break
            sink.whole = not total.stopped
        return MachineExport(report=total, unread=unread)


def _archive(place: Place) -> ArchivedSessions:
    from holdfast.api.archive import ArchivedSessions  # noqa: PLC0415 - few lists need it

    return ArchivedSessions(place)


def _with_bundles(page: SessionPage) -> Sequence[tuple[Session, ArchivedSession | None]]:
    bundles: Sequence[ArchivedSession | None] = getattr(page, "archived", ())
    return list(zip(page.sessions, bundles or [None] * len(page.sessions), strict=True))
