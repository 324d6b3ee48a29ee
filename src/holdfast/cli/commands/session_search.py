"""`holdfast sessions search`: find messages by words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.session_view import SearchResult
from holdfast.cli import plain
from holdfast.cli.frame import command
from holdfast.cli.homes import failed_json, tell_unread
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import (
    joined,
    name,
    note,
    print_json,
    say,
    suggest,
    table,
    warn_of,
    when,
    width,
)
from holdfast.cli.progress import progress
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.cli.sorting import limit_option, offset_option
from holdfast.model.session import Search
from holdfast.model.text import format_count, one_line
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine, MachineSearch
    from holdfast.cli.plain import Line
    from holdfast.model.item import Problem
    from holdfast.model.session import Hit

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

    All words must occur. Quotes find an exact phrase, word* finds words that begin like this, and
    OR, NOT and parentheses combine. Any part of Chinese, Japanese and Korean text is found.

    Without --home this searches all homes of the machine.
    """
    asked = Search(
        text=" ".join(words),
        wanted=session_filter(invocation, flags),
        roles=roles or None,
        limit=limit + 1,  # whether there is more than fits is known then
        offset=offset,
        substring=part,
    )
    machine = invocation.several()
    if machine is not None:
        with progress("searching all homes"):
            everywhere = machine.search_sessions(asked, archived=archived)
        return _tell_all(
            invocation, machine, everywhere, asked, words, archived=archived, part=part
        )
    home = invocation.open_home()
    with progress("searching"):
        found = home.archive.search_sessions(asked) if archived else home.search_sessions(asked)
    warn_of(found.problems)
    if invocation.json:
        hits = [_document_search(hit) for hit in found.hits[:limit]]
        more = len(found.hits) > limit
        problems = _document_problems(found.problems)
        print_json({"hits": hits, "more": more, "problems": problems})
    elif found.hits:
        shown = found.hits[:limit]
        openings = {} if archived else home.openings([hit.session for hit in shown])
        _show_hits([_Found.of(None, hit, openings) for hit in shown])
        _say_more(asked, len(found.hits))
    else:
        where = "--archived " if archived else ""
        _show_nothing(words, found, f"holdfast {invocation.home_flag}sessions search {where}", part)
    return 0


def _tell_all(
    invocation: Invocation,
    machine: Machine,
    found: MachineSearch,
    asked: Search,
    words: tuple[str, ...],
    *,
    archived: bool,
    part: bool,
) -> int:
    """What a search in all homes found."""
    limit = asked.limit - 1
    results = [result for _, result in found.looked.seen]
    problems = [each for result in results for each in result.problems]
    warn_of(problems)
    if invocation.json:
        hits = [
            {"agent": home.agent, "home": str(home.path), **_document_search(hit)}
            for home, hit in found.hits[:limit]
        ]
        more = {"more": len(found.hits) > limit}
        failed = {"failed": failed_json(found.looked.unread)}
        print_json({"hits": hits} | more | {"problems": _document_problems(problems)} | failed)
    elif found.hits:
        shown = found.hits[:limit]
        by_home = {} if archived else _openings(machine, shown)
        _show_hits([_Found.of(home.label, hit, by_home.get(home, {})) for home, hit in shown])
        _say_more(asked, len(found.hits))
    else:
        together = SearchResult(
            hits=(),
            close_words=tuple(dict.fromkeys(w for each in results for w in each.close_words)),
            archive_unread=any(each.archive_unread for each in results),
        )
        where = "--archived " if archived else ""
        _show_nothing(words, together, f"holdfast sessions search {where}", part)
    return tell_unread(found.looked.unread)


def _document_problems(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"path": each.path, "reason": each.reason} for each in problems]


def _document_search(hit: Hit) -> dict[str, Any]:
    return {
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


def _show_nothing(words: tuple[str, ...], found: SearchResult, command: str, part: bool) -> None:
    """What to try instead. `command` is what was typed, up to the words."""
    dashes = "-- " if words[0].startswith("-") else ""
    say(joined("Nothing was found for ", name(" ".join(words), "bold"), "."))
    if found.close_words:
        say(name(f"Similar words that occur: {', '.join(found.close_words)}."))
    if not part:
        say("To look for a part of a word:")
        suggest(f"{command}--part {dashes}{shlex.quote(words[0])}")
    if found.archive_unread:
        say("The archive was not searched. To search there:")
        parts = "--part " if part else ""
        suggest(f"{command}--archived {parts}{dashes}{shlex.join(words)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A message that matches. `agent` is named where there are several."""

    agent: str | None
    hit: Hit
    title: str

    @classmethod
    def of(cls, agent: str | None, hit: Hit, openings: Mapping[str, str]) -> _Found:
        """Without a title, how the conversation began: as in a list."""
        title = hit.session.title or openings.get(hit.session.id, "")
        return cls(agent=agent, hit=hit, title=title)


def _openings(
    machine: Machine, found: Sequence[tuple[AgentHome, Hit]]
) -> Mapping[AgentHome, Mapping[str, str]]:
    homes = dict.fromkeys(home for home, _ in found)
    return {
        each: machine.open(each).openings([hit.session for home, hit in found if home == each])
        for each in homes
    }


def _show_hits(found: Sequence[_Found]) -> None:
    """Messages under their sessions; the agent is named where there are several. In a pipe, one
    line each."""
    if plain.is_piped():
        _show_records(found)
        return
    for each in found:
        hit = each.hit
        moment = when(hit.message.timestamp) if hit.message.timestamp is not None else ""
        said = f"{f'  {each.agent}' if each.agent else ''}  {hit.message.role}  {moment}"
        head = name(hit.session.id, "bold")
        room = width() - len(hit.session.id) - len(said)
        least = _LEAST_TITLE if each.title and not hit.session.title else 0
        if room < least:  # a moment is not broken, and an opening has one line
            say(head)
            head, room = name(""), width() - len(said)
        title = name(f"  {each.title}" if each.title else "")
        if not hit.session.title:
            title = name(title.plain, "dim").shortened(room)
        say(joined(head, name(said, "dim"), title))
        say(_marked(hit))
        say()


def _say_more(asked: Search, found: int) -> None:
    """Which matches these are, and how to see more. A search stops when it has enough, one more
    than is shown: nobody counts the rest. A pipe gets messages only."""
    limit, offset = asked.limit - 1, asked.offset
    if found <= limit and not offset:
        text = f"{format_count(found, 'message matches', 'messages match')}."
    else:
        after = offset + min(found, limit)
        which = f"Matches {offset + 1:,} to {after:,}" if after > offset + 1 else f"Match {after:,}"
        text = f"{which}, the last."
        if found > limit:
            text = f"{which}; there are more. The next: --offset {after}. "
            text += f"More at once: --limit {10 * limit}."
    if not plain.is_piped():
        say(text, "dim")
    elif found > limit:
        note(text)


def _show_records(found: Sequence[_Found]) -> None:
    agents = ("agent",) if found[0].agent is not None else ()
    rows = table("session", *agents, "role", "when", "title", "text")
    for each in found:
        hit = each.hit
        moment = when(hit.message.timestamp) if hit.message.timestamp is not None else ""
        rows.add_row(
            name(hit.session.id),
            *(name(each.agent or "") for _ in agents),
            name(hit.message.role),
            moment,
            name(each.title),
            _marked(hit),
        )
    say(rows)


def _marked(hit: Hit) -> Line:
    """The snippet with what matched in bold, brackets kept for terminals without it."""
    parts, done = [], 0
    for start, end in hit.matches:
        before, match = hit.snippet[done : start - 1], hit.snippet[start - 1 : end + 1]
        parts += [(one_line(before), ""), (one_line(match), "bold magenta")]
        done = end + 1
    return joined("  ", *parts, (one_line(hit.snippet[done:]), ""))
