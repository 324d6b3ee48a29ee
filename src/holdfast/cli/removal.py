"""The common part of all commands that remove: show the plan, ask, apply, report."""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.frame import option_group
from holdfast.cli.invocation import Invocation, Later, quoted
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.numbers import WholeNumber
from holdfast.cli.output import (
    note,
    nothing_changed,
    print_json,
    say,
    suggest,
    tell_unknown_sources,
)
from holdfast.cli.progress import progress
from holdfast.cli.report_error import print_error
from holdfast.cli.show_plan import show_plan, show_report
from holdfast.cli.streams import agreed, asking
from holdfast.errors import DamageError, DeclinedError, HoldfastError, UsageError
from holdfast.model.figures import LOG_NEEDS
from holdfast.model.operation import in_words
from holdfast.model.plan import Action, Plan
from holdfast.model.plan_words import amount, is_archiving, what_undo_can
from holdfast.model.report import Report, Result
from holdfast.model.text import one_line
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.plan import HomePlan
    from holdfast.api.undo import OperationUndo
    from holdfast.model.operation import LogView, Operation

_Planned = TypeVar("_Planned")

COUNT = WholeNumber(min=1)
now_option = click.option(
    "--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFlags:
    """The flags of a command that removes."""

    dry_run: bool
    yes: bool
    plan_out: Path | None = None
    all_items: bool = False


def removal_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of every command that removes; the command gets them as one value, `how`."""

    @functools.wraps(function)
    def with_flags(
        *args: Any, dry_run: bool, yes: bool, plan_out: Path | None, all_items: bool, **rest: Any
    ) -> Any:
        how = RemovalFlags(dry_run=dry_run, yes=yes, plan_out=plan_out, all_items=all_items)
        return function(*args, how=how, **rest)

    return option_group(
        click.option("--dry-run", "-n", is_flag=True, help="Show the plan and stop there."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option(
            "--plan-out",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Save the plan for `holdfast apply` and stop there.",
        ),
        click.option("--all", "all_items", is_flag=True, help="List every item with its reason."),
    )(with_flags)


def trash_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags for whether removed items go to the trash; the command gets `use_trash` and
    `caps_use_trash`."""

    @functools.wraps(function)
    def with_flags(*args: Any, skip_trash: bool, caps_use_trash: bool, **rest: Any) -> Any:
        if skip_trash and caps_use_trash:
            raise UsageError("--now and --use-trash contradict each other.")
        trash = {"use_trash": not skip_trash, "caps_use_trash": caps_use_trash}
        return function(*args, trash=trash, **rest)

    return option_group(
        now_option,
        click.option(
            "--use-trash",
            "caps_use_trash",
            is_flag=True,
            help="Move what a size cap removes to the trash too; emptying it frees the space.",
        ),
    )(with_flags)


def keep_options(each: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flags of the keep rules, which count within each group or project."""
    within = "Keep what is within this time of the newest: 12h, 14d."
    return option_group(
        click.option("--keep-last", type=COUNT, metavar="N", help=f"Keep the last N of {each}."),
        click.option("--keep-within", metavar="DURATION", help=within),
        *(
            click.option(
                f"--keep-{'dai' if period == 'day' else period}ly",
                type=COUNT,
                metavar="N",
                help=f"Keep the newest of each {period}, for N {period}s.",
            )
            for period in ("hour", "day", "week", "month", "year")
        ),
    )


def remove(
    invocation: Invocation,
    planned: HomePlan,
    how: RemovalFlags,
    *,
    verb: str = "remove",
    after: Callable[[Report], None] = lambda _: None,
    nothing: str = "",
) -> int:
    """Show the plan, ask, apply, report. Returns the exit code. `verb` is what the user asked for.
    `nothing` is said if there is nothing to remove. `after` adds to the report; with --json it must
    not write to stdout."""
    plan = planned.plan
    _tell(planned)
    refused = planned.read_only and not plan.steps
    shows_only = how.dry_run or how.plan_out is not None
    if refused:
        note("Nothing can be removed here: this home can only be read.")
    elif not invocation.json:
        asks = not shows_only and not how.yes and sys.stdin.isatty()
        show_plan(
            plan,
            all_items=how.all_items,
            sources=planned.names,
            verb=verb,
            asks=asks,
            nothing=nothing,
        )
    if how.plan_out is not None:
        _save(invocation, planned, how.plan_out)
    if shows_only:
        _document(invocation, plan, None)
        if how.plan_out is None and not invocation.json:
            nothing_changed()
        return 0
    if not plan.steps:
        _tell_settled(planned.apply().report)
        _document(invocation, plan, None)
        # A command over all homes did not specifically name this one.
        return HoldfastError.exit_code if refused and invocation.together is None else 0
    if plan.removals and not how.yes and invocation.later is not None:
        run = functools.partial(_carry_out, invocation, planned, verb, after)
        invocation.later.append(Later(plan, run))  # the question is about all homes
        return 0
    _check_room(planned)
    declined = None if how.yes or not plan.removals else ask([plan], invocation.undo_command)
    if declined is not None:
        _document(invocation, plan, None)
        return print_declined(declined)
    return _carry_out(invocation, planned, verb, after, checked=True)


def _carry_out(
    invocation: Invocation,
    planned: HomePlan,
    verb: str,
    after: Callable[[Report], None],
    *,
    checked: bool = False,
) -> int:
    """Do what was shown and agreed to. The exit code."""
    if not checked:  # homes before this one may have freed room
        _check_room(planned)
    plan = planned.plan
    with progress("working", stoppable=True) as shown:
        report = planned.apply(progress=shown).report
    _document(invocation, plan, report)
    if not invocation.json:
        say()
        show_report(report, home_flag=invocation.one_home_flag, plan=plan, verb=verb)
    after(report)
    _tell_settled(report)
    return exit_code(report)


def _check_room(planned: HomePlan) -> None:
    now = "To free space, remove for good: run the same command with --now."
    if not planned.home.log_fits:
        now = f"{LOG_NEEDS} Then run the same command with --now, which removes for good."
    hint = f"{now} `holdfast trash empty` frees what is already in the trash."
    if planned.expect_room(hint) is None:
        return
    note(
        "warning: the disk is nearly full, and what goes to the trash stays on it. To free space, "
        "remove for good, with --now."
    )


def exit_code(report: Report) -> int:
    """The exit code for a report. Skipping items is not a failure, unless everything was
    skipped."""
    if report.stopped:
        return INTERRUPTED
    if report.count(Result.DAMAGED):
        return DamageError.exit_code
    done = report.removed or report.brought_back or report.ended or report.changed
    if report.failed or (report.skipped and not done):
        return HoldfastError.exit_code
    return 0


def ask(plans: Sequence[Plan], undo: str) -> DeclinedError | None:
    """Ask about a plan, or about those of several homes together."""
    removals = [item for plan in plans for item in plan.removals]
    where = f" in {len(plans):,} homes" if len(plans) > 1 else ""
    if any(map(is_archiving, plans)):
        back = f"`{undo}` or `holdfast sessions restore` can bring it all back."
        return asked(f"Archive {amount(removals)}{where}?", "archived", facts=[back])
    fact = what_undo_can(removals, f"`{undo}`")
    return asked(f"Remove {amount(removals)}{where}?", "removed", facts=[fact])


def asked(
    question: str,
    done: str,
    hint: str = "Check it with --dry-run, then pass --yes.",
    *,
    facts: Sequence[str] = (),
) -> DeclinedError | None:
    """Ask for confirmation. Returns None if the user said yes; `done` names the action in the error
    otherwise. The `facts` come first, one per line, so that the question itself is short and comes
    last."""
    if not sys.stdin.isatty():
        why = "there is no terminal on which to confirm it"
        return DeclinedError(f"Nothing was {done}: {why}.", hint=hint)
    click.echo(err=True)
    for fact in facts:
        click.echo(_folded(one_line(fact)), err=True)
    if not _confirmed(question):
        return DeclinedError(f"Nothing was {done}.")
    agreed()
    return None


def print_declined(declined: DeclinedError) -> int:
    """Report that the user declined, which is not an error. Without a terminal, it is one: nobody
    could be asked. Returns the exit code."""
    if declined.hint is None:
        note(declined.message)
    else:
        print_error(declined, as_json=False)
    return declined.exit_code


def _confirmed(question: str) -> bool:
    """Ask on stderr. Unlike with click, Ctrl-D means no, and only Ctrl-C is an interrupt."""
    while True:
        with asking():
            click.echo(_folded(f"{one_line(question)} [y/N]:") + " ", nl=False, err=True)
            answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            click.echo(err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return True
            case "" | "n" | "no":
                return False
            case _:
                click.echo("Please answer y or n.", err=True)


def _folded(question: str) -> str:
    """Break the question between words, not at the edge of the terminal."""
    if not sys.stderr.isatty():
        return question
    import shutil  # takes three times as long to load as this module, and few commands ask

    most = shutil.get_terminal_size().columns - 1  # room for the cursor
    return textwrap.fill(question, most, break_long_words=False, break_on_hyphens=False)


def _tell(planned: HomePlan) -> None:
    """Report what the plan does not show: what could not be inspected, and unknown sources."""
    for problem in planned.problems:
        note(f"warning: {problem.path}: {problem.reason}")
    tell_unknown_sources(planned.unknown_sources)


def tell_finished(operations: Sequence[str]) -> None:
    """Report operations that a killed run left open and this one has finished."""
    for operation in operations:
        note(f"warning: operation {operation} was interrupted, and is finished now.")


def plan_by_number(
    home: OperationUndo,
    plan: Callable[[str | None], _Planned],
    operation: str | None,
    *,
    dry_run: bool,
    yes: bool,
) -> _Planned:
    """Return the plan to undo or redo an operation. If one that was killed is in the way, finish
    that first, unless this is a dry run. Raises `DeclinedError` if the user does not want that."""
    if operation is None or dry_run:
        return plan(operation)

    def ask(log: LogView, cut: Sequence[Operation]) -> None:
        declined = None if yes else _ask_to_finish(log, cut)
        if declined is not None:
            raise declined from None

    return home.settled_if_refused(
        operation, lambda: plan(operation), before=ask, told=tell_finished
    )


def _ask_to_finish(log: LogView, cut: Sequence[Operation]) -> DeclinedError | None:
    """Ask before killed restores are finished, because that changes files of projects."""
    restores = {each.operation for each in log.pending if each.item.action is Action.ROLL_BACK}
    if not restores:
        return None
    numbers = in_words(sorted({each.id for each in cut} | restores))
    facts = [
        f"Operation {each.id} ({each.command}) was interrupted and is in the way." for each in cut
    ]
    hint = " ".join([*facts, "To finish it, pass --yes."])
    facts.append("Finishing it changes files in a project.")
    return asked(f"Finish {numbers} first?", "changed", hint, facts=facts)


def _tell_settled(report: Report) -> None:
    """Report settled operations. The plan was made before, so what they brought back is not in it,
    and would otherwise go unnoticed."""
    if report.operation in report.settled:
        tell_finished([report.operation])
        return
    for operation in report.settled:
        left = (
            ": items that it had not finished are back in place. "
            "Run the command again to include them."
        )
        more = left if operation in report.back else "."
        note(f"warning: operation {operation} was interrupted and has just been settled{more}")


def _save(invocation: Invocation, planned: HomePlan, path: Path) -> None:
    planned.save(path)
    if not invocation.json:
        say()
        applying = f"holdfast {invocation.home_flag}apply {quoted(path)}"
        suggest("Nothing was changed. The plan is saved.", "To apply it:", applying)


def _document(invocation: Invocation, plan: Plan, report: Report | None) -> None:
    if invocation.together is not None:
        invocation.together.append((plan, report))
    if invocation.json:
        print_json({"plan": plan.to_json(), **applied_json(report)})


def applied_json(report: Report | None) -> dict[str, Any]:
    """What was done, in the JSON format of every command that applies something."""
    return {"applied": report is not None, "report": None if report is None else report.to_json()}
