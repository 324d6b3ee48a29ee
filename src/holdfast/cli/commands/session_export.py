"""`holdfast sessions export`: sessions as JSONL for machines, or Markdown for people."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.progress import progress
from holdfast.cli.session_options import (
    filter_options,
    is_given,
    session_filter,
)
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.model.session import SessionFilter
    from holdfast.services.exchange.session_export import ExportReport

_FORMATS = ("jsonl", "markdown")


@click.command(
    "export",
    cls=Command,
    example="holdfast sessions export --all --output sessions.jsonl\n"
    "holdfast sessions export 20260325_112518 --format markdown --redact",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every session.")
@filter_options
@click.option(
    "--format",
    "form",
    type=Choice(list(_FORMATS)),
    default="jsonl",
    show_default=True,
    help="JSONL can be imported again; Markdown is for reading.",
)
@click.option("--redact", is_flag=True, help="Replace secrets by a note of what they were.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write here, whole or not at all [standard output].",
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    *,
    everything: bool,
    form: str,
    redact: bool,
    output: Path | None,
    **flags: Any,
) -> int:
    """Write sessions out: those with these ids, those that the filters pick, or all.

    Export, import and export again give the same bytes. Secrets are left in unless --redact is
    given; the rules look for keys and passwords, not for everything that is private.
    """
    wanted = _wanted(invocation, ids, everything, flags)
    if invocation.json and output is None:
        raise UsageError("--json needs --output FILE: standard output cannot hold both.")
    report = _export(invocation, wanted, ids, form, redact, output)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({**report.to_json(), "output": str(output)})
    elif output is not None:
        _tell(report, output)
    return INTERRUPTED if report.stopped else 0


def _wanted(
    invocation: Invocation, ids: tuple[str, ...], everything: bool, flags: dict[str, Any]
) -> SessionFilter:
    filtered = is_given(flags)
    if not ids and not everything and not filtered:
        raise UsageError("Say which sessions: their ids, filters, or --all.")
    if everything and (ids or filtered):
        raise UsageError("--all is every session; it does not go with ids or filters.")
    return session_filter(invocation, flags)


def _export(
    invocation: Invocation,
    wanted: SessionFilter,
    ids: tuple[str, ...],
    form: str,
    redact: bool,
    output: Path | None,
) -> ExportReport:
    from holdfast.cli.streams import output_errors

    home = invocation.open_home()
    with progress(stoppable=True) as shown, output_errors() if output is None else nullcontext():
        report = home.export(
            sys.stdout.buffer if output is None else output,
            ids or None,
            wanted=wanted,
            form=form,
            redact=redact,
            progress=shown,
        )
        if output is None:
            sys.stdout.buffer.flush()
    if report.stopped and output is not None:
        raise KeyboardInterrupt  # nothing was written
    return report


def _tell(report: ExportReport, output: Path) -> None:
    from holdfast.cli.output import name, say
    from holdfast.model.text import format_count

    sessions = format_count(report.sessions, "session")
    messages = format_count(report.messages, "message")
    say(name(f"Wrote {sessions} with {messages} to {output}."))
    if report.redacted:
        found = ", ".join(f"{count:,} {rule}" for rule, count in report.redacted.items())
        say(name(f"Redacted: {found}."))
