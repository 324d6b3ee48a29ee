"""`holdfast sessions list`: which sessions there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.model.session import SessionFilter, SessionOrder
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.session import Session
    from holdfast.policy.prices import Prices
    from holdfast.ports import Home


#: What is shown beside the messages, by the order.
_COLUMNS = {SessionOrder.COST: ("tokens", "cost"), SessionOrder.TOKENS: ("tokens",)}


@click.command(
    "list",
    cls=Command,
    example="holdfast sessions list --source cron --older-than 30d\n"
    "holdfast sessions list --sort cost --limit 10",
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
    place = invocation.open_place()
    asked = _Asked(wanted, SessionOrder(sort), most, offset, place.settings.prices())
    if archived:
        return _list_archived(invocation, place.home, asked)
    store = place.home.session_store()
    found: Sequence[Session] = ()
    total = 0
    if store is not None:
        found = store.find(
            wanted, order_by=asked.order, limit=most, offset=offset, prices=asked.prices
        )
        total = store.count(wanted)
    if invocation.json:
        _print_json(asked, [session.to_json() for session in found], found, total)
    else:
        _show(asked, found, total, invocation.now)
    return 0


@dataclass(frozen=True, slots=True)
class _Asked:
    wanted: SessionFilter
    order: SessionOrder
    limit: int | None
    offset: int
    prices: Prices


def _list_archived(invocation: Invocation, home: Home, asked: _Asked) -> int:
    from holdfast.cli.output import note

    found = home.archive.find(
        asked.wanted,
        order_by=asked.order,
        limit=asked.limit,
        offset=asked.offset,
        prices=asked.prices,
    )
    total = home.archive.count(asked.wanted)
    for problem in home.archive.problems():
        note(f"warning: {problem.path}: {problem.reason}")
    if invocation.json:
        sessions = [each.session for each in found]
        _print_json(asked, [each.to_json() for each in found], sessions, total)
    elif total == 0 and not home.archive.count(SessionFilter()):
        from holdfast.cli.output import say

        say("The archive is empty.")
    else:
        places = _places(home, found)
        _show(asked, [_as_listed(each, places) for each in found], total, invocation.now)
    return 0


def _places(home: Home, found: Sequence[ArchivedSession]) -> dict[str, str]:
    """Where the sessions are whose files alone are in a bundle."""
    from holdfast.model.archive import Holds

    ids = tuple({each.session.id for each in found if each.holds is Holds.FILES})
    if not ids:
        return {}
    wanted = SessionFilter(ids=ids)
    whole = (each for each in home.archive.find(wanted) if each.holds is Holds.SESSION)
    places = {each.session.id: "in the archive" for each in whole}
    store = home.session_store()
    stored = () if store is None else store.find(wanted)
    return places | {each.id: "in the store" for each in stored}


def _as_listed(archived: ArchivedSession, places: Mapping[str, str]) -> Session:
    """Of archived files the size that they take, and a title that says what they are."""
    from holdfast.model.archive import Holds
    from holdfast.value import replace

    if archived.holds is Holds.SESSION:
        return archived.session
    place = places.get(archived.session.id, "that is gone")
    title = f"{archived.session.title or ''} (files of a session {place})".strip()
    return replace(archived.session, title=title, bytes=archived.archive_bytes)


def _print_json(
    asked: _Asked, documents: list[dict[str, Any]], sessions: Sequence[Session], total: int
) -> None:
    from holdfast.cli.output import print_json

    for document, session in zip(documents, sessions, strict=True):
        document["full_cost"] = asked.prices.cost_of_session(session)
    print_json({"sessions": documents, "total": total})


def _show(asked: _Asked, found: Sequence[Session], total: int, now: float) -> None:
    from holdfast.cli.output import joined, name, say, styled, table, width
    from holdfast.model.text import format_duration

    if not found:
        say("No sessions match." if total == 0 else "No sessions so far down.")
        return
    numbers = ("active", "msgs", *_COLUMNS.get(asked.order, ("size",)))
    rows = table("id", "source", *numbers, "title", right=numbers)
    # A title may be folded; an id is there to be copied.
    longest = max(len(session.id) for session in found)
    rows.columns[0].min_width = min(longest, width() // 2)
    for session in found:
        marks = ("● " if not session.ended else "") + ("📌 " if session.pinned else "")
        rows.add_row(
            name(session.id),
            name(session.source),
            format_duration(now - session.last_active_at),
            f"{session.message_count:,}",
            *(_number(asked.prices, session, column) for column in numbers[2:]),
            joined(marks, name(session.title or "")),
        )
    say(rows)
    shown = f"{asked.offset + 1:,} to {asked.offset + len(found):,} of {total:,}"
    say(styled(f"{shown}; ● is open. --limit and --offset show others.", style="dim"))
    if asked.order is SessionOrder.COST:
        _tell_unknown(asked, found)


def _number(prices: Prices, session: Session, column: str) -> str:
    from holdfast.model.text import format_bytes

    if column == "size":
        return format_bytes(session.bytes)
    if column == "tokens":
        return f"{session.tokens.total:,}"
    from holdfast.cli.commands.session_stats import cost_text
    from holdfast.policy.prices import session_cost

    return cost_text(session_cost(prices, session))


def _tell_unknown(asked: _Asked, found: Sequence[Session]) -> None:
    """What is not known has no place in the order: it is said, and where to look instead."""
    from holdfast.cli.output import say

    unknown = sum(asked.prices.cost_of_session(session) is None for session in found)
    if unknown:
        say(
            f"What {unknown:,} of these cost is not known in full: set [prices] in the "
            "configuration, or use --sort tokens."
        )
