"""How a conversation began, in one line: shown for a session without a title."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.model.session import Json, Message
from holdfast.value import dataclass

#: How many messages are looked at. Agents put notes of their own before what a person writes, but
#: not many.
LOOKED_AT = 8
#: Enough for any list. A pipe gets the whole line.
_LONGEST = 4096
_NOTHING = 4
#: The extra field of a message that an agent wrote by itself.
_INJECTED = "injected"


@dataclass(frozen=True, slots=True)
class Opening:
    """The best line so far; a lower rank is better. The user's own words come first, anybody else's
    come third. Text that the agent injected for the model (marked as such, or starting with a tag)
    ranks one below the others of its role."""

    text: str = ""
    rank: int = _NOTHING

    def then(self, message: Message) -> Opening:
        """Take the next message of the conversation into account. Of equally good lines, the first
        one stays."""
        if not self.rank or message.taken_back:
            return self
        line = _line(message.content)
        put_there = _INJECTED in message.extra or line.startswith("<")
        rank = 2 * (message.role != "user") + put_there if line else _NOTHING
        return Opening(line, rank) if rank < self.rank else self


def opening_of(messages: Iterable[Message]) -> str:
    """How a conversation begins, from its first messages."""
    found = Opening()
    for message in messages:
        found = found.then(message)
    return found.text


def _line(content: Json) -> str:
    """The first line that is not empty."""
    most = _LONGEST + 1  # one more character shows that the line was cut
    lines = (line.strip() for text in _texts(content) for line in text[:most].splitlines())
    first = next((line for line in lines if line), "")
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST].rstrip()}…"


def _texts(content: Json) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part.get("text") if isinstance(part, dict) else part)
