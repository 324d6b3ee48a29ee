"""What a transcript says of a message: what an export says, with its session named."""

from __future__ import annotations

from holdfast.model.session import Json, Message, Session
from holdfast.services.exchange.session_line import message_fields
from holdfast.value import replace


def transcript_line(session: Session, message: Message, now: float) -> dict[str, Json]:
    """One line of a JSONL transcript. Each names its session: a file proves whose it is."""
    timed = message if message.timestamp is not None else replace(message, timestamp=now)
    return {"session_id": session.id, "source": session.source, **message_fields(timed)}
