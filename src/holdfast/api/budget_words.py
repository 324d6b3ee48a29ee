"""Text about limits and budgets, shared by the commands and the web page."""

from __future__ import annotations

from holdfast.model.guard import Near
from holdfast.model.text import format_bytes, format_cost, format_duration
from holdfast.policy.budgets import Budget

_UNITS: dict[str, str] = {
    Budget.TOKENS: "tokens",
    Budget.TOKENS_IN: "tokens in",
    Budget.TOKENS_OUT: "tokens out",
    Budget.COST: "cost",
    Budget.ITERATIONS: "iterations",
    Budget.WALL_SECONDS: "at work",
    Budget.DAILY_TOKENS: "tokens",
    Budget.DAILY_COST: "cost",
}


def unit_of(what: str) -> str:
    """The unit of a limit or a budget."""
    return _UNITS.get(what, what)


def amount_of(what: str, amount: float) -> str:
    """An amount with its unit: `$12.50`, `3 h`, `1,200`."""
    match what:
        case Budget.COST | Budget.DAILY_COST:
            return format_cost(amount)
        case Budget.WALL_SECONDS:
            return format_duration(amount)
        case "bytes":
            return format_bytes(int(amount))
        case _:
            return f"{int(amount):,}"


def day_of(near: Near) -> str:
    """Return the day and the source of a daily budget."""
    return "today (UTC), all" if near.source is None else f"today (UTC), {near.source}"


def over_words(near: Near) -> str:
    """`cost: $5.20 of $5.00`."""
    used, limit = amount_of(near.what, near.used), amount_of(near.what, near.limit)
    return f"{unit_of(near.what)}: {used} of {limit}"
