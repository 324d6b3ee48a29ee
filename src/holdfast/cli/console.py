"""Rich's standard output: its width, its behaviour when the reader is gone, and the removal of
control characters that could affect the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from holdfast.cli.plain import NARROWEST, PIPED_WIDTH, WIDEST, Line
from holdfast.cli.streams import OutputError
from holdfast.model.text import printable


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process here; `main` decides how it ends instead."""
        raise OutputError(BrokenPipeError())

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The last safety check of all output: a name may have been inserted without escaping. Rich
        marks its own terminal codes as such."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def rendered(line: Line) -> Text:
    """A line of a command as rich text."""
    return Text.assemble(*((printable(text), style) for text, style in line.parts))


def standard_output() -> Console:
    """The console for standard output, at most 120 columns wide: wider text is not easier to
    read."""
    plain = _Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
    wanted = plain.width if plain.is_terminal or os.environ.get("COLUMNS") else PIPED_WIDTH
    plain.width = max(NARROWEST, min(wanted, WIDEST))
    return plain


def written_to(file: IO[str], *, width: int, colours: bool) -> Console:
    """The same for a pager, which shows it as wide as the terminal."""
    return _Console(
        file=file,
        highlight=False,
        emoji=False,
        markup=False,
        width=width,
        force_terminal=colours,
        no_color=None if colours else True,
    )
