"""What was ever used and what it cost, for people. An unknown cost is never shown as 0."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from rich.text import Text

from holdfast.cli.output import name, say, suggest, table
from holdfast.model.session import Tokens
from holdfast.model.text import format_cost, format_count
from holdfast.model.usage import Cost, CostShare, CostTotals

_FEW_DAYS = 7
_MOST_NAMES = 8
_MOST_UNKNOWN = 3
_NUMBERS = ("tokens in", "out", "cached", "cost")
_NO_MODEL = "none named"
UNKNOWN = "unknown"


def show_usage(totals: CostTotals, home_flag: str, *, days: int = _FEW_DAYS) -> None:
    """The totals, the latest days, and who used most; nothing when nothing was used."""
    if not totals.by_source:
        return
    tokens = totals.ever.usage.tokens
    used = f"{tokens.total:,} tokens, cost {cost_text(totals.ever)}"
    say(Text(f"Ever used, also by sessions that are gone: {used}", style="bold"))
    if totals.ever.priced:
        priced = format_cost(totals.ever.priced)
        say(Text(f"{priced} of it by the prices of the configuration", style="dim"))
    say()
    _show("day (UTC)", totals.by_day[:days], "outside all days")
    _show("source", _main(totals.by_source), "")
    _show("model", _main(totals.by_model), _NO_MODEL)
    if totals.by_task:
        _show("auxiliary task", _main(totals.by_task), "")
    _show_unknown(totals.by_model, home_flag)


def cost_text(cost: Cost) -> str:
    """What is known, and that there is more."""
    if cost.full is not None:
        return format_cost(cost.full)
    return f"{format_cost(cost.known)} + unknown" if cost.known else UNKNOWN


def _show(title: str, shares: Sequence[CostShare], nameless: str) -> None:
    rows = table(title, *_NUMBERS, right=_NUMBERS)
    rows.columns[0].min_width = 16
    for share in shares:
        tokens = share.cost.usage.tokens
        rows.add_row(
            name(share.name or nameless),
            f"{tokens.input:,}",
            f"{tokens.output:,}",
            f"{tokens.cached:,}",
            cost_text(share.cost),
        )
    say(rows)
    say()


def _show_unknown(by_model: Sequence[CostShare], home_flag: str) -> None:
    """Of which models nobody knows the cost, and what to do about it."""
    unknown = [share for share in by_model if share.cost.unknown != Tokens()]
    if not unknown:
        return
    unknown.sort(key=lambda share: -_count(share.cost.unknown))
    for share in unknown[:_MOST_UNKNOWN]:
        model = (
            Text.assemble("model ", name(share.name)) if share.name else "sessions without a model"
        )
        tokens = format_count(_count(share.cost.unknown), "token")
        say(Text.assemble(f"Cost unknown for {tokens} of ", model, ".", style="yellow"))
    if rest := unknown[_MOST_UNKNOWN:]:
        tokens = format_count(sum(_count(share.cost.unknown) for share in rest), "token")
        models = format_count(len(rest), "other model")
        say(Text(f"Cost unknown for {tokens} of {models}.", style="yellow"))
    say("Set their prices in [prices] of the configuration:")
    suggest(f"holdfast {home_flag}config path")
    say()


def _count(tokens: Tokens) -> int:
    """All that would cost something; a price may hold for the cached ones alone."""
    return tokens.total + tokens.cached


def _main(shares: Sequence[CostShare]) -> list[CostShare]:
    shown, rest = list(shares[:_MOST_NAMES]), shares[_MOST_NAMES:]
    if rest:
        together = reduce(Cost.plus, (share.cost for share in rest))
        shown.append(CostShare(name=format_count(len(rest), "other"), cost=together))
    return shown
