"""What maintenance did, or why it did nothing, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, say, suggest, table, when
from holdfast.cli.show_plan import show_plan
from holdfast.model.item import SESSION
from holdfast.model.maintenance import MaintenanceResult, Skipped, Step, StepResult
from holdfast.model.report import Result
from holdfast.model.text import format_bytes, format_duration
from holdfast.services.upkeep import StepPlan

_TITLES = {
    Step.SETTLE: "interrupted runs",
    Step.AUTO_ARCHIVE: "old sessions into the archive",
    Step.PRUNE: "prune by the policy",
    Step.UPKEEP: "trash, space",
    Step.FILES: "files of old sessions",
    Step.GC: "empty and trivial sessions",
    Step.ARCHIVE: "archive",
    Step.CHECKPOINTS: "checkpoints",
    Step.END: "abandoned sessions",
    Step.LOG: "old entries of the log",
    Step.LOOK: "a look at the result",
    Step.RECORD: "writing down that it is done",
    Step.PROGRESS: "telling how far it is",
}


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
            show_auto_prune(invocation, auto_prune=result.auto_prune)


def summary(result: MaintenanceResult) -> str:
    """A run in one line, for a log."""
    if result.skipped is Skipped.NOT_DUE:
        return "not due"
    if result.skipped is Skipped.BUSY:
        return result.reason
    if result.errors:
        return f"failed: {'; '.join(result.errors)}"
    freed = format_bytes(result.bytes_freed)
    state = "stopped" if result.stopped else "done"
    ended = f"{result.ended:,} ended as abandoned, " if result.ended else ""
    archiving = [step for step in result.steps if step.step is Step.AUTO_ARCHIVE]
    archived = sum(map(_left, archiving))
    removed = result.removed - sum(step.removed for step in archiving)
    words = f"{archived:,} archived, " if archived else ""
    return f"{state}: {words}{removed:,} removed, {ended}{freed} freed"


def show_auto_prune(invocation: Invocation, *, auto_prune: bool) -> None:
    """Whether it prunes by itself is the one thing that nobody should have to guess."""
    if auto_prune:
        return
    say()
    say("auto_prune is off: maintenance prunes no sessions by itself. To let it, put this into")
    say(name(f"{invocation.config_file()}:"))
    say(Text("  [sessions]\n  auto_prune = true", style="bold green"))
    say("See what would go then:")
    suggest(f"holdfast {invocation.home_flag}sessions prune --dry-run")


def show_preview(plans: Sequence[StepPlan]) -> None:
    for each in plans:
        say(Text(f"{_TITLES[each.step].capitalize()}", style="bold"))
        if each.note:
            say(name(f"({each.note})", "dim"))
        if each.step is Step.END and not each.plan.ends:
            say("Nothing to end.")
        else:
            show_plan(each.plan, all_items=False)
        say()
    say("Nothing was done.")


def _show_not_due(invocation: Invocation, result: MaintenanceResult) -> None:
    due = result.next_due or result.finished_at
    left = format_duration(due - result.finished_at)
    say(f"Not due: {result.reason}. It is due at {when(due)}, in {left}. To run it now:")
    suggest(f"holdfast {invocation.home_flag}maintain --force")


def _show_run(invocation: Invocation, result: MaintenanceResult) -> None:
    rows = table("step", "what was done")
    for step in result.steps:
        style = "bold red" if step.error or step.failed else ""
        rows.add_row(_TITLES[step.step], name(_in_words(step), style))
    say(rows)
    if result.stopped:
        say(Text("The run was stopped; the next one takes it up again.", style="yellow"))
    for event in result.events:
        say(name(event.message, "yellow"))
    _show_ways_back(invocation, result)
    if result.next_due is not None:
        say()
        say(f"It is due again at {when(result.next_due)}.")


def _show_ways_back(invocation: Invocation, result: MaintenanceResult) -> None:
    """How to undo what was done: each kind of it once, with every operation that did it."""
    archiving = [step for step in result.steps if step.step is Step.AUTO_ARCHIVE]
    archived = [report for step in archiving for report in step.reports if report.removed]
    reports = [report for step in result.steps for report in step.reports]
    ways = (
        ("What was archived can come back:", archived),
        ("What went to the trash can come back:", [r for r in reports if r.bytes_in_trash]),
        ("Sessions that were ended can be reopened as they were:", [r for r in reports if r.ended]),
    )
    for text, found in ways:
        if found:
            say()
            say(text)
        for report in found:
            suggest(f"holdfast {invocation.home_flag}undo {report.operation}")


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
        words.append(f"{format_bytes(step.bytes_freed)} freed")
    if step.bytes_in_trash:
        words.append(f"{format_bytes(step.bytes_in_trash)} in the trash")
    operations = [report.operation for report in step.reports if report.operation]
    label = "operation" if len(operations) == 1 else "operations"
    return f"{', '.join(words)} ({label} {', '.join(operations)})"


def _left(step: StepResult) -> int:
    """How many items went; of those for the archive the sessions, which have their files in it."""
    if step.step is not Step.AUTO_ARCHIVE:
        return step.removed
    done = [outcome for report in step.reports for outcome in report.outcomes]
    return sum(each.kind == SESSION and each.result is Result.REMOVED for each in done)
