"""How a conversation began, in one line: what stands for a session without a title."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.model.session import Json, Message

#: Agents put notes of their own in front of what a person says, but not many.
LOOKED_AT = 8
_LONGEST = 200


def opening_of(messages: Iterable[Message]) -> str:
    """The first line that a person wrote; without one, the first line of all. Text that begins with
    a tag is what an agent put there for the model, so it comes second."""
    first = [
        (message.role != "user", line.startswith("<"), line)
        for message in islice(messages, LOOKED_AT)
        if not message.taken_back and (line := _line(message.content))
    ]
    return min(first, key=lambda each: each[:2])[2] if first else ""


def _line(content: Json) -> str:
    """The first line that is not empty, as much as a list could show."""
    lines = (line.strip() for text in _texts(content) for line in text[:4096].splitlines())
    first = next((line for line in lines if line), "")
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"


def _texts(content: Json) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part.get("text") if isinstance(part, dict) else part)
