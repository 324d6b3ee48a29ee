"""How a conversation began, in one line: what stands for a session without a title."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.model.session import Json, Message
from holdfast.value import dataclass

#: Agents put notes of their own in front of what a person says, but not many.
LOOKED_AT = 8
#: No list needs more, and in a pipe the whole line is wanted.
_LONGEST = 4096
_NOTHING = 4
#: The extra field of a message that an agent wrote by itself.
_INJECTED = "injected"


@dataclass(frozen=True, slots=True)
class Opening:
    """The best line so far. The lower the rank, the better: a person's words are best, words of
    anybody else come third. What an agent put there for the model, marked as such or begun with a
    tag, has the place below each of those."""

    text: str = ""
    rank: int = _NOTHING

    def then(self, message: Message) -> Opening:
        """With the next message of the conversation; of equal lines, the first one stays."""
        if not self.rank or message.taken_back:
            return self
        line = _line(message.content)
        put_there = _INJECTED in message.extra or line.startswith("<")
        rank = 2 * (message.role != "user") + put_there if line else _NOTHING
        return Opening(line, rank) if rank < self.rank else self


def opening_of(messages: Iterable[Message]) -> str:
    """How these messages, the first ones of a conversation, begin."""
    found = Opening()
    for message in messages:
        found = found.then(message)
    return found.text


def _line(content: Json) -> str:
    """The first line that is not empty."""
    most = _LONGEST + 1  # one more shows that there is more
    lines = (line.strip() for text in _texts(content) for line in text[:most].splitlines())
    first = next((line for line in lines if line), "")
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST].rstrip()}…"


def _texts(content: Json) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part.get("text") if isinstance(part, dict) else part)
