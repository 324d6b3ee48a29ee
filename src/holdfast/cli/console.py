"""Standard output as rich writes to it: its width, what happens when its reader is gone, and
no control characters that could affect the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from holdfast.cli.plain import NARROWEST, PIPED_WIDTH, WIDEST, Line, Rows
from holdfast.cli.streams import OutputError
from holdfast.model.text import printable


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process here; `main` decides how it ends."""
        raise OutputError(BrokenPipeError())

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The last check of all output: a name may have been put into a text unescaped.
        What rich itself sends to the terminal is marked as such."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def rendered(shown: str | Line | Rows | Text) -> Text | Table:
    """What a command shows, as rich knows it."""
    if isinstance(shown, str):
        return Text(printable(shown))
    if isinstance(shown, Line):
        made = Text.assemble(*((printable(text), style) for text, style in shown.parts))
        made.overflow, made.no_wrap = "fold", shown.no_wrap
        return made
    return _table(shown) if isinstance(shown, Rows) else shown


def _table(rows: Rows) -> Table:
    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=rows.show_header,
    )
    for column in rows.columns:
        made.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.no_wrap,
            min_width=column.min_width,
            overflow="ellipsis" if column.right else "fold",
        )
    for row in rows.rows:
        made.add_row(*map(rendered, row))
    return made


def standard_output() -> Console:
    """Past 120 columns text does not get easier to read."""
    plain = _Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
    wanted = plain.width if plain.is_terminal or os.environ.get("COLUMNS") else PIPED_WIDTH
    plain.width = max(NARROWEST, min(wanted, WIDEST))
    return plain
