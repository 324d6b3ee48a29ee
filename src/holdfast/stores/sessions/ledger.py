"""Counts for the ledger: the usage of messages by day, source and model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.model.session import Message, Session
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions.content import FIELDS_ARE_PACKED, Stored, readable

Key = tuple[str, str, str]
#: A smaller cost is a rounding error, left by subtracting floats.
NO_COST = 1e-9


def used_by(session: Session, messages: Iterable[Message], now: float) -> Mapping[Key, Usage]:
    """The usage of new messages, by key of the ledger."""
    used: dict[Key, Usage] = {}
    for message in messages:
        usage = _usage(message)
        if usage is not None:
            on = utc_day(now if message.timestamp is None else message.timestamp)
            key = on, session.source, _model(message, session.model or "")
            used[key] = used[key].plus(usage) if key in used else usage
    return used


def booked(used: Iterable[tuple[int, Key, Usage]]) -> Mapping[Key, Usage]:
    """The usage of stored messages, by key of the ledger."""
    sums: dict[Key, Usage] = {}
    for _, key, usage in used:
        sums[key] = sums[key].plus(usage) if key in sums else usage
    return sums


def usage_of_row(
    model: str, number: int, role: str, timestamp: float, form: int, fields: Stored
) -> tuple[str, Usage] | None:
    """The usage of a stored message and its model; None if it used nothing or cannot be read."""
    # Usage is among the fields, so the body need not be decompressed.
    message = readable(number, role, timestamp, form & FIELDS_ARE_PACKED, None, fields)
    usage = None if message is None else _usage(message)
    return None if message is None or usage is None else (_model(message, model), usage)


def _usage(message: Message) -> Usage | None:
    """The usage of a message; None if it used nothing, which must not cost a page of the ledger."""
    tokens = message.usage
    if tokens.input or tokens.output or tokens.cached or message.cost:
        return Usage(tokens=tokens, cost=message.cost or 0.0, unpriced=message.unpriced)
    return None


def _model(message: Message, of_session: str) -> str:
    """The model that was used: the session may have another one by now."""
    return of_session if message.model is None else message.model
