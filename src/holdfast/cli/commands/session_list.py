"""`holdfast sessions list`: list sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.session_view import SessionView
from holdfast.cli import plain
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import limit_option, offset_option, sort_option
from holdfast.cli.output import (
    joined,
    name,
    note,
    print_json,
    say,
    show_no_sessions,
    styled,
    table,
    tell_unknown_sources,
    warn_of,
    width,
)
from holdfast.cli.progress import progress
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.model.archive import Holds
from holdfast.model.session import SessionFilter, SessionOrder
from holdfast.model.text import cost_digits, format_bytes, format_count, format_duration
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.machine_sessions import MachinePage
    from holdfast.api.session_view import SessionPage
    from holdfast.cli.plain import Line
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.session import Session

#: The one column that is not about sessions; a list over several homes has it.
_AGENT = "agent"
#: Which figures are shown next to the messages, by sort order.
_COLUMNS = {SessionOrder.COST: ("tokens", "cost"), SessionOrder.TOKENS: ("tokens",)}
_FIRST = {SessionOrder.STARTED: ("started", "active", "messages")}
#: If there is little room, an id longer than `_LONG` is shortened to its prefix.
_START = 13
_LONG = 28
#: The width needed for whole ids next to the names of agents.
_WIDE = 100
#: The width a title needs next to an id.
_TITLE = 18


@click.command(
    "list",
    cls=Command,
    example="holdfast sessions list --source cron --older-than 30d\n"
    "holdfast sessions list --sort cost --limit 10",
)
@filter_options
@click.option("--archived", is_flag=True, help="List archived sessions.")
@sort_option([*(order.value for order in SessionOrder), _AGENT], SessionOrder.LAST_ACTIVE.value)
@limit_option("Show N sessions; --json shows all unless this is given.")
@offset_option
@click.pass_context
def command(
    ctx: click.Context, /, *, archived: bool, sort: str, limit: int, offset: int, **flags: Any
) -> int:
    """List sessions, with filters that combine.

    Without --home this covers all homes of the machine, and a column names the agent.
    """
    invocation: Invocation = ctx.obj
    wanted = session_filter(invocation, flags)
    order = SessionOrder.LAST_ACTIVE if sort == _AGENT else SessionOrder(sort)
    given = ctx.get_parameter_source("limit") is not click.core.ParameterSource.DEFAULT
    most = limit if given or not invocation.json else None
    machine = invocation.several()
    how: dict[str, Any] = {
        "order_by": order,
        "limit": most,
        "offset": offset,
        "openings": not invocation.json,
    }
    if machine is None:
        return _list_one(invocation, wanted, how, archived=archived)
    with progress("reading the sessions of all homes"):
        page = machine.list_sessions(wanted, archived=archived, by_agent=sort == _AGENT, **how)
    return _list_all(invocation, page, wanted, order, offset, archived=archived)


def _list_one(
    invocation: Invocation, wanted: SessionFilter, how: dict[str, Any], *, archived: bool
) -> int:
    """The sessions of one home, or those in its archive."""
    place = invocation.open_place()
    page: SessionPage
    listed: Any  # the elements of `page.sessions`, or the bundles that contain them
    if archived:
        from holdfast.api.archive import ArchivedSessions

        archive = ArchivedSessions(place)
        with progress("reading the archive"):
            page = bundles = archive.page(wanted, **how)
        listed = bundles.archived
        sessions = [_as_listed(each, bundles.places) for each in bundles.archived]
        if not page.total and not archive.count():
            wanted = SessionFilter()  # whatever the filter was, there is nothing at all
    else:
        with progress("reading the sessions"):
            page = SessionView(place).list_sessions(wanted, **how)
        listed = sessions = [*page.sessions]
    warn_of(page.problems)
    if invocation.json:
        both = zip(listed, page.sessions, strict=True)
        documents = [each.to_json() | {"full_cost": page.full_cost(of)} for each, of in both]
        print_json({"sessions": documents, "total": page.total})
    elif sessions:
        began = page.openings
        rows = [_Row(session=each, page=page, opening=began.get(each.id, "")) for each in sessions]
        _show(rows, page.total, how["order_by"], how["offset"], invocation.now)
    else:
        in_trash = wanted == SessionFilter() and bool(place.home.log.read().trash)
        flag = invocation.home_flag
        tell_unknown_sources(page.unknown_sources)
        _show_none(wanted, page.total, archived=archived, in_trash=in_trash, home_flag=flag)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A session in a list. `agent` is shown if there are several, `opening` if there is no
    title."""

    session: Session
    page: SessionPage
    agent: str | None = None
    opening: str = ""


def _list_all(
    invocation: Invocation,
    page: MachinePage,
    wanted: SessionFilter,
    order: SessionOrder,
    offset: int,
    *,
    archived: bool,
) -> int:
    """The sessions of all homes in one list."""
    from holdfast.cli.homes import failed_json, tell_unread

    warn_of(problem for _, part in page.looked.seen for problem in part.problems)
    if invocation.json:
        documents = [
            {
                "agent": each.home.agent,
                "home": str(each.home.path),
                **(each.archived or each.session).to_json(),
                "full_cost": each.page.full_cost(each.session),
            }
            for each in page.found
        ]
        failed = failed_json(page.looked.unread)
        print_json({"sessions": documents, "total": page.total, "failed": failed})
    else:
        rows = [
            _Row(
                session=each.session
                if each.archived is None
                else _as_listed(each.archived, getattr(each.page, "places", {})),
                page=each.page,
                agent=each.home.label,
                opening=each.opening,
            )
            for each in page.found
        ]
        if rows:
            _show(rows, page.total, order, offset, invocation.now)
        else:
            tell_unknown_sources(*(part.unknown_sources for _, part in page.looked.seen))
            _show_none(wanted, page.total, archived=archived)
    return tell_unread(page.looked.unread)


def _as_listed(archived: ArchivedSession, places: Mapping[str, str]) -> Session:
    """For archived files, show their size and a title that says what they are."""
    if archived.holds is Holds.SESSION:
        return archived.session
    place = places.get(archived.session.id, "that is gone")
    title = f"{archived.session.title or ''} (files of a session {place})".strip()
    return replace(archived.session, title=title, bytes=archived.archive_bytes)


def _show_none(
    wanted: SessionFilter,
    total: int,
    *,
    archived: bool = False,
    in_trash: bool = False,
    home_flag: str = "",
) -> None:
    if total:
        say("The offset is past the last session.")
    elif wanted != SessionFilter():
        say("No sessions match.")
    elif archived:
        say("The archive is empty.")
    else:
        show_no_sessions(in_trash=in_trash, home_flag=home_flag)


def _show(found: Sequence[_Row], total: int, order: SessionOrder, offset: int, now: float) -> None:
    numbers = (*_FIRST.get(order, ("active", "messages")), *_COLUMNS.get(order, ("size",)))
    agents = (_AGENT,) if found[0].agent is not None else ()
    # A program needs words, in a separate column; on a screen marks take less room.
    states = ("state",) if plain.is_piped() else ()
    rows = table(
        "id",
        *agents,
        "source",
        *numbers,
        *states,
        "title",
        right=numbers,
        whole=("id", *agents),
        cut=("source", "title"),
        drops=_drops(order),
    )
    digits = (
        cost_digits(each.page.cost(each.session).known for each in found)
        if "cost" in numbers
        else 0
    )
    for shown_id, each in zip(_ids(found), found, strict=True):
        session = each.session
        rows.add_row(
            name(shown_id),
            *(name(each.agent or "") for _ in agents),
            name(session.source),
            *(_number(each.page, session, column, now, digits) for column in numbers),
            *(_state(session) for _ in states),
            _title(each) if states else joined(_marks(session), _title(each)),
        )
    say(rows)
    _say_more(found, total, offset)
    unknown = sum(each.page.full_cost(each.session) is None for each in found)
    if order is SessionOrder.COST and unknown:
        say(
            f"The full cost of {unknown:,} of these is unknown: set [prices] in the "
            "configuration, or use --sort tokens."
        )


def _drops(order: SessionOrder) -> Sequence[str]:
    """The columns to drop on a narrow terminal, the least useful first. The column that the list is
    sorted by stays."""
    useful = ("messages", "source", "size", "tokens", "cost", "active", "started")
    by = {SessionOrder.MESSAGES: "messages", SessionOrder.BYTES: "size"}.get(order, order.value)
    others = [each for each in useful if each != by]
    return [*others, by] if order is SessionOrder.LAST_ACTIVE else others


def _marks(session: Session) -> str:
    if session.vaulted:
        return "◇ " + ("📌 " if session.pinned else "")
    return ("● " if not session.ended else "") + ("📌 " if session.pinned else "")


def _state(session: Session) -> str:
    state = "vaulted" if session.vaulted else "ended" if session.ended else "open"
    return state + (", pinned" if session.pinned else "")


def _title(row: _Row) -> Line:
    """The title or, if there is none, how the conversation began."""
    title = row.session.title
    if not title and not row.session.message_count:
        return styled("(no messages)", "dim")
    return name(title) if title else name(row.opening, "dim")


def _say_more(found: Sequence[_Row], total: int, offset: int) -> None:
    """Explain the marks, and how to see more sessions, if there are any. A pipe gets sessions
    only."""
    marks = "".join(_marks(each.session) for each in found)
    meanings = {"●": "● is open", "◇": "◇ is in the vault", "📌": "📌 is pinned"}
    meant = ", ".join(words for mark, words in meanings.items() if mark in marks)
    after = offset + len(found)
    text = format_count(total, "session") + "."
    if after < total or offset:
        which = f"{offset + 1:,} to {after:,}" if after > offset + 1 else f"Number {after:,}"
        text = f"{which} of {text}"
    if after < total:
        text += f" Next page: --offset {after}. All: --limit {total}."
    if not plain.is_piped():
        say(f"{text} {meant}." if meant else text, "dim")
    elif after < total:
        note(text)


def _ids(found: Sequence[_Row]) -> list[str]:
    """The full ids. If there is no room for them, a prefix of each that is unique in the list;
    commands accept prefixes too."""
    ids = [each.session.id for each in found]
    longest = max(map(len, ids))
    # Next to the names of agents other columns are worth more; otherwise they are all dropped
    # before an id is cut.
    need = _WIDE if found[0].agent is not None else longest + _TITLE
    if plain.is_piped() or width() >= need or longest <= _LONG:
        return ids
    starts = next(
        (
            starts
            for length in range(_START, _LONG)
            if len({*(starts := [each[:length] for each in ids])}) == len(ids)
        ),
        ids,
    )
    pairs = zip(starts, ids, strict=True)
    return [
        f"{start}{plain.CUT}" if len(start) < len(whole) - 1 else whole for start, whole in pairs
    ]


def size_text(session: Session) -> str:
    return "in parent" if session.is_in_parent else format_bytes(session.bytes)


def _number(page: SessionPage, session: Session, column: str, now: float, digits: int) -> str:
    if column in ("active", "started"):
        since = session.started_at if column == "started" else session.last_active_at
        return format_duration(now - since)
    if column == "messages":
        return f"{session.message_count:,}{'' if session.counted else '+'}"
    if column == "size":
        return size_text(session)
    if column == "tokens":
        return f"{session.tokens.total:,}"
    return page.cost(session).in_words(digits)
