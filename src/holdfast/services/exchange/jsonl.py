"""A session as one line of JSON, in pieces: a long one is never in memory as a whole.

Every line is ASCII. That is what makes export, import and export again equal to the byte: a lone
surrogate has no UTF-8, and two of them that meet turn into one character on the way back in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from holdfast.model.session import Json, Message, Session, Tokens
from holdfast.services.exchange.fields import (
    GUARDED,
    MESSAGES,
    awaited_parent,
    message_extra_to_line,
    session_extra_to_line,
)

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
    rest: dict[str, Json] = {
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "reasoning": message.reasoning,
        "tokens": _tokens(message.tokens),
        "cost": message.cost,
    }
    fields |= {name: value for name, value in rest.items() if value is not None}
    return fields | message_extra_to_line(message.extra)


def _tokens(tokens: int | Tokens | None) -> Json:
    if isinstance(tokens, Tokens):
        return {"in": tokens.input, "out": tokens.output, "cached": tokens.cached}
    return tokens
