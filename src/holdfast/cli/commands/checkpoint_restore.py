"""`holdfast checkpoints restore`: bring a project back to one of its checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import (
    chosen,
    hash_option,
    id_argument,
    paths_argument,
)
from holdfast.cli.errors import print_error
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import confirmed
from holdfast.errors import DeclinedError, HoldfastError

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Checkpoint, NotCaptured, Rollback


@click.command(
    "restore",
    cls=Command,
    example="holdfast checkpoints restore 3f2a1b9c --dry-run\n"
    "holdfast checkpoints restore 3f2a1b9c src/main.py --yes",
)
@id_argument
@paths_argument
@hash_option
@click.option("--all", "all_items", is_flag=True, help="List every path.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "-n", is_flag=True, help="Show what would change and stop there.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    checkpoint: str,
    paths: tuple[str, ...],
    *,
    hash_all: bool,
    all_items: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Bring a project back to a checkpoint, byte for byte: all of it, or the given paths.

    It shows what will be written, changed and deleted, and asks. It then does that and no more: a
    file that changed after it was shown is left as it is and named, and the exit code is 1.
    Before the first change it takes a checkpoint of how things are, so that `holdfast undo` can
    take the restore back. What the checkpoint did not cover, such as ignored files, stays as it is.
    """
    checkpoints = invocation.checkpoints()
    planned = checkpoints.plan_restore(chosen(checkpoints, checkpoint), paths, hash_all=hash_all)
    target, foreseen = planned.checkpoint, planned.preview
    if not invocation.json:
        _show(target, foreseen, all_items=all_items)
    if dry_run or planned.changes_nothing:
        _document(invocation, foreseen)
        return 0
    declined = None if yes else _ask(target, foreseen)
    if declined is not None:
        _document(invocation, foreseen)
        print_error(declined, as_json=False)
        return declined.exit_code
    with progress() as shown:
        report = planned.apply(progress=shown)
    done, left = report.rollback, report.left
    _document(invocation, done, left, applied=True)
    if not invocation.json:
        _tell(invocation, done, left, all_items=all_items)
    return HoldfastError.exit_code if left or not (done.written or done.deleted) else 0


def _ask(target: Checkpoint, foreseen: Rollback) -> DeclinedError | None:
    """None when a person said yes."""
    if not sys.stdin.isatty():
        return DeclinedError(
            "Nothing was restored: there is no terminal to ask on.",
            hint="Look at it with --dry-run, then pass --yes.",
        )
    from holdfast.model.text import one_line

    click.echo(err=True)
    gone = f", {len(foreseen.deleted):,} of them deleted" if foreseen.deleted else ""
    count = len(foreseen.written) + len(foreseen.deleted)
    what = f"{count:,} path{'' if count == 1 else 's'} of {one_line(target.workdir)}"
    if confirmed(f"Restore {what}{gone}? It can be undone."):
        return None
    return DeclinedError("Nothing was restored.")


def _show(target: Checkpoint, foreseen: Rollback, *, all_items: bool) -> None:
    from holdfast.cli.output import name, say, when
    from holdfast.cli.show_checkpoints import short, show_foreseen

    known = f"checkpoint {short(target.known_id)} of {when(target.time)}"
    if not (foreseen.written or foreseen.deleted):
        alike = "so far as that can be " if foreseen.kept else ""
        say(name(f"{target.workdir} is {alike}as in {known}. There is nothing to restore."))
    else:
        say(name(f"Restoring {target.workdir} to {known}: {target.reason}", "bold"))
    show_foreseen(target.workdir, foreseen, all_items=all_items)


def _tell(
    invocation: Invocation,
    done: Rollback,
    left: Sequence[NotCaptured],
    *,
    all_items: bool,
) -> None:
    """What was done, what was left although the preview named it or knew nothing of it, and how to
    take the restore back."""
    from holdfast.cli.output import say, suggest
    from holdfast.cli.show_checkpoints import short, show_not_captured

    say()
    say(f"{len(done.written):,} written, {len(done.deleted):,} deleted.")
    show_not_captured(left, all_items=all_items, title="Left alone")
    if left:
        say("These stay as they are. Run the same restore again to see what it would do now.")
    if done.operation is not None:
        safety = short(done.safety_checkpoint or "")
        say(f"How it was before is checkpoint {safety}. Take the restore back with:")
        suggest(f"holdfast {invocation.home_flag}undo {done.operation}")


def _document(
    invocation: Invocation,
    rollback: Rollback,
    left: Sequence[NotCaptured] = (),
    *,
    applied: bool = False,
) -> None:
    if not invocation.json:
        return
    from holdfast.cli.output import print_json
    from holdfast.cli.show_checkpoints import not_captured_json

    document: dict[str, Any] = {
        "applied": applied,
        "written": list(rollback.written),
        "deleted": list(rollback.deleted),
        "kept": not_captured_json(rollback.kept),
        "left": not_captured_json(left),
        "safety_checkpoint": rollback.safety_checkpoint,
        "operation": rollback.operation,
    }
    print_json(document)
