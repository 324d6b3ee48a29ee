"""The layout of a message in its row: text unchanged, longer text compressed, anything else as
JSON.

Text under a few hundred bytes stays readable to any SQLite tool. zlib, not zstd: on single messages
both reach the same ratio, and zlib is in the standard library and has a checksum.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from holdfast.errors import DamageError, HoldfastError, UsageError
from holdfast.model.arguments import shown
from holdfast.model.session import Json, Message, Tokens
from holdfast.value import dataclass

BODY_IS_JSON = 1
BODY_IS_PACKED = 2
FIELDS_ARE_PACKED = 4

_WORTH_PACKING = 256
_LEVEL = 1
#: `json.dumps` would create one for each message.
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
#: How far a message looks into a value for what JSON cannot hold.
_DEEPEST = 50
_ODD = "[\0\ud800-\udfff]"

Stored = str | bytes | None


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of one message; `size` is the uncompressed size of its content."""

    form: int
    body: Stored
    fields: Stored
    size: int


def encode(message: Message) -> Row:
    body, form, size = _encode_body(message.content)
    fields = message.named_fields
    if message.extra:
        fields["extra"] = dict(message.extra)
    if not fields:
        return Row(form, body, None, size)
    text = _dump(fields, "A field of the message")
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


def unpacked(row: Sequence[Any]) -> Sequence[Any]:
    """The columns of a message, as `decode` takes them, with the body decompressed, for callers
    that read it more than once. A damaged body is left compressed."""
    number, role, timestamp, form, body, fields = row
    if not form & BODY_IS_PACKED:
        return row
    try:
        return number, role, timestamp, form & ~BODY_IS_PACKED, zlib.decompress(body), fields
    except (zlib.error, TypeError):
        return row


def load_fields(form: int, fields: Stored) -> dict[str, Json]:
    if fields is None:
        return {}
    text = _unpack(cast("bytes", fields)) if form & FIELDS_ARE_PACKED else fields
    return cast("dict[str, Json]", json.loads(text))


def dump_extra(extra: Mapping[str, Json]) -> str | None:
    return _dump(dict(extra), "`extra` of the session") if extra else None


def storable(text: str | None) -> str | None:
    """A title or a folder as SQLite can store it: a lone surrogate or NUL becomes a replacement
    character."""
    return None if text is None else re.sub(_ODD, "\ufffd", text)


def is_odd(text: str) -> bool:
    """True if text is stored as bytes: lone surrogates are not UTF-8, and NUL ends text in SQL."""
    return re.search(_ODD, text) is not None


def load_extra(text: str | None) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads(text)) if text else {}


def _encode_body(content: Json) -> tuple[Stored, int, int]:
    if content is None:
        return None, 0, 0
    form = 0
    if isinstance(content, str):
        text = content
    else:
        text, form = _dump(content, "The content of the message"), BODY_IS_JSON
    # Lone surrogates are not UTF-8, and NUL ends text for SQL functions: such text is kept as
    # bytes.
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) >= _WORTH_PACKING:
        return _pack(raw), form | BODY_IS_PACKED, len(raw)
    return (raw if re.search(_ODD, text) else text), form, len(raw)


def _load_tokens(value: Json) -> int | Tokens | None:
    if isinstance(value, dict):
        count = cast("Mapping[str, int]", value)
        return Tokens(input=count["in"], output=count["out"], cached=count["cached"])
    return cast("int | None", value)


def _dump(value: Any, what: str) -> str:
    """Encode as ASCII JSON; values that JSON cannot represent are the caller's error."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} cannot be stored as JSON: {_why(error, value)}.",
            hint="Pass text, numbers, True, False, None, lists and dicts.",
        ) from error


def _why(error: Exception, value: Any) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or contains itself"
    found = _not_json(value)
    return str(error) if found is None else f"it contains {shown(found)}"


def _not_json(value: Any) -> Any:
    """The first value in it, from the outside in, that is none of JSON's."""
    inside = (value,)
    for _ in range(_DEEPEST):
        for each in inside:
            if not isinstance(each, bool | int | float | str | list | tuple | dict | None):
                return each
        inside = tuple(
            one
            for each in inside
            if isinstance(each, list | tuple | dict)
            for one in (each.values() if isinstance(each, dict) else each)
        )
    return None


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


# --- What may be damaged --------------------------------------------------------------------------

#: Raised by decoding a message that was damaged.
_UNREADABLE = (HoldfastError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
_TORN = object()


def text_or_torn(raw: bytes) -> Any:
    """A text factory that does not fail on bytes which are not text; `torn` recognizes its
    result."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _TORN


def torn(row: Sequence[Any]) -> bool:
    return any(value is _TORN for value in row)


def readable(
    number: int, role: Any, timestamp: Any, form: Any, body: Any, fields: Any
) -> Message | None:
    """A message from its columns; None if they do not hold one."""
    if torn((role, timestamp, body, fields)) or not isinstance(role, str) or not role:
        return None
    if not isinstance(timestamp, float | int) or not math.isfinite(timestamp):
        return None
    try:
        message = decode(number, role, timestamp, form, body, fields)
        message_counts(message)
    except _UNREADABLE:
        return None
    return message


def message_counts(message: Message) -> tuple[float, ...]:
    """What a message adds to the totals of its session: itself, tool calls, tokens, cost, and
    tokens without a cost. Raises if a count is not a number: adding it fails."""
    cost = message.cost or 0.0
    said = 0 if message.taken_back else 1
    used, unpriced = _each(message.usage), _each(message.unpriced)
    return said, message.tool_call_count, *used, cost + 0, *unpriced


def _each(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input + 0, tokens.output + 0, tokens.cached + 0


def size(form: int, body: Stored, fields: Stored) -> int:
    """The uncompressed size of a message's content."""
    return _plain_size(body, form & BODY_IS_PACKED) + _plain_size(fields, form & FIELDS_ARE_PACKED)


def _plain_size(value: Stored, packed: int) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    return len(zlib.decompress(value)) if packed else len(value)
