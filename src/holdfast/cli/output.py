"""Output: one JSON document, or text laid out for the available width.

A command creates lines and tables. On a terminal rich shows them, in colours. A pipe gets them
unabridged, without rich.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from holdfast.cli import plain
from holdfast.cli.plain import Line
from holdfast.cli.streams import output_errors, state, write, write_error
from holdfast.model.text import one_line

# Loaded only for a terminal and for tables: taking a checkpoint needs neither.
TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

    from rich.console import Console

    from holdfast.cli.tables import Rows
    from holdfast.model.item import Problem

#: How many problems are shown individually.
_MOST_PROBLEMS = 5

#: Where output goes if not to standard output: a pager.
_elsewhere: ContextVar[Console | None] = ContextVar("holdfast_console", default=None)


def console() -> Console:
    """Rich's destination: standard output, or the pager."""
    return _elsewhere.get() or _standard()


@cache
def _standard() -> Console:
    from holdfast.cli.console import standard_output

    return standard_output()


@contextmanager
def showing_on(other: Console) -> Iterator[None]:
    """Show everything on another console."""
    before = _elsewhere.set(other)
    try:
        yield
    finally:
        _elsewhere.reset(before)


def width() -> int:
    """The number of columns available for a line."""
    return plain.width() if plain.is_enough() else console().width


#: Collects documents that become part of another one.
_collected: ContextVar[list[dict[str, Any]] | None] = ContextVar("holdfast_documents", default=None)


@contextmanager
def collecting() -> Iterator[list[dict[str, Any]]]:
    """Collect the documents of --json runs as parts of one, instead of printing them."""
    documents: list[dict[str, Any]] = []
    before = _collected.set(documents)
    try:
        yield documents
    finally:
        _collected.reset(before)


def print_json(document: dict[str, Any]) -> None:
    """Print the one document of a --json run. ASCII only: names may contain bytes that are not
    UTF-8."""
    if (documents := _collected.get()) is not None:
        documents.append(document)
        return
    write(json.dumps(document, indent=2) + "\n")


def say(shown: str | Line | Rows = "", style: str = "") -> None:
    """Show text of our own in a style, a line or a table: fitted to the terminal, or unabridged in
    a pipe."""
    if not isinstance(shown, str | Line):
        _show(shown.records() if plain.is_piped() else shown.lines(width()))
        return
    line = (Line(shown, style) if isinstance(shown, str) else shown).printable()
    _show([line] if plain.is_piped() else line.folded(width()))


def say_unfolded(line: Line) -> None:
    """Show a line without folding it: a command to copy, a line of a file."""
    _show([line.printable()])


def suggest(told: str | Line, hint: str, *commands: str) -> None:
    """Show a result, then a hint that ends in a colon, and commands to type next. With --quiet only
    the result is shown."""
    if told and state.quiet:
        say(told)
    if state.quiet:
        return
    say(joined(told, " " if told else "", hint))
    for command in commands:
        say_command(command)


def say_command(command: str) -> None:
    """Show a command, never folded: a copied line must work."""
    say_unfolded(name(f"  {command}", "bold green"))


def nothing_changed() -> None:
    """The last line of a dry run."""
    say()
    say("Nothing was changed.")


def _show(lines: Iterable[Line]) -> None:
    if state.quiet:
        lines = _waiting(lines)
    if state.held is not None or plain.is_enough():
        text = "".join(f"{line.plain.rstrip(' ')}\n" for line in lines)
        _write_now(text) if state.held is None else state.held.append(text)
        return
    from holdfast.cli.console import rendered

    with output_errors():
        for line in lines:
            console().print(rendered(line), soft_wrap=True)


def _waiting(lines: Iterable[Line]) -> Iterator[Line]:
    """The same lines, but an empty line is held back until the next line: with --quiet, the hint
    that it separates may be left out."""
    for line in lines:
        if not line.plain.strip():
            state.blank += 1
            continue
        yield from [Line()] * state.blank
        state.blank = 0
        yield line


def _write_now(text: str) -> None:
    """Written at once, as rich does: if output cannot be shown, the action it announces must not
    happen."""
    with output_errors():
        sys.stdout.write(text)
        sys.stdout.flush()


def note(message: str) -> None:
    """Write a note to stderr. It is not part of the output, so that a pipe stays clean."""
    if state.quiet and not message.startswith("warning:"):
        return
    write_error(one_line(message) + "\n")


def say_rest(hidden: int, how: str = ".", indent: str = "") -> None:
    """Show how many items were not shown, if any, and `how` to see them."""
    if hidden > 0:
        say(f"{indent}… and {hidden:,} more{how}", "dim")


def warn_of(problems: Iterable[Problem]) -> None:
    """Warn on stderr about what could not be read: the first few problems, and how many more there
    are."""
    found = list(problems)
    for problem in found[:_MOST_PROBLEMS]:
        note(f"warning: {problem.path}: {problem.reason}")
    if len(found) > _MOST_PROBLEMS:
        note(f"warning: and {len(found) - _MOST_PROBLEMS:,} more")


def tell_unknown_sources(*found: Mapping[str, str | None]) -> None:
    """Report requested sources that no session has: those that are unknown in each home."""
    for source in found[0] if found else ():
        if all(source in each for each in found):
            near = next(filter(None, (each[source] for each in found)), None)
            also = f"; did you mean {near!r}?" if near else "."
            note(f"note: nothing here comes from {source!r}{also}")


def name(text: str, style: str = "") -> Line:
    """A name from the disk, made safe to print."""
    return Line(one_line(text), style)


def styled(text: str = "", style: str = "") -> Line:
    """Text of our own in a style; a name from the disk goes through `name`."""
    return Line(text, style)


def table(
    *columns: str,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    cut: Sequence[str] = (),
    front: Sequence[str] = (),
    drops: Sequence[str] = (),
    below: str = "",
) -> Rows:
    """A table without lines; see `Rows`."""
    from holdfast.cli.tables import Rows

    return Rows(*columns, right=right, whole=whole, cut=cut, front=front, drops=drops, below=below)


def joined(*parts: str | Line | tuple[str, str], style: str = "") -> Line:
    """Combine strings and (text, style) pairs into one line."""
    made = Line()
    for part in parts:
        line = Line(part) if isinstance(part, str) else part
        for text, own in line.parts if isinstance(line, Line) else [line]:
            made.append(text, f"{style} {own}".strip())
    return made


def bar(share: float, width: int) -> Line:
    """A small bar in steps of an eighth; any share above zero shows at least one eighth."""
    if not sys.stdout.encoding.lower().startswith("utf"):
        return Line(("#" * max(share > 0, round(share * width))).ljust(width), "cyan")
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return Line(filled.ljust(width), "cyan")


def when(moment: float) -> str:
    """Local time, to the minute; or a note that the time is unknown."""
    from datetime import UTC, datetime  # many outputs have no times

    try:
        return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def show_no_sessions(*, in_trash: bool = False, home_flag: str = "") -> None:
    """Shown for a home that has no sessions yet, or none any more."""
    if in_trash:
        listing = f"holdfast {home_flag}trash list"
        suggest("There are no sessions here.", "What was removed is in the trash:", listing)
    else:
        known = "There are no sessions here yet."
        suggest(known, "To see how Holdfast works:", "holdfast demo")
