"""`holdfast sessions list`: which sessions there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.session_view import SessionView
from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import joined, name, note, print_json, say, styled, table, width
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.model.archive import Holds
from holdfast.model.session import SessionFilter, SessionOrder
from holdfast.model.text import format_bytes, format_duration
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.api.place import Place
    from holdfast.api.session_view import SessionPage
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.session import Session

#: Which figures are shown next to the messages, by the order.
_COLUMNS = {SessionOrder.COST: ("tokens", "cost"), SessionOrder.TOKENS: ("tokens",)}


@click.command(
    "list",
    cls=Command,
    example="holdfast sessions list --source cron --older-than 30d\n"
    "holdfast sessions list --sort cost --limit 10",
)
@filter_options
@click.option("--archived", is_flag=True, help="List archived sessions.")
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
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip the first N."
)
@click.pass_context
def command(
    ctx: click.Context, /, *, archived: bool, sort: str, limit: int, offset: int, **flags: Any
) -> int:
    """List sessions, with filters that combine."""
    invocation: Invocation = ctx.obj
    wanted, order = session_filter(invocation, flags), SessionOrder(sort)
    given = ctx.get_parameter_source("limit") is not click.core.ParameterSource.DEFAULT
    most = limit if given or not invocation.json else None
    place = invocation.open_place()
    if archived:
        return _list_archived(invocation, place, wanted, order, most, offset)
    page = SessionView(place).list_sessions(wanted, order_by=order, limit=most, offset=offset)
    if invocation.json:
        _print_json(page, [session.to_json() for session in page.sessions])
    else:
        _show(page, page.sessions, order, offset, invocation.now)
    return 0


def _list_archived(
    invocation: Invocation,
    place: Place,
    wanted: SessionFilter,
    order: SessionOrder,
    limit: int | None,
    offset: int,
) -> int:
    from holdfast.api.archive import ArchivedSessions

    archive = ArchivedSessions(place)
    page = archive.page(wanted, order_by=order, limit=limit, offset=offset)
    for problem in page.problems:
        note(f"warning: {problem.path}: {problem.reason}")
    if invocation.json:
        _print_json(page, [each.to_json() for each in page.archived])
    elif page.total == 0 and not archive.count():
        say("The archive is empty.")
    else:
        listed = [_as_listed(each, page.places) for each in page.archived]
        _show(page, listed, order, offset, invocation.now)
    return 0


def _as_listed(archived: ArchivedSession, places: Mapping[str, str]) -> Session:
    """For archived files: their size, and a title that says what they are."""
    if archived.holds is Holds.SESSION:
        return archived.session
    place = places.get(archived.session.id, "that is gone")
    title = f"{archived.session.title or ''} (files of a session {place})".strip()
    return replace(archived.session, title=title, bytes=archived.archive_bytes)


def _print_json(page: SessionPage, documents: list[dict[str, Any]]) -> None:
    for document, session in zip(documents, page.sessions, strict=True):
        document["full_cost"] = page.full_cost(session)
    print_json({"sessions": documents, "total": page.total})


def _show(
    page: SessionPage, found: Sequence[Session], order: SessionOrder, offset: int, now: float
) -> None:
    if not found:
        say("No sessions match." if page.total == 0 else "The offset is past the last session.")
        return
    numbers = ("active", "msgs", *_COLUMNS.get(order, ("size",)))
    rows = table("id", "source", *numbers, "title", right=numbers)
    # A title may be wrapped; an id must stay easy to copy.
    longest = max(len(session.id) for session in found)
    rows.columns[0].min_width = min(longest, width() // 2)
    for session in found:
        marks = ("● " if not session.ended else "") + ("📌 " if session.pinned else "")
        rows.add_row(
            name(session.id),
            name(session.source),
            format_duration(now - session.last_active_at),
            f"{session.message_count:,}",
            *(_number(page, session, column) for column in numbers[2:]),
            joined(marks, name(session.title or "")),
        )
    say(rows)
    shown = f"{offset + 1:,} to {offset + len(found):,} of {page.total:,}"
    say(styled(f"{shown}; ● is open. --limit and --offset show others.", "dim"))
    unknown = sum(page.full_cost(session) is None for session in found)
    if order is SessionOrder.COST and unknown:
        say(
            f"What {unknown:,} of these cost is not known in full: set [prices] in the "
            "configuration, or use --sort tokens."
        )


def _number(page: SessionPage, session: Session, column: str) -> str:
    if column == "size":
        return format_bytes(session.bytes)
    if column == "tokens":
        return f"{session.tokens.total:,}"
    from holdfast.cli.commands.session_stats import cost_text

    return cost_text(page.cost(session))
