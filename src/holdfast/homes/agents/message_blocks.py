"""Messages in the form of the model APIs, in which most agents store them: a role, and blocks or
items of text, reasoning, tool calls and tool results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.homes.agents.json_lines import INJECTED, Record, text_of
from holdfast.model.session import Json, Message, Tokens
from holdfast.model.usage import Usage


def blocks_of(content: object, kind: str) -> list[Record]:
    """The blocks of one type in the content of a message."""
    blocks = content if isinstance(content, list) else []
    return [each for each in blocks if isinstance(each, dict) and each.get("type") == kind]


def tool_call(name: object, arguments: object, call_id: object) -> dict[str, Json]:
    """A tool call in the common form, for `tool_calls` of a message."""
    return {"id": call_id, "name": name, "arguments": arguments}  # type: ignore[dict-item] # from JSON


def tool_calls_in(calls: Iterable[Record], *, arguments: str, key: str = "id") -> list[Json] | None:
    """The tool calls of a message, from the fields with these names; None if there are none."""
    found: list[Json] = [
        tool_call(each.get("name"), each.get(arguments), each.get(key)) for each in calls
    ]
    return found or None


def block_messages(
    role: str,
    content: object,
    *,
    at: float | None,
    tokens: Tokens | None = None,
    cost: float | None = None,
    injected: bool = False,
) -> Iterator[Message]:
    """The messages in one message with blocks of the types `text`, `thinking`, `tool_use` and
    `tool_result`. A tool result becomes a separate message, before the text next to it. `injected`
    is true if the agent itself wrote the message."""
    results = blocks_of(content, "tool_result")
    for each in results:
        yield Message(
            role="tool",
            content=text_of(each.get("content")),
            timestamp=at,
            tool_call_id=each.get("tool_use_id"),
        )
    text = text_of(content)
    calls = blocks_of(content, "tool_use")
    thoughts = "\n".join(
        each["thinking"]
        for each in blocks_of(content, "thinking")
        if isinstance(each.get("thinking"), str)
    )
    if text or calls or thoughts or not results:
        yield Message(
            role=role,
            content=text,
            timestamp=at,
            tool_calls=tool_calls_in(calls, arguments="input"),
            reasoning=thoughts or None,
            tokens=tokens,
            cost=cost,
            extra={INJECTED: True} if injected else {},
        )


def tokens_in(
    usage: object,
    *,
    input: Sequence[str],  # noqa: A002 - the name of the field in `Tokens`
    output: Sequence[str],
    cached: Sequence[str] = (),
    cached_is_input: bool = False,
) -> Tokens | None:
    """The tokens that an agent recorded; several fields are added up. `cached_is_input` is true if
    the agent's input count includes cached tokens: ours does not."""
    if not isinstance(usage, Mapping):
        return None

    def total(names: Sequence[str]) -> int:
        numbers = (usage.get(name) for name in names)
        return sum(n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n > 0)

    from_cache = total(cached)
    return Tokens(
        input=max(0, total(input) - (from_cache if cached_is_input else 0)),
        output=total(output),
        cached=from_cache,
    )


#: The field names of some agents, for their transcripts and for metering a running session.
CLAUDE = partial(
    tokens_in,
    input=("input_tokens", "cache_creation_input_tokens"),
    output=("output_tokens",),
    cached=("cache_read_input_tokens",),
)
CODEX = partial(
    tokens_in,
    input=("input_tokens",),
    output=("output_tokens",),
    cached=("cached_input_tokens",),
    cached_is_input=True,
)
GEMINI = partial(
    tokens_in,
    input=("input",),
    output=("output", "thoughts"),
    cached=("cached",),
    cached_is_input=True,
)


def used(tokens: Tokens | None, cost: object = None) -> Usage | None:
    """The usage that an agent recorded for a whole session. Agents write a cost of 0 for a model
    whose price they do not know."""
    if tokens is None or not tokens.any:
        return None
    if isinstance(cost, int | float) and cost > 0:
        return Usage(tokens=tokens, cost=float(cost))
    return Usage(tokens=tokens, unpriced=tokens)


def numbers_of(usage: Usage) -> list[float]:
    """A usage as numbers, to be stored."""
    read, unpriced = usage.tokens, usage.unpriced
    return [usage.cost, *(n for t in (read, unpriced) for n in (t.input, t.output, t.cached))]


def usage_of(numbers: Sequence[Any]) -> Usage:
    """The inverse; raises `ValueError` for anything else."""
    cost, *tokens = numbers
    read, unpriced = (Tokens(input=a, output=b, cached=c) for a, b, c in (tokens[:3], tokens[3:]))
    return Usage(tokens=read, cost=cost, unpriced=unpriced)


# --- OpenAI's Responses API -----------------------------------------------------------------------

_TEXTS = ("input_text", "output_text", "text")


def item_text(item: Record) -> str:
    """The text of an item that is a message."""
    return text_of(item.get("content"), _TEXTS)


def item_messages(item: Record, *, at: float | None, injected: bool = False) -> Iterator[Message]:
    """`injected` is true if the agent itself wrote the item."""
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
