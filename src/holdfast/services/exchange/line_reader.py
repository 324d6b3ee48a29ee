"""Reads a session and its messages from a line. Every field is checked, and errors name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from holdfast.model.arguments import check_foreign_id, check_id
from holdfast.model.guard import guarded_from_json
from holdfast.model.json_value import Reader
from holdfast.model.session import EndReason, Json, Message, Relation, Session, Tokens
from holdfast.services.exchange.json_lines import LineError, LineText
from holdfast.services.exchange.session_line import (
    GUARDED,
    MESSAGES,
    message_extra_from_line,
    session_extra_from_line,
)
from holdfast.value import dataclass, replace

_T = TypeVar("_T")
#: More than any model counts or costs, and small enough that a session's total is exact.
_LARGEST_COUNT = 10**12
_SURROGATE = re.compile("[\ud800-\udfff]")
_COUNTS = ("in", "out", "cached")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """The session in a line. `messages` is None if they were checked but not kept.
    `message_count` counts all of them, `said_count` only those that were not taken back, like a
    session's own count."""

    session: Session
    messages: tuple[Message, ...] | None
    message_count: int
    said_count: int
    notes: tuple[str, ...] = ()


def read_session(text: LineText, *, keep: bool, foreign: bool = False) -> ReadSession:
    """Check a whole line; raises `LineError`. With `keep` the messages stay in memory. With
    `foreign` the id may be in the format of another agent."""
    fields: dict[str, Json] = {}
    kept: list[Message] = []
    message_count = said_count = 0
    latest: float | None = None
    for name in text.keys():  # noqa: SIM118 - a walk through the text, no mapping
        if name in fields:
            raise LineError(f"`{name}` appears twice in the session")
        if name != MESSAGES:
            fields[name] = text.value()
            continue
        fields[name] = None
        for message in _messages(text):
            message_count += 1
            said_count += not message.taken_back
            if message.timestamp is not None:
                latest = message.timestamp if latest is None else max(latest, message.timestamp)
            if keep:
                kept.append(message)
    text.finish()
    session, notes = _session(fields, latest, check_foreign_id if foreign else check_id)
    messages = tuple(timed(kept, session.started_at)) if keep else None
    return ReadSession(
        session=session,
        messages=messages,
        message_count=message_count,
        said_count=said_count,
        notes=tuple(notes),
    )


def read_messages(text: LineText, started_at: float) -> Iterator[Message]:
    """Yield the messages of a line that was already checked."""
    for name in text.keys():  # noqa: SIM118 - a walk through the text, no mapping
        if name == MESSAGES:
            yield from timed(_messages(text), started_at)
        else:
            text.value()


def timed(messages: Iterable[Message], started_at: float) -> Iterator[Message]:
    """Give each message without a time that of the message before it."""
    time = started_at
    for message in messages:
        if message.timestamp is None:
            yield replace(message, timestamp=time)
        else:
            time = message.timestamp
            yield message


def _messages(text: LineText) -> Iterator[Message]:
    if text.next() != "[":
        raise LineError(f"`{MESSAGES}` of a session must be a list")
    for number, item in enumerate(text.items(), 1):
        try:
            yield read_message(item)
        except LineError as error:
            raise LineError(f"message {number}: {error.message}") from None


def read_message(item: Json) -> Message:
    """Read one message of a line or a transcript; raises `UsageError`."""
    reader = Reader(item, "message", LineError)
    fields = cast("dict[str, Json]", item)
    role = reader.text("role")
    if not role or not _is_storable(role):
        raise LineError("`role` of a message must be a non-empty string of valid Unicode")
    return Message(
        role=role,
        content=fields.get("content"),
        timestamp=_given(fields, "timestamp", reader.number),
        tool_name=_given(fields, "tool_name", reader.text),
        tool_calls=fields.get("tool_calls"),
        tool_call_id=_given(fields, "tool_call_id", reader.text),
        reasoning=fields.get("reasoning"),
        tokens=_tokens(fields.get("tokens")),
        cost=_cost(reader, fields),
        extra=message_extra_from_line(fields),
    )


def _session(
    fields: Mapping[str, Json], latest: float | None, check: Callable[[str], str]
) -> tuple[Session, list[str]]:
    reader = Reader(fields, "session", LineError)
    session_id = check(reader.text("id"))
    notes: list[str] = []
    started_at = reader.number("started_at")
    reader.value(MESSAGES)
    ended_at = _given(fields, "ended_at", reader.number)
    end_reason = _storable_text(reader, fields, "end_reason", notes)
    if ended_at is None and end_reason is not None:
        ended_at = started_at if latest is None else max(latest, started_at)
        notes.append("it had an end reason but no end time, so it got the time of its last message")
    elif ended_at is not None and end_reason is None:
        end_reason = EndReason.ENDED.value
    session = Session(
        id=session_id,
        source=_storable(reader.text("source"), "source", notes),
        started_at=started_at,
        last_active_at=started_at,
        parent_id=_parent(reader, fields, session_id, check),
        relation=_given(fields, "relation", lambda name: reader.choice(name, Relation)),
        title=_storable_text(reader, fields, "title", notes),
        cwd=_storable_text(reader, fields, "cwd", notes),
        model=_storable_text(reader, fields, "model", notes),
        ended_at=ended_at,
        end_reason=end_reason,
        pinned=fields.get("pinned") is not None and reader.flag("pinned"),
        routing_key=_storable_text(reader, fields, "routing_key", notes),
        extra=session_extra_from_line(fields),
        guarded=guarded_from_json(fields.get(GUARDED), LineError),
    )
    return session, notes


def _parent(
    reader: Reader, fields: Mapping[str, Json], session_id: str, check: Callable[[str], str]
) -> str | None:
    if fields.get("parent_id") is None:
        return None
    parent = check(reader.text("parent_id"))
    if parent.lower() == session_id.lower():
        raise LineError("the session is its own parent")
    return parent


def _given(fields: Mapping[str, Json], name: str, read: Callable[[str], _T]) -> _T | None:
    return None if fields.get(name) is None else read(name)


def _storable_text(
    reader: Reader, fields: Mapping[str, Json], name: str, notes: list[str]
) -> str | None:
    text = _given(fields, name, reader.text)
    return None if text is None else _storable(text, name, notes)


def _storable(text: str, name: str, notes: list[str]) -> str:
    """Replace unpaired surrogates: a title that was cut in the middle of an emoji is no reason to
    refuse a session."""
    if _is_storable(text):
        return text
    notes.append(f"an unpaired surrogate in `{name}` was replaced")
    return _SURROGATE.sub("\ufffd", text)


def _is_storable(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


def _cost(reader: Reader, fields: Mapping[str, Json]) -> float | None:
    if fields.get("cost") is None:
        return None
    if not 0 <= reader.number("cost") <= _LARGEST_COUNT:
        raise LineError(f"`cost` of a message must be between 0 and {_LARGEST_COUNT:,}")
    return cast("float", fields["cost"])  # as it was written: 2 stays 2


def _tokens(value: Json) -> int | Tokens | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        return _count(value, "tokens")
    for name in value:
        if name not in _COUNTS:
            raise LineError(
                f"`tokens` of a message may have `in`, `out` and `cached`, but not {name!r}"
            )
    counts = [_count(value.get(name, 0), f"tokens.{name}") for name in _COUNTS]
    return Tokens(input=counts[0], output=counts[1], cached=counts[2])


def _count(value: Json, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise LineError(f"`{name}` of a message must be a whole number")
    if value < 0:
        raise LineError(f"`{name}` of a message cannot be negative")
    if value > _LARGEST_COUNT:
        raise LineError(f"`{name}` of a message is larger than {_LARGEST_COUNT:,}")
    return value
