"""What is near a limit or a budget, on the status screen."""

from __future__ import annotations

from rich.text import Text

from holdfast.cli.output import bar, name, say, suggest, table
from holdfast.model.guard import Near, Nearness
from holdfast.model.text import format_bytes, format_cost, format_count, format_duration
from holdfast.policy.budgets import Budget

_MOST = 10
_WIDTH = 10
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


def show_near(nearness: Nearness, home_flag: str) -> None:
    """A row for each, the nearest first; nothing when nothing is."""
    if nearness.near:
        numbers = ("used", "limit", "share")
        rows = table("near a limit", "what", *numbers, "", right=numbers)
        rows.columns[0].min_width = 16
        for near in nearness.near[:_MOST]:
            rows.add_row(
                _who(near),
                _UNITS.get(near.what, near.what),
                _amount(near, near.used),
                _amount(near, near.limit),
                Text(f"{int(near.share * 100)} %", style="red" if near.share >= 1 else "yellow"),
                bar(min(1.0, near.share), _WIDTH),
            )
        say(rows)
        if more := nearness.near[_MOST:]:
            say(Text(f"and {len(more):,} more", style="dim"))
        say()
    if nearness.unknown_cost:
        budgets = format_count(nearness.unknown_cost, "budget of cost", "budgets of cost")
        say(
            Text(
                f"{budgets} cannot be kept: what was used so far has no known cost. See",
                style="yellow",
            )
        )
        suggest(f"holdfast {home_flag}sessions stats --cost")
        say()


def _who(near: Near) -> Text:
    if near.session is not None:
        return name(near.session)
    return name("today (UTC), all" if near.source is None else f"today (UTC), {near.source}")


def _amount(near: Near, amount: float) -> str:
    match near.what:
        case Budget.COST | Budget.DAILY_COST:
            return format_cost(amount)
        case Budget.WALL_SECONDS:
            return format_duration(amount)
        case "bytes":
            return format_bytes(int(amount))
        case _:
            return f"{int(amount):,}"
