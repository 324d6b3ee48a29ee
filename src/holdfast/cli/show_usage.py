"""What was ever used, for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from rich.text import Text

from holdfast.cli.output import name, say, table
from holdfast.model.units import format_count
from holdfast.model.usage import Usage, UsageShare, UsageTotals

_MOST_DAYS = 7
_MOST_NAMES = 8
_NUMBERS = ("tokens in", "out", "cached", "cost")


def show_usage(usage: UsageTotals) -> None:
    """The totals, the latest days, and who used most; nothing when nothing was used."""
    if not usage.by_source:
        return
    tokens, cost = usage.ever.tokens, usage.ever.cost
    say(
        Text(
            f"Ever used, also by sessions that are gone: {tokens.total:,} tokens, cost {cost:.2f}",
            style="bold",
        )
    )
    say()
    _show("day (UTC)", usage.by_day[:_MOST_DAYS], "outside all days")
    _show("source", _main(usage.by_source), "")
    _show("model", _main(usage.by_model), "none named")


def _show(title: str, shares: Sequence[UsageShare], nameless: str) -> None:
    rows = table(title, *_NUMBERS, right=_NUMBERS)
    rows.columns[0].min_width = 16
    for share in shares:
        tokens = share.usage.tokens
        rows.add_row(
            name(share.name or nameless),
            f"{tokens.input:,}",
            f"{tokens.output:,}",
            f"{tokens.cached:,}",
            f"{share.usage.cost:.2f}",
        )
    say(rows)
    say()


def _main(shares: Sequence[UsageShare]) -> list[UsageShare]:
    shown, rest = list(shares[:_MOST_NAMES]), shares[_MOST_NAMES:]
    if rest:
        together = reduce(Usage.plus, (share.usage for share in rest))
        shown.append(UsageShare(name=format_count(len(rest), "other"), usage=together))
    return shown
