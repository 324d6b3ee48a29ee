"""The flags of commands that change something and ask nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_Function = Callable[..., Any]


def edit_options(function: _Function) -> _Function:
    """`--dry-run` and `--yes`, as on every command that changes something. The function gets
    `dry_run`."""

    def without_yes(*args: Any, yes: bool, **given: Any) -> Any:  # noqa: ARG001 - nothing is asked
        return function(*args, **given)

    without_yes.__name__ = function.__name__
    without_yes.__doc__ = function.__doc__
    # What other decorators have declared so far stays declared.
    without_yes.__dict__.update(function.__dict__)
    decorated: _Function = without_yes
    for option in (
        click.option(
            "--yes", "-y", is_flag=True, help="Has no effect here: this command never asks."
        ),
        click.option(
            "--dry-run", "-n", is_flag=True, help="Show what would change and stop there."
        ),
    ):
        decorated = option(decorated)
    return decorated
