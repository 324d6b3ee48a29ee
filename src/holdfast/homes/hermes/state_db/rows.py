"""Hermes's sessions under our column names, in SQL, so that the filters of our own store work on
them.

The columns differ between releases: a missing one reads as NULL. A release that we do not know yet
may lack any column except those by which its database was recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.item import UNKNOWN_SOURCE
from holdfast.model.session import SessionFilter
from holdfast.stores.sessions import session_rows

Row = Mapping[str, Any]

_LAST_SAID = "(SELECT max(m.timestamp) FROM messages m WHERE m.session_id = h.id)"
_LATEST_SAID = f"max(h.started_at, coalesce({_LAST_SAID}, h.started_at))"
#: Counted here, because the count in the row differs from the number of stored messages.
_STORED = "(SELECT count(*) FROM messages m WHERE m.session_id = h.id)"
_PARENT_REASON = "(SELECT {} FROM sessions q WHERE q.id = h.parent_session_id)"


def sessions_table(schema: Schema) -> str:
    """The sessions `s`, their parents `p` and their routes `r`. Unused columns cost nothing."""
    columns = ", ".join(f"{sql} AS {name}" for name, sql in _columns(schema).items())
    return f"""
        (SELECT {columns} FROM sessions h) s
        LEFT JOIN sessions p ON p.id = s.parent_id
        LEFT JOIN (SELECT rowid AS session, {_optional(schema, "session_key", "")} AS key
                   FROM sessions) r ON r.session = s.number
    """  # noqa: S608 - our own names


def where(wanted: SessionFilter) -> tuple[str, list[Any]]:
    """A condition on the sessions `s`, and its parameters."""
    return session_rows.where(wanted, agent_archived="s.agent_archived", parent="s.parent_id")


def message_bytes(schema: Schema) -> str:
    """The approximate size of a message `m`: the characters of its text."""
    columns = ("content", "tool_calls", "reasoning")
    there = [column for column in columns if schema.has("messages", column)]
    return " + ".join(f"length(coalesce(m.{column}, ''))" for column in there) or "0"


def taken_back(schema: Schema) -> str | None:
    """A condition for messages `m` that the user took back; None if the release has no such
    feature.

    Messages that Hermes summarised are inactive too, but still count as said.
    """
    if not schema.has("messages", "active"):
        return None
    summed_up = " AND m.compacted = 0" if schema.has("messages", "compacted") else ""
    return f"(m.active = 0{summed_up})"


def _columns(schema: Schema) -> Mapping[str, str]:
    size = f"""(SELECT coalesce(sum({message_bytes(schema)}), 0) FROM messages m
                WHERE m.session_id = h.id)"""  # noqa: S608 - our own names
    costs = [_optional(schema, name) for name in ("actual_cost_usd", "estimated_cost_usd")]
    tokens = {
        "in": _counted(schema, "input_tokens"),
        "out": _counted(schema, "output_tokens"),
        "cached": _counted(schema, "cache_read_tokens"),
    }
    unpriced = f"coalesce({costs[0]}, {costs[1]}) IS NULL"
    reason = _PARENT_REASON.format(_optional(schema, "end_reason", "q."))
    source = f"coalesce({_optional(schema, 'source')}, '{UNKNOWN_SOURCE}')"
    config = _optional(schema, "model_config")
    said = _LATEST_SAID if schema.has("messages", "timestamp") else "h.started_at"
    ended = _optional(schema, "ended_at")
    return {
        "number": "h.rowid",
        "id": "h.id",
        "source": source,
        "parent_id": "h.parent_session_id",
        # Our own SQL function, see database.py.
        "relation": f"relation_of(h.parent_session_id, {source}, {config}, {reason})",
        "title": _optional(schema, "title"),
        "cwd": _optional(schema, "cwd"),
        "model": _optional(schema, "model"),
        "model_config": config,
        "started_at": "h.started_at",
        "last_said_at": said,
        "last_active_at": f"max({said}, coalesce({ended}, h.started_at))",
        "ended_at": ended,
        "end_reason": _optional(schema, "end_reason"),
        "pinned": "0",
        "agent_archived": f"coalesce({_optional(schema, 'archived')}, 0) <> 0",
        "message_count": _said(schema),
        "stored_count": _STORED,
        "tool_call_count": _counted(schema, "tool_call_count"),
        **{f"tokens_{what}": sql for what, sql in tokens.items()},
        "cost": f"coalesce(nullif({costs[0]}, 0), {costs[1]}, 0.0)",
        **{f"unpriced_{what}": f"({unpriced}) * {sql}" for what, sql in tokens.items()},
        "bytes": size,
    }


def _said(schema: Schema) -> str:
    """The number of messages that were said and not taken back.

    Computed by subtracting those taken back: Hermes has an index on `active`, while checking
    `compacted` of every message would read every message.
    """
    gone = taken_back(schema)
    if gone is None:
        return _STORED
    counted = f"(SELECT count(*) FROM messages m WHERE m.session_id = h.id AND {gone})"  # noqa: S608 - our own names
    return f"({_STORED} - {counted})"


def _counted(schema: Schema, column: str) -> str:
    return f"coalesce({_optional(schema, column)}, 0)"


def _optional(schema: Schema, column: str, table: str = "h.") -> str:
    return table + column if schema.has("sessions", column) else "NULL"
