"""How a message lies in its row: text as it is, longer text compressed, anything else as JSON.

Text under a few hundred bytes stays readable to any SQLite tool. zlib, not zstd: on single
messages both reach the same ratio, and zlib is in the standard library with a checksum of its own.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, cast

from holdfast.errors import DamageError, UsageError
from holdfast.model.session import Json, Message, Tokens
from holdfast.value import dataclass

BODY_IS_JSON = 1
BODY_IS_PACKED = 2
FIELDS_ARE_PACKED = 4

_WORTH_PACKING = 256
_LEVEL = 1
_ODD = re.compile("[\0\ud800-\udfff]")

Stored = str | bytes | None


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of one message; `size` is what its content measures unpacked."""

    form: int
    body: Stored
    fields: Stored
    size: int


def encode(message: Message) -> Row:
    body, form, size = _encode_body(message.content)
    fields = _fields(message)
    if not fields:
        return Row(form, body, None, size)
    text = _dump(fields, "the message")
    size += len(text)
    if len(text) < _WORTH_PACKING:
        return Row(form, body, text, size)
    return Row(form | FIELDS_ARE_PACKED, body, _pack(text.encode("ascii")), size)


def decode(
    number: int, role: str, timestamp: float, form: int, body: Stored, fields: Stored
) -> Message:
    named = load_fields(form, fields)
    return Message(
        number=number,
        role=role,
        timestamp=timestamp,
        content=load_body(form, body),
        tool_name=cast("str | None", named.get("tool_name")),
        tool_calls=named.get("tool_calls"),
        tool_call_id=cast("str | None", named.get("tool_call_id")),
        reasoning=named.get("reasoning"),
        tokens=_load_tokens(named.get("tokens")),
        cost=cast("float | None", named.get("cost")),
        extra=cast("Mapping[str, Json]", named.get("extra", {})),
    )


def load_body(form: int, body: Stored) -> Json:
    if isinstance(body, bytes):
        raw = _unpack(body) if form & BODY_IS_PACKED else body
        body = raw.decode("utf-8", "surrogatepass")
    if body is None or not form & BODY_IS_JSON:
        return body
    return cast("Json", json.loads(body))


def load_fields(form: int, fields: Stored) -> dict[str, Json]:
    if fields is None:
        return {}
    text = _unpack(cast("bytes", fields)) if form & FIELDS_ARE_PACKED else fields
    return cast("dict[str, Json]", json.loads(text))


def dump_extra(extra: Mapping[str, Json]) -> str | None:
    return _dump(dict(extra), "the session") if extra else None


def storable(text: str | None) -> str | None:
    """A title, a folder: with a mark for every character that is none, such as half a pair."""
    return None if text is None else _ODD.sub("\ufffd", text)


def load_extra(text: str | None) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads(text)) if text else {}


def _encode_body(content: Json) -> tuple[Stored, int, int]:
    if content is None:
        return None, 0, 0
    form = 0
    if isinstance(content, str):
        text = content
    else:
        text, form = _dump(content, "the content"), BODY_IS_JSON
    # Lone surrogates are no UTF-8 and NUL ends text for SQL functions: such text is kept as bytes.
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) >= _WORTH_PACKING:
        return _pack(raw), form | BODY_IS_PACKED, len(raw)
    return (raw if _ODD.search(text) else text), form, len(raw)


def _fields(message: Message) -> dict[str, Json]:
    tokens = message.tokens
    named: dict[str, Json] = {
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "reasoning": message.reasoning,
        "tokens": _dump_tokens(tokens) if isinstance(tokens, Tokens) else tokens,
        "cost": message.cost,
        "extra": dict(message.extra) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def _dump_tokens(tokens: Tokens) -> Json:
    return {"in": tokens.input, "out": tokens.output, "cached": tokens.cached}


def _load_tokens(value: Json) -> int | Tokens | None:
    if isinstance(value, dict):
        count = cast("Mapping[str, int]", value)
        return Tokens(input=count["in"], output=count["out"], cached=count["cached"])
    return cast("int | None", value)


def _dump(value: Any, what: str) -> str:
    """ASCII JSON; what JSON cannot hold is the caller's mistake."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} cannot be stored as JSON: {error}") from error


def _pack(raw: bytes) -> bytes:
    return zlib.compress(raw, _LEVEL)


def _unpack(packed: bytes) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise DamageError(
            f"A message cannot be read back: {error}.",
            hint="`holdfast doctor` names the damaged messages.",
        ) from error
