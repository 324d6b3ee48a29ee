"""One object per home: everything that can be read from it or done to it is a method here.

Opening, looking and planning change nothing. Methods that change something are in the log, and
the reports of those that remove, archive or restore files can be undone. What was undone can be
done again. Bringing archived sessions back is not undone: it takes nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from holdfast.api.archive import ArchivedSessions, RestorePlan
from holdfast.api.arguments import Ids
from holdfast.api.capture import directory
from holdfast.api.checkpoints import Checkpoints
from holdfast.api.edits import SessionEdits
from holdfast.api.exchange import SessionExchange
from holdfast.api.place import Place, find_home, open_place, warn_of_unknown
from holdfast.api.plan import HomePlan, HomeReport, load_plan
from holdfast.api.retention import SessionRetention
from holdfast.api.sessions import AgentSessions, sessions_of
from holdfast.api.trash import Trash
from holdfast.api.undo import OperationUndo
from holdfast.api.vault import SessionVault
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, UsageError, in_voice
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.homes.kind import KIND
from holdfast.homes.maintenance import maintain_opened
from holdfast.homes.permissions import closed
from holdfast.homes.registry import kind_of
from holdfast.model.alarm import Alarm
from holdfast.model.argument_checks import called, checked, made_by
from holdfast.model.arguments import StrPath
from holdfast.model.checkpoint import Imported
from holdfast.model.checkup import Finding, HookReport, Repair
from holdfast.model.durations import Duration, seconds
from holdfast.model.figures import Growth, HomeFigures
from holdfast.model.guard import Alert
from holdfast.model.item import Inventory
from holdfast.model.maintenance import MaintenanceResult
from holdfast.model.session import SessionFilter
from holdfast.model.usage import CostTotals
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.growth import growth
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Prices
from holdfast.ports.runs import Clock, Progress
from holdfast.services.doctor import Diagnosis, examine, mend, neglected
from holdfast.services.figures import look
from holdfast.services.maintain import failed
from holdfast.services.maintenance_steps import StepPlan, preview
from holdfast.services.stats import HomeStats, stats, usage
from holdfast.services.status import HomeStatus, status
from holdfast.spine.carry_out import Silent
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.files import storage_errors
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.connect.settings_entries import Setup


@made_by("`holdfast.open(path)`")
@called("home")
@checked
class Home(SessionRetention, SessionExchange, SessionEdits, SessionVault, OperationUndo):
    """The home of an agent. `holdfast.open` opens one; use it with `with`, or `close` it."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._sessions: list[AgentSessions] = []
        self._usual: AgentSessions | None = None

    def __enter__(self) -> Self:
        self._place.need_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"holdfast.open({str(self.path)!r})"

    def close(self) -> None:
        """Close what this home opened, including its sessions. Everything that was done is on
        disk. From then on methods raise `ClosedError`; closing twice does no harm."""
        while self._sessions:
            self._sessions.pop().close()
        self._usual = None
        self._place.close()

    # --- What it is -------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._place.root

    @property
    def kind(self) -> str:
        """The name of the agent whose home it is: "holdfast", "hermes"."""
        return self._place.home.kind

    @property
    def version(self) -> str | None:
        """The release of the other agent that wrote its state, if known."""
        return self._place.home.version

    @property
    def settings(self) -> Settings:
        """The settings in config.toml, with defaults for the rest."""
        return self._place.settings

    @property
    def config_file(self) -> Path:
        """Where the configuration is, or would be."""
        return self._place.config_file

    # --- Its parts --------------------------------------------------------------------------------

    @property
    def sessions(self) -> AgentSessions:
        """The sessions: create, append, find, get, messages, search and the rest.

        In Holdfast's own home the store is created if it does not exist. The sessions of another
        agent can be read; what changed there is seen by the next `home.sessions`. They are closed
        with the home; `with home.sessions` closes them earlier, and the next `home.sessions` opens
        them again.
        """
        if self._usual is None or self._usual.is_closed:
            self._usual = self.open_sessions()
        else:
            self._usual.refresh()
        return self._usual

    def open_sessions(
        self,
        *,
        options: SessionOptions | None = None,
        on_alert: Callable[[Alert], None] | None = None,
        guards: GuardOptions | None = None,
        prices: Prices | None = None,
    ) -> AgentSessions:
        """Open the sessions with the host's options instead of those in config.toml. `on_alert` is
        called for sessions near their limits and budgets."""
        self._sessions = [each for each in self._sessions if not each.is_closed]
        opened = sessions_of(
            self._place, options=options, on_alert=on_alert, guards=guards, prices=prices
        )
        self._sessions.append(opened)
        return opened

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints: take, list, diff, restore, prune and the rest."""
        return Checkpoints(self._place)

    @cached_property
    def archive(self) -> ArchivedSessions:
        """The archived sessions: find, get, messages, search, restore, prune."""
        return ArchivedSessions(self._place)

    @cached_property
    def trash(self) -> Trash:
        """What undo can still bring back: list, empty."""
        return Trash(self._place)

    # --- Seeing -----------------------------------------------------------------------------------

    def scan(self, wanted: SessionFilter | None = None) -> Inventory:
        """Everything in the home, with sizes and signs of use; or only the wanted sessions."""
        return self._place.home.scan(self._place.clock(), wanted=wanted)

    def status(self, *, progress: Progress | None = None) -> HomeStatus:
        """What is here, what it costs, and what the policy would free."""
        place = self._place
        with one_look():
            return status(place.home, self.settings, now=place.clock(), progress=progress)

    def alarms(self) -> Sequence[Alarm]:
        """What grew too fast here while `maintain --watch` ran: first what still grows, then the
        latest."""
        return AlarmFile(self._place.state).read(self._place.clock())

    def written_to(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The folders that the agent writes to, and the names of its programs."""
        home = self._place.home
        return tuple(map(str, home.written_to)), tuple(home.programs)

    def stats(self, *, progress: Progress | None = None) -> HomeStats:
        """The totals of the sessions and their files, without reading single sessions."""
        return stats(self._place.home, self.settings, now=self._place.clock(), progress=progress)

    def record_figures(self, *, progress: Progress | None = None) -> HomeFigures:
        """Measure the home and record the figures for its growth, as maintenance does."""
        place = self._place
        with one_look():
            seen = look(place.home, self.settings.policy(), now=place.clock(), progress=progress)
        place.home.figures.add(seen)
        return seen

    def figures(self) -> Sequence[HomeFigures]:
        """The recorded figures, the oldest first. Reads one small file, and no session."""
        return self._place.home.figures.read()

    def growth(self) -> Growth:
        """How the home grew in the last weeks, by the recorded figures."""
        return growth(self.figures(), self._place.clock())

    def costs(self) -> CostTotals:
        """Tokens and cost by day, source and model; sessions that were removed count too."""
        return usage(self.session_store, self.settings.prices())

    def doctor(self, *, hooks: bool | Setup = False, progress: Progress | None = None) -> Diagnosis:
        """Check the home: configuration, store, log, trash, archive, permissions.

        With `hooks` it tries the hook of each agent that is connected to the home, for the user
        and in the current directory: it runs the command that the agent starts, on a temporary
        project and home. Pass a `Machine.hook_setup` for another user or project.
        """
        findings: tuple[Finding, ...]
        shown = progress or Silent()
        if (shut := closed(self.path)) is not None:
            findings = (shut,)
        else:
            home, settings = self._place.to_examine()
            found = examine(home, progress=shown)
            findings = (settings, *found.findings, *neglected(home, self._place.clock()))
        tried: tuple[HookReport, ...] = ()
        if hooks is not False:
            shown.step("trying the hooks", 0, None)
            tried, more = self._tried(hooks)
            findings = (*findings, *more)
        return Diagnosis(
            findings=tuple(replace(each, advice=in_voice(each.advice)) for each in findings),
            hooks=tried,
        )

    def _tried(self, hooks: bool | Setup) -> tuple[tuple[HookReport, ...], Sequence[Finding]]:
        from holdfast.api.hook_check import check_hooks  # noqa: PLC0415 - it runs programs
        from holdfast.api.machine import machine  # noqa: PLC0415 - as above

        setup = machine().hook_setup(home=self.path) if isinstance(hooks, bool) else hooks
        return check_hooks(setup, self._place.clock)

    def repair(self, found: Diagnosis | None = None, *, progress: Progress | None = None) -> Repair:
        """Repair the repairable findings of `doctor`, after a backup."""
        shown = progress or Silent()
        diagnosis = self.doctor(progress=shown) if found is None else found
        return mend(self._place.to_examine()[0], diagnosis, clock=self._place.clock, progress=shown)

    # --- Archived sessions and saved plans --------------------------------------------------------

    def plan_restore_sessions(
        self, ids: Ids | None = None, *, maps: Mapping[str, StrPath] = MappingProxyType({})
    ) -> RestorePlan:
        """Which archived sessions would be restored: these, or all of them; with `maps`, under
        other paths, as in `archive.plan_restore`."""
        return self.archive.plan_restore(ids, maps=maps)

    def restore_sessions(
        self, ids: Ids, *, maps: Mapping[str, StrPath] = MappingProxyType({})
    ) -> HomeReport:
        """Bring archived sessions back into the store, whole, with their files. That removes
        nothing, so it cannot be undone; `archive_sessions` archives them again."""
        return self.archive.restore(ids, maps=maps)

    def load_plan(self, path: StrPath) -> HomePlan:
        """A plan that `save` wrote. It works only on the home that it was made for."""
        return load_plan(self._place, path)

    # --- Carrying checkpoints ---------------------------------------------------------------------

    def import_checkpoints(
        self,
        source: StrPath = "hermes",
        *,
        path: StrPath | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Sequence[Imported]:
        """Import the checkpoints that another agent took, with their times and reasons.

        `source` is that agent's home, or its name; `path` restricts it to one directory. Nothing in
        the other home is changed. Checkpoints that were imported before are skipped, so this can
        be repeated.
        """
        self._place.need_open()
        workdir = None if path is None else directory(path)
        root = find_home(source)
        with storage_errors(f"read {root}"):
            kind = kind_of(root) if root.is_dir() else None
        if kind is None or kind.import_checkpoints is None:
            raise UsageError(
                f"There is no home of another agent with checkpoints at {root}.",
                hint="Name that home: `holdfast checkpoints import PATH`.",
            )
        mine = kind_of(self.path) if self.path.is_dir() else None
        if mine is not None and mine.name != KIND:
            raise UsageError(
                f"{self.path} is a home of {mine.agent}; checkpoints are imported into one of"
                " Holdfast's own.",
                hint="Open a Holdfast home, and import into that.",
            )
        return kind.import_checkpoints(
            root.resolve(),
            self.checkpoints.own_store(create=not dry_run),
            workdir=workdir,
            now=self._place.clock(),
            dry_run=dry_run,
            progress=progress or Silent(),
        )

    # --- Maintenance ------------------------------------------------------------------------------

    def maintain(
        self,
        *,
        force: bool = False,
        early: Duration | None = None,
        progress: Progress | None = None,
    ) -> MaintenanceResult:
        """Run maintenance if it is due; `force` runs it anyway, `early` if it is due within
        that time.

        config.toml decides what it does. It never raises: errors are in the result.
        """
        clock = self._place.clock
        try:
            home, settings = self._place.home, self.settings
        except HoldfastError as error:
            return failed(str(self.path), clock(), clock, error)
        return maintain_opened(
            home,
            settings,
            clock=clock,
            force=force,
            early=0.0 if early is None else seconds(early, "early"),
            progress=progress,
        )

    def plan_maintain(self, *, progress: Progress | None = None) -> Sequence[StepPlan]:
        """What maintenance would do now, step by step."""
        return preview(self._place.home, self.settings, now=self._place.clock(), progress=progress)


@checked
def open(  # noqa: A001 - `holdfast.open`, as people will type it
    path: StrPath,
    *,
    create: bool = False,
    clock: Clock | None = None,
    command: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Home:
    """Open the home of an agent.

    `path` is a folder, as str or Path, with `~` for your home directory; or the name of an agent
    ("holdfast", "hermes") for its usual place. Raises `NotAHomeError` when there is no home; with
    `create` a Holdfast home is made. Its config.toml is checked, and `ConfigError` lists every line
    that is wrong.

    `clock` returns the time in epoch seconds. `command` is the text of your operations in the log;
    by default, the name of the method. `environ` has variables that outrank config.toml, such as
    `HOLDFAST_SESSIONS_RETENTION_DAYS`, and those that say where the home of an agent is, such as
    CODEX_HOME; by default no variable outranks config.toml, and the environment of this process
    says where homes are.
    """
    warn_of_unknown(environ)
    return Home(open_place(path, create=create, clock=clock, command=command, environ=environ))
