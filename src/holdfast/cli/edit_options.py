"""The flags of commands that change something and ask nothing; and `--map`, where they restore."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from holdfast.cli.frame import option_group
from holdfast.cli.invocation import resolved
from holdfast.errors import UsageError

_Function = Callable[..., Any]


def edit_options(function: _Function) -> _Function:
    """`--dry-run` and `--yes`, as on every command that changes something. The function gets
    `dry_run`."""

    @functools.wraps(function)  # what other decorators have declared so far stays declared
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
    help="Where a path of another machine is here.",
)


def read_maps(given: Sequence[str]) -> dict[str, str]:
    """`--map /old=/new`, as often as it was given."""
    maps = {}
    for each in given:
        old, sign, new = each.partition("=")
        if not (old and sign and new):
            raise UsageError(f"--map takes OLD=NEW, not {each!r}.")
        maps[old] = str(resolved(new))
    return maps
