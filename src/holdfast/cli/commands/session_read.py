"""`holdfast sessions show` and `search`: read a conversation, find what was said."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.session_view import SearchResult
from holdfast.cli import plain
from holdfast.cli.commands.session_list import size_text
from holdfast.cli.completing import session_ids
from holdfast.cli.frame import Command
from holdfast.cli.homes import failed_json, home_json, tell_unread
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import (
    collecting,
    console,
    joined,
    name,
    note,
    print_json,
    say,
    styled,
    suggest,
    table,
    warn_of,
    when,
    width,
)
from holdfast.cli.pager import paged
from holdfast.cli.progress import progress
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.cli.show_checkpoints import short
from holdfast.model.session import EndReason, Search, SessionFilter, Tokens
from holdfast.model.text import format_count, one_line, printable
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import Home
    from holdfast.api.machine import Machine, MachineSearch
    from holdfast.cli.plain import Line
    from holdfast.model.checkpoint import Checkpoint
    from holdfast.model.item import Problem
    from holdfast.model.session import Hit, Json, Message, Session


_STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}
_LONGEST_SHOWN = 4_000
_LEAST_TITLE = 20


@click.command(
    "show",
    cls=Command,
    example="holdfast sessions show 20260325_112518\n"
    "holdfast sessions show 20260325_112518 --last 5",
)
@click.argument("sessions", nargs=-1, required=True, metavar="ID…", shell_complete=session_ids)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N messages.")
@click.option("--whole", is_flag=True, help="Do not shorten long messages.")
@click.option("--taken-back", is_flag=True, help="Also show messages that the user took back.")
@click.pass_obj
def show(
    invocation: Invocation,
    sessions: tuple[str, ...],
    *,
    last: int | None,
    whole: bool,
    taken_back: bool,
) -> int:
    """Read sessions like conversations. The start of an id is enough while it is unique.

    A session is found in whichever home of the machine it is, or in the one that --home names.

    Where a checkpoint of this session was taken, a line says how to go back to that moment. On a
    terminal a long session opens in your pager.

    Messages that the user took back in the agent are counted, and shown only with --taken-back.
    """
    if len(sessions) == 1:
        return _show(invocation, sessions[0], last=last, whole=whole, taken_back=taken_back)
    machine = invocation.several()
    with collecting() as documents:
        for number, each in enumerate(sessions):
            child = invocation
            if machine is not None:
                child = invocation.at(machine.resolve(each).home)
                child.machine = machine
            if number and not invocation.json:
                say()
            _show(child, each, last=last, whole=whole, taken_back=taken_back)
    if invocation.json:
        print_json({"sessions": documents})
    return 0


def _show(
    invocation: Invocation, session: str, *, last: int | None, whole: bool, taken_back: bool
) -> int:
    with progress("looking for the session"):
        home = invocation.home_of(session)
        store = home.need_store()
        found = store.get(home.resolve(session))
        life = None if found.ended else home.sign_of_life(found)
    said = _Said(store.messages(found.id), taken_back=taken_back)
    messages = said if last is None else iter(deque(said, maxlen=last))
    marks = _marked_in(invocation, home, found)
    if invocation.json:
        print_json(
            {
                **home_json(invocation, home),
                "session": found.to_json(),
                "in_use": life,
                "messages": [_document_show(m) for m in messages],
                "taken_back": said.taken_back,
                "checkpoints": [
                    {"id": each.id, "time": each.time, "reason": each.reason, "turn": each.turn}
                    for _, each in marks
                ],
            }
        )
        return 0
    begun = last is not None and last < found.message_count
    with paged(wanted=_is_long(last if begun and last else found.message_count)):
        _show_facts(found, home.kind if invocation.several_homes else None, _cost(home, found))
        if life:
            say(name(f"in use: {life}", "dim"))
        # In a pipe somebody searches for a phrase: it is there, wherever it stands.
        whole = whole or plain.is_piped()
        _show_messages(_Marks(marks, begun=begun), messages, whole=whole)
        if said.taken_back and not taken_back:
            _tell_taken_back(said.taken_back)
    return 0


def _marked_in(
    invocation: Invocation, home: Home, session: Session
) -> Sequence[tuple[str, Checkpoint]]:
    """The checkpoints of a session, the first one first: those in its own home, and those that
    hooks of its agent took into Holdfast's."""
    found = [(invocation.home_flag, each) for each in home.checkpoints.list(session=session)]
    own = invocation.own_checkpoints()
    if own is not None and own.root != home.path:
        found += [("", each) for each in own.list(session=session)]
    return sorted(found, key=lambda each: each[1].time)


class _Said:
    """Messages one by one, without those that were taken back unless they are asked for."""

    def __init__(self, messages: Iterator[Message], *, taken_back: bool) -> None:
        self._messages = messages
        self._all = taken_back
        self.taken_back = 0

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.taken_back += message.taken_back
            if self._all or not message.taken_back:
                yield message


def _tell_taken_back(count: int) -> None:
    what = format_count(count, "message was taken back", "messages were taken back")
    say()
    say(name(f"{what}. To see them too: --taken-back", "dim"))


def _document_show(message: Message) -> dict[str, Any]:
    tokens = message.tokens
    shown: Json = tokens.to_object() if isinstance(tokens, Tokens) else tokens
    return {
        "number": message.number,
        "role": message.role,
        "content": message.content,
        "timestamp": message.timestamp,
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "reasoning": message.reasoning,
        "tokens": shown,
        "cost": message.cost,
        "taken_back": message.taken_back,
        "extra": dict(message.extra),
    }


def _is_long(messages: int) -> bool:
    """Whether messages take more than a screen; on a pipe nothing does."""
    return not plain.is_enough() and messages * 3 > console().height


def _cost(home: Home, session: Session) -> str:
    """What it cost, as lists say it."""
    from holdfast.cli.commands.session_stats import cost_text

    page = home.list_sessions(SessionFilter(ids=(session.id,)), limit=1)
    return cost_text(page.cost(session))


def _show_facts(session: Session, agent: str | None, cost: str) -> None:
    say(name(session.title or session.id, "bold"))
    known = session.id if session.title else None
    facts = [known, agent, session.source, session.model, session.cwd]
    say(name("  ".join(fact for fact in facts if fact), "dim"))
    say(name(f"started {when(session.started_at)}, {_end(session)}", "dim"))
    size = size_text(session).replace("in parent", "in the files of its parent")
    count = f"{format_count(session.message_count, 'message')}, {size}"
    say(name(f"{count}, {session.tokens.total:,} tokens, cost {cost}", "dim"))
    if session.parent_id:
        say(name(f"{session.relation} of {session.parent_id}", "dim"))


def _end(session: Session) -> str:
    """When it ended, and why if there is more to say than that it did."""
    if session.ended_at is None:
        return "open"
    why = "" if session.end_reason in (None, EndReason.ENDED) else f" ({session.end_reason})"
    return f"ended {when(session.ended_at)}{why}"


class _Marks:
    """Checkpoints between messages, by their time, each with the flag that names its home."""

    def __init__(self, checkpoints: Sequence[tuple[str, Checkpoint]], *, begun: bool) -> None:
        self._left = list(checkpoints)
        self._begun = begun

    def show_until(self, moment: float | None) -> None:
        """Those that were taken before a message, or, without a moment, after the last one."""
        due = [each for each in self._left if moment is None or each[1].time <= moment]
        self._left = self._left[len(due) :]
        # Of what came before the first message that is shown, only the last is about that one.
        for flag, each in due[-1:] if self._begun else due:
            self._show(flag, each, "before this" if moment is not None else "after this")
        self._begun = False

    def _show(self, flag: str, checkpoint: Checkpoint, where: str) -> None:
        known = short(checkpoint.id)
        show = f"holdfast {flag}checkpoints restore {known}"
        say()
        say(name(f"checkpoint {known} {where}: {show}", "dim"))


def _show_messages(marks: _Marks, messages: Iterable[Message], *, whole: bool) -> None:
    for message in messages:
        if message.timestamp is not None:
            marks.show_until(message.timestamp)
        say()
        moment = when(message.timestamp) if message.timestamp is not None else ""
        role = name(message.role, _STYLES.get(message.role, "bold"))
        if message.tool_name:
            role.append_text(name(f" {message.tool_name}", "yellow"))
        if message.taken_back:
            role.append("  taken back", style="bold red")
        say(role.append(f"  {moment}", style="dim"))
        say(_body(message, whole=whole))
    marks.show_until(None)


def _body(message: Message, *, whole: bool) -> Line:
    parts = [_readable(message.content)]
    if isinstance(message.tool_calls, list):
        parts += [f"→ {json.dumps(call, ensure_ascii=False)}" for call in message.tool_calls]
    text = "\n".join(part for part in parts if part)
    if not whole and len(text) > _LONGEST_SHOWN:
        hidden = len(text) - _LONGEST_SHOWN
        text = f"{text[:_LONGEST_SHOWN]}\n… {hidden:,} more characters; --whole shows them."
    shown = text.replace("\r\n", "\n").expandtabs(4)
    return styled(printable(shown))


def _readable(content: Json) -> str:
    """Text as it is; of structured parts, the texts, and a name for the others."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_readable_part, content)))
    return json.dumps(content, ensure_ascii=False, indent=1)


def _readable_part(part: Json) -> str:
    if isinstance(part, dict):
        text = part.get("text")
        return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"
    return _readable(part)


@click.command(
    "search",
    cls=Command,
    example='holdfast sessions search "disk full" --source cron\n'
    "holdfast sessions search 'backup* NOT weekly' --newer-than 30d\n"
    "holdfast sessions search --part otal_siz",
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
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show at most N messages.",
)
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip the first N."
)
@click.pass_obj
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
        say(styled(text, "dim"))
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
