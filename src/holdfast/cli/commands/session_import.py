"""`holdfast sessions import`: sessions from JSONL into the store."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.progress import progress
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.model.session import Message, Session
    from holdfast.services.exchange.importing import ImportReport

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
    go on; an id that exists is skipped unless --replace is given, and then the old session is kept
    in the home's archive folder. The home is made when there is none. `-` reads standard input.
    """
    from holdfast.services.exchange.importing import import_sessions
    from holdfast.stores.sqlite.importing import SqliteImport

    with _opened(file) as stream:
        store = invocation.create_store()
        stamp = datetime.fromtimestamp(invocation.now, UTC).strftime("%Y%m%d_%H%M%S")
        replaced = _Replaced(store.database.path.parent / "archive" / f"replaced_{stamp}.jsonl")
        with progress(stoppable=True) as shown:
            report = import_sessions(
                SqliteImport(store, replaced.keep),
                stream,
                replace=replace,
                now=invocation.now,
                progress=shown,
            )
    if invocation.json:
        from holdfast.cli.output import print_json

        kept = str(replaced.path) if report.replaced else None
        print_json({**report.to_json(), "replaced_kept_in": kept})
    else:
        _tell(report, replaced.path)
    if report.stopped:
        return INTERRUPTED
    return HoldfastError.exit_code if report.refused else 0


class _Replaced:
    """Where sessions go that an import replaces: a file that can be imported again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, session: Session, messages: Iterable[Message]) -> None:
        """On the disk before this returns: only then the old one is removed."""
        from holdfast.services.exchange.jsonl import session_line
        from holdfast.stores.files import PRIVATE_FILE, make_private_dir, write_all

        make_private_dir(self.path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(self.path, flags, PRIVATE_FILE)
        try:
            for piece in session_line(session, messages):
                write_all(fd, piece.encode("utf-8"))
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    from holdfast.stores.files import storage_errors

    if str(file) == "-":
        yield sys.stdin.buffer
        return
    with storage_errors(f"read {file}"):
        stream = file.open("rb")
    with stream:
        yield stream


def _tell(report: ImportReport, kept: Path) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say
    from holdfast.model.units import format_count

    stored = format_count(report.imported + report.replaced, "session")
    say(f"Stored {stored} with {format_count(report.messages, 'message')}.")
    if report.replaced:
        say(name(f"{report.replaced:,} of them replaced one that was there; those are in {kept}."))
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
