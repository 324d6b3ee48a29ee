"""The items of the interface that OpenAI calls Responses, as messages: what was said, thoughts,
calls of tools and what they gave."""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.homes.agents.blocks import tool_call
from holdfast.homes.agents.json_lines import INJECTED, Record, text_of
from holdfast.model.session import Message

_TEXTS = ("input_text", "output_text", "text")


def item_text(item: Record) -> str:
    """The text of an item that is a message."""
    return text_of(item.get("content"), _TEXTS)


def item_messages(item: Record, *, at: float | None, injected: bool = False) -> Iterator[Message]:
    """`injected` says that the agent wrote it by itself."""
    match item.get("type"):
        case "message":
            yield Message(
                role=str(item.get("role") or "assistant"),
                content=item_text(item),
                timestamp=at,
                extra={INJECTED: True} if injected else {},
            )
        case "reasoning":
            thoughts = text_of(item.get("summary"), ("summary_text",))
            if thoughts:
                yield Message(role="assistant", reasoning=thoughts, timestamp=at)
        case "function_call" | "custom_tool_call" | "local_shell_call":
            given = filter(None, (item.get(each) for each in ("arguments", "input", "action")))
            name = item.get("name") or item["type"]
            call = tool_call(name, next(given, None), item.get("call_id"))
            yield Message(role="assistant", content="", timestamp=at, tool_calls=[call])
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            yield Message(
                role="tool",
                content=output if isinstance(output, str) else json.dumps(output),
                timestamp=at,
                tool_call_id=item.get("call_id"),
            )
        case _:
            pass
