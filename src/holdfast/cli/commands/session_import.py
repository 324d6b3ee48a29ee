"""`holdfast sessions import`: sessions from JSONL into the store."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.progress import progress
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.services.exchange.session_import import ImportReport

_SHOWN = 20


@click.command(
    "import",
    cls=Command,
    example="holdfast sessions import sessions.jsonl\n"
    "zcat old.jsonl.gz | holdfast sessions import -",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--replace", is_flag=True, help="Replace sessions whose id is there already.")
@click.pass_obj
def command(invocation: Invocation, file: Path, *, replace: bool) -> int:
    """Store the sessions of a JSONL file, one a line, as `sessions export` writes them.

    Each session is stored whole or not at all. A bad line is refused by its number and the others
    go on; an id that exists is skipped unless --replace is given, and then the old session goes
    into the archive: `sessions list --archived` shows it, and `sessions restore` brings it back
    when the new one is gone. The home is made when there is none. `-` reads standard input.
    """
    with _stream(file) as stream:
        home = invocation.create_home()
        with progress(stoppable=True) as shown:
            done = home.import_(stream, replace=replace, progress=shown)
    report = done.report
    kept = {"replaced_kept_in": done.kept_in, "operation": done.operation}
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({**report.to_json(), **kept})
    else:
        _tell(report, kept["operation"], invocation.home_flag)
    if report.stopped:
        return INTERRUPTED
    return HoldfastError.exit_code if report.refused else 0


def _stream(file: Path) -> AbstractContextManager[BinaryIO]:
    from holdfast.api.home import import_source

    return nullcontext(sys.stdin.buffer) if str(file) == "-" else import_source(file)


def _tell(report: ImportReport, operation: str | None, home_flag: str) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say, suggest
    from holdfast.model.text import format_count

    stored = format_count(report.imported + report.replaced, "session")
    say(f"Stored {stored} with {format_count(report.messages, 'message')}.")
    if report.replaced:
        say(
            f"{report.replaced:,} of them replaced one that was there; those are in the archive "
            f"(operation {operation}):"
        )
        suggest(f"holdfast {home_flag}sessions list --archived")
    if report.skipped:
        there = "was" if len(report.skipped) == 1 else "were"
        count = format_count(len(report.skipped), "session")
        say(f"{count} {there} there already; --replace takes the new ones.")
    for note in report.notes[:_SHOWN]:
        say(name(f"Note: {note}"))
    if len(report.notes) > _SHOWN:
        say(Text(f"… and {len(report.notes) - _SHOWN:,} more notes.", style="dim"))
    if report.refused:
        say(Text(f"Refused {format_count(len(report.refused), 'line')}:", style="bold red"))
        for refused in report.refused[:_SHOWN]:
            say(name(f"  line {refused.line}: {refused.text}"))
        if len(report.refused) > _SHOWN:
            say(Text(f"  … and {len(report.refused) - _SHOWN:,} more.", style="dim"))
