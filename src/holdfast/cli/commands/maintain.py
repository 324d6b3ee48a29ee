"""`holdfast maintain`: look after a home, once or for ever, or have the system do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.errors import BusyError, UsageError

if TYPE_CHECKING:
    from holdfast.model.maintenance import MaintenanceResult


@click.command(
    cls=Command,
    example="holdfast maintain\n"
    "holdfast maintain --dry-run\n"
    "holdfast maintain --watch\n"
    "holdfast maintain --install systemd",
)
@click.option("--force", is_flag=True, help="Run even though it is not due.")
@click.option("--early", metavar="DURATION", help="Run if it is due within this time: 2h.")
@click.option("--watch", "watched", is_flag=True, help="Stay, and run whenever it is due.")
@click.option(
    "--install",
    "scheduler",
    type=Choice(["systemd", "cron"]),
    help="Have the system run it every day.",
)
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be done.")
@click.option("--yes", "-y", is_flag=True, help="With --install, do not ask.")
@click.pass_obj
def maintain(
    invocation: Invocation,
    *,
    force: bool,
    early: str | None,
    watched: bool,
    scheduler: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Look after a home, if it is time to.

    Runs at most once in 24 hours (min_interval_hours), whoever asks for it. It finishes what a
    killed run left, ends sessions whose process is gone, empties trash whose time is over, and
    gives free space back. With `auto_prune = true` in [sessions] it prunes by the rules of the
    configuration too, with `auto_gc = true` it removes empty and trivial sessions, with
    `auto_archive = true` it archives old sessions before it prunes, and with
    `files_retention_days` it removes the files of older sessions and keeps the sessions.

    It asks nothing: what it may remove is what the configuration allows. What it removes is in
    the log, and `holdfast undo` brings it back until the trash is emptied.
    """
    if (watched and (scheduler or dry_run)) or (scheduler and (force or early)):
        raise UsageError("These flags do not go together.", hint="See `holdfast maintain --help`.")
    if scheduler is not None:
        from holdfast.cli.install import install

        return install(invocation, scheduler, dry_run=dry_run, yes=yes)
    if watched:
        from holdfast.cli.watch import watch

        return watch(invocation, force=force)
    if dry_run:
        return _preview(invocation)
    return _run(invocation, force=force, early=early)


def _preview(invocation: Invocation) -> int:
    from holdfast.cli.show_maintenance import show_auto_prune, show_preview

    home = invocation.open_home()
    with progress() as shown:
        plans = home.plan_maintain(progress=shown)
    if invocation.json:
        from holdfast.cli.output import print_json

        steps = [
            {"step": each.step.value, "note": each.note, "plan": each.plan.to_json()}
            for each in plans
        ]
        print_json({"home": str(home.path), "applied": False, "steps": steps})
        return 0
    show_preview(plans)
    show_auto_prune(invocation, auto_prune=home.settings.sessions.auto_prune)
    return 0


def _run(invocation: Invocation, *, force: bool, early: str | None) -> int:
    from holdfast.cli.log_lines import log_to_stderr

    home = invocation.open_home()
    with progress(stoppable=True) as shown, log_to_stderr(debug=invocation.debug):
        result = home.maintain(force=force, early=early, progress=shown)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(result.to_json())
    else:
        from holdfast.cli.show_maintenance import show_result

        show_result(invocation, result)
    return exit_code(result)


def exit_code(result: MaintenanceResult) -> int:
    """Not being due is no failure."""
    from holdfast.cli.main import FAILED, INTERRUPTED

    if result.busy:
        return BusyError.exit_code
    if result.stopped:
        return INTERRUPTED
    return 0 if result.ok else FAILED
