"""`--sort`, `--limit` and `--offset` for lists. The keys of `--sort` are the names of the columns,
with `-` for a space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from holdfast.cli.frame import Choice

_T = TypeVar("_T")
#: What a column shows of a row: numbers are sorted from the largest, texts from A to Z.
Keys = Mapping[str, Callable[[_T], float | str]]
HELP = "By this column: the largest or latest first, texts from A to Z."


def sort_option(
    keys: Iterable[str], default: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flag; the command gets `sort`."""
    return click.option(
        "--sort", type=Choice([*keys]), default=default, show_default=True, help=HELP
    )


def limit_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flag; the command gets `limit`."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        metavar="N",
        help=text,
    )


offset_option = click.option(
    "--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip the first N."
)


def in_order(rows: Iterable[_T], keys: Keys[_T], sort: str | None) -> list[_T]:
    """The rows by one of these columns; equal ones, and all of them without one, as they were."""
    found = list(rows)
    if sort is None or not found:
        return found
    key = keys[sort]
    if isinstance(key(found[0]), str):
        return sorted(found, key=lambda row: _as_text(str(key(row))))
    return sorted(found, key=lambda row: -float(key(row)))


def _as_text(text: str) -> tuple[bool, str]:
    return not text, text.casefold()  # what is empty comes last
