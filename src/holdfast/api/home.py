"""One object a home: everything that can be seen of it and done to it is a method here.

Opening, looking and planning change nothing. Methods that change something are in the log, and
their reports can be undone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from holdfast.api.archive import ArchivedSessions, Log, RestorePlan, Trash
from holdfast.api.arguments import (
    Duration,
    Ids,
    Moment,
    Size,
    amount,
    count,
    file_path,
    names,
    own_caps,
    own_rules,
    seconds,
    wanted_sessions,
)
from holdfast.api.capture import directory
from holdfast.api.checkpoints import Checkpoints
from holdfast.api.place import Place, find_home, open_place, with_codec
from holdfast.api.plan import HomePlan, HomeReport, applied, load_plan, undo, unknown_sources
from holdfast.api.sessions import AgentSessions, sessions_of
from holdfast.config.settings import Settings
from holdfast.errors import UsageError
from holdfast.homes.maintenance import maintain_opened
from holdfast.homes.registry import kind_of
from holdfast.homes.signs import KIND
from holdfast.model.arguments import StrPath, instance, text
from holdfast.model.checkpoint import Imported
from holdfast.model.checkup import Repair
from holdfast.model.guard import Alert
from holdfast.model.item import Inventory
from holdfast.model.maintenance import MaintenanceResult
from holdfast.model.operation import Operation, Removal
from holdfast.model.session import Session, SessionFilter
from holdfast.model.usage import CostTotals
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Prices, costs
from holdfast.policy.rules import DAY, HOUR, Files, Policy
from holdfast.policy.selection import Selection
from holdfast.ports import Clock, Progress, SessionStore
from holdfast.services.doctor import CheckedHome, Diagnosis, examine, mend
from holdfast.services.endings import end_by_hand
from holdfast.services.exchange.markdown import export_markdown
from holdfast.services.exchange.redactor import Redactor
from holdfast.services.exchange.session_export import ExportReport, export_sessions
from holdfast.services.exchange.session_import import ImportReport, import_sessions
from holdfast.services.exchange.session_line import session_line
from holdfast.services.plans import plan_archive, plan_delete, plan_home_gc, plan_prune
from holdfast.services.restore import Whereabouts, resolved, whereabouts
from holdfast.services.stats import HomeStats, stats
from holdfast.services.status import HomeStatus, status
from holdfast.services.upkeep import StepPlan, preview
from holdfast.spine import undo as undoing
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import Foreseen
from holdfast.stores.files import PRIVATE_FILE, open_regular, storage_errors
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.value import dataclass
from holdfast.value import replace as changed_copy

_FORMS = {"jsonl": session_line, "markdown": export_markdown}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UndoPlan:
    """What undoing an operation would bring back. `foreseen` says what it would do to the files of
    projects, by the key of each removal."""

    place: Place
    operation: Operation
    removals: Sequence[Removal]
    foreseen: Mapping[str, Foreseen]

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Undo exactly this operation."""
        return undo(self.place, self.operation.id, progress=progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionImport:
    """What an import stored. Sessions that it replaced are in the archive, at `kept_in`;
    `operation` put them there."""

    report: ImportReport
    kept_in: str | None = None
    operation: str | None = None


class Home:
    """The home of an agent. `holdfast.open` opens one; use it with `with`, or `close` it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sessions: list[AgentSessions] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"holdfast.open({str(self.path)!r})"

    def close(self) -> None:
        """Close what this home opened, its sessions among it. What was done is on the disk."""
        while self._sessions:
            self._sessions.pop().close()
        self.__dict__.pop("sessions", None)
        self._place.close()

    # --- What it is -------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._place.root

    @property
    def kind(self) -> str:
        """Whose home it is: "holdfast", "hermes"."""
        return self._place.home.kind

    @property
    def version(self) -> str | None:
        """The release of another agent that its state is from, as far as that can be told."""
        return self._place.home.version

    @property
    def settings(self) -> Settings:
        """What config.toml says, with defaults for the rest."""
        return self._place.settings

    @property
    def config_file(self) -> Path:
        """Where the configuration is, or would be."""
        return self._place.config_file

    # --- Its parts --------------------------------------------------------------------------------

    @cached_property
    def sessions(self) -> AgentSessions:
        """The sessions: create, append, find, get, messages, search and the rest.

        In Holdfast's own home the store is made when there is none. The sessions of another agent
        can be read. Closed with the home.
        """
        return self.open_sessions()

    def open_sessions(
        self,
        *,
        options: SessionOptions | None = None,
        on_alert: Callable[[Alert], None] | None = None,
        guards: GuardOptions | None = None,
        prices: Prices | None = None,
    ) -> AgentSessions:
        """The sessions with options of the host, in place of what config.toml says. `on_alert`
        hears of sessions near their limits and budgets."""
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

    @cached_property
    def log(self) -> Log:
        """What was done here: read, list, get."""
        return Log(self._place)

    @property
    def session_store(self) -> SessionStore | None:
        """The store to read from, for tools; None when the home has none. Creates nothing."""
        return self._place.home.session_store()

    # --- Seeing -----------------------------------------------------------------------------------

    def scan(self, wanted: SessionFilter | None = None) -> Inventory:
        """Everything in the home, with sizes and signs of life; or only the wanted sessions."""
        return self._place.home.scan(self._place.clock(), wanted=wanted)

    def status(self, *, progress: Progress | None = None) -> HomeStatus:
        """What is here, what it costs, and what the policy would free."""
        settings = self.settings
        return status(
            self._place.home,
            settings.policy(),
            now=self._place.clock(),
            limits=settings.session_options().limits,
            guard=settings.guard_options(),
            prices=settings.prices(),
            progress=progress,
        )

    def stats(self, *, progress: Progress | None = None) -> HomeStats:
        """What the sessions and their files add up to. Looks at no session one by one."""
        settings = self.settings
        return stats(
            self._place.home,
            settings.policy(),
            settings.gc_rules(),
            prices=settings.prices(),
            now=self._place.clock(),
            progress=progress,
        )

    def costs(self) -> CostTotals:
        """Tokens and cost by day, source and model; sessions that were removed count too."""
        store = self.session_store
        return costs(store.usage_entries() if store else (), self.settings.prices())

    def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Look the home over: configuration, store, log, trash, archive, permissions."""
        home, settings = self._place.to_examine()
        if not isinstance(home, CheckedHome):
            raise UsageError(f"A home of kind {home.kind} cannot be checked yet.")
        found = examine(home, progress=progress or Silent())
        return Diagnosis(findings=(settings, *found.findings))

    def repair(self, found: Diagnosis | None = None, *, progress: Progress | None = None) -> Repair:
        """Mend what `doctor` found and can be mended, after a backup."""
        shown = progress or Silent()
        diagnosis = self.doctor(progress=shown) if found is None else found
        return mend(self._place.to_examine()[0], diagnosis, clock=self._place.clock, progress=shown)

    def whereabouts(self, prefix: str) -> Whereabouts | None:
        """Where a session is that is no longer in the store: in the archive, or in the trash."""
        [name] = names(prefix, "A session id")
        return whereabouts(self._place.home, name)

    def resolve(self, prefix: str | Session) -> str:
        """The whole id of a session in the store, from the start of it.

        Raises `UnknownSessionError`. For one in the archive or in the trash it says so, and how it
        comes back.
        """
        name = text(prefix.id if isinstance(prefix, Session) else prefix, "A session id")
        return resolved(self._place.home, self.need_store(), name)

    def need_store(self) -> SessionStore:
        """The store to read from; raises `UsageError` when the home has none."""
        store = self.session_store
        if store is None:
            raise UsageError(
                f"{self.path} has no session store yet.",
                hint="An agent that embeds Holdfast makes one, or `holdfast sessions import`.",
            )
        return store

    # --- Removing sessions ------------------------------------------------------------------------

    def plan_prune(  # noqa: PLR0913 - all are optional, and named
        self,
        *,
        older_than: Moment | None = None,
        keep_last: int | None = None,
        keep_within: Duration | None = None,
        keep_hourly: int | None = None,
        keep_daily: int | None = None,
        keep_weekly: int | None = None,
        keep_monthly: int | None = None,
        keep_yearly: int | None = None,
        max_total_size: Size | None = None,
        max_count: int | None = None,
        source: str | Iterable[str] | None = None,
        wanted: SessionFilter | None = None,
        kinds: Collection[str] | None = None,
        files: str = Files.WITH,
        use_trash: bool = True,
        progress: Progress | None = None,
    ) -> HomePlan:
        """What the policy does not keep, of the wanted sessions and their files.

        Without a rule the policy of config.toml holds. `older_than` and any `keep_…` replace its
        rules for this plan, `max_total_size` and `max_count` its caps. `files` is "with" their
        sessions, "only" the files, or "none" of them. What has not ended, is held by a process, or
        is pinned always stays.
        """
        rules = own_rules(
            self._place.clock(),
            older_than=older_than,
            keep_within=keep_within,
            keep_last=keep_last,
            keep_hourly=keep_hourly,
            keep_daily=keep_daily,
            keep_weekly=keep_weekly,
            keep_monthly=keep_monthly,
            keep_yearly=keep_yearly,
        )
        caps = own_caps(max_total_size, max_count)
        policy = self.settings.policy(use_trash=use_trash).with_own(rules, caps)
        return self.plan_policy(
            policy,
            wanted=wanted_sessions(wanted, source),
            kinds=kinds,
            files=files,
            progress=progress,
        )

    def plan_policy(
        self,
        policy: Policy,
        *,
        wanted: SessionFilter | None = None,
        kinds: Collection[str] | None = None,
        files: str = Files.WITH,
        progress: Progress | None = None,
    ) -> HomePlan:
        """The plan for a policy of the caller's own making."""
        chosen = wanted_sessions(wanted, None)
        policy = changed_copy(
            instance(policy, Policy, "A policy"), agent_archived=chosen.agent_archived is True
        )
        plan, inventory = plan_prune(
            self._place.home,
            policy,
            now=self._place.clock(),
            command=self._place.command("prune"),
            selection=Selection(kinds=frozenset(kinds) if kinds else None, sessions=chosen),
            files=_files(files),
            progress=progress,
        )
        return HomePlan(
            place=self._place,
            home=self._place.home,
            plan=plan,
            problems=inventory.problems,
            unknown_sources=unknown_sources(self._place.home, chosen, inventory),
        )

    def plan_gc(
        self,
        *,
        empty_hours: float | None = None,
        trivial_days: float | None = None,
        trivial_max: int | None = None,
        keep_titled: bool | None = None,
        source: str | Iterable[str] | None = None,
        wanted: SessionFilter | None = None,
        use_trash: bool = True,
        progress: Progress | None = None,
    ) -> HomePlan:
        """Sessions in which nothing was said, or hardly anything. 0 turns a rule off; where you say
        nothing, config.toml holds."""
        chosen = wanted_sessions(wanted, source)
        changed = {
            "empty_after": None
            if empty_hours is None
            else amount(empty_hours, "empty_hours") * HOUR,
            "trivial_after": (
                None if trivial_days is None else amount(trivial_days, "trivial_days") * DAY
            ),
            "trivial_max": (
                None if trivial_max is None else count(trivial_max, "trivial_max", least=0)
            ),
            "keep_titled": keep_titled,
        }
        rules: dict[str, Any] = {name: each for name, each in changed.items() if each is not None}
        plan, inventory = plan_home_gc(
            self._place.home,
            changed_copy(self.settings.gc_rules(), **rules),
            self.settings.policy(use_trash=use_trash),
            now=self._place.clock(),
            command=self._place.command("gc"),
            wanted=chosen,
            progress=progress,
        )
        return HomePlan(
            place=self._place,
            home=self._place.home,
            plan=plan,
            problems=inventory.problems,
            unknown_sources=unknown_sources(self._place.home, chosen, inventory),
        )

    def plan_delete(self, ids: Ids, *, use_trash: bool = True) -> HomePlan:
        """These sessions with their files, by id or by the start of one if no other begins so.

        A session that a process holds stays, and so does one without an end unless its process is
        provably gone; the plan says which and why. A pin does not protect what is named. Without
        the trash, everything that the store, the archive and the trash have of them goes.
        """
        plan = plan_delete(
            self._place.home,
            names(ids, "ids"),
            now=self._place.clock(),
            command=self._place.command("delete"),
            undoable=use_trash,
            trivial_max=self.settings.sessions.trivial_max,
        )
        return HomePlan(place=self._place, home=self._place.home, plan=plan)

    def plan_archive(
        self,
        ids: Ids | None = None,
        *,
        wanted: SessionFilter | None = None,
        codec: str | None = None,
        progress: Progress | None = None,
    ) -> HomePlan:
        """Move ended sessions with their files into the archive: by id, or those a filter picks.

        Pinned ones stay unless they are named. `codec` is "zstd" or "gzip", for this plan only.
        """
        if (ids is None) == (wanted is None):
            raise UsageError("Say which sessions to archive: `ids`, or `wanted`.")
        home = self._place.home if codec is None else self._place.another(with_codec(_codec(codec)))
        self.need_store()
        plan, inventory = plan_archive(
            home,
            home.archive,
            ids=[] if ids is None else [self.resolve(each) for each in names(ids, "ids")],
            wanted=None if wanted is None else wanted_sessions(wanted, None),
            policy=self.settings.policy(),
            now=self._place.clock(),
            command=self._place.command("archive_sessions"),
            progress=progress,
        )
        return HomePlan(place=self._place, home=home, plan=plan, problems=inventory.problems)

    prune = applied(plan_prune)
    gc = applied(plan_gc)
    delete = applied(plan_delete)
    archive_sessions = applied(plan_archive)

    def plan_restore_sessions(self, ids: Ids | None = None) -> RestorePlan:
        """Which archived sessions would come back: these, or all of them."""
        return self.archive.plan_restore(ids)

    def restore_sessions(self, ids: Ids) -> HomeReport:
        """Bring archived sessions back into the store, whole, with their files."""
        return self.archive.restore(ids)

    def end_session(self, session: str | Session, reason: str = "ended") -> Session:
        """Give a session its end when its agent never will. One that a process holds is left."""
        home, at = self._place.home, self._place.clock()
        return end_by_hand(home, self.resolve(session), reason, at=at)

    # --- Undoing ----------------------------------------------------------------------------------

    def load_plan(self, path: StrPath) -> HomePlan:
        """A plan that `save` wrote. It works only on the home that it was made for."""
        return load_plan(self._place, path)

    def plan_undo(self, operation: str | None = None) -> UndoPlan:
        """What undoing an operation would bring back: by default, the latest one that somebody
        asked for. What agents did on their own is passed over."""
        target, removals = undoing.preview(self._place.home, operation)
        foreseen = undoing.foresee(self._place.home, removals)
        return UndoPlan(place=self._place, operation=target, removals=removals, foreseen=foreseen)

    def undo(
        self, operation: str | Operation | None, *, progress: Progress | None = None
    ) -> HomeReport:
        """Take one operation back, by its number: `home.undo(report.operation)`.

        The operation of a run that did nothing is None: then nothing is done, and the report says
        so. What somebody else did meanwhile is not touched.
        """
        number = operation.id if isinstance(operation, Operation) else operation
        if number is not None and not isinstance(number, str):
            raise UsageError(f"An operation is its number as text, not {number!r}.")
        return undo(self._place, number, progress=progress)

    def undo_latest(self, *, progress: Progress | None = None) -> HomeReport:
        """Take back the latest operation of the home, whoever asked for it; `report.undone` says
        which one that was. What agents did on their own is passed over."""
        place = self._place
        target, report = undoing.undo_latest(place.home, clock=place.clock, progress=progress)
        return HomeReport(place=place, report=report, undone=target)

    # --- Carrying sessions ------------------------------------------------------------------------

    def export(
        self,
        output: StrPath | BinaryIO,
        ids: Ids | None = None,
        *,
        wanted: SessionFilter | None = None,
        form: str = "jsonl",
        redact: bool = False,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Write sessions out: those with these ids, those that a filter picks, or all.

        `output` is a path, which gets a whole export or none, or a binary file. `form` is "jsonl",
        which can be imported again, or "markdown". `redact` replaces secrets by a note.
        """
        if form not in _FORMS:
            raise UsageError(f'form must be "jsonl" or "markdown", not {form!r}.')
        self.need_store()
        chosen = wanted_sessions(wanted, None)
        if ids is not None:
            named = tuple(self.resolve(each) for each in names(ids, "ids"))
            chosen = changed_copy(chosen, ids=named)
        with _sink(output) as sink:
            report = export_sessions(
                self.need_store(),
                chosen,
                sink.file,
                form=_FORMS[form],
                redactor=Redactor() if redact else None,
                progress=progress,
            )
            sink.whole = not report.stopped
        return report

    def import_(
        self,
        source: StrPath | BinaryIO,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> SessionImport:
        """Store the sessions of a JSONL file, one a line, as `export` writes them.

        Each is stored whole or not at all. An id that exists is skipped, or with `replace` the old
        session goes into the archive first.
        """
        place = self._place
        with import_source(source) as stream, contextlib.ExitStack() as stack:
            home = place.own()
            store = home.create_session_store()
            kept = stack.enter_context(home.replacing(place.command("import"))) if replace else None
            report = import_sessions(
                SqliteImport(store, None if kept is None else kept.keep),
                stream,
                replace=replace,
                now=place.clock(),
                progress=progress,
            )
        if kept is None or kept.operation is None:
            return SessionImport(report=report)
        return SessionImport(report=report, kept_in=kept.folder, operation=kept.operation)

    def import_checkpoints(
        self,
        source: StrPath = "hermes",
        *,
        path: StrPath | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Sequence[Imported]:
        """Bring checkpoints that another agent took into this home, with their times and reasons.

        `source` is that agent's home, or its name; `path` is one directory that it took checkpoints
        of. Nothing there is changed. What was imported before is left out, so it can be repeated.
        """
        root = find_home(source)
        with storage_errors(f"read {root}"):
            kind = kind_of(root) if root.is_dir() else None
        if kind is None or kind.import_checkpoints is None:
            raise UsageError(f"There is no home of another agent with checkpoints at {root}.")
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
            workdir=None if path is None else directory(path),
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
        """Look after the home if it is time to; `force` does it anyway, `early` if it is due within
        that time.

        What it does is up to config.toml. It never raises: what went wrong is in the result.
        """
        return maintain_opened(
            self._place.home,
            self.settings,
            clock=self._place.clock,
            force=force,
            early=0.0 if early is None else seconds(early, "early"),
            progress=progress,
        )

    def plan_maintain(self, *, progress: Progress | None = None) -> Sequence[StepPlan]:
        """What maintenance would do now, step by step."""
        return preview(self._place.home, self.settings, now=self._place.clock(), progress=progress)


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
    `create` a Holdfast home is made. Its config.toml is checked, and `ConfigError` names every line
    that is wrong.

    `clock` tells the time in epoch seconds. `command` is what the log says of your operations; by
    default, the name of the method. `environ` has variables that outrank config.toml, such as
    `HOLDFAST_SESSIONS_RETENTION_DAYS`; by default the environment is not looked at.
    """
    return Home(open_place(path, create=create, clock=clock, command=command, environ=environ))


@dataclass(slots=True)
class _Sink:
    """Where an export goes, and whether it came to its end."""

    file: BinaryIO
    whole: bool = False


@contextlib.contextmanager
def _sink(output: StrPath | BinaryIO) -> Iterator[_Sink]:
    """A private file that gets its name when it is whole; or the file that the caller opened."""
    if not isinstance(output, str | os.PathLike):
        yield _Sink(output)
        return
    path = file_path(output, "output")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file.")
    target = path.resolve()  # a link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with storage_errors(f"write {path}"):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            with os.fdopen(fd, "wb") as file:
                sink = _Sink(file)
                yield sink
                file.flush()
                os.fsync(file.fileno())
            if sink.whole:  # half an export does not take the place of a whole one
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def import_source(source: StrPath | BinaryIO) -> Iterator[BinaryIO]:
    """What an import reads: a file that the caller opened, or a path."""
    if not isinstance(source, str | os.PathLike):
        yield source
        return
    path = file_path(source, "source")
    with storage_errors(f"read {path}"):
        # A shell hands over a pipe for `<(zcat …)`: somebody writes to it already.
        ours = str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))
        stream = path.open("rb") if ours else os.fdopen(open_regular(path), "rb")
    with stream:
        yield stream


def _files(wanted: str) -> Files:
    try:
        return Files(wanted)
    except ValueError:
        raise UsageError(f'files must be "with", "only" or "none", not {wanted!r}.') from None


def _codec(codec: str) -> str:
    if codec not in ("zstd", "gzip"):
        raise UsageError(f'codec must be "zstd" or "gzip", not {codec!r}.')
    return codec
