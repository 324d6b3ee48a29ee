"""A session as one line of JSON, written in pieces: a long session is never in memory as a whole.

Every line is ASCII. That makes export, import and export again equal to the byte: a lone surrogate
has no UTF-8, and two surrogates that meet would come back as one character.

A host's extra fields are in the line next to the known fields. If one has a name that Holdfast uses
itself, such as `title` or `messages`, it is in the object `holdfast_extra`, because a name can
occur only once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import UsageError
from holdfast.model.arguments import check_id
from holdfast.model.session import AWAITED_PARENT, Json, Message, Session

#: The object for extra fields whose names are taken.
SET_APART = "holdfast_extra"

MESSAGES = "messages"
GUARDED = "guarded"
SESSION_FIELDS = frozenset(
    {
        "id",
        "source",
        "parent_id",
        "relation",
        "title",
        "cwd",
        "model",
        "started_at",
        "ended_at",
        "end_reason",
        "pinned",
        "routing_key",
        GUARDED,
        MESSAGES,
    }
)
MESSAGE_FIELDS = frozenset(
    {
        "role",
        "content",
        "timestamp",
        "tool_name",
        "tool_calls",
        "tool_call_id",
        "reasoning",
        "tokens",
        "cost",
    }
)
_TAKEN_IN_SESSION = SESSION_FIELDS | {SET_APART}
_TAKEN_IN_MESSAGE = MESSAGE_FIELDS | {SET_APART}


def session_extra_to_line(session: Session) -> dict[str, Json]:
    """The extra fields of a session as its line has them."""
    extra = {name: value for name, value in session.extra.items() if name != AWAITED_PARENT}
    return _set_apart(extra, _TAKEN_IN_SESSION)


def message_extra_to_line(extra: Mapping[str, Json]) -> dict[str, Json]:
    """The extra fields of a message as its line has them."""
    return _set_apart(extra, _TAKEN_IN_MESSAGE)


def session_extra_from_line(line: Mapping[str, Json]) -> dict[str, Json]:
    extra = _extra_from_line(line, SESSION_FIELDS)
    extra.pop(AWAITED_PARENT, None)  # a line has `parent_id` for it
    return extra


def message_extra_from_line(line: Mapping[str, Json]) -> dict[str, Json]:
    return {} if line.keys() <= MESSAGE_FIELDS else _extra_from_line(line, MESSAGE_FIELDS)


def awaited_parent(session: Session) -> str | None:
    """The parent that a session is waiting for, if any."""
    awaited = session.extra.get(AWAITED_PARENT)
    if session.parent_id is not None or not isinstance(awaited, str):
        return None
    try:
        check_id(awaited)
    except UsageError:
        return None
    return None if awaited.lower() == session.id.lower() else awaited


def _set_apart(extra: Mapping[str, Json], taken: frozenset[str]) -> dict[str, Json]:
    inline = {name: value for name, value in extra.items() if name not in taken}
    apart = {name: value for name, value in extra.items() if name in taken}
    return {**inline, SET_APART: apart} if apart else inline


def _extra_from_line(line: Mapping[str, Json], known: frozenset[str]) -> dict[str, Json]:
    """All extra fields, those set apart last."""
    extra = {name: value for name, value in line.items() if name not in known}
    apart = extra.get(SET_APART)
    if isinstance(apart, dict):
        del extra[SET_APART]
        extra |= apart
    return extra


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def session_line(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The pieces of one line, with its line feed."""
    head = _encode(_session_fields(session))
    yield f'{head[:-1]},"{MESSAGES}":['
    separator = ""
    for message in messages:
        yield separator + _encode(message_fields(message))
        separator = ","
    yield "]}\n"


def _session_fields(session: Session) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "id": session.id,
        "source": session.source,
        "parent_id": session.parent_id or awaited_parent(session),
        "relation": session.relation.value if session.relation else None,
        "title": session.title,
        "cwd": session.cwd,
        "model": session.model,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "end_reason": session.end_reason,
    }
    if session.pinned:
        fields["pinned"] = True
    if session.routing_key is not None:
        fields["routing_key"] = session.routing_key
    if session.guarded is not None:
        fields[GUARDED] = session.guarded.to_json()
    return fields | session_extra_to_line(session)


def message_fields(message: Message) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "role": message.role,
        "content": message.content,
        "timestamp": message.timestamp,
    }
    return fields | message.named_fields | message_extra_to_line(message.extra)
