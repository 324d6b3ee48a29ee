"""`holdfast sessions search`: find messages by words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import plain
from holdfast.cli.frame import command
from holdfast.cli.homes import failed_json, tell_unread
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import limit_option, offset_option
from holdfast.cli.output import (
    joined,
    name,
    note,
    print_json,
    say,
    suggest,
    table,
    tell_unknown_sources,
    warn_of,
    when,
    width,
)
from holdfast.cli.progress import progress
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.model.session import Search
from holdfast.model.text import format_count, one_line

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome, UnreadHome
    from holdfast.api.home import Home
    from holdfast.api.session_view import SearchResult
    from holdfast.cli.plain import Line
    from holdfast.model.session import Hit

    #: The home is set if there are several.
    _Hit = tuple[AgentHome | None, Hit]
    _Opened = tuple[AgentHome | None, Home]
    _Openings = Mapping[tuple[AgentHome | None, str], str]

_LEAST_TITLE = 20


@command(
    example='holdfast sessions search "disk full" --source cron\n'
    "holdfast sessions search 'backup* NOT weekly' --newer-than 30d\n"
    "holdfast sessions search --part otal_siz"
)
@click.argument("words", nargs=-1, required=True, metavar="QUERY...")
@click.option("--part", is_flag=True, help="Find a part of a word or identifier.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="Only messages of this role: user, assistant, …",
)
@filter_options
@click.option("--archived", is_flag=True, help="Search the archive; this reads every bundle.")
@limit_option("Show at most N messages.")
@offset_option
def search(
    invocation: Invocation,
    /,
    words: tuple[str, ...],
    *,
    part: bool,
    roles: tuple[str, ...],
    archived: bool,
    limit: int,
    offset: int,
    **flags: Any,
) -> int:
    """Find messages by their words, the best matches first.

    All words must occur. Quotes find an exact phrase, word* finds words with this beginning, and
    OR, NOT and parentheses combine. Any part of Chinese, Japanese and Korean text is found.

    Without --home this searches all homes of the machine.
    """
    asked = Search(
        text=" ".join(words),
        wanted=session_filter(invocation, flags),
        roles=roles or None,
        limit=limit + 1,  # one more, to find out whether there are more
        offset=offset,
        substring=part,
    )
    hits, results, opened, unread = _search(invocation, asked, archived=archived)
    problems = [each for result in results for each in result.problems]
    warn_of(problems)
    shown = hits[:limit]
    if invocation.json:
        document = {
            "hits": [_document_search(*each) for each in shown],
            "more": len(hits) > limit,
            "problems": [{"path": each.path, "reason": each.reason} for each in problems],
        }
        print_json(document | ({} if unread is None else {"failed": failed_json(unread)}))
    elif hits:
        _show_hits(shown, {} if archived else _openings(opened, shown))
        _say_more(asked, len(hits))
    else:
        _show_nothing(invocation, words, results, archived=archived, part=part)
    return tell_unread(unread or ())


def _search(
    invocation: Invocation, asked: Search, *, archived: bool
) -> tuple[Sequence[_Hit], Sequence[SearchResult], Iterable[_Opened], Sequence[UnreadHome] | None]:
    """Search. Returns the hits, the result of each home, the homes of the shown hits and, if there
    are several homes, those that cannot be read."""
    machine = invocation.several()
    if machine is None:
        home = invocation.open_home()
        with progress("searching"):
            found = home.archive.search_sessions(asked) if archived else home.search_sessions(asked)
        return [(None, hit) for hit in found.hits], [found], [(None, home)], None
    with progress("searching all homes"):
        everywhere = machine.search_sessions(asked, archived=archived)
    results = [result for _, result in everywhere.looked.seen]
    of = dict.fromkeys(home for home, _ in everywhere.hits[: asked.limit - 1])
    opened = ((each, machine.open(each)) for each in of)
    return everywhere.hits, results, opened, everywhere.looked.unread


def _document_search(home: AgentHome | None, hit: Hit) -> dict[str, Any]:
    return {
        **({"agent": home.agent, "home": str(home.path)} if home is not None else {}),
        "session": hit.session.id,
        "source": hit.session.source,
        "title": hit.session.title,
        "message": hit.message.number,
        "role": hit.message.role,
        "timestamp": hit.message.timestamp,
        "snippet": hit.snippet,
        "score": hit.score,
        "matches": [list(each) for each in hit.matches],
    }


def _show_nothing(
    invocation: Invocation,
    words: tuple[str, ...],
    results: Sequence[SearchResult],
    *,
    archived: bool,
    part: bool,
) -> None:
    """Suggest what to try instead."""
    where = "--archived " if archived else ""
    command = f"holdfast {invocation.home_flag}sessions search {where}"
    close = dict.fromkeys(word for each in results for word in each.close_words)
    dashes = "-- " if words[0].startswith("-") else ""
    tell_unknown_sources(*(each.unknown_sources for each in results))
    say(joined("No matches for ", name(" ".join(words), "bold"), "."))
    if close:
        say(name(f"Similar words that occur: {', '.join(close)}."))
    if not part and not _has_operators(words):
        partly = f"{command}--part {dashes}{shlex.quote(words[0])}"
        suggest("", "To look for a part of a word:", partly)
    if any(each.archive_unread for each in results):
        parts = "--part " if part else ""
        archive = f"{command}--archived {parts}{dashes}{shlex.join(words)}"
        suggest("The archive was not searched.", "To search there:", archive)
    if any(each.in_trash for each in results):
        listing = f"holdfast {invocation.home_flag}trash list"
        told = "There are removed sessions in the trash, which is not searched."
        suggest(told, "To see what removed them:", listing)


def _has_operators(words: Sequence[str]) -> bool:
    """Whether this asks for more than words: a part of a word has no operators."""
    said = " ".join(words).split()
    signs = any(each.startswith(("(", '"')) or each.endswith("*") for each in said)
    return signs or not {"AND", "OR", "NOT"}.isdisjoint(said)


def _openings(opened: Iterable[_Opened], found: Sequence[_Hit]) -> _Openings:
    return {
        (each, session): text
        for each, home in opened
        for session, text in home.openings([hit.session for of, hit in found if of == each]).items()
    }


def _show_hits(found: Sequence[_Hit], openings: _Openings) -> None:
    """Show messages under their sessions, with the name of the agent if there are several. A
    session without a title is shown with its opening, as in a list. In a pipe, one line per
    message."""
    if plain.is_piped():
        _show_records(found, openings)
        return
    for home, hit in found:
        moment = when(hit.message.timestamp) if hit.message.timestamp is not None else ""
        said = f"{f'  {home.label}' if home is not None else ''}  {hit.message.role}  {moment}"
        head = name(hit.session.id, "bold")
        room = width() - len(hit.session.id) - len(said)
        shown = hit.session.title or openings.get((home, hit.session.id), "")
        if shown and room < _LEAST_TITLE:  # a time is not split, and a title has one line
            say(head)
            head, room = name(""), width() - len(said)
        style = "" if hit.session.title else "dim"
        title = name(f"  {shown}" if shown else "", style).shortened(room)
        say(joined(head, name(said, "dim"), title))
        say(_marked(hit))
        say()


def _say_more(asked: Search, found: int) -> None:
    """Show the range of these matches, and how to see more. A search stops at one match more than
    is shown, so the total is unknown. A pipe gets messages only."""
    limit, offset = asked.limit - 1, asked.offset
    if found <= limit and not offset:
        text = f"{format_count(found, 'message matches', 'messages match')}."
    else:
        after = offset + min(found, limit)
        which = f"Matches {offset + 1:,} to {after:,}" if after > offset + 1 else f"Match {after:,}"
        text = f"{which}, the last."
        if found > limit:
            text = f"{which}; there are more. Next page: --offset {after}. "
            text += f"More per page: --limit {10 * limit}."
    if not plain.is_piped():
        say(text, "dim")
    elif found > limit:
        note(text)


def _show_records(found: Sequence[_Hit], openings: _Openings) -> None:
    agents = ("agent",) if found[0][0] is not None else ()
    rows = table("session", *agents, "role", "when", "title", "text")
    for home, hit in found:
        moment = when(hit.message.timestamp) if hit.message.timestamp is not None else ""
        rows.add_row(
            name(hit.session.id),
            *([name(home.label)] if home is not None else []),
            name(hit.message.role),
            moment,
            name(hit.session.title or openings.get((home, hit.session.id), "")),
            _marked(hit),
        )
    say(rows)


def _marked(hit: Hit) -> Line:
    """The snippet with the match in bold; brackets stay for terminals without bold."""
    parts, done = [], 0
    for start, end in hit.matches:
        before, match = hit.snippet[done : start - 1], hit.snippet[start - 1 : end + 1]
        parts += [(one_line(before), ""), (one_line(match), "bold magenta")]
        done = end + 1
    return joined("  ", *parts, (one_line(hit.snippet[done:]), ""))
