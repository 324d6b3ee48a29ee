"""The fields of a line by name, and what becomes of a field whose name is one of ours.

A field that Holdfast has no name for stands in the line among the known ones and comes back from
there. A host may have called a field of its own `title` or `messages` all the same: such a field
stands in an object called `holdfast_extra`, because one name cannot stand twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import UsageError
from holdfast.model.ids import check_id
from holdfast.model.session import AWAITED_PARENT, Json, Session

#: Holds the fields whose names are taken.
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
    """The parent that a session without one waits for."""
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
    """Every field that has no name of ours, those set apart last."""
    extra = {name: value for name, value in line.items() if name not in known}
    apart = extra.get(SET_APART)
    if isinstance(apart, dict):
        del extra[SET_APART]
        extra |= apart
    return extra
