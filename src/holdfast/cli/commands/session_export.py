"""`holdfast sessions export`: sessions as JSONL for machines, or Markdown for people."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.progress import progress
from holdfast.cli.session_options import (
    filter_options,
    is_given,
    need_store,
    resolved,
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
    from holdfast.services.exchange.markdown import export_markdown
    from holdfast.services.exchange.redactor import Redactor
    from holdfast.services.exchange.session_export import export_sessions
    from holdfast.services.exchange.session_line import session_line

    store = need_store(invocation)
    if ids:
        wanted = replace(wanted, ids=tuple(resolved(invocation, store, each) for each in ids))
    with progress(stoppable=True) as shown, _sink(output) as sink:
        report = export_sessions(
            store,
            wanted,
            sink,
            form=session_line if form == "jsonl" else export_markdown,
            redactor=Redactor() if redact else None,
            progress=shown,
        )
        if report.stopped and output is not None:
            raise KeyboardInterrupt  # half an export does not take the place of a whole one
    return report


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a private file that gets its name when it is whole."""
    if output is None:
        from holdfast.cli.streams import output_errors

        with output_errors():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    from holdfast.stores.files import PRIVATE_FILE, storage_errors

    if output.exists() and not output.is_file():
        raise UsageError(f"{output} is no file; without --output, standard output is used.")
    target = output.resolve()  # a link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with storage_errors(f"write {output}"):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def _tell(report: ExportReport, output: Path) -> None:
    from holdfast.cli.output import name, say
    from holdfast.model.units import format_count

    sessions = format_count(report.sessions, "session")
    messages = format_count(report.messages, "message")
    say(name(f"Wrote {sessions} with {messages} to {output}."))
    if report.redacted:
        found = ", ".join(f"{count:,} {rule}" for rule, count in report.redacted.items())
        say(name(f"Redacted: {found}."))
