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
    in projects in which agents of the machine worked, and which are not among its homes yet: the
    configuration can list them. `growth` is that of all homes together."""

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
    """Sessions of all homes in the order that was asked for; `total` counts all that match."""

    found: Sequence[FoundSession]
    total: int
    looked: Looked[SessionPage]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSearch:
    """What a search in all homes found, the best matches first; and how it went in each home."""

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
        """Where homes may be: the usual places, and those that environment variables name."""
        if self._only is not None:
            return (self._only,)
        return usual_homes(self._user_home, self._environ)

    @property
    def homes(self) -> Sequence[AgentHome]:
        """The homes that are there, found once."""
        return self._found[0]

    def look_for_homes(self) -> None:
        """Search for homes again at the next use: the first session of an agent makes its home."""
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
        """Where a home is, opened; raises `ConfigError` when its configuration is wrong."""
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
        """All homes, or those that are named."""
        if homes is None:
            return self.homes
        return [named_home(self.homes, each) for each in several(homes)]

    # --- The machine itself -----------------------------------------------------------------------

    def own_place(self) -> Place | None:
        """Holdfast's own home, whose configuration applies to the machine; None when there is none.
        If the machine has only one home and that is Holdfast's, it is that one."""
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
        """Read once, so that an error in it is logged once; None in that case."""
        from holdfast.config.reader import load  # noqa: PLC0415 - as in `Place.settings`

        try:
            own = self.own_place()
            path = None if own is None else own.config_file
            return load(path, self._overrides or {}).guardian
        except HoldfastError as error:
            import logging  # noqa: PLC0415 - a list of sessions loads as little as it can

            message = f"what holds for the machine is not known: {error.message}"
            logging.getLogger("holdfast").log(logging.ERROR, message)
            return None

    @property
    def is_whole(self) -> bool:
        """Whether this is all homes, and not those of some agents or a single one."""
        return self._agents is None and self._only is None

    @property
    def clock(self) -> Clock:
        return self._clock or system_clock

    def set_aside(self) -> Sequence[Path]:
        """Set `reserve_mb` aside on the disk of each home, for when it is full. Returns the folders
        in which that was done now."""
        from holdfast.stores.disk_reserve import set_aside  # noqa: PLC0415 - no list needs it

        if self._guardian is None:
            return ()  # the configuration is unknown: keep what is set aside
        found = [state for home in self.homes if (state := own_folder(home)) is not None]
        return set_aside(found, self.guardian.reserve_bytes)

    def plan_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """What would go so that all homes together fit the budget, `max_total_size_mb` in
        [guardian]. Without one, nothing."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).plan()

    def keep_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """Make room so that all homes together fit the budget. What goes is in the log of its home;
        what went to the trash comes back with `undo`."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).keep()

    def disks(self, homes: HomeRef | Iterable[HomeRef] | None = None) -> Sequence[Disk]:
        """The disks that the homes are on, or these, and what is free there, the least first."""
        return disks_of(self._chosen(homes))

    def alarms(self) -> Sequence[Alarm]:
        """What grew too fast in any home while `maintain --watch` ran: what still does first, then
        the latest. Reads a small file of each home."""
        looked = self._ask(lambda home: home.alarms())
        found = [alarm for _, alarms in looked.seen for alarm in alarms]
        return sorted(found, key=lambda each: (not each.active, -each.last_at))

    def to_undo(self) -> RunAcrossHomes:
        """What one run did in several homes, to undo it in each: the latest run, or else the latest
        operation of each home. What agents did on their own is not in it."""
        from holdfast.api.undo_across_homes import to_undo  # noqa: PLC0415 - no list needs it

        return to_undo(self)

    def to_redo(self) -> RunAcrossHomes:
        """The same for redo: what the latest undo over several homes took back."""
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
        """The homes in the order in which such plans fit on the disk: when one is nearly full, the
        log of a home that frees little must not take the last room from one that frees much."""
        return in_order_of_room(self.homes, plan)

    def logs(self) -> Looked[LogView]:
        """The log of each home."""
        from holdfast.api.trash import Log  # noqa: PLC0415 - as above

        return self.look(lambda place: Log(place).read())

    def operations_of_run(self, run: str) -> Sequence[OperationOfRun]:
        """What one run did in each home, by the name that the operations have in common."""
        from holdfast.api.plans_across_homes import operations_of_run  # noqa: PLC0415 - as above

        return operations_of_run(self, run)

    def plan_run(self, run: str, verb: str) -> MachinePlan[UndoOrRedo]:
        """Plan the "undo", or the "redo", of everything that one run did in several homes. What
        cannot be undone or redone is left out."""
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
        that cannot have one."""
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
        """Look at each home, and keep the figures for its growth, as maintenance does."""
        return self._ask(lambda home: home.record_figures(progress=progress))

    def growth(self) -> MachineGrowth:
        """How the homes grew in the last weeks, by the figures that were kept. Looks at no
        session."""
        looked = self._ask(lambda home: home.growth())
        added = _added([each for _, each in looked.seen])
        return MachineGrowth(seen=looked.seen, together=added, unread=looked.unread)

    def overview(self, *, progress: Progress | None = None) -> MachineOverview:
        """A summary of `status`, with sessions that are in use and the latest operations."""
        from holdfast.api.overview import overview  # noqa: PLC0415 - a list needs none of it

        status = self.status(progress=progress)
        return overview(self, status, now=(self._clock or system_clock)())

    def last_overview(self) -> MachineOverview | None:
        """The overview as it was recorded last; None before the first. Reads no session."""
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
        """What to write into the settings of an agent so that Holdfast takes a checkpoint before
        each tool that may change files, and so that budgets hold: "claude-code", "codex", "gemini"
        or "opencode". `scope` is "user", or "project" for the one in `project`, by default the
        current directory.

        Checkpoints and budgets are kept in `home`, by default Holdfast's own. `apply` makes that
        home when there is none; undoing its report takes the entries out again.
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
        """What to take out of the settings of an agent again. A file that nobody changed since it
        was connected becomes exactly what it was before."""
        from holdfast.api.connect import disconnecting, setup_of  # noqa: PLC0415 - as above

        place, where = self._own_home(home), self.hook_setup(project=project, home=home)
        return disconnecting(place, setup_of(place, agent, scope, where))

    def connections(
        self, *, project: StrPath | None = None, home: StrPath | None = None
    ) -> Sequence[Connection]:
        """Which agents are connected, for the user and in `project`, and what is wrong with it."""
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
        """Where the settings of agents are, and which home their hooks keep checkpoints in."""
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
        """The home that was named, by default Holdfast's own; it need not be there yet."""
        if home is None:
            root = usual_places_of(self._user_home, self._environ)[OWN.name]
        else:
            root = find_home(home, self._environ)
        if root not in self._places:
            self._places[root] = Place(
                root, clock=self._clock, command=self._command, environ=self._overrides
            )
        return self._places[root]

    def plan_schedule(
        self, scheduler: str, *, home: StrPath | None = None, program: Sequence[str] | None = None
    ) -> Schedule:
        """What to write so that the system runs maintenance: "systemd" and "launchd" keep the watch
        over all homes running, and "cron" runs maintenance of all homes once a day. With `home`,
        a folder or the name of an agent, each of them maintains that home once a day.

        Nothing is written before `install`; `uninstall` takes it away again. `program` are the
        words that start Holdfast, by default with the Python that runs now.
        """
        from holdfast.api.schedulers import schedule_of  # noqa: PLC0415 - no list needs it

        root = None
        if home is not None:
            place = Place(find_home(home, self._environ), environ=self._overrides).checked()
            root = place.home.root  # with a configuration that is wrong, it would never run
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
        """One page of the sessions of all homes, or only of `homes`, or of those in their archives:
        `list_sessions(source="cli", homes="codex")`. Filters are those of `home.sessions.find`.
        With `by_agent` those of each agent are grouped, the agents from A to Z."""
        wanted = filtered(wanted, filters, self.clock)
        order = SessionOrder.of(order_by)
        # Of one home the store itself skips what comes before the page.
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
        """The session that an id, or a unique start of one, means: in whichever home it is.

        A whole id counts more than a start. Raises `UsageError` that lists agents and ids when
        several sessions are meant, and `UnknownSessionError` when none is. `store` and `archive`
        say where to look; what is only in an archive is found when no store has it.

        With `surely` the start of an id is refused while a home cannot be read, because that home
        may have another session with such an id. For callers that change something.
        """
        return locate(self, prefix, surely=surely, store=store, archive=archive)

    def expect(self, prefix: str, place: Place) -> None:
        """Raise what `resolve` does for a session that no home has, no archive, and not the home at
        `place` either, which need not be one of ours."""
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
        """Whole ids by the home that has them; raises like `resolve`."""
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
        """Write sessions of all homes into one file, as `Home.export` does; home after home."""
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
    """All homes of this machine that belong to the user, of whichever agent; with `agents`, only
    those of the agents with these names.

    They are found at their usual places below `user_home`, by default your home directory, and
    where the variables in `environ` say, such as CODEX_HOME and HOLDFAST_HOME; by default the
    environment of this process. Variables that outrank config.toml, such as
    `HOLDFAST_SESSIONS_RETENTION_DAYS`, count only when you pass `environ`. `clock` and `command`
    are as in `holdfast.open`.
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
