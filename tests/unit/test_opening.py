"""What a list shows for a session without a title."""

from __future__ import annotations

import pytest

from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.part import Counts
from holdfast.model.session import TAKEN_BACK, Message

_SYSTEM = Message("system", "You are an agent.")


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([], ""),
        ([Message("user", "\n  Fix the disk. \nPlease.")], "Fix the disk."),
        ([_SYSTEM, Message("user", "Hello")], "Hello"),
        ([_SYSTEM, Message("assistant", None)], "You are an agent."),
        ([Message("user", "<environment>x</environment>"), Message("user", "Hello")], "Hello"),
        ([Message("user", "Rules", extra={"injected": True}), Message("user", "Hi")], "Hi"),
        ([Message("user", "<only>this</only>")], "<only>this</only>"),
        ([Message("user", "oops", extra={TAKEN_BACK: True}), Message("user", "Hi")], "Hi"),
        ([Message("user", [{"type": "image"}, {"type": "text", "text": "Look"}])], "Look"),
        ([Message("user", "x" * 300)], "x" * 300),
        ([Message("user", "x" * 5000)], "x" * 4096 + "…"),
        ([_SYSTEM] * LOOKED_AT + [Message("user", "late")], "You are an agent."),
    ],
)
def test_the_first_line_of_a_person(messages: list[Message], shown: str) -> None:
    assert opening_of(messages[:LOOKED_AT]) == shown
    assert Counts.of(messages).opening.text == shown
    counted = Counts()
    for message in messages:
        counted = counted.plus(message)
    assert counted == Counts.of(messages)
