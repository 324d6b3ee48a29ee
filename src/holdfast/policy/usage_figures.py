"""Figures of usage that a host tells: nonsense is refused before it is counted."""

from __future__ import annotations

import math

from holdfast.errors import UsageError
from holdfast.model.given import shown
from holdfast.model.session import Tokens
from holdfast.policy.budgets import MOST_COST, MOST_TOKENS


def checked_tokens(tokens: Tokens | None) -> Tokens:
    """None is nothing used. A bare number would not say whether it was read or written."""
    if tokens is None:
        return Tokens()
    if not isinstance(tokens, Tokens):
        raise UsageError(
            f"Tokens of a call must be told as Tokens(input=…, output=…), not as {shown(tokens)}."
        )
    for count in (tokens.input, tokens.output, tokens.cached):
        if not is_count(count):
            raise UsageError(f"A call cannot have used {count!r} tokens.")
    return tokens


def checked_cost(cost: float) -> float:
    if not _is_cost(cost):
        raise UsageError(f"A call cannot have cost {cost!r}.")
    return float(cost)


def is_count(value: object) -> bool:
    """A host may hand on whatever a provider sent: text, true, a fraction."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


def _is_cost(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and 0 <= value <= MOST_COST
