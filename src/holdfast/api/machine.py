"""All homes of a machine as one: the sessions of every agent listed, found and searched together.

Reading opens homes and changes nothing. A home that cannot be read is reported and does not affect
the others. Changes are methods of one `Home`: `machine.open(home)` returns it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self, TypeVar, Unpack

from holdfast.api.agent_home import (
    OF_THE_HOME,
    AgentHome,
    HomeRef,
    Looked,
    UnreadHome,
    agent_home,
    bug_in,
    find_homes,
    homes_in_projects,
    latest_folders,
    named_home,
    own_folder,
)
from holdfast.api.arguments import Ids, session_ids
from holdfast.api.disks import Disk, disks_of, in_order_of_room
from holdfast.api.locate import Located, locate
from holdfast.api.place import (
    Place,
    find_home,
    system_clock,
    usual_homes,
    usual_places_of,
    warn_of_unknown,
)
from holdfast.api.session_view import (
    SearchResult,
    SessionPage,
    SessionView,
    filtered,
    searched,
)
from holdfast.errors import HoldfastError, UnknownSessionError, UsageError
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.homes.kind import OWN
from holdfast.homes.registry import kind_of
from holdfast.model.argument_checks import checked, made_by
from holdfast.model.arguments import checked_clock, named_place, several
from holdfast.model.session import Search, Session, SessionFilter, SessionOrder, texts_of
from holdfast.policy.session_filter import rank
from holdfast.stores.files import storage_errors
from holdfast.stores.sqlite.database import PATIENCE
from holdfast.value import dataclass, replace

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from contextlib import AbstractContextManager

    from holdfast.api.archive import ArchivedSessions
    from holdfast.api.arguments import OperationRef
    from holdfast.api.budget import MachineBudget
    from holdfast.api.connect import Connection, ConnectPlan
    from holdfast.api.home import Home
    from holdfast.api.overview import MachineOverview
    from holdfast.api.plan import HomePlan
    from holdfast.api.plans_across_homes import (
        DoneInHome,
        MachinePlan,
        OperationOfRun,
        UndoOrRedo,
    )
    from holdfast.api.schedulers.schedule import Schedule
    from holdfast.api.undo_across_homes import RunAcrossHomes
    from holdfast.api.values import ExportReport, HomeStats, HomeStatus
    from holdfast.config.guardian import GuardianSettings
    from holdfast.connect.settings_entries import Setup
    from holdfast.model.alarm import Alarm
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.arguments import StrPath
    from holdfast.model.figures import Growth, HomeFigures
    from holdfast.model.operation import LogView
    from holdfast.model.session import Hit
    from holdfast.model.usage import CostTotals
    from holdfast.model.vault import VaultStatus
    from holdfast.ports.runs import Clock, Progress
    from holdfast.services.session_reader import SearchOptions, SessionFilters

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """The status of each home that can be read, and the homes that cannot. `in_projects` are homes
    inside projects in which agents worked, and which are not among the machine's homes: they can be
    listed in the configuration. `growth` is that of all homes together."""

    seen: Sequence[tuple[AgentHome, HomeStatus]]
    unread: Sequence[UnreadHome]
    growth: Growth
    in_projects: Sequence[AgentHome] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGrowth:
    """How each home grew by its recorded figures, and all of them together."""

    seen: Sequence[tuple[AgentHome, Growth]]
    together: Growth
    unread: Sequence[UnreadHome]


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


@made_by("`holdfast.machine()`")
@checked
class Machine:
    """The homes of one user. `holdfast.machine` finds them; use it with `with`, or `close` it."""

    def __init__(
        self,
        user_home: Path,
        *,
        environ: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        command: str | None = None,
        agents: Collection[str] | None = None,
        only: Path | None = None,
    ) -> None:
        """With `only`, the one home in that folder."""
        self._agents = texts_of(agents, "agents")
        self._only = only
        self._user_home = user_home
        self._environ = environ
        self._overrides = overrides
        self._clock = None if clock is None else checked_clock(clock)
        self._command = command
        self._places: dict[Path, Place] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<the homes of {self._user_home}>"

    def close(self) -> None:
        """Close every home that was opened. The machine itself can be used again."""
        while self._places:
            self._places.popitem()[1].close()

    # --- Its homes --------------------------------------------------------------------------------

    @cached_property
    def looked_at(self) -> Sequence[Path]:
        """The places where homes may be: the usual ones, and those in environment variables and in
        the configuration."""
        if self._only is not None:
            return (self._only,)
        return usual_homes(self._user_home, self._environ)

    @property
    def homes(self) -> Sequence[AgentHome]:
        """The homes that exist; searched for once."""
        return self._found[0]

    def look_for_homes(self) -> None:
        """Search for homes again at the next use: the first session of an agent creates its
        home."""
        self.__dict__.pop("_found", None)
        self.__dict__.pop("_guardian", None)

    @property
    def unread(self) -> Sequence[UnreadHome]:
        """Places of homes that cannot be read."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[Sequence[AgentHome], Sequence[UnreadHome]]:
        usual = usual_places_of(self._user_home, self._environ)
        return find_homes(self.looked_at, usual, self._agents)

    def place(self, home: HomeRef) -> Place:
        """Open a home and return its place; raises `ConfigError` if its configuration is wrong."""
        place = self.unchecked_place(home)
        place.check_settings()
        _ = place.home
        return place

    def unchecked_place(self, home: HomeRef) -> Place:
        """The same without opening the home, for a caller that corrects its configuration or finds
        out what is wrong with it."""
        home = named_home(self.homes, home)
        known = self._places.get(home.path)
        if known is None or known.is_closed:  # a caller closed it with `with`
            self._places[home.path] = Place(
                home.path, clock=self._clock, command=self._command, environ=self._overrides
            )
        return self._places[home.path].checked()

    def open(self, home: HomeRef) -> Home:
        """One of the homes, with everything that can be done to it: an item of `homes`, the name or
        label of one ("codex"), or its path. Closed with the machine."""
        from holdfast.api.home import Home  # noqa: PLC0415 - a list needs only the places

        return Home(self.place(home))

    def wait_at_most(self, seconds: float) -> None:
        """Limit how long homes that are opened from now on, here and in what this calls, wait for
        other processes that write to their stores; after that they raise `BusyError`."""
        PATIENCE.set(seconds)

    def one_look(self) -> AbstractContextManager[None]:
        """Inside this context each home is scanned once, however often it is read. Only for code
        that changes nothing."""
        return one_look()

    def look(
        self, what: Callable[[Place], _T], *, homes: HomeRef | Collection[HomeRef] | None = None
    ) -> Looked[_T]:
        """Call `what` for every home, or only for these. An error that concerns the request itself
        is raised."""
        asked = self._chosen(homes)
        seen: list[tuple[AgentHome, _T]] = []
        unread = list(self.unread) if homes is None else []
        for home in asked:
            try:
                with storage_errors(f"read {home.path}"):
                    seen.append((home, what(self.place(home))))
            except HoldfastError as error:
                if isinstance(error, UsageError) and not isinstance(error, OF_THE_HOME):
                    raise
                unread.append(UnreadHome(path=home.path, error=error))
            except Exception as error:  # noqa: BLE001 - a bug in one format must not blind the rest
                unread.append(UnreadHome(path=home.path, error=bug_in(home, error)))
        return Looked(seen=seen, unread=unread)

    def _chosen(self, homes: HomeRef | Iterable[HomeRef] | None) -> Sequence[AgentHome]:
        """All homes, or the named ones."""
        if homes is None:
            return self.homes
        return [named_home(self.homes, each) for each in several(homes)]

    # --- The machine itself -----------------------------------------------------------------------

    def own_place(self) -> Place | None:
        """Holdfast's own home, whose configuration applies to the machine; None if there is none.
        If this is restricted to one home and that is Holdfast's own, it is that home."""
        only = self._only
        picked = only is not None and (kind := kind_of(only)) is not None and kind.name == OWN.name
        usual = usual_places_of(self._user_home, self._environ)[OWN.name]
        root = only if only is not None and picked else usual
        if not root.is_dir():
            return None
        return Place(root, clock=self._clock, command=self._command, environ=self._overrides)

    @property
    def guardian(self) -> GuardianSettings:
        """The limits of the machine; none if the configuration is wrong, which is reported when
        that home is opened."""
        from holdfast.config.guardian import GuardianSettings  # noqa: PLC0415 - no list needs it

        return self._guardian or GuardianSettings(alarm_mb_per_minute=0, reserve_mb=0)

    @cached_property
    def _guardian(self) -> GuardianSettings | None:
        """Read once, so that an error in it is logged only once; None in that case."""
        from holdfast.config.reader import load  # noqa: PLC0415 - as in `Place.settings`

        try:
            own = self.own_place()
            path = None if own is None else own.config_file
            return load(path, self._overrides or {}).guardian
        except HoldfastError as error:
            import logging  # noqa: PLC0415 - a list of sessions loads as little as it can

            message = f"the limits of this machine are unknown: {error.message}"
            logging.getLogger("holdfast").log(logging.ERROR, message)
            return None

    @property
    def is_whole(self) -> bool:
        """True if this is all homes, not just those of some agents or a single one."""
        return self._agents is None and self._only is None

    @property
    def clock(self) -> Clock:
        return self._clock or system_clock

    def set_aside(self) -> Sequence[Path]:
        """Reserve `reserve_mb` on the disk of each home, for when the disk is full. Returns the
        folders in which this call made a reserve."""
        from holdfast.stores.disk_reserve import set_aside  # noqa: PLC0415 - no list needs it

        if self._guardian is None:
            return ()  # the configuration is unknown: keep what is set aside
        found = [state for home in self.homes if (state := own_folder(home)) is not None]
        return set_aside(found, self.guardian.reserve_bytes)

    def plan_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """What would be removed so that all homes together fit the budget, `max_total_size_mb` in
        [guardian]. Nothing if no budget is set."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).plan()

    def keep_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """Make room so that all homes together fit the budget. Removals are in the log of their
        home, and `undo` brings back what went to the trash."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).keep()

    def disks(self, homes: HomeRef | Iterable[HomeRef] | None = None) -> Sequence[Disk]:
        """The disks of all homes, or of these, with their free space, the least free space
        first."""
        return disks_of(self._chosen(homes))

    def alarms(self) -> Sequence[Alarm]:
        """What grew too fast in any home while `maintain --watch` ran: first what still grows, then
        the latest. Reads one small file in each home."""
        looked = self._ask(lambda home: home.alarms())
        found = [alarm for _, alarms in looked.seen for alarm in alarms]
        return sorted(found, key=lambda each: (not each.active, -each.last_at))

    def to_undo(self) -> RunAcrossHomes:
        """The operations of the latest run over several homes, to undo it in each of them; without
        such a run, the latest operation of each home. What agents did on their own is left out."""
        from holdfast.api.undo_across_homes import to_undo  # noqa: PLC0415 - no list needs it

        return to_undo(self)

    def to_redo(self) -> RunAcrossHomes:
        """The same for redo: what the latest undo over several homes undid."""
        from holdfast.api.undo_across_homes import to_redo  # noqa: PLC0415 - no list needs it

        return to_redo(self)

    # --- Work in several homes --------------------------------------------------------------------

    def plan(
        self,
        make: Callable[[Home], HomePlan],
        *,
        homes: HomeRef | Collection[HomeRef] | None = None,
    ) -> MachinePlan[HomePlan]:
        """A plan for each home, such as `machine.plan(lambda home: home.plan_prune())`, to apply
        together. A home that cannot be read does not prevent the others; one whose policy is empty
        is skipped, unless all are empty. With `homes` only those, and any error is raised.
        """
        from holdfast.api.plans_across_homes import plan_in  # noqa: PLC0415 - no list needs it

        return plan_in(self, make, None if homes is None else self._chosen(homes))

    def in_order_of_room(self, plan: Callable[[AgentHome], HomePlan]) -> Sequence[AgentHome]:
        """The homes in the order in which such plans fit on the disk: when a disk is nearly full,
        the log of a home that frees little must not use up the space that one that frees much
        needs for its own log."""
        return in_order_of_room(self.homes, plan)

    def logs(self) -> Looked[LogView]:
        """The log of each home."""
        from holdfast.api.trash import Log  # noqa: PLC0415 - as above

        return self.look(lambda place: Log(place).read())

    def operations_of_run(self, run: str) -> Sequence[OperationOfRun]:
        """What one run did in each home. `run` is the name that its operations share."""
        from holdfast.api.plans_across_homes import operations_of_run  # noqa: PLC0415 - as above

        return operations_of_run(self, run)

    def plan_run(self, run: str, verb: str) -> MachinePlan[UndoOrRedo]:
        """Plan the "undo", or the "redo", of everything that one run did in several homes.
        Operations that cannot be undone or redone are left out."""
        from holdfast.api.plans_across_homes import plan_run  # noqa: PLC0415 - as above

        return plan_run(self, run, verb)

    def undo_each(
        self,
        operations: Iterable[tuple[AgentHome, OperationRef]],
        *,
        progress: Progress | None = None,
    ) -> Sequence[DoneInHome]:
        """Undo these operations as one run. One that fails does not prevent the others."""
        from holdfast.api.plans_across_homes import undo_each  # noqa: PLC0415 - as above

        return undo_each(self, operations, progress)

    def vaults(self) -> Looked[VaultStatus | None]:
        """What the vault of each home holds, and what its agent deletes by itself; None for a home
        that cannot have a vault."""
        return self._ask(lambda home: home.vault_status)

    # --- Seeing -----------------------------------------------------------------------------------

    def status(self, *, progress: Progress | None = None) -> MachineStatus:
        """What is in each home, what it costs, and what its policy would free."""
        with one_look():
            looked = self._ask(lambda home: home.status(progress=progress))
            folders = self.look(latest_folders).seen if self._agents is None else ()
        worked_in = {each for _, found in folders for each in found}
        known = {home.path for home in self.homes}
        found = [
            agent_home(path, kind)
            for path, kind in homes_in_projects(worked_in, self._user_home)
            if path not in known
        ]
        return MachineStatus(
            seen=looked.seen,
            unread=looked.unread,
            growth=_added([each.growth for _, each in looked.seen]),
            in_projects=found,
        )

    def record_figures(self, *, progress: Progress | None = None) -> Looked[HomeFigures]:
        """Measure each home and record the figures for its growth, as maintenance does."""
        return self._ask(lambda home: home.record_figures(progress=progress))

    def growth(self) -> MachineGrowth:
        """How the homes grew in the last weeks, by the recorded figures. Reads no session."""
        looked = self._ask(lambda home: home.growth())
        added = _added([each for _, each in looked.seen])
        return MachineGrowth(seen=looked.seen, together=added, unread=looked.unread)

    def overview(self, *, progress: Progress | None = None) -> MachineOverview:
        """A summary of `status`, with the sessions in use and the latest operations."""
        from holdfast.api.overview import overview  # noqa: PLC0415 - a list needs none of it

        status = self.status(progress=progress)
        return overview(self, status, now=(self._clock or system_clock)())

    def last_overview(self) -> MachineOverview | None:
        """An overview from the figures that were recorded last; None if there are none. Reads no
        session."""
        from holdfast.api.overview import last_overview  # noqa: PLC0415 - as above

        return last_overview(self)

    def stats(self, *, progress: Progress | None = None) -> Looked[HomeStats]:
        """The totals of the sessions and files of each home."""
        return self._ask(lambda home: home.stats(progress=progress))

    def costs(self) -> Looked[CostTotals]:
        """Tokens and cost in each home; sessions that were removed count too."""
        return self._ask(lambda home: home.costs())

    def _ask(self, what: Callable[[Home], _T]) -> Looked[_T]:
        from holdfast.api.home import Home  # noqa: PLC0415 - as above

        with one_look():
            return self.look(lambda place: what(Home(place)))

    # --- Agents, and schedulers of the system -----------------------------------------------------

    def plan_connect(
        self,
        agent: str,
        *,
        scope: str = "user",
        project: StrPath | None = None,
        home: StrPath | None = None,
    ) -> ConnectPlan:
        """Plan the entries in an agent's settings that let Holdfast take a checkpoint before each
        tool that may change files, and enforce budgets. `agent` is "claude-code", "codex", "gemini"
        or "opencode". `scope` is "user" for the user's settings, or "project" for those in
        `project`, by default the current directory.

        Checkpoints and budgets are kept in `home`, by default Holdfast's own. `apply` creates that
        home if it does not exist; undoing its report removes the entries again.
        """
        from holdfast.api.connect import connecting, setup_of  # noqa: PLC0415 - no list needs it

        place, where = self._own_home(home), self.hook_setup(project=project, home=home)
        return connecting(place, setup_of(place, agent, scope, where))

    def plan_disconnect(
        self,
        agent: str,
        *,
        scope: str = "user",
        project: StrPath | None = None,
        home: StrPath | None = None,
    ) -> ConnectPlan:
        """Plan to remove the entries from an agent's settings. A file that has not changed since it
        was connected gets exactly its old content back."""
        from holdfast.api.connect import disconnecting, setup_of  # noqa: PLC0415 - as above

        place, where = self._own_home(home), self.hook_setup(project=project, home=home)
        return disconnecting(place, setup_of(place, agent, scope, where))

    def connections(
        self, *, project: StrPath | None = None, home: StrPath | None = None
    ) -> Sequence[Connection]:
        """The agents that are connected, for the user and in `project`, and any problems."""
        from holdfast.api.connect import connections  # noqa: PLC0415 - as above

        return connections(self._own_home(home), self.hook_setup(project=project, home=home))

    def connections_to_renew(
        self, *, fails_closed: bool, project: StrPath | None = None, home: StrPath | None = None
    ) -> Sequence[Connection]:
        """Agents whose entries for this home disagree with `fails_closed`, which says what happens
        when Holdfast cannot be started. Connecting them again corrects that."""
        own = self._own_home(home).root.absolute()
        return [
            each
            for each in self.connections(project=project, home=home)
            if each.home == own and each.fails_closed != fails_closed
        ]

    def hook_setup(self, *, project: StrPath | None = None, home: StrPath | None = None) -> Setup:
        """Where the settings of agents are, and the home in which their hooks keep checkpoints."""
        from holdfast.connect.settings_entries import Setup  # noqa: PLC0415 - as above

        return Setup(
            agent="",
            scope="user",
            user_home=self._user_home,
            project=named_place(os.curdir if project is None else project).absolute(),
            home=self._own_home(home).root.absolute(),
            environ=self._environ,
        )

    def _own_home(self, home: StrPath | None) -> Place:
        """The named home, by default Holdfast's own; it need not exist yet."""
        if home is None:
            root = usual_places_of(self._user_home, self._environ)[OWN.name]
        else:
            root = find_home(home, self._environ)
        known = self._places.get(root)
        if known is None or known.is_closed:
            known = self._places[root] = Place(
                root, clock=self._clock, command=self._command, environ=self._overrides
            )
        return known

    def plan_schedule(
        self, scheduler: str, *, home: StrPath | None = None, program: Sequence[str] | None = None
    ) -> Schedule:
        """Plan the files that let the system run maintenance: "systemd" and "launchd" keep the
        watch over all homes running, and "cron" runs maintenance of all homes once a day. With
        `home`, a folder or the name of an agent, each of them maintains that home once a day.

        `install` writes the files, and `uninstall` removes them again. `program` is the command
        that starts Holdfast, by default with the current Python.
        """
        from holdfast.api.schedulers import schedule_of  # noqa: PLC0415 - no list needs it

        root = None
        if home is not None:
            place = Place(find_home(home, self._environ), environ=self._overrides).checked()
            root = place.home.root  # raises if the configuration is wrong: it would never run
            place.close()
        return schedule_of(
            scheduler,
            home=root,
            user_home=self._user_home,
            environ=self._environ,
            program=program,
        )

    # --- Sessions ---------------------------------------------------------------------------------

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
        with export_sink(output) as sink:
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


@checked
def machine(
    *,
    user_home: StrPath | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    command: str | None = None,
    agents: Collection[str] | None = None,
) -> Machine:
    """All homes of the user on this machine, of any agent; with `agents`, only those of the agents
    with these names.

    Homes are searched at their usual places below `user_home`, by default your home directory, and
    at the places in the variables in `environ`, such as CODEX_HOME and HOLDFAST_HOME; by default
    the environment of this process. Variables that outrank config.toml, such as
    `HOLDFAST_SESSIONS_RETENTION_DAYS`, count only if you pass `environ`. `clock` and `command` are
    as in `holdfast.open`.
    """
    warn_of_unknown(environ)
    return Machine(
        named_place("~" if user_home is None else user_home),
        environ=os.environ if environ is None else environ,  # noqa: TID251 - the edge
        overrides=environ,
        clock=clock,
        command=command,
        agents=agents,
    )


def _added(growths: Sequence[Growth]) -> Growth:
    from holdfast.policy.growth import together  # noqa: PLC0415 - a list does without it

    return together(growths)
