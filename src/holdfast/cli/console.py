"""Standard output as rich writes to it: its width, what becomes of a reader that has gone, and
nothing in it that could steer the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from holdfast.cli.streams import OutputError
from holdfast.model.text import one_line, printable

PIPED_WIDTH = 80
_NARROWEST = 40
_WIDEST = 120


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process here; `main` decides how it ends."""
        raise OutputError(BrokenPipeError())

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The last look at everything that is laid out: a name may have been put into a text
        without a thought. What rich itself tells the terminal is marked as such."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class SafeTable(Table):
    """A table whose plain cells are made safe before it measures them."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        safe = [one_line(cell) if isinstance(cell, str) else cell for cell in cells]
        super().add_row(*safe, **options)


def standard_output() -> Console:
    """Past 120 columns text does not get easier to read."""
    plain = _Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
    wanted = plain.width if plain.is_terminal or os.environ.get("COLUMNS") else PIPED_WIDTH
    plain.width = max(_NARROWEST, min(wanted, _WIDEST))
    return plain
