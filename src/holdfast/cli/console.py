"""Standard output as rich writes to it: its width, and what becomes of a reader that has gone."""

from __future__ import annotations

import os

from rich.console import Console

from holdfast.cli.streams import OutputError

PIPED_WIDTH = 80
_NARROWEST = 40
_WIDEST = 120


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process here; `main` decides how it ends."""
        raise OutputError(BrokenPipeError())


def standard_output() -> Console:
    """Past 120 columns text does not get easier to read."""
    plain = _Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
    wanted = plain.width if plain.is_terminal or os.environ.get("COLUMNS") else PIPED_WIDTH
    plain.width = max(_NARROWEST, min(wanted, _WIDEST))
    return plain
