"""Where output goes: one JSON document, or text laid out for the width at hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from holdfast.cli.streams import output_errors, write, write_error
from holdfast.model.text import one_line, printable

# Loaded on first use: a script that reads JSON pays for no layout.
if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


@cache
def console() -> Console:
    """Standard output, for what is laid out."""
    from holdfast.cli.console import standard_output

    return standard_output()


def print_json(document: dict[str, Any]) -> None:
    """The one document of a --json run. ASCII only: names may hold bytes that are no UTF-8."""
    write(json.dumps(document, indent=2) + "\n")


def say(*parts: RenderableType) -> None:
    """Print text or a table, fitted to the width of the console."""
    safe = [printable(part) if isinstance(part, str) else part for part in parts]
    with output_errors():
        console().print(*safe)


def suggest(command: str) -> None:
    """A command to type next. Never folded: a copied line must work."""
    with output_errors():
        console().print(name(f"  {command}", "bold green"), soft_wrap=True)


def note(message: str) -> None:
    """Beside the output: on stderr, so that a pipe stays clean."""
    write_error(one_line(message) + "\n")


def name(text: str, style: str = "") -> Text:
    """A name from the disk, made safe to print and folded rather than cut."""
    from rich.text import Text

    return Text(one_line(text), style=style, overflow="fold")


def styled(text: str = "", style: str = "", *, overflow: Literal["fold"] | None = None) -> Text:
    """Words of our own in a style; a name from the disk goes through `name`."""
    from rich.text import Text

    return Text(text, style=style, overflow=overflow)


def joined(*parts: str | Text | tuple[str, str], style: str = "") -> Text:
    """Texts and (words, style) pairs as one text."""
    from rich.text import Text

    return Text.assemble(*parts, style=style)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines: columns named in `right` are numbers."""
    from holdfast.cli.console import SafeTable

    made = SafeTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        if column in right:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def bar(share: float, width: int) -> Text:
    """A small bar of eighths; anything that is not nothing shows at least one of them."""
    if not console().encoding.startswith("utf"):
        return styled(("#" * max(share > 0, round(share * width))).ljust(width), "cyan")
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    shown = styled(filled.ljust(width), "cyan")
    shown.no_wrap = True
    return shown


def when(moment: float) -> str:
    """Local time, to the minute; what no calendar has is said so."""
    try:
        return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "at no known time"
