"""`holdfast checkpoints take`: capture a directory as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.checkpoint_options import (
    capture,
    directory_argument,
    hash_option,
    resolved,
)
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import stored_text
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Taking


@click.command(
    "take",
    cls=Command,
    example="holdfast checkpoints take\n"
    "holdfast checkpoints take ~/work/site --reason 'before the refactoring'\n"
    "holdfast checkpoints take --path src/main.py --path src/data",
)
@directory_argument
@click.option("--reason", default="by hand", metavar="TEXT", help="Why it is taken [by hand].")
@click.option("--session", metavar="ID", help="The session it belongs to.")
@click.option("--turn", metavar="TEXT", help="The turn of that session.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="P",
    help="Look only at this path, and below it; the rest is as it was.",
)
@hash_option
@click.option("--all", "all_items", is_flag=True, help="List every path that was not captured.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    directory: str | None,
    *,
    reason: str,
    session: str | None,
    turn: str | None,
    paths: tuple[str, ...],
    hash_all: bool,
    all_items: bool,
) -> int:
    """Take a checkpoint of a directory: by default, of the current one.

    Nothing is taken when nothing changed since the last one. What the ignore rules leave out and
    what is larger than max_file_size_mb is not captured; what could not be is named. Too broad
    places, such as / or your home directory, are refused.
    """
    workdir = resolved(directory)
    texts = {"--reason": reason, "--session": session or "", "--turn": turn or ""}
    reason, session_id, turn_name = (
        stored_text(text, flag).strip() for flag, text in texts.items()
    )
    taking = capture(invocation).take(
        workdir,
        reason=reason,
        session=session_id or None,
        turn=turn_name or None,
        paths=paths,
        hash_all=hash_all,
    )
    _tell(invocation, workdir, taking, all_items=all_items)
    return 0 if taking.id else HoldfastError.exit_code


def _tell(invocation: Invocation, workdir: Path, taking: Taking, *, all_items: bool) -> None:
    from holdfast.model.checkpoint import TakeOutcome

    if taking.outcome is TakeOutcome.SKIPPED:
        from holdfast.cli.errors import print_error

        print_error(HoldfastError(f"No checkpoint was taken. {taking.reason}."), as_json=False)
    if invocation.json:
        from holdfast.cli.output import print_json
        from holdfast.cli.show_checkpoints import not_captured_json

        print_json(
            {
                "outcome": taking.outcome.value,
                "id": taking.id,
                "reason": taking.reason,
                "not_captured": not_captured_json(taking.not_captured),
                "excluded": taking.excluded,
            }
        )
        return
    from holdfast.cli.output import name, note, say, suggest
    from holdfast.cli.show_checkpoints import short, show_not_captured

    if taking.id is None:
        return
    if taking.outcome is TakeOutcome.UNCHANGED:
        say(name(f"Nothing changed in {workdir} since checkpoint {short(taking.id)}."))
    else:
        say(name(f"Took checkpoint {short(taking.id)} of {workdir}. Go back to it with:"))
        suggest(f"holdfast {invocation.home_flag}checkpoints restore {short(taking.id)}")
    show_not_captured(taking.not_captured, all_items=all_items)
    if taking.excluded:
        from holdfast.model.text import format_count

        left = format_count(taking.excluded, "file or folder", "files and folders")
        note(f"{left} left out by default: `holdfast checkpoints excluded` lists them")
