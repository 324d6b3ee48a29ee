"""A session as Markdown, for reading."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from holdfast.model.session import Json, Message, Session
from holdfast.model.text import format_cost, format_count, printable

# Control characters that Unicode has a picture of, and unpaired surrogates.
_PICTURED = re.compile("[\0-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANKS = str.maketrans("\n\t", "  ")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def export_markdown(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The document in pieces: title, facts, then the conversation."""
    yield f"# {_escaped(session.title or session.id)}\n\n"
    for name, fact in _facts(session):
        yield f"- **{name}:** {fact}\n"
    for message in messages:
        yield "\n" + "\n\n".join([_heading(message), *_body(message)]) + "\n"


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    yield "Session", _code(session.id)
    yield "Source", _escaped(session.source)
    if session.parent_id:
        yield "Parent", f"{_code(session.parent_id)} ({session.relation or 'parent'})"
    if session.model:
        yield "Model", _escaped(session.model)
    if session.cwd:
        yield "Folder", _code(session.cwd)
    yield "Started", _time(session.started_at)
    if session.ended_at is not None:
        reason = session.end_reason
        why = "" if reason in (None, "ended") else f" ({_escaped(reason)})"
        yield "Ended", f"{_time(session.ended_at)}{why}"
    yield "Messages", _totals(session)


def _totals(session: Session) -> str:
    parts = [f"{session.message_count:,}"]
    if session.tool_call_count:
        parts.append(format_count(session.tool_call_count, "tool call"))
    if session.tokens.total:
        parts.append(f"{session.tokens.input:,} tokens in, {session.tokens.output:,} out")
    if session.cost:
        parts.append(f"cost {format_cost(session.cost)}")
    return ", ".join(parts)


def _heading(message: Message) -> str:
    who = _escaped(message.role[:1].upper() + message.role[1:])
    tool = f" {_code(message.tool_name)}" if message.tool_name else ""
    time = "" if message.timestamp is None else f" · {_time(message.timestamp)}"
    taken_back = " · taken back" if message.taken_back else ""
    return f"## {who}{tool}{time}{taken_back}"


def _body(message: Message) -> Iterator[str]:
    if message.reasoning is not None:
        yield _quoted("Reasoning", "\n\n".join(_parts(message.reasoning)))
    if message.role == "tool" and isinstance(message.content, str):
        yield _fenced(message.content)  # the output of a program, not Markdown
    else:
        yield from _parts(message.content)
    calls = message.tool_calls
    for call in calls if isinstance(calls, list) else [] if calls is None else [calls]:
        yield _tool_call(call)


def _parts(content: Json) -> Iterator[str]:
    """Content as blocks: text unchanged, other parts by their type."""
    if isinstance(content, str):
        if content.strip():
            yield _closed(_shown(content).strip("\n"))
    elif isinstance(content, list):
        for part in content:
            yield from _parts(part) if isinstance(part, str) else _part(part)
    elif content is not None:
        yield from _part(content)


def _part(part: Json) -> Iterator[str]:
    if not isinstance(part, dict):
        yield _fenced(_pretty(part), "json")
        return
    kind = part.get("type")
    if isinstance(part.get("text"), str):
        yield from _parts(part["text"])
    elif kind in ("thinking", "reasoning") and isinstance(part.get("thinking"), str):
        yield _quoted("Reasoning", "\n\n".join(_parts(part["thinking"])))
    elif kind in ("tool_use", "tool_call", "function"):
        yield _tool_call(part)
    elif kind == "tool_result":
        yield "**Tool result**"
        yield from _parts(part.get("content"))
    elif isinstance(kind, str):
        yield f"*({_escaped(kind.replace('_', ' '))})*"  # an image, a file: bytes, not words
    else:
        yield _fenced(_pretty(part), "json")


def _tool_call(call: Json) -> str:
    """The common forms: name and arguments at the top level, or inside `function`."""
    inner = call.get("function") if isinstance(call, dict) else None
    named = inner if isinstance(inner, dict) else call
    if not isinstance(named, dict) or not isinstance(named.get("name"), str):
        return "**Tool call**\n\n" + _fenced(_pretty(call), "json")
    arguments = named.get("arguments", named.get("input"))
    title = f"**Tool call** {_code(str(named['name']))}"
    return title if arguments is None else f"{title}\n\n{_arguments(arguments)}"


def _arguments(arguments: Json) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return _fenced(str(arguments))
    return _fenced(_pretty(arguments), "json")


def _pretty(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _fenced(text: str, language: str = "") -> str:
    """A block whose fence is longer than any run of backticks inside."""
    shown = _shown(text)
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(shown)), default=0))
    return f"{fence}{language}\n{shown.rstrip(chr(10))}\n{fence}"


def _code(text: str) -> str:
    shown = _shown(text).translate(_BLANKS)
    ticks = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _closed(text: str) -> str:
    """Close an open fence at the end of a text: a truncated message must not swallow the next
    one."""
    opened = ""
    for match in _FENCE.finditer(text):
        fence = match[1]
        rest = text[match.end() :].split("\n", 1)[0]
        if not opened:
            opened = fence
        elif fence[0] == opened[0] and len(fence) >= len(opened) and not rest.strip():
            opened = ""
    return f"{text}\n{opened}" if opened else text


def _quoted(name: str, text: str) -> str:
    lines = f"*{name}*\n\n{text}".split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", _shown(text).translate(_BLANKS))


def _shown(text: str) -> str:
    """Make all characters visible, because a terminal or an editor would act on control
    characters."""
    pictured = _PICTURED.sub(_picture, text.replace("\r\n", "\n"))
    return printable(pictured, keep="\n\t")


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code >= 0xD800:  # noqa: PLR2004 - the first surrogate
        return "\ufffd"
    return chr(0x2421 if code == 0x7F else 0x2400 + code)  # noqa: PLR2004 - "symbol for delete"


def _time(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{moment:g} s"
