"""Archived sessions: no longer in the store, but can be restored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Unpack

from holdfast.api.arguments import (
    Ids,
    OperationRef,
    PruneRules,
    expect_window,
    operation_id,
    own_policy,
    session_ids,
    wanted_sessions,
)
from holdfast.api.place import Place
from holdfast.api.plan import HomePlan, HomeReport, applied, scanned_plan
from holdfast.api.session_view import SearchResult, SessionPage
from holdfast.errors import HoldfastError, UnknownSessionError, UsageError, is_there
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.argument_checks import called, checked
from holdfast.model.arguments import StrPath
from holdfast.model.item import Problem
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.path_map import mapped, path_maps
from holdfast.model.session import (
    Message,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
    SessionRef,
    id_of,
)
from holdfast.policy.rules import Policy
from holdfast.ports.runs import Progress
from holdfast.services.plans import plan_prune_archive
from holdfast.services.restore import chosen as archived
from holdfast.services.restore import restore
from holdfast.services.session_reader import (
    SearchOptions,
    SessionFilters,
    filter_of,
    no_such_method,
    one_of_both,
    search_of,
)
from holdfast.value import dataclass, field, replace


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RestorePlan:
    """Archived sessions that would be restored to the store, and `vaulted` ones. `problems` are
    bundles that could not be read."""

    place: Place = field(repr=False)
    sessions: Sequence[ArchivedSession]
    vaulted: Sequence[Session] = ()
    problems: Sequence[Problem] = ()
    maps: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing_directories(self) -> Sequence[str]:
        """The working directories under `maps` that do not exist here: an agent needs its own to
        resume a session."""
        cwds = (mapped(each.session.cwd or "", self.maps) for each in self.sessions)
        found = dict.fromkeys(each for each in cwds if each is not None)
        return [each for each in found if not Path(each).is_dir()]

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Restore them in full. A session that cannot be restored stays in the archive and is
        reported."""
        place = self.place
        report = restore(
            place.home,
            self.sessions,
            command=place.command("restore_sessions"),
            clock=place.clock,
            progress=progress,
            maps=self.maps,
            vaulted=self.vaulted,
        )
        return HomeReport(place=place, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePage(SessionPage):
    """A page of archived sessions. For bundles that hold only files, `places` says by id where the
    session itself is; a session that it does not name is gone. `problems` are bundles that cannot
    be read."""

    archived: Sequence[ArchivedSession]
    places: Mapping[str, str]
    problems: Sequence[Problem] = ()


@called("home.archive")
@checked
class ArchivedSessions:
    """The sessions in the archive: find, read, search and restore them."""

    def __init__(self, place: Place) -> None:
        self._place = place

    if not TYPE_CHECKING:  # as in `SessionReader`

        def __getattr__(self, name: str) -> object:
            raise no_such_method(self, name)

    def find(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder | str = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        **filters: Unpack[SessionFilters],
    ) -> Sequence[ArchivedSession]:
        """The archived sessions that a filter picks, by default the last active first:
        `find(source="cli", active_before="90d")`."""
        return self._place.home.archive.find(
            filter_of(wanted, filters, self._place.clock),
            order_by=SessionOrder.of(order_by),
            limit=limit,
            offset=offset,
            prices=self._place.settings.prices(),
        )

    def page(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder | str = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        openings: bool = False,
        **filters: Unpack[SessionFilters],
    ) -> ArchivePage:
        """One page of the archived sessions, with what a list shows of each. `openings` reads the
        bundles of sessions without a title for their first line."""
        chosen = filter_of(wanted, filters, self._place.clock)
        found = self.find(chosen, order_by=order_by, limit=limit, offset=offset)
        return ArchivePage(
            sessions=[each.session for each in found],
            total=self.count(chosen),
            prices=self._place.settings.prices(),
            archived=found,
            places=self._places(found),
            problems=self.problems(),
            openings=self.openings(found) if openings else {},
        )

    def openings(self, archived: Sequence[ArchivedSession]) -> Mapping[str, str]:
        """The first line of archived sessions without a title, by id. A bundle that cannot be read
        has none; `problems` names it."""
        archive = self._place.home.archive
        found: dict[str, str] = {}
        for each in archived:
            if each.session.title or each.holds is not Holds.SESSION:
                continue
            with suppress(HoldfastError):
                messages = archive.messages(each.session.id)
                found[each.session.id] = opening_of(islice(messages, LOOKED_AT))
        return found

    def _places(self, found: Sequence[ArchivedSession]) -> Mapping[str, str]:
        ids = tuple({each.session.id for each in found if each.holds is Holds.FILES})
        if not ids:
            return {}
        home, wanted = self._place.home, SessionFilter(ids=ids)
        whole = (each for each in home.archive.find(wanted) if each.holds is Holds.SESSION)
        places = {each.session.id: "in the archive" for each in whole}
        store = home.session_store()
        stored = () if store is None else store.find(wanted)
        return places | {each.id: "in the store" for each in stored}

    def count(self, wanted: SessionFilter | None = None, **filters: Unpack[SessionFilters]) -> int:
        """How many archived sessions a filter picks."""
        chosen = filter_of(wanted, filters, self._place.clock)
        return self._place.home.archive.count(chosen)

    def get(self, session: SessionRef) -> ArchivedSession:
        """One archived session, by its id or the start of one."""
        archive = self._place.home.archive
        return archive.get(archive.resolve(id_of(session)))

    def of_operation(self, operation: OperationRef) -> Sequence[ArchivedSession]:
        """What an operation of this home archived. Other homes may share the archive."""
        return self._place.home.archive.made_by(operation_id(operation))

    def messages(self, session: SessionRef) -> Iterator[Message]:
        """The messages of an archived session, in order."""
        archive = self._place.home.archive
        return archive.messages(archive.resolve(id_of(session)))

    def search(
        self,
        text: str,
        *,
        wanted: SessionFilter | None = None,
        role: Collection[str] | None = None,
        roles: Collection[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        substring: bool = False,
        **filters: Unpack[SessionFilters],
    ) -> SearchResult:
        """Find messages by their words. Every bundle is read; `problems` of the result names those
        that could not be read."""
        return self.search_sessions(
            Search(
                text=text,
                wanted=filter_of(wanted, filters, self._place.clock),
                roles=one_of_both(role, roles),
                limit=limit,
                offset=offset,
                substring=substring,
            )
        )

    def search_sessions(
        self, asked: Search | str, **options: Unpack[SearchOptions]
    ) -> SearchResult:
        """The same, also for a `Search` that was made before."""
        asked = search_of(asked, options, self._place.clock)
        archive = self._place.home.archive
        found = archive.search(asked)
        return SearchResult(hits=found.hits, problems=(*archive.problems(), *found.problems))

    def problems(self) -> Sequence[Problem]:
        """Bundles that cannot be read."""
        return self._place.home.archive.problems()

    def plan_restore(
        self, ids: Ids | None = None, *, maps: Mapping[str, StrPath] = MappingProxyType({})
    ) -> RestorePlan:
        """What would be restored: these sessions, or all archived ones without `ids`. A session
        that is not in the archive may be in the vault.

        With `maps`, sessions of Claude Code and Codex come back under other paths: those of the
        machine that archived them, and where they are here. Their bundles stay in the archive.
        """
        archive = self._place.home.archive
        problems = archive.problems()
        named = () if ids is None else session_ids(ids)
        meant = {each: self._vaulted(each) for each in named}
        vaulted = {found.id: found for found in meant.values() if found is not None}
        rest = [each for each, found in meant.items() if found is None]
        return RestorePlan(
            place=self._place,
            sessions=self._archived(rest) if rest or ids is None else (),
            vaulted=[*vaulted.values()],
            problems=problems,
            maps=path_maps(maps),
        )

    def _archived(self, ids: Sequence[str]) -> Sequence[ArchivedSession]:
        try:
            return archived(self._place.home.archive, ids)
        except UnknownSessionError:
            store = self._place.home.session_store()
            here = ""
            for each in ids:
                with suppress(UsageError):
                    here = here or ("" if store is None else store.resolve(each))
            if not here:
                raise
        raise is_there(here)

    def _vaulted(self, prefix: str) -> Session | None:
        """The session in the vault with this id or prefix. If the archive has one of the same id,
        it is older: what the vault holds was in the home after that."""
        store, vault = self._place.home.session_store(), self._place.home.vault
        if store is None or vault is None:
            return None
        try:
            found = store.get(store.resolve(prefix))
        except (UnknownSessionError, UsageError):
            return None  # the archive reports what is wrong with the id
        held = {each.session for each in vault.items()} if found.vaulted else {found.id}
        # A session that is stored inside another is restored with that.
        while found.vaulted and found.id not in held and found.parent_id:
            found = store.get(found.parent_id)
        return found if found.vaulted else None

    def restore(
        self, ids: Ids, *, maps: Mapping[str, StrPath] = MappingProxyType({})
    ) -> HomeReport:
        """Bring archived sessions back into the store, whole, with their files. Nothing is lost by
        that, so there is no undo of it; `Home.archive_sessions` archives them again. `maps` as in
        `plan_restore`."""
        return self.plan_restore(session_ids(ids), maps=maps).apply()

    def plan_prune(
        self,
        *,
        wanted: SessionFilter | None = None,
        use_trash: bool = True,
        caps_use_trash: bool = False,
        **rules: Unpack[PruneRules],
    ) -> HomePlan:
        """What is removed from the archive. The age of a session is its time there.

        Without arguments, [archive] of config.toml applies. The rules are those of
        `Home.plan_prune`.
        """
        base = replace(
            self._place.settings.archive_policy(use_trash=use_trash), caps_use_trash=caps_use_trash
        )
        chosen = wanted_sessions(wanted, None)

        def planned(_: Progress | None) -> HomePlan:
            now = self._place.clock()
            policy = own_policy(base, rules, now)
            expect_window(policy, rules, chosen, now)
            return self.plan_policy(policy, wanted=chosen)

        return replace(planned(None), again=planned)

    def plan_policy(self, policy: Policy, *, wanted: SessionFilter | None = None) -> HomePlan:
        """The plan for a policy of the caller."""
        place, chosen = self._place, wanted_sessions(wanted, None)
        plan, inventory = plan_prune_archive(
            place.home,
            replace(policy, agent_archived=chosen.agent_archived is True),
            now=place.clock(),
            command=place.command("archive.prune"),
            wanted=chosen,
        )
        return scanned_plan(place, plan, inventory, chosen)

    prune = applied(plan_prune)
