"""`holdfast sessions list`: which sessions there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import filter_options, session_filter, store_of
from holdfast.model.session import SessionFilter, SessionOrder

if TYPE_CHECKING:
    from holdfast.model.session import Session


@click.command(
    "list",
    cls=Command,
    example="holdfast sessions list --source cron --older-than 30d\n"
    "holdfast sessions list --sort bytes --limit 10",
)
@filter_options
@click.option("--archived", is_flag=True, help="Those in the archive.")
@click.option(
    "--sort",
    type=Choice([order.value for order in SessionOrder]),
    default=SessionOrder.LAST_ACTIVE.value,
    show_default=True,
    help="The largest or latest first.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show N sessions; --json shows all unless this is given.",
)
@click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip N.")
@click.pass_context
def command(
    ctx: click.Context, /, *, archived: bool, sort: str, limit: int, offset: int, **flags: Any
) -> int:
    """List sessions, with filters that combine."""
    invocation: Invocation = ctx.obj
    wanted = session_filter(invocation, flags)
    given = ctx.get_parameter_source("limit") is not click.core.ParameterSource.DEFAULT
    most = limit if given or not invocation.json else None
    if archived:
        return _list_archived(invocation, wanted, SessionOrder(sort), most, offset)
    store = store_of(invocation)
    found: Sequence[Session] = ()
    total = 0
    if store is not None:
        found = store.find(wanted, order_by=SessionOrder(sort), limit=most, offset=offset)
        total = store.count(wanted)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"sessions": [session.to_json() for session in found], "total": total})
    else:
        _show(found, total, offset, invocation.now)
    return 0


def _list_archived(
    invocation: Invocation,
    wanted: SessionFilter,
    order: SessionOrder,
    limit: int | None,
    offset: int,
) -> int:
    from holdfast.cli.output import note

    home, _ = invocation.open_home()
    found = home.archive.find(wanted, order_by=order, limit=limit, offset=offset)
    total = home.archive.count(wanted)
    for problem in home.archive.problems():
        note(f"warning: {problem.path}: {problem.reason}")
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"sessions": [each.to_json() for each in found], "total": total})
    elif total == 0 and not home.archive.count(SessionFilter()):
        from holdfast.cli.output import say

        say("The archive is empty.")
    else:
        _show([each.session for each in found], total, offset, invocation.now)
    return 0


def _show(found: Sequence[Session], total: int, offset: int, now: float) -> None:
    from rich.text import Text

    from holdfast.cli.output import console, name, say, table
    from holdfast.model.units import format_bytes, format_duration

    if not found:
        say("No sessions match." if total == 0 else "No sessions so far down.")
        return
    numbers = ("active", "msgs", "size")
    rows = table("id", "source", *numbers, "title", right=numbers)
    # A title may be folded; an id is there to be copied.
    longest = max(len(session.id) for session in found)
    rows.columns[0].min_width = min(longest, console().width // 2)
    for session in found:
        marks = ("● " if not session.ended else "") + ("📌 " if session.pinned else "")
        rows.add_row(
            name(session.id),
            name(session.source),
            format_duration(now - session.last_active_at),
            f"{session.message_count:,}",
            format_bytes(session.bytes),
            Text(marks).append_text(name(session.title or "")),
        )
    say(rows)
    shown = f"{offset + 1:,} to {offset + len(found):,} of {total:,}"
    say(Text(f"{shown}; ● is open. --limit and --offset show others.", style="dim"))
