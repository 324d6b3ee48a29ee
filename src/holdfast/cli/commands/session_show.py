"""`holdfast sessions show`: read a session like a conversation."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import plain
from holdfast.cli.commands.session_list import size_text
from holdfast.cli.completing import session_ids
from holdfast.cli.frame import command
from holdfast.cli.homes import home_json
from holdfast.cli.invocation import Invocation
from holdfast.cli.numbers import WholeNumber
from holdfast.cli.output import collecting, console, name, print_json, say, styled, when
from holdfast.cli.pager import paged
from holdfast.cli.progress import progress
from holdfast.cli.take import short
from holdfast.model.session import EndReason, SessionFilter, Tokens
from holdfast.model.text import format_count, printable

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.cli.plain import Line
    from holdfast.model.checkpoint import Checkpoint
    from holdfast.model.session import Json, Message, Session

_STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}
_LONGEST_SHOWN = 4_000
#: What agents call the arguments of a tool, and the one that says what to do.
_ARGUMENTS = ("arguments", "input", "args", "parameters")
_COMMANDS = ("cmd", "command", "script", "input")


@command(
    example="holdfast sessions show 20260325_112518\n"
    "holdfast sessions show 20260325_112518 --last 5"
)
@click.argument("sessions", nargs=-1, required=True, metavar="ID...", shell_complete=session_ids)
@click.option("--last", type=WholeNumber(min=1), metavar="N", help="Only the last N messages.")
@click.option("--whole", is_flag=True, help="Do not shorten long messages.")
@click.option("--taken-back", is_flag=True, help="Also show messages that the user took back.")
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
        # In a pipe the user may be searching for a phrase: it must not be cut off.
        whole = whole or plain.is_piped()
        _show_messages(_Marks(marks, begun=begun), messages, whole=whole)
        if said.taken_back and not taken_back:
            _tell_taken_back(said.taken_back)
    return 0


def _marked_in(
    invocation: Invocation, home: Home, session: Session
) -> Sequence[tuple[str, Checkpoint]]:
    """The checkpoints of a session, the earliest first: those in its own home, and those that hooks
    of its agent took in Holdfast's home."""
    found = [(invocation.home_flag, each) for each in home.checkpoints.list(session=session)]
    own = invocation.own_checkpoints()
    if own is not None and own.root != home.path:
        found += [("", each) for each in own.list(session=session)]
    return sorted(found, key=lambda each: each[1].time)


class _Said:
    """Messages one by one, without those that were taken back unless requested."""

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
    """True if messages need more than one screen; in a pipe, never."""
    return not plain.is_enough() and messages * 3 > console().height


def _cost(home: Home, session: Session) -> str:
    """Its cost, as shown in lists."""
    page = home.list_sessions(SessionFilter(ids=(session.id,)), limit=1)
    return page.cost(session).in_words()


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
    """When it ended, and the reason if it is informative."""
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
        """Show those taken before a message or, without a moment, after the last one."""
        due = [each for each in self._left if moment is None or each[1].time <= moment]
        self._left = self._left[len(due) :]
        # Of those before the first message shown, only the last one applies to it.
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
        parts += [f"→ {_call(call)}" for call in message.tool_calls]
    text = "\n".join(part for part in parts if part)
    if not whole and len(text) > _LONGEST_SHOWN:
        hidden = len(text) - _LONGEST_SHOWN
        text = f"{text[:_LONGEST_SHOWN]}\n… {hidden:,} more characters; --whole shows them."
    shown = text.replace("\r\n", "\n").expandtabs(4)
    return styled(printable(shown))


def _call(call: Json) -> str:
    """`exec_command  ls -l  workdir=/tmp`: the tool, what it was told to do, then the rest. A call
    of a form that is not known is shown as it is."""
    outer = call if isinstance(call, dict) else {}
    function = outer.get("function")
    inner = function if isinstance(function, dict) else outer
    tool = inner.get("name")
    given = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), None)
    if not isinstance(tool, str):
        return json.dumps(call, ensure_ascii=False)
    if isinstance(given, str):
        with suppress(ValueError):
            given = json.loads(given)
    if not isinstance(given, dict):
        return f"{tool}  {_argument(given)}" if given else tool
    main = next((key for key in _COMMANDS if key in given), None)
    if main is None and len(given) == 1:
        main = next(iter(given))
    words = [] if main is None else [_argument(given[main])]
    words += [f"{key}={_argument(value)}" for key, value in given.items() if key != main]
    return "  ".join([tool, *words])


def _argument(value: Json) -> str:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return shlex.join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _readable(content: Json) -> str:
    """Text unchanged; of structured parts, their text, and a placeholder for the others."""
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
