"""The budget that all homes share: its limit, what was or would be removed, and what prevents
more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.invocation import quoted
from holdfast.cli.output import name, say, suggest
from holdfast.cli.show_plan import show_plan
from holdfast.model.plan import Shortfall
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.api.budget import HomeShare, MachineBudget


def show_budget(found: MachineBudget) -> None:
    limit = found.limit or 0
    share = found.bytes * 100 // limit if limit else 0
    say()
    say("All homes together", "bold")
    say(f"{format_bytes(found.bytes)} of the budget of {format_bytes(limit)} ({share} %).")
    for each in found.homes:
        say(name(each.home, "bold cyan"))
        if each.error is not None:
            say(name(f"Nothing was done here: {each.error}", "bold red"))
        elif each.report is None:
            show_plan(each.plan, all_items=False, takes_flags=False)
        else:
            say(done_words(each))
            if each.report.bytes_in_trash:
                undo = f"holdfast --home {quoted(each.home)} undo {each.report.operation}"
                suggest("", "To bring back what went to the trash:", undo)
            _show_held(each.plan.shortfalls)
    for path in found.unread:
        say(name(f"{path} cannot be read, and does not count.", "yellow"))


def done_words(each: HomeShare) -> str:
    """What a home gave, in one line."""
    report = each.report
    if report is None:
        return each.error or ""
    if report.operation is None:
        return "There was nothing left to remove."
    words = [f"{format_count(report.removed, 'item')} removed"]
    words.append(f"{format_bytes(report.bytes_freed)} freed")
    if report.bytes_in_trash:
        words.append(f"{format_bytes(report.bytes_in_trash)} in the trash")
    return f"{', '.join(words)} (operation {report.operation})"


def _show_held(shortfalls: Sequence[Shortfall]) -> None:
    for each in shortfalls:
        held = ", ".join(f"{why} ({format_bytes(much)})" for why, much in each.held_by.items())
        say(
            name(
                f"{format_bytes(each.remaining)} remain, {format_bytes(each.limit)} are its share: "
                f"held by {held}",
                "yellow",
            )
        )
