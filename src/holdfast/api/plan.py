"""Plans with their home: show, save, apply and undo them."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.api.arguments import file_path
from holdfast.api.place import Place
from holdfast.errors import FullDiskError, PlanFileError, StalePlanError, reason_in_voice
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import StrPath
from holdfast.model.figures import LEAST_ROOM, NEEDED, DiskRoom
from holdfast.model.item import SESSION, Inventory, Problem
from holdfast.model.operation import Operation
from holdfast.model.plan import Action, Plan, PlanItem, Shortfall
from holdfast.model.report import Outcome, Report, Result, archived, archived_words, back_words
from holdfast.model.session import SessionFilter
from holdfast.model.text import format_bytes, format_count
from holdfast.policy.lifecycle import NOT_ENDED
from holdfast.policy.session_filter import unknown_sources
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress
from holdfast.spine import undo as undoing
from holdfast.spine.apply import apply
from holdfast.stores.disk_reserve import is_held
from holdfast.stores.plan_file import document, load, save
from holdfast.value import dataclass, field, replace

#: An upper bound of the bytes that an item takes in the log of its removal.
_LOG_LINE = 1024
_Self = TypeVar("_Self")
_Given = ParamSpec("_Given")
NOTHING = "Nothing was done."


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HomePlan:
    """What a call would do, and why, item by item. Nothing is done before `apply`.

    `plan` is the value: it can be printed, compared and saved. `problems` are places that could not
    be read. `unknown_sources` were requested, but no session has them; each comes with the nearest
    existing source. `names` has the directories of projects, by their ids. Nothing can be removed
    in a home that is `read_only`; a problem says why. `applied_by` is the command that applies a
    plan from a file; in the log it precedes the command that made the plan. `again` makes the same
    plan again from the current state.
    """

    place: Place = field(repr=False)
    home: Home = field(repr=False)
    plan: Plan
    problems: Sequence[Problem] = ()
    unknown_sources: Mapping[str, str | None] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    applied_by: str = ""
    again: Callable[[Progress | None], HomePlan] | None = field(default=None, repr=False)

    @property
    def items(self) -> tuple[PlanItem, ...]:
        """Every decision, including those to keep."""
        return self.plan.items

    @property
    def removals(self) -> tuple[PlanItem, ...]:
        """What would be removed: to the trash, to the archive or permanently."""
        return self.plan.removals

    @property
    def kept(self) -> tuple[PlanItem, ...]:
        return self.plan.kept

    @property
    def bytes(self) -> int:
        return self.plan.bytes

    @property
    def fingerprint(self) -> str:
        """Equal for plans that do the same: to confirm one of them is to confirm the other."""
        return self.plan.fingerprint

    @property
    def shortfalls(self) -> tuple[Shortfall, ...]:
        """Caps that the plan cannot meet, and what prevents it."""
        return self.plan.shortfalls

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Carry out the plan. Items that changed since it was made are skipped and reported. Raises
        `ClosedError` if its home is closed."""
        self.place.need_open()
        plan = self.plan
        if self.applied_by:
            plan = replace(plan, command=f"{self.applied_by}: {plan.command}")
        report = apply(plan, self.home, clock=self.place.clock, progress=progress)
        if self.plan.shortfalls:
            # Imported here: a removal that meets its caps does not need the code of maintenance.
            from holdfast.homes.maintenance import tell_unreached  # noqa: PLC0415

            tell_unreached(
                self.home, self.place.settings, self.plan.shortfalls, now=self.place.clock()
            )
        return HomeReport(place=self.place, report=report, plan=self.plan)

    @property
    def frees_nothing(self) -> DiskRoom | None:
        """The room on a nearly full disk, if everything would go to the trash, which is on the same
        disk. Applying such a plan frees nothing, and its log would use up the last space or the
        reserve. None otherwise."""
        going = self.plan.removals
        if not going or any(not i.undoable or i.action is Action.ARCHIVE for i in going):
            return None
        room = self.home.disk_room()
        if room is None:
            return None
        if is_held(self.home.state):
            return room if room.free < NEEDED else None
        is_too_little = room.is_full and room.free < LEAST_ROOM + len(going) * _LOG_LINE
        return room if is_too_little else None

    def expect_room(self, hint: str | None = None) -> DiskRoom | None:
        """Raise `FullDiskError` before anything is written, if the disk is full and everything
        would go to the trash, or if there is no room to archive. Returns `frees_nothing`."""
        room = self.frees_nothing
        if room is not None and room.is_full:
            raise FullDiskError(
                "Nothing was removed: the disk is full, and what goes to the trash stays on it.",
                hint=hint,
            )
        self._expect_room_to_archive()
        return room

    def _expect_room_to_archive(self) -> None:
        """Raise `FullDiskError` if the log of archiving, or the first bundle, may not fit: sessions
        that did not fit fill the log, and then nothing else can be written either."""
        going = self.plan.removals
        room = self.home.disk_room()
        if room is None or is_held(self.home.state):
            return
        bundles = [each.bytes for each in going if each.action is Action.ARCHIVE]
        needed = LEAST_ROOM + len(going) * _LOG_LINE + max(bundles, default=0)
        if bundles and room.free < needed:
            raise FullDiskError(
                f"Nothing was archived: the disk is nearly full ({format_bytes(room.free)} free), "
                f"and the log and a bundle may need {format_bytes(needed)}.",
                hint="Free that much first, or archive fewer sessions at a time.",
            )

    def still_over_cap(self, *, progress: Progress | None = None) -> tuple[PlanItem, ...]:
        """What a cap would still remove after this plan was applied. How much space a database
        gives back is known only afterwards, so a cap can still be exceeded then."""
        if self.again is None or not any(item.gone_by_cap for item in self.removals):
            return ()
        return tuple(item for item in self.again(progress).removals if item.gone_by_cap)

    def save(self, path: StrPath) -> None:
        """Write the plan to a file, for `Home.load_plan` and for `holdfast apply`."""
        from holdfast.homes.output_place import check_output  # noqa: PLC0415 - few plans are saved

        file = file_path(path, "A plan file")
        check_output(file, [self.place.root])
        save(self.plan, file)

    def document(self) -> builtins.bytes:
        """The content that `save` writes, for a caller that sends the plan elsewhere."""
        return document(self.plan)

    def to_json(self) -> dict[str, Any]:
        return self.plan.to_json()

    def __str__(self) -> str:
        archived = {item.id for item in self.removals if item.action is Action.ARCHIVE}
        removed = [item for item in self.removals if not archived & {item.id, item.goes_with}]
        does = [f"archives {format_count(len(archived), 'session')}"] if archived else []
        if removed or not archived:
            does.append(f"removes {format_count(len(removed), 'item')}")
        return f"The plan {' and '.join(does)}, {format_bytes(self.bytes)}."


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HomeReport:
    """What a call did, item by item. For an undo, `undone` is the operation that was undone."""

    place: Place = field(repr=False)
    report: Report
    plan: Plan | None = None
    undone: Operation | None = None

    def __post_init__(self) -> None:
        if not any("holdfast " in each.reason or "--" in each.reason for each in self.outcomes):
            return
        told = (replace(each, reason=reason_in_voice(each.reason)) for each in self.outcomes)
        object.__setattr__(self, "report", replace(self.report, outcomes=tuple(told)))

    @property
    def operation(self) -> str | None:
        """The number of the operation in the log; None if there was nothing to do. A run that
        skipped every item is in the log, with the reasons."""
        return self.report.operation

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return self.report.outcomes

    @property
    def removed(self) -> int:
        """How many items were removed: to the trash, to the archive or permanently."""
        return self.report.removed

    @property
    def archived(self) -> int:
        """How many of the removed items, sessions and files, were archived."""
        return sum(archived(self.report, self.plan))

    @property
    def brought_back(self) -> int:
        return self.report.brought_back

    @property
    def skipped(self) -> int:
        return self.report.skipped

    @property
    def failed(self) -> int:
        return self.report.failed

    @property
    def bytes_freed(self) -> int:
        """The bytes of what was removed or archived, without deducting the new bundles."""
        return self.report.bytes_freed

    @property
    def bytes_in_archive(self) -> int:
        """The size of the new bundles."""
        return self.report.bytes_in_archive

    def undo(self, *, progress: Progress | None = None) -> HomeReport:
        """Undo exactly this operation: bring back what it removed or archived.

        If nothing was done, nothing happens, and the returned report says so. Later operations are
        not touched. Raises `CannotUndoError` for an undo or a restore from the archive, because
        they removed nothing.
        """
        did = self.report.operation if self._did_anything else None
        return undo(self.place, did, progress=progress)

    @property
    def _did_anything(self) -> bool:
        """Freed space and skipped items do not count, because they cannot be undone."""
        return bool(
            self.removed
            or self.brought_back
            or self.report.ended
            or self.report.changed
            or self.failed
        )

    def to_json(self) -> dict[str, Any]:
        return self.report.to_json()

    def __str__(self) -> str:
        alone, files = archived(self.report, self.plan)
        counts = (
            (alone, archived_words(alone, files)),
            (self.removed - alone - files, "removed"),
            (self.report.ended, "ended"),
            (self.report.changed, "changed"),
            (self.brought_back, back_words(self.report.files_back)),
            (self.skipped, "skipped"),
            (self.failed, "failed"),
        )
        did = ", ".join(f"{count:,} {word}" for count, word in counts if count)
        if not did and self.bytes_freed:
            did = f"{format_bytes(self.bytes_freed)} given back"
        if self.operation is None:
            return f"{NOTHING.removesuffix('.')}: {did}." if did else NOTHING
        return f"{did or 'Nothing had to be done'} (operation {self.operation})."


def why_stays(item: PlanItem, home_flag: str) -> tuple[str, str]:
    """Return why an item stays, and the command that helps, or ""."""
    why = item.reason.removeprefix("in use: ")
    return why, f"holdfast {home_flag}sessions end {item.id}" if why == NOT_ENDED else ""


def expect_same(agreed: str, now: str) -> None:
    """Raise `StalePlanError` unless the fingerprint that the user confirmed is that of the current
    plan. Another tab, a command or an agent may have changed the home in between."""
    if agreed != now:
        raise StalePlanError(
            "The plan has changed since you looked at it. Nothing was done.",
            hint="Look at the new plan, and decide again.",
        )


def undo(place: Place, operation: str | None, *, progress: Progress | None = None) -> HomeReport:
    """Undo one operation. With None, the operation of a run that did nothing, nothing is done."""
    place.need_open()
    if operation is None:
        return HomeReport(place=place, report=Report(operation=None))
    target, report = undoing.undo(place.home, operation, clock=place.clock, progress=progress)
    return HomeReport(place=place, report=report, undone=target)


def scanned_plan(place: Place, plan: Plan, inventory: Inventory, wanted: SessionFilter) -> HomePlan:
    """A plan, with the problems of its scan and the requested sources that do not exist."""
    return HomePlan(
        place=place,
        home=place.home,
        plan=plan,
        problems=inventory.problems,
        unknown_sources=_unknown_sources(place.home, wanted, inventory),
        read_only=inventory.read_only,
    )


def _unknown_sources(
    home: Home, wanted: SessionFilter, inventory: Inventory
) -> Mapping[str, str | None]:
    if not wanted.sources:
        return {}
    store = home.session_store()
    known = {item.source for item in inventory.everything} | set(store.sources() if store else ())
    return unknown_sources(wanted, known)


def planned_home(path: StrPath) -> Path:
    """The home for which a saved plan was made."""
    return Path(load(file_path(path, "A plan file")).home)


def load_plan(place: Place, path: StrPath) -> HomePlan:
    """A plan that `HomePlan.save` wrote, for the home that it was made for."""
    place.need_open()
    file = file_path(path, "A plan file")
    plan = load(file)
    if plan.home != str(place.home.root):
        raise PlanFileError(
            f"{file} was made for {plan.home}, not for {place.home.root}.",
            hint=f"Pick its home with --home {Path(plan.home)}, or make a new plan.",
        )
    if any(each.action is Action.REWRITE for each in plan.items):
        # Such an item can overwrite any file of the user, so a plan file must not contain one.
        raise PlanFileError(
            f"{file} would change another program's settings, which a plan file must not do.",
            hint="Use `holdfast connect`, `holdfast disconnect` or `holdfast redo`.",
        )
    return HomePlan(place=place, home=place.home, plan=plan, applied_by=place.command("apply"))


def _with_those_that_stay(report: HomeReport) -> HomeReport:
    told = {each.id for each in report.outcomes}
    kept = () if report.plan is None else report.plan.kept
    stay = tuple(
        Outcome(kind=each.kind, id=each.id, result=Result.SKIPPED, reason=each.reason)
        for each in kept
        if each.kind == SESSION and each.id not in told
    )
    outcomes = (*report.report.outcomes, *stay)
    return replace(report, report=replace(report.report, outcomes=outcomes)) if stay else report


def applied(
    plan: Callable[Concatenate[_Self, _Given], HomePlan],
    /,
    *,
    name: str = "",
    names: bool = False,
    **usual: Any,
) -> Callable[Concatenate[_Self, _Given], HomeReport]:
    """Make a method that plans and applies at once, with the parameters of `plan` and the defaults
    `usual`. It is called `name`, or like `plan` without "plan_". If callers name sessions
    (`names`), the report lists those that stay as skipped, because the caller has not seen them in
    the plan."""

    @functools.wraps(plan)
    def method(self: _Self, /, *args: _Given.args, **given: _Given.kwargs) -> HomeReport:
        if "dry_run" in given:
            called = plan.__qualname__.replace(plan.__name__, method.__name__)
            raise TypeError(f"{called}() has no `dry_run`; {plan.__qualname__}() shows the plan")
        try:
            planned = plan(self, *args, **{**usual, **given})
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # not caused by the caller's arguments
            called = str(error).replace(f"{plan.__name__}()", f"{method.__name__}()")
            raise TypeError(called) from None
        report = planned.apply()
        is_named = names and given.get("wanted") is None
        return _with_those_that_stay(report) if is_named else report

    method.__name__ = name or plan.__name__.removeprefix("plan_")
    method.__doc__ = f"Plan it and apply the plan: `{plan.__name__}(…).apply()`."
    return method
