"""`holdfast run`: any agent with a lease, checkpoints and limits around it."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.api.checkpoints import Checkpoints
from holdfast.api.run import RunLimits, Runner
from holdfast.cli.frame import Choice, command
from holdfast.cli.invocation import Invocation, here, resolved
from holdfast.cli.output import note, print_json
from holdfast.cli.take import short
from holdfast.errors import UsageError
from holdfast.model.text import format_count, format_duration, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from holdfast.api.run import ProcessGroup, RunReport


@command(
    context_settings={"allow_interspersed_args": False},  # options of the command are its own
    example="holdfast run -- claude\n"
    "holdfast run --budget 5USD --max-time 2h -- codex exec 'fix the tests'\n"
    "holdfast run --budget 500ktokens --name nightly -- gemini -p 'update the docs'",
)
@click.argument("command", metavar="CMD...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--budget",
    "budgets",
    metavar="AMOUNT",
    multiple=True,
    help="Stop it when its agent has used this much: 5USD, 500ktokens. Can be given for both.",
)
@click.option("--max-time", metavar="DURATION", help="Stop it after this long: 30m, 2h.")
@click.option("--name", metavar="TEXT", help="What the run is called in `sessions list`.")
@click.option("--path", metavar="DIR", help="The directory to run it in [the current one].")
@click.option("--no-checkpoints", is_flag=True, help="Take no checkpoints while it works.")
@click.option(
    "--on-failure",
    type=Choice(["stop", "allow"]),
    default="stop",
    help="What to do when the budget cannot be checked, such as for a model without a price "
    "[stop].",
)
def run(
    invocation: Invocation,
    /,
    command: tuple[str, ...],
    *,
    budgets: tuple[str, ...],
    max_time: str | None,
    name: str | None,
    path: str | None,
    no_checkpoints: bool,
    on_failure: str,
) -> int:
    """Run an agent, or any other command, with checkpoints and limits around it.

    A checkpoint is taken before it starts and after each change that it makes. What it uses is
    read from the sessions that agents write while it works in this directory. Over a limit it is
    stopped with everything it started: SIGINT, then SIGTERM, then SIGKILL. The exit code is that
    of the command; if it was stopped, never 0. The summary goes to stderr. With --json, stdout has
    only the document, and the output of the command goes to stderr.
    """
    limits = RunLimits.read(budgets, max_time=max_time, strict=on_failure == "stop")
    if not command:
        raise UsageError("Name the command to run.", hint="Example: holdfast run -- claude")
    place = invocation.checked_place(invocation.home_path)
    checkpoints = Checkpoints(place, here=here(), user_home=invocation.user_home)
    with _passing_signals() as passing:
        report = Runner(place, checkpoints, invocation.machine).run(
            command,
            workdir=resolved(path),
            environ=os.environ,
            limits=limits,
            name=name,
            checkpoints=not no_checkpoints,
            told=lambda message: note(f"holdfast: {message}"),
            stdout=sys.stderr.fileno() if invocation.json else None,
            started=passing.append,
        )
    _summarise(invocation, command, report)
    if invocation.json:
        print_json(_document(report))
    return report.exit_code


@contextmanager
def _passing_signals() -> Iterator[list[ProcessGroup]]:
    """Pass SIGINT, SIGTERM and SIGHUP to the command: when it ends, so do we, with a summary."""
    groups: list[ProcessGroup] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not groups:
            raise KeyboardInterrupt
        groups[0].signal(number)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, pass_on) for each in signals}
    try:
        yield groups
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _summarise(invocation: Invocation, command: tuple[str, ...], report: RunReport) -> None:
    ending, spent = report.ending, report.ending.spent
    ran = format_duration(ending.seconds)
    how = (
        f"was stopped by {ending.signal} after {ran}: {ending.stopped}"
        if ending.stopped
        else (f"ended with exit code {ending.code} after {ran}")
    )
    note(f"holdfast: {one_line(command[0])} {how}.")
    if ending.left:
        note("warning: something that it started is still running, and no limit applies to it now.")
    if spent.tokens or spent.known:
        note(f"  Used {spent.in_words}.")
    if report.left_open:
        note(f"warning: the session of the run is not marked as ended: {report.left_open}")
    if report.changes_unknown:
        note(f"warning: cannot tell what changed: {report.changes_unknown}")
    if report.before is None:
        return
    if report.no_checkpoints:
        note(f"warning: some checkpoints are missing: {report.no_checkpoints}")
    if not (report.changes or report.changes_unknown):
        note("  It changed no files.")
        return
    if report.changes:
        kinds = Counter(each.kind.value for each in report.changes)
        parts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
        taken = format_count(report.taken, "checkpoint")
        note(f"  Files that differ from before: {parts}. The run has {taken}.")
    flag = invocation.home_flag
    note(f"  See them:  holdfast {flag}checkpoints diff {short(report.before)}")
    note(f"  Go back:   holdfast {flag}checkpoints restore {short(report.before)}")


def _document(report: RunReport) -> dict[str, object]:
    ending, spent = report.ending, report.ending.spent
    return {
        "session": report.session,
        "workdir": str(report.workdir),
        "exit_code": report.exit_code,
        "command_code": ending.code,
        "seconds": round(ending.seconds, 3),
        "stopped": ending.stopped or None,
        "stopped_by": ending.signal or None,
        "still_running": ending.left,
        "tokens": spent.tokens,
        "cost": spent.cost,
        "cost_known": spent.known,
        "unpriced_models": list(spent.unpriced),
        "agent_sessions": list(spent.sessions),
        "before": report.before,
        "no_checkpoints": report.no_checkpoints or None,
        "checkpoints_taken": report.taken,
        "changes": [{"path": each.path, "kind": each.kind.value} for each in report.changes],
        "changes_unknown": report.changes_unknown or None,
        "left_open": report.left_open or None,
    }
