"""What the ledger counts: what messages used, by day, source and model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.model.session import Message, Session
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions.content import FIELDS_ARE_PACKED, Stored, readable

Key = tuple[str, str, str]
#: Less than this is what taking a fraction off a sum of fractions leaves.
NO_COST = 1e-9


def used_by(session: Session, messages: Iterable[Message], now: float) -> Mapping[Key, Usage]:
    """What new messages of a session used, by their place in the ledger."""
    used: dict[Key, Usage] = {}
    for message in messages:
        usage = _usage(message)
        if usage is not None:
            on = utc_day(now if message.timestamp is None else message.timestamp)
            key = on, session.source, _model(message, session.model or "")
            used[key] = used[key].plus(usage) if key in used else usage
    return used


def booked(used: Iterable[tuple[int, Key, Usage]]) -> Mapping[Key, Usage]:
    """What stored messages have in the ledger."""
    sums: dict[Key, Usage] = {}
    for _, key, usage in used:
        sums[key] = sums[key].plus(usage) if key in sums else usage
    return sums


def usage_of_row(
    model: str, number: int, role: str, timestamp: float, form: int, fields: Stored
) -> tuple[str, Usage] | None:
    """What a stored message used, and of which model; None for nothing, or what cannot be read."""
    # Usage is among the fields, so the text need not be unpacked.
    message = readable(number, role, timestamp, form & FIELDS_ARE_PACKED, None, fields)
    usage = None if message is None else _usage(message)
    return None if message is None or usage is None else (_model(message, model), usage)


def _usage(message: Message) -> Usage | None:
    """None for a message that used nothing: it must not cost a page of the ledger."""
    tokens = message.usage
    if tokens.input or tokens.output or tokens.cached or message.cost:
        return Usage(tokens=tokens, cost=message.cost or 0.0, unpriced=message.unpriced)
    return None


def _model(message: Message, of_session: str) -> str:
    """The model that was used: the session may have another one since."""
    return of_session if message.model is None else message.model
