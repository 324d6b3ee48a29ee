"""Maintenance: keeps a home within its limits without user action.

It runs at most once per interval, in one process at a time. Each step is guarded: a failing step
does not keep the others from running, and the only exceptions that leave this module are requests
to end the process, such as KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.config.settings import Settings
from holdfast.errors import BusyError, HoldfastError
from holdfast.model.item import ARCHIVED, Inventory
from holdfast.model.maintenance import Event, MaintenanceResult, Marker, Skipped, Step, StepResult
from holdfast.model.plan import Shortfall
from holdfast.model.text import format_count
from holdfast.policy.cap_use import CapUse, cap_uses
from holdfast.policy.maintenance_due import is_due, next_due
from holdfast.policy.rules import DAY
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.ports.upkeep import MaintenanceGate, Notifier
from holdfast.services import figures
from holdfast.services.apply_until_within_caps import Round, bound, bound_checkpoints
from holdfast.services.events import (
    cap_events,
    failure_events,
    file_events,
    fresh,
    remember,
    session_events,
    shortfall_events,
    tell,
)
from holdfast.services.maintenance_steps import (
    COMMAND,
    checkpoint_policy,
    plan_step,
    refresh_vault,
    steps_of,
)
from holdfast.spine.carry_out import Silent
from holdfast.spine.settle import settle_if_needed
from holdfast.value import dataclass, replace

_T = TypeVar("_T")
_INTERNAL = "internal"
_log = logging.getLogger("holdfast")


def maintain(
    home: Home,
    settings: Settings,
    *,
    gate: MaintenanceGate,
    clock: Clock,
    force: bool = False,
    early: float = 0.0,
    progress: Progress | None = None,
    notifier: Notifier | None = None,
) -> MaintenanceResult:
    """Run maintenance if it is due; `force` ignores the time, but never another process.

    `early` is for a timer that fires at about the same time each day: a run that will be due within
    that many seconds is due now, or the timer would miss every other day.
    Raises nothing that a host would have to catch: failures are logged and returned.
    """
    harmless = Harmless(progress or Silent())
    run = _Run(home, settings, gate, clock, harmless, notifier, 0.0, early)
    try:
        run.started_at = clock()
        if not force and not run.is_due():
            return run.not_due()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(gate.entered(COMMAND))
            except BusyError as error:
                return run.result(skipped=Skipped.BUSY, reason=error.message, hint=error.hint)
            # Check again under the lock: another process may have just finished.
            result = run.run() if force or run.is_due() else run.not_due()
            return replace(result, steps=(*result.steps, *harmless.failures()))
    except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
        return failed(str(home.root), run.started_at, clock, error)


def failed(home: str, started_at: float, clock: Clock, error: Exception) -> MaintenanceResult:
    """Log an exception, and return the result that replaces it."""
    _log_failure(f"maintenance of {home}", error)
    try:
        finished_at = clock()
    except Exception:  # noqa: BLE001 - it may be the clock that failed
        finished_at = started_at
    return MaintenanceResult(
        home=home,
        started_at=started_at,
        finished_at=finished_at,
        error=_message(error),
        error_kind=_kind(error),
        hint=getattr(error, "hint", None),
    )


class Harmless:
    """Shields a run from errors in the host's progress object. After an error it is not called any
    more, the run continues, and the result reports it: a display error must not leave a run half
    done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._error: Exception | None = None

    def step(self, label: str, done: int, total: int | None) -> None:
        if self._error is None:
            try:
                self._progress.step(label, done, total)
            except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
                self._note(error)

    def stop_requested(self) -> bool:
        if self._error is None:
            try:
                return bool(self._progress.stop_requested())
            except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
                self._note(error)
        return False

    def failures(self) -> tuple[StepResult, ...]:
        if self._error is None:
            return ()
        return (_failed_step(Step.PROGRESS, self._error),)

    def _note(self, error: Exception) -> None:
        self._error = error
        _log_failure("the progress object that the host passed to maintenance", error)


@dataclass(slots=True)
class _Run:
    home: Home
    settings: Settings
    gate: MaintenanceGate
    clock: Clock
    progress: Progress
    notifier: Notifier | None
    started_at: float
    early: float = 0.0

    @property
    def interval(self) -> float:
        return self.settings.maintenance.interval

    @property
    def fingerprint(self) -> str:
        return self.settings.upkeep_fingerprint()

    def is_due(self) -> bool:
        interval = max(0.0, self.interval - self.early)
        return is_due(self.gate.read(), self.clock(), interval, self.fingerprint)

    def not_due(self) -> MaintenanceResult:
        due = self._next_due(self.gate.read())
        return self.result(skipped=Skipped.NOT_DUE, reason="it already ran", next_due=due)

    def result(self, **fields: Any) -> MaintenanceResult:
        made = MaintenanceResult(
            home=str(self.home.root),
            started_at=self.started_at,
            finished_at=self.clock(),
            auto_prune=self.settings.sessions.auto_prune,
        )
        return replace(made, **fields)

    def run(self) -> MaintenanceResult:
        steps: list[StepResult] = []
        for step, work in self._steps():
            if self.progress.stop_requested():
                break
            if (done := _tried(steps, step, work)) is not None:
                steps.append(done)
        if self.progress.stop_requested():
            # As after a kill, the next run continues.
            return self.result(steps=tuple(steps), stopped=True)
        inventory, events = self._look(steps)
        if inventory is not None:
            self._keep_figures(steps, inventory)
        marker = self._record(steps, events)
        due = None if marker is None else self._next_due(marker)
        return self.result(steps=tuple(steps), events=tuple(events), next_due=due)

    def _next_due(self, marker: Marker) -> float:
        return next_due(marker, self.clock(), self.interval, self.fingerprint)

    def _steps(self) -> list[tuple[Step, Callable[[], StepResult]]]:
        planned = [
            (step, partial(self._carry_out, step)) for step in steps_of(self.settings, self.home)
        ]
        steps: list[tuple[Step, Callable[[], StepResult]]] = [(Step.SETTLE, self._settle), *planned]
        if self.settings.log_days:
            steps.append((Step.LOG, self._forget))
        return steps

    def _settle(self) -> StepResult:
        settled = settle_if_needed(self.home, clock=self.clock)
        note = f"settled: operation {', '.join(settled)}" if settled else ""
        if self.home.archive.leftovers():
            with self.home.log.writing(COMMAND):
                self.home.doer(ARCHIVED).prepare(())
        return StepResult(step=Step.SETTLE, note=note)

    def _forget(self) -> StepResult:
        """Drop old operations that can no longer be undone from the log."""
        before = self.clock() - self.settings.log_days * DAY
        started = (each.started_at for each in self.home.log.read().operations)
        if all(moment >= before for moment in started):
            return StepResult(step=Step.LOG)  # lock and write nothing without need
        with self.home.log.writing(COMMAND) as log:
            dropped = log.forget(before=before)
        return StepResult(step=Step.LOG, note=f"dropped: {format_count(dropped, 'operation')}")

    def _carry_out(self, step: Step) -> StepResult:
        if step is Step.CHECKPOINTS:
            return self._bound_checkpoints()
        # The vault comes first: later steps may find sessions gone that the agent itself deleted.
        said = self._refresh_vault() if step is Step.VAULT else ""
        reports, made = bound(
            self.home, partial(self._planned, step), clock=self.clock, progress=self.progress
        )
        return StepResult(
            step=step,
            reports=tuple(reports),
            shortfalls=made.plan.shortfalls,
            note=said or made.note,
        )

    def _refresh_vault(self) -> str:
        done = refresh_vault(self.home, command=COMMAND, clock=self.clock, progress=self.progress)
        for each in done.problems:
            _log.warning("%s %s", each.path, each.reason)
        counts = (
            (done.named + done.copied, "kept"),
            (done.found_alone, "deleted by the agent"),
            (done.compressed, "compressed"),
            (done.let_go, "no longer linked"),
            (done.set_aside, "replaced by the agent and kept"),
            (len(done.problems), "not kept"),
        )
        return ", ".join(f"{count:,} {word}" for count, word in counts if count)

    def _planned(self, step: Step) -> Round:
        made = plan_step(step, self.home, self.settings, now=self.clock(), progress=self.progress)
        if step is Step.AUTO_ARCHIVE and made.plan.removals:
            self.home.archive.check()  # one clear error, not one for each session
        return Round(plan=made.plan, over=made.over, note=made.note)

    def _bound_checkpoints(self) -> StepResult:
        reports, made = bound_checkpoints(
            self.home,
            checkpoint_policy(self.settings),
            command=COMMAND,
            clock=self.clock,
            progress=self.progress,
        )
        return StepResult(step=Step.CHECKPOINTS, reports=tuple(reports), shortfalls=made.shortfalls)

    def _look(self, steps: list[StepResult]) -> tuple[Inventory | None, list[Event]]:
        """Scan the state after the run, and collect the events."""
        inventory = _tried(steps, Step.LOOK, lambda: self.home.scan(self.clock(), self.progress))
        events: list[Event] = []
        if inventory is not None:
            events = _tried(steps, Step.LOOK, lambda: self._events(steps, inventory)) or []
        told = [*events, *failure_events(str(self.home.root), self.clock(), steps)]
        return inventory, told

    def _keep_figures(self, steps: list[StepResult], inventory: Inventory) -> None:
        """Record the figures before the marker: without the marker the run counts as not done, and
        the next one tries again. Figures are costly, so they are computed once a day."""
        now = self.clock()
        done = Marker(finished_at=now, ok=_all_well(steps))

        def keep() -> None:
            policy = self.settings.policy()
            seen = figures.look(self.home, policy, now=now, inventory=inventory, marker=done)
            self.home.figures.add(seen)

        _tried(steps, Step.FIGURES, keep)

    def _events(self, steps: Sequence[StepResult], inventory: Inventory) -> list[Event]:
        self.home.note_figures(inventory)
        home, now = str(self.home.root), self.clock()
        policy = self.settings.policy()
        unreached = [each for step in steps for each in step.shortfalls]
        events: list[Event] = []
        if any(not each.caps.empty for each in (policy.everywhere, *policy.by_source.values())):
            uses = cap_uses(policy, inventory)
            if self.settings.sessions.auto_prune:
                unreached += _still_over(uses, unreached)
            share = self.settings.notify.near_share
            events += cap_events(home, now, uses, share, unreached=unreached)
        events += shortfall_events(home, now, unreached)
        limits = self.settings.session_options().limits
        events += session_events(home, now, self.home.session_store(), limits)
        return events + file_events(home, now, inventory.items, limits)

    def _record(self, steps: list[StepResult], events: Sequence[Event]) -> Marker | None:
        """Report what is new, and record that the run is over; None if that failed."""
        now, before = self.clock(), self.gate.read()
        new = fresh(events, before.told, now, self.interval)
        new = tell(new, self.notifier, self.progress.stop_requested)
        finished = self.clock()
        marker = Marker(
            finished_at=finished,
            ok=_all_well(steps),
            done=before.done_at(finished, self.fingerprint),
            told=remember(new, before.told, now, self.interval),
        )

        def record() -> Marker:
            self.gate.write(marker)
            return marker

        return _tried(steps, Step.RECORD, record)


def _still_over(uses: Iterable[CapUse], unreached: Sequence[Shortfall]) -> list[Shortfall]:
    """Caps that the plan should have reached, but did not according to the file system."""
    named = {shortfall.cap for shortfall in unreached}
    return [
        Shortfall(
            cap=use.cap,
            limit=use.limit,
            remaining=use.used,
            held_by={"not given back yet": use.used - use.limit},
        )
        for use in uses
        if use.exceeded and use.cap not in named
    ]


def _all_well(steps: Iterable[StepResult]) -> bool:
    return all(step.error is None and not step.failed for step in steps)


def _tried(steps: list[StepResult], step: Step, work: Callable[[], _T]) -> _T | None:
    """Return the result of `work`; if it fails, record a failed step and return None."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - law 7: one step that fails must not keep others
        _log_failure(f"maintenance step {step.value}", error)
        steps.append(_failed_step(step, error))
        return None


def _failed_step(step: Step, error: Exception) -> StepResult:
    return StepResult(step=step, error=_message(error), error_kind=_kind(error))


def _log_failure(what: str, error: Exception) -> None:
    if isinstance(error, HoldfastError):
        _log.error("%s failed: %s", what, error.message)
    else:
        _log.error("%s failed", what, exc_info=error)


def _message(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _kind(error: Exception) -> str:
    return error.kind if isinstance(error, HoldfastError) else _INTERNAL
