"""Options that several commands share: `--dry-run` and `--yes` for commands that do not ask,
`--map`, and `--sort`, `--limit` and `--offset` for lists."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.frame import Choice, option_group
from holdfast.cli.invocation import resolved
from holdfast.cli.numbers import WholeNumber
from holdfast.errors import UsageError

_Function = Callable[..., Any]
_T = TypeVar("_T")
#: How to sort by a column: numbers from the largest, text from A to Z. The keys of `--sort` are the
#: names of the columns, with `-` instead of a space.
Keys = Mapping[str, Callable[[_T], float | str]]
HELP = "Sort by this column: largest or latest first, text from A to Z."


def edit_options(function: _Function) -> _Function:
    """`--dry-run` and `--yes`, as on every command that changes something. The function gets
    `dry_run`."""

    @functools.wraps(function)  # keeps the options that other decorators have declared
    def without_yes(*args: Any, yes: bool, **given: Any) -> Any:  # noqa: ARG001 - nothing is asked
        return function(*args, **given)

    return option_group(
        click.option(
            "--dry-run", "-n", is_flag=True, help="Show what would change and stop there."
        ),
        click.option(
            "--yes", "-y", is_flag=True, help="Has no effect here: this command never asks."
        ),
    )(without_yes)


map_option = click.option(
    "--map",
    "maps",
    metavar="OLD=NEW",
    multiple=True,
    help="Map a path on another machine to one here.",
)


def read_maps(given: Sequence[str]) -> dict[str, str]:
    """Parse `--map /old=/new`, which can be given several times."""
    maps = {}
    for each in given:
        old, sign, new = each.partition("=")
        if not (old and sign and new):
            raise UsageError(f"--map takes OLD=NEW, not {each!r}.")
        maps[old] = str(resolved(new))
    return maps


# --- Lists ----------------------------------------------------------------------------------------


def sort_option(
    keys: Iterable[str], default: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The `--sort` option; the command gets `sort`."""
    return click.option(
        "--sort", type=Choice([*keys]), default=default, show_default=True, help=HELP
    )


def limit_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The `--limit` option; the command gets `limit`."""
    return click.option(
        "--limit",
        type=WholeNumber(min=1),
        default=20,
        show_default=True,
        metavar="N",
        help=text,
    )


offset_option = click.option(
    "--offset", type=WholeNumber(min=0), default=0, metavar="N", help="Skip the first N."
)


def in_order(rows: Iterable[_T], keys: Keys[_T], sort: str | None) -> list[_T]:
    """The rows sorted by a column. Equal rows keep their order, as do all rows without a column."""
    found = list(rows)
    if sort is None or not found:
        return found
    key = keys[sort]
    if isinstance(key(found[0]), str):
        return sorted(found, key=lambda row: _as_text(str(key(row))))
    return sorted(found, key=lambda row: -float(key(row)))


def _as_text(text: str) -> tuple[bool, str]:
    return not text, text.casefold()  # empty text comes last
