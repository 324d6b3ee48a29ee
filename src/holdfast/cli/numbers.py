"""Number types for options. Errors say what was expected, as for config.toml."""

from __future__ import annotations

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_expected("a whole number", self, value), param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_expected("a number", self, value), param, ctx)


def _expected(what: str, bounds: click.IntRange | click.FloatRange, value: object) -> str:
    if bounds.min is None:
        within = ""
    elif bounds.max is not None:
        within = f" from {bounds.min:,} to {bounds.max:,}"
    else:
        within = f" above {bounds.min:,}" if bounds.min_open else f", {bounds.min:,} or more"
    return f"expected {what}{within}; {value!r} was given."
