"""`holdfast maintain`: run maintenance, once or until stopped, or let the system schedule it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.api.schedulers import SCHEDULERS
from holdfast.cli.frame import Choice, command
from holdfast.cli.homes import Last, all_homes_option
from holdfast.cli.invocation import Invocation
from holdfast.cli.main import FAILED, INTERRUPTED
from holdfast.cli.output import name, nothing_changed, print_json, say, suggest, table, when
from holdfast.cli.progress import progress, until_signal
from holdfast.cli.show_budget import show_budget
from holdfast.cli.show_plan import show_plan
from holdfast.cli.show_schedule import install, uninstall
from holdfast.errors import BusyError, UsageError
from holdfast.model.item import SESSION
from holdfast.model.maintenance import LookedAfter, MaintenanceResult, Skipped, Step, StepResult
from holdfast.model.report import Result
from holdfast.model.text import format_bytes, format_count, format_duration, one_line, printable

if TYPE_CHECKING:  # a watch runs for long, and should load little
    from holdfast.api.values import StepPlan

_log = logging.getLogger("holdfast")
_TITLES = {
    Step.SETTLE: "interrupted runs",
    Step.VAULT: "vault",
    Step.AUTO_ARCHIVE: "archive old sessions",
    Step.PRUNE: "prune by the policy",
    Step.UPKEEP: "trash, space",
    Step.FILES: "files of old sessions",
    Step.GC: "empty and trivial sessions",
    Step.ARCHIVE: "archive",
    Step.CHECKPOINTS: "checkpoints",
    Step.BUDGET: "budget of the home",
    Step.END: "abandoned sessions",
    Step.LOG: "old log entries",
    Step.LOOK: "checking the result",
    Step.FIGURES: "recording the figures",
    Step.RECORD: "recording that it is done",
    Step.PROGRESS: "reporting progress",
}


def keep_budget(invocation: Invocation, *, dry_run: bool, **_: object) -> Last:
    """After each home on its own: enforce the budget that they share, if there is one."""
    machine = invocation.machine
    if invocation.unpruned and not invocation.json:
        _tell_unpruned(invocation, len(invocation.unpruned))
    with (
        progress("weighing all homes", stoppable=not dry_run) as shown,
        log_to_stderr(debug=invocation.debug),
    ):
        plan = machine.plan_budget if dry_run else machine.keep_budget
        found = plan(progress=shown)
        if not dry_run:
            machine.set_aside()
    if found.limit is None:
        return 0, {}
    if not invocation.json:
        show_budget(found)
    return FAILED if found.failed else 0, {"budget": found.to_json()}


@command(
    example="holdfast maintain --all-homes\n"
    "holdfast maintain --home codex --dry-run\n"
    "holdfast maintain --watch\n"
    "holdfast maintain --install systemd"
)
@click.option("--force", is_flag=True, help="Run even if it is not due.")
@click.option("--early", metavar="DURATION", help="Run if it is due within this time: 2h.")
@click.option(
    "--watch",
    "watched",
    is_flag=True,
    help="Keep running: maintain every home when it is due, and warn when one grows too fast.",
)
@click.option(
    "--install",
    "scheduler",
    type=Choice(SCHEDULERS),
    help="Have the system run it: for all homes, or for the one that --home names.",
)
@click.option(
    "--uninstall", "unscheduler", type=Choice(SCHEDULERS), help="Undo what --install did."
)
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be done.")
@click.option("--yes", "-y", is_flag=True, help="With --install and --uninstall, do not ask.")
@all_homes_option(last=keep_budget, watched="--watch")
def maintain(
    invocation: Invocation,
    *,
    force: bool,
    early: str | None,
    watched: bool,
    scheduler: str | None,
    unscheduler: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Run maintenance, if it is due.

    It runs at most once in 24 hours (min_interval_hours), no matter who asks for it. It finishes
    what a killed run left, ends sessions whose process is gone, empties trash that has expired, and
    frees unused space. With `auto_prune = true` in [sessions] it prunes by the rules of the
    configuration too, with `auto_gc = true` it removes empty and trivial sessions, with
    `auto_archive = true` it archives old sessions before it prunes, and with `files_retention_days`
    it removes the files of older sessions and keeps the sessions.

    With --watch it keeps running and looks after every home of the machine, also those that appear
    later, or after the one that --home names. It reports a file or folder of an agent that grows by
    more than `alarm_mb_per_minute`, with the process that writes it.

    It does not ask: the configuration says what it may remove. The log lists what it removed, and
    `holdfast undo` brings that back until the trash is emptied.
    """
    system = scheduler or unscheduler
    both = scheduler and unscheduler
    if both or (watched and (system or dry_run)) or (system and (force or early)):
        raise UsageError("These flags cannot be combined.", hint="See `holdfast maintain --help`.")
    if watched:
        return watch(invocation, force=force)
    if scheduler is not None:
        return install(invocation, scheduler, dry_run=dry_run, yes=yes)
    if unscheduler is not None:
        return uninstall(invocation, unscheduler, dry_run=dry_run, yes=yes)
    invocation.choose_one()
    if dry_run:
        return _preview(invocation)
    return _run(invocation, force=force, early=early)


def _preview(invocation: Invocation) -> int:
    home = invocation.open_home()
    with progress("looking at the home") as shown:
        plans = home.plan_maintain(progress=shown)
    if invocation.json:
        steps = [
            {"step": each.step.value, "note": each.note, "plan": each.plan.to_json()}
            for each in plans
        ]
        print_json({"home": str(home.path), "applied": False, "steps": steps})
        return 0
    show_preview(plans)
    show_auto_prune(invocation, auto_prune=home.settings.sessions.auto_prune)
    nothing_changed()
    return 0


def _run(invocation: Invocation, *, force: bool, early: str | None) -> int:
    home = invocation.open_home()
    with (
        progress("running maintenance", stoppable=True) as shown,
        log_to_stderr(debug=invocation.debug),
    ):
        result = home.maintain(force=force, early=early, progress=shown)
    if invocation.json:
        print_json(result.to_json())
    else:
        show_result(invocation, result)
    return exit_code(result)


def exit_code(result: MaintenanceResult) -> int:
    """The exit code of a run. Not being due is not a failure."""
    if result.busy:
        return BusyError.exit_code
    if result.stopped:
        return INTERRUPTED
    return 0 if result.ok else FAILED


def watch(invocation: Invocation, *, force: bool) -> int:
    """Look after the named home, or all homes of the machine, until a signal arrives."""
    from holdfast.api.in_child import Child
    from holdfast.api.machine_watch import Listener
    from holdfast.api.machine_watch import watch as look_after

    machine = invocation.machine
    one = invocation.chosen_home
    if one is not None:
        one = invocation.open_place(one).home.root  # reports errors before the first line
        machine = invocation.make_machine(only=one, agents=None)
    runs = failures = 0
    first: set[str] = set()

    def tell(done: LookedAfter) -> None:
        nonlocal runs, failures
        runs += done.ran
        failures += done.failed
        known = done.home in first
        first.add(done.home)
        if known and not done.ran and not done.failed:
            return  # still not due
        again = "" if stop.stop_requested() else f"; next at {when(done.due)}"
        _log.info("maintenance of %s: %s%s", done.home, done.did, again)

    listener = Listener(
        in_words=summary,
        started=lambda home: _log.info("watching %s", home),
        looked_after=tell,
        grows=lambda alarm: _log.warning("%s", alarm.message),
        more=_log.info,
    )
    with log_to_stderr(dated=True, debug=invocation.debug), until_signal() as stop:
        look_after(machine, stop, listener, clock=invocation.clock, force=force, work=Child)
        _log.info("no longer watching %s", "this machine" if one is None else one)
    if invocation.json:
        homes = {"homes": len(machine.homes)} if one is None else {"home": str(one)}
        print_json({**homes, "runs": runs, "failed": failures})
    return 0


def show_result(invocation: Invocation, result: MaintenanceResult) -> None:
    if result.skipped is Skipped.BUSY:
        say(name(result.reason))
    elif result.skipped is Skipped.NOT_DUE:
        _show_not_due(invocation, result)
    elif result.error:
        say(name(f"Nothing was done: {result.error}", "bold red"))
    else:
        _show_run(invocation, result)
        if result.auto_prune is not None:
            say()
            show_auto_prune(invocation, auto_prune=result.auto_prune)


def summary(result: MaintenanceResult) -> str:
    """A run in one line, for a log."""
    if result.skipped is Skipped.NOT_DUE:
        return "not due"
    if result.skipped is Skipped.BUSY:
        return result.reason
    if result.errors:
        return f"failed: {'; '.join(result.errors)}"
    freed = format_bytes(max(0, result.bytes_freed - result.bytes_in_archive))
    state = "stopped" if result.stopped else "done"
    ended = f"{result.ended:,} ended as abandoned, " if result.ended else ""
    archiving = [step for step in result.steps if step.step is Step.AUTO_ARCHIVE]
    archived = sum(map(_left, archiving))
    removed = result.removed - sum(step.removed for step in archiving)
    words = f"{archived:,} archived, " if archived else ""
    return f"{state}: {words}{removed:,} removed, {ended}{freed} freed"


def _tell_unpruned(invocation: Invocation, number: int) -> None:
    """Like `show_auto_prune`, once for several homes."""
    takes = "does not prune sessions there"
    if invocation.machine.guardian.max_bytes is not None:
        takes = "prunes only the sessions there that the budget of all homes requires"
    say()
    told = f"auto_prune is off in {format_count(number, 'home')}, so maintenance {takes}."
    turn_on = "holdfast --home HOME config set sessions.auto_prune true"
    suggest(told, "To turn it on in one of them:", turn_on)
    preview = "holdfast sessions prune --all-homes --dry-run"
    suggest("", "To see what it would remove:", preview)


def show_auto_prune(invocation: Invocation, *, auto_prune: bool) -> None:
    """Tell the user that maintenance does not prune sessions, if so."""
    if auto_prune:
        return
    if invocation.unpruned is not None:  # said once, after all homes
        invocation.unpruned.append(invocation.home_path)
        return
    takes = "does not prune sessions"
    if invocation.machine.guardian.max_bytes is not None:
        takes = "prunes only the sessions that the budget of all homes requires"
    told = f"auto_prune is off, so maintenance {takes}."
    turn_on = f"holdfast {invocation.home_flag}config set sessions.auto_prune true"
    suggest(told, "To turn it on:", turn_on)
    preview = f"holdfast {invocation.home_flag}sessions prune --dry-run"
    suggest("", "To see what it would remove:", preview)


def show_preview(plans: Sequence[StepPlan]) -> None:
    for each in plans:
        say(f"{_TITLES[each.step].capitalize()}", "bold")
        if each.note:
            say(name(f"({each.note})", "dim"))
        if each.step is Step.END and not each.plan.ends:
            say("Nothing to end.")
        else:
            show_plan(each.plan, all_items=False, takes_flags=False)
        say()


def _show_not_due(invocation: Invocation, result: MaintenanceResult) -> None:
    due = result.next_due or result.finished_at
    left = format_duration(due - result.finished_at)
    told = f"Not due until {when(due)}, in {left}: {result.reason}."
    suggest(told, "To run it now:", f"holdfast {invocation.home_flag}maintain --force")


def _show_run(invocation: Invocation, result: MaintenanceResult) -> None:
    rows = table("step", "what was done")
    for step in result.steps:
        style = "bold red" if step.error or step.failed else ""
        rows.add_row(_TITLES[step.step], name(_in_words(step), style))
    say(rows)
    if result.stopped:
        say("The run was stopped; the next run continues it.", "yellow")
    for event in result.events:
        say(name(event.message, "yellow"))
    _show_ways_back(invocation, result)
    if result.next_due is not None:
        say()
        say(f"It is due again at {when(result.next_due)}.")


def _show_ways_back(invocation: Invocation, result: MaintenanceResult) -> None:
    """How to undo what was done: each kind of action once, with all its operations."""
    archiving = [step for step in result.steps if step.step is Step.AUTO_ARCHIVE]
    archived = [report for step in archiving for report in step.reports if report.removed]
    reports = [report for step in result.steps for report in step.reports]
    ways = (
        ("To bring back what was archived:", archived),
        ("To bring back what went to the trash:", [r for r in reports if r.bytes_in_trash]),
        ("To reopen the sessions that were ended:", [r for r in reports if r.ended]),
    )
    for text, found in ways:
        if found:
            say()
            undo = f"holdfast {invocation.home_flag}undo"
            suggest("", text, *(f"{undo} {report.operation}" for report in found))


def _in_words(step: StepResult) -> str:
    if step.error:
        return f"failed: {step.error}"
    parts = [
        (_left(step), "archived" if step.step is Step.AUTO_ARCHIVE else "removed"),
        (step.ended, "ended as abandoned"),
        (sum(report.skipped for report in step.reports), "skipped"),
        (step.failed, "failed"),
    ]
    words = [f"{number:,} {word}" for number, word in parts if number]
    if not step.reports:
        return step.note or "nothing to do"
    if step.step is not Step.END:  # which frees nothing
        words.append(f"{format_bytes(max(0, step.bytes_freed - step.bytes_in_archive))} freed")
    if step.bytes_in_trash:
        words.append(f"{format_bytes(step.bytes_in_trash)} in the trash")
    operations = [report.operation for report in step.reports if report.operation]
    label = "operation" if len(operations) == 1 else "operations"
    return f"{', '.join(words)} ({label} {', '.join(operations)})"


def _left(step: StepResult) -> int:
    """How many items were removed. For the archive only sessions count, because their files go with
    them."""
    if step.step is not Step.AUTO_ARCHIVE:
        return step.removed
    done = [outcome for report in step.reports for outcome in report.outcomes]
    return sum(each.kind == SESSION and each.result is Result.REMOVED for each in done)


class _Line(logging.Formatter):
    """One line, whatever the record contains; a stack trace only with --debug."""

    def __init__(self, *, dated: bool, debug: bool) -> None:
        super().__init__()
        self._dated = dated
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        when = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} " if self._dated else ""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {error}" if error else ""
        line = when + level + one_line(record.getMessage() + why)
        if self._debug and record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info))
        return line


@contextlib.contextmanager
def log_to_stderr(*, dated: bool = False, debug: bool = False) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(dated=dated, debug=debug))
    log = logging.getLogger("holdfast")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
