"""`holdfast sessions restore`: bring archived sessions back into the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import exit_code
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.report import Report

_EXAMPLES = 5


@click.command(
    "restore",
    cls=Command,
    example="holdfast sessions restore 20260325_112518_6995d1\n"
    "holdfast sessions restore --all --dry-run",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every archived session.")
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--yes", "-y", is_flag=True, help="Accepted for scripts; nothing is asked here.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,  # noqa: ARG001 - restoring removes nothing, so there is nothing to ask
) -> int:
    """Put archived sessions back whole: messages, totals, lineage, route, search and files.

    An id may be shortened while it is unique. Nothing is ever replaced: when another session has
    the id, or another file the name of one that would come back, the session stays in the archive
    and the report names what is in the way. A bundle leaves the archive after its session is back.
    A damaged one stays, and is named.
    """
    if not ids and not everything:
        raise UsageError(
            "Say which sessions to restore: their ids, or --all.",
            hint="`holdfast sessions list --archived` shows them.",
        )
    if ids and everything:
        raise UsageError("--all is every archived session; it does not go with ids.")
    planned = invocation.open_home().plan_restore_sessions(ids or None)
    for problem in planned.problems:
        from holdfast.cli.output import note

        note(f"warning: {problem.path}: {problem.reason}")
    report = None
    if not dry_run:
        with progress(stoppable=True) as shown:
            report = planned.apply(progress=shown).report
    _show(invocation, planned.sessions, report)
    return 0 if report is None else exit_code(report)


def _show(
    invocation: Invocation, sessions: Sequence[ArchivedSession], report: Report | None
) -> None:
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(
            {
                "sessions": [each.to_json() for each in sessions],
                "applied": report is not None,
                "report": report.to_json() if report else None,
            }
        )
        return
    from holdfast.cli.output import say

    if not sessions:
        say("There are no archived sessions.")
    elif report is None:
        _preview(sessions)
    else:
        from holdfast.cli.show_plan import show_report

        show_report(report, home_flag=invocation.home_flag)


def _preview(sessions: Sequence[ArchivedSession]) -> None:
    from holdfast.cli.output import name, say
    from holdfast.model.text import format_bytes, format_count

    size = format_bytes(sum(each.session.bytes for each in sessions))
    say(f"This would restore {format_count(len(sessions), 'session')}, {size} of messages.")
    for each in sessions[:_EXAMPLES]:
        say(name(f"  {each.session.id}  {each.session.title or ''}"))
    if len(sessions) > _EXAMPLES:
        say(f"  … and {len(sessions) - _EXAMPLES:,} more.")
