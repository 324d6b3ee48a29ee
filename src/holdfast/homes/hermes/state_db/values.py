"""Converts Hermes's rows to sessions and messages, and back without losing a bit.

Columns with a corresponding field go there. Every other column with a value is in `extra`, under
`hermes`; so is the raw value of a column that our fields could not restore exactly.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from typing import Any

from holdfast.errors import UsageError
from holdfast.homes.hermes.state_db.rows import Row
from holdfast.homes.hermes.state_db.schema import NEEDED
from holdfast.model.session import (
    TAKEN_BACK,
    EndReason,
    Json,
    Message,
    Relation,
    Session,
    Tokens,
)
from holdfast.value import replace

LONGEST_TITLE = 100
#: Control characters, zero-width characters, and those that change the text direction. Tab, line
#: feed and carriage return count as spaces.
_DROPPED = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc]"
)
_HALF = re.compile("[\ud800-\udfff]")
#: The key in `extra` for columns without a field of ours.
EXTRA = "hermes"
#: Columns too large for a list.
LARGE = frozenset({"system_prompt"})

#: Marks content that Hermes stores as JSON.
_JSON = "\0json:"
_BYTES = "base64"
_DELEGATE_SOURCE = "subagent"
#: The key for the session that a delegate works for, in its model configuration.
DELEGATE_MARK = "_delegate_from"
_COMPRESSED = "compression"
#: Columns of a session that our fields represent exactly.
_NAMED = frozenset([*NEEDED["sessions"], "cwd"])


def session(row: Row, raw: Row, *, whole: bool = False) -> Session:
    """`row` has our names, `raw` is the row itself. With `whole`, `extra` has all of its
    columns."""
    kept = raw if whole else {k: v for k, v in raw.items() if k not in _NAMED | LARGE}
    extra = {
        name: to_json(value)
        for name, value in kept.items()
        if value is not None and (whole or value != "")
    }
    ended = row["ended_at"] is not None
    return Session(
        id=row["id"],
        source=row["source"],
        parent_id=row["parent_id"],
        relation=Relation(row["relation"]) if row["relation"] else None,
        title=row["title"],
        cwd=row["cwd"],
        model=row["model"],
        started_at=row["started_at"],
        last_active_at=row["last_active_at"],
        ended_at=row["ended_at"],
        end_reason=row["end_reason"] or (EndReason.ENDED.value if ended else None),
        routing_key=row["key"],
        message_count=row["message_count"],
        tool_call_count=row["tool_call_count"],
        tokens=_tokens(row, "tokens"),
        cost=row["cost"],
        unpriced=_tokens(row, "unpriced"),
        bytes=row["bytes"],
        extra={EXTRA: extra} if extra else {},
    )


def message(raw: Row) -> Message:
    named = Message(
        role=raw.get("role") or "unknown",
        content=content(raw.get("content")),
        timestamp=raw.get("timestamp"),
        tool_name=raw.get("tool_name"),
        tool_calls=loaded(raw.get("tool_calls")),
        tool_call_id=raw.get("tool_call_id"),
        reasoning=raw.get("reasoning"),
        tokens=raw.get("token_count"),
        number=raw["id"],
    )
    again = _from_names(named)
    rest = {
        column: to_json(value)
        for column, value in raw.items()
        if column != "session_id" and value is not None and not _same(again.get(column), value)
    }
    # A message that Hermes summarised is inactive too, but still counts as said.
    taken_back = raw.get("active") == 0 and not raw.get("compacted")
    return replace(named, extra={EXTRA: rest} | ({TAKEN_BACK: True} if taken_back else {}))


def message_row(read: Message) -> dict[str, Any]:
    """The row that a message came from, without columns that had no value."""
    rest = read.extra.get(EXTRA)
    row = _from_names(read)
    if isinstance(rest, dict):
        row |= {column: from_json(value) for column, value in rest.items()}
    return {column: value for column, value in row.items() if value is not None}


def from_json(value: Json) -> Any:
    if isinstance(value, dict) and value.keys() == {_BYTES}:
        return base64.b64decode(str(value[_BYTES]))
    return value


def relation_of(
    parent_id: str | None, source: str, model_config: Any, parent_reason: str | None
) -> str | None:
    """How a session came from its parent, if Hermes records it. An SQL function."""
    if parent_id is None:
        return None
    if delegated_by(model_config) or source == _DELEGATE_SOURCE:
        return Relation.DELEGATE.value
    config = loaded(model_config)
    if isinstance(config, dict) and config.get("_branched_from"):
        return Relation.BRANCH.value
    follows = parent_reason == _COMPRESSED
    return Relation.CONTINUATION.value if follows else Relation.BRANCH.value


def delegated_by(model_config: Any) -> str | None:
    """The session that a delegate works for, by Hermes's own mark."""
    config = loaded(model_config)
    master = config.get(DELEGATE_MARK) if isinstance(config, dict) else None
    return master if isinstance(master, str) and master else None


def _tokens(row: Row, which: str) -> Tokens:
    return Tokens(
        input=row[f"{which}_in"], output=row[f"{which}_out"], cached=row[f"{which}_cached"]
    )


def _from_names(read: Message) -> dict[str, Any]:
    content = read.content
    if content is not None and not isinstance(content, str):
        content = _JSON + json.dumps(content)
    calls = read.tool_calls
    return {
        "role": read.role,
        "content": content,
        "timestamp": read.timestamp,
        "tool_name": read.tool_name,
        "tool_calls": calls if calls is None or isinstance(calls, str) else json.dumps(calls),
        "tool_call_id": read.tool_call_id,
        "reasoning": read.reasoning,
        "token_count": read.tokens,
    }


def content(stored: Any) -> Json:
    if isinstance(stored, bytes):
        return None  # its bytes are in `extra`
    if isinstance(stored, str) and stored.startswith(_JSON):
        with suppress(ValueError, RecursionError):
            decoded: Json = json.loads(stored[len(_JSON) :])
            return decoded
    kept: Json = stored
    return kept


def loaded(stored: Any) -> Json:
    """The JSON that Hermes stored as text; text that is not JSON stays text."""
    if not isinstance(stored, str):
        return None
    try:
        decoded: Json = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    return decoded


def _same(mine: object, stored: object) -> bool:
    """1, 1.0 and True are equal in Python, but different in a row."""
    return type(mine) is type(stored) and mine == stored


def to_json(value: Any) -> Json:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    kept: Json = value
    return kept


def clean_title(title: str | None) -> str | None:
    """A title as Hermes itself would store it: on one line, with single spaces; None if nothing is
    left. Hermes lists, resumes and looks up sessions by title.

    Raises `UsageError` if it is still too long.
    """
    if title is None:
        return None
    left = " ".join(_DROPPED.sub("", _HALF.sub("\ufffd", title)).split())
    if len(left) > LONGEST_TITLE:
        raise UsageError(
            f"The title has {len(left)} characters, and Hermes allows at most {LONGEST_TITLE}.",
            hint="Use a shorter title.",
        )
    return left or None
