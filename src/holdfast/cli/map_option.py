"""`--map OLD=NEW`: where a path of another machine is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from holdfast.cli.invocation import resolved
from holdfast.errors import UsageError

_Function = Callable[..., Any]


def map_option(function: _Function) -> _Function:
    return click.option(
        "--map",
        "maps",
        metavar="OLD=NEW",
        multiple=True,
        help="Where a path of another machine is here.",
    )(function)


def read_maps(given: Sequence[str]) -> dict[str, str]:
    """`--map /old=/new`, as often as it was given."""
    maps = {}
    for each in given:
        old, sign, new = each.partition("=")
        if not (old and sign and new):
            raise UsageError(f"--map takes OLD=NEW, not {each!r}.")
        maps[old] = str(resolved(new))
    return maps
