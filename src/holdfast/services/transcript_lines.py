"""What a transcript says of a message: the same fields as an export, with its session named."""

from __future__ import annotations

from holdfast.model.session import Json, Message, Session, Tokens


def transcript_line(session: Session, message: Message, now: float) -> dict[str, Json]:
    """One line of a JSONL transcript. Each names its session: a file proves whose it is."""
    tokens = message.tokens
    line: dict[str, Json] = {
        "session_id": session.id,
        "source": session.source,
        "role": message.role,
        "content": message.content,
        "timestamp": now if message.timestamp is None else message.timestamp,
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "reasoning": message.reasoning,
        "tokens": (
            {"in": tokens.input, "out": tokens.output, "cached": tokens.cached}
            if isinstance(tokens, Tokens)
            else tokens
        ),
        "cost": message.cost,
        **message.extra,
    }
    always = {"session_id", "source", "role", "content", "timestamp"}
    return {key: value for key, value in line.items() if value is not None or key in always}
