"""`holdfast sessions export` and `import`: JSONL for programs, Markdown for people."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.exchange import import_source
from holdfast.api.home import Home
from holdfast.api.values import ExportReport
from holdfast.cli.completing import files_and_agents, session_ids
from holdfast.cli.frame import Choice, command
from holdfast.cli.homes import failed_json, tell_unread
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.options import edit_options
from holdfast.cli.output import name, note, nothing_changed, print_json, say, say_rest, suggest
from holdfast.cli.progress import progress
from holdfast.cli.session_options import filter_options, is_given, session_filter
from holdfast.cli.streams import output_errors
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.api.agent_home import UnreadHome
    from holdfast.api.home import Home
    from holdfast.api.values import ImportReport
    from holdfast.model.session import SessionFilter


_FORMATS = ("jsonl", "markdown")
_SHOWN = 20
#: How many refused lines are shown if all lines were refused.
_FEW = 5


@command(
    example="holdfast sessions export --all --output sessions.jsonl\n"
    "holdfast sessions export 20260325_112518 --format markdown --redact"
)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=session_ids)
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
@click.option(
    "--redact", is_flag=True, help="Replace secrets with a note that says what they were."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file, completely or not at all [standard output, also -].",
)
def export(
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
    """Write sessions to a file: those with these ids, those that the filters select, or all.
    Without --home this covers all homes of the machine.

    Archived sessions are not exported: restore them first, with `sessions restore`.

    Export, import and export again give the same bytes. Secrets are left in unless --redact is
    given; the rules look for keys and passwords, not for everything that is private.
    """
    if str(output) == "-":
        output = None
    wanted = _wanted(invocation, ids, everything, flags)
    if invocation.json and output is None:
        raise UsageError("--json needs --output FILE: standard output cannot hold both.")
    report, unread = _export(invocation, wanted, ids, form, redact, output)
    if invocation.json:
        failed = {"failed": failed_json(unread)} if invocation.several_homes else {}
        print_json({**report.to_json(), "output": str(output), **failed})
    elif output is not None:
        _tell_export(report, output)
    if everything and not report.stopped:
        _tell_archived(invocation)
    return INTERRUPTED if report.stopped else tell_unread(unread)


def _wanted(
    invocation: Invocation, ids: tuple[str, ...], everything: bool, flags: dict[str, Any]
) -> SessionFilter:
    filtered = is_given(flags)
    if not ids and not everything and not filtered:
        raise UsageError("Name the sessions to export: by their ids, with filters, or with --all.")
    if everything and (ids or filtered):
        raise UsageError("--all exports every session; leave out ids and filters.")
    return session_filter(invocation, flags)


def _export(
    invocation: Invocation,
    wanted: SessionFilter,
    ids: tuple[str, ...],
    form: str,
    redact: bool,
    output: Path | None,
) -> tuple[ExportReport, Sequence[UnreadHome]]:
    machine = invocation.several()
    source = invocation.open_home() if machine is None else machine
    steps = progress(stoppable=True, changes=False)
    with steps as shown, output_errors() if output is None else nullcontext():
        done = source.export(
            sys.stdout.buffer if output is None else output,
            ids or None,
            wanted=wanted,
            form=form,
            redact=redact,
            progress=shown,
        )
        if output is None:
            sys.stdout.buffer.flush()
        report = done if isinstance(done, ExportReport) else done.report
        if report.stopped and output is not None:
            raise KeyboardInterrupt  # nothing was written
    return report, () if isinstance(done, ExportReport) else done.unread


def _tell_archived(invocation: Invocation) -> None:
    """Whoever exports everything has to know what is missing."""
    from holdfast.api.archive import ArchivedSessions

    machine = invocation.several()
    if machine is None:
        count, flag = ArchivedSessions(invocation.open_place()).count(), invocation.home_flag
    else:
        looked = machine.look(lambda place: ArchivedSessions(place).count())
        held = [(home, number) for home, number in looked.seen if number]
        count = sum(number for _, number in held)
        flag = f"--home {quoted(held[0][0].name)} " if len(held) == 1 else ""
    if count:
        only = "is 1 archived session" if count == 1 else f"are {count:,} archived sessions"
        every = " --all-homes" if machine is not None and not flag else ""
        note(
            f"note: There {only}, which this export does not contain. To export them too, restore "
            f"them first: holdfast {flag}sessions restore --all{every}"
        )


def _tell_export(report: ExportReport, output: Path) -> None:
    sessions = format_count(report.sessions, "session")
    messages = format_count(report.messages, "message")
    say(name(f"Wrote {sessions} with {messages} to {output}."))
    if report.redacted:
        found = ", ".join(f"{count:,} {rule}" for rule, count in report.redacted.items())
        say(name(f"Redacted: {found}."))


@command(
    "import",
    example="holdfast sessions import sessions.jsonl\n"
    "holdfast sessions import codex --session 01a1e1fd\n"
    "zcat old.jsonl.gz | holdfast sessions import -",
)
@click.argument(
    "source",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    shell_complete=files_and_agents,
)
@click.option(
    "--session",
    "sessions",
    multiple=True,
    metavar="ID",
    help="Only this session and its subagents, out of the file or home of an agent; repeatable.",
)
@click.option("--replace", is_flag=True, help="Replace sessions that have the same id.")
@edit_options
def import_(
    invocation: Invocation,
    source: Path,
    *,
    sessions: tuple[str, ...],
    replace: bool,
    dry_run: bool,
) -> int:
    """Store sessions from elsewhere in a Holdfast home.

    FILE is one of these: an export, as `sessions export` writes it; a transcript of Claude Code,
    Codex or Gemini CLI; a database of OpenCode; the folder of a home; the name of an agent. `-`
    reads an export from standard input.

    Each session is stored completely or not at all. A line that cannot be read is reported by its
    number, and the others are stored. A session whose id exists is skipped. With --replace the old
    session goes into the archive instead: `sessions list --archived` shows it, and `sessions
    restore` brings it back after you remove the new one. The home is created if it does not exist.
    What is read is never changed. With --dry-run nothing is stored.
    """
    named = sys.stdin.buffer if str(source) == "-" else str(source)
    with import_source(named, sessions, clock=invocation.clock) as opened:
        home = _home(invocation) if dry_run else invocation.create_home()
        with progress("importing", stoppable=True, changes=not dry_run) as shown:
            done = home.import_(opened, replace=replace, dry_run=dry_run, progress=shown)
    report = done.report
    kept = {"replaced_kept_in": done.kept_in, "operation": done.operation}
    if invocation.json:
        print_json({**report.to_json(), "agent": done.agent, **kept, "applied": not dry_run})
    else:
        _tell_import(
            report,
            done.agent,
            kept["operation"],
            invocation.home_flag,
            dry_run=dry_run,
            replace=replace,
        )
    if report.stopped:
        return INTERRUPTED
    return HoldfastError.exit_code if report.refused else 0


def _home(invocation: Invocation) -> Home:
    """The home for an import, whether or not it exists."""
    return Home(invocation.checked_place(invocation.home_path))


def _tell_import(
    report: ImportReport,
    agent: str | None,
    operation: str | None,
    home_flag: str,
    *,
    dry_run: bool,
    replace: bool,
) -> None:
    known = agent or report.imported or report.replaced or report.skipped
    if report.refused and not known:
        say(
            "This is neither a Holdfast export nor a session file of an agent that Holdfast knows. "
            "To import an agent's transcript, pass its file: it cannot be read from a pipe."
        )
    stored = format_count(report.imported + report.replaced, "session")
    of = f" of {agent}" if agent else ""
    did = "This would store" if dry_run else "Stored"
    say(name(f"{did} {stored}{of} with {format_count(report.messages, 'message')}."))
    if report.stopped:
        say("It was stopped. To import the rest, run the same command again.")
    _tell_known(report, operation, home_flag, dry_run=dry_run, replace=replace)
    for told in report.notes[:_SHOWN]:
        say(name(f"Note: {told}"))
    say_rest(len(report.notes) - _SHOWN, " notes.")
    if report.refused:
        what = "session" if agent else "line"
        shown = _SHOWN if known else _FEW
        say(f"Refused {format_count(len(report.refused), what)}:", "bold red")
        for refused in report.refused[:shown]:
            place = refused.session or f"line {refused.line}"
            say(name(f"  {place}: {refused.text}"))
        say_rest(len(report.refused) - shown, indent="  ")
    if dry_run:
        nothing_changed()


def _tell_known(
    report: ImportReport, operation: str | None, home_flag: str, *, dry_run: bool, replace: bool
) -> None:
    """Report what happened to sessions whose id is already in the store."""
    if report.replaced and dry_run:
        say(f"{report.replaced:,} of them would replace a session with the same id.")
    elif report.replaced:
        told = (
            f"{report.replaced:,} of them replaced a session with the same id; the old ones are in "
            f"the archive (operation {operation})."
        )
        suggest(told, "To see them:", f"holdfast {home_flag}sessions list --archived")
    if report.skipped:
        one, several = ("is", "are") if dry_run else ("was", "were")
        there, them = (one, "it") if len(report.skipped) == 1 else (several, "them")
        count = format_count(len(report.skipped), "session")
        if replace:
            say(f"{count} {there} already stored with the same content.")
        else:
            say(f"{count} {there} already stored; to replace {them}, use --replace.")
