"""The agents that Holdfast can be connected to, with the input and output of their hooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.hooks import claude_code, codex, gemini, opencode
from holdfast.hooks.reply import Reply
from holdfast.model.loop import Decision, LoopEvent, Moment, Touches
from holdfast.value import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The hook protocol of one agent."""

    parse: Callable[[Mapping[str, Any]], LoopEvent]
    answer: Callable[[LoopEvent, Decision], Reply]


AGENTS: Mapping[str, Agent] = {
    each.NAME: Agent(parse=each.parse, answer=each.answer)
    for each in (claude_code, codex, gemini, opencode)
}


def parsed(agent: str, raw: bytes) -> LoopEvent:
    """Parse the input of a hook. Raises `UsageError` if it is not what the agent would send."""
    if agent not in AGENTS:
        raise UsageError(f"Holdfast has no hooks for {agent!r}.")
    try:
        data = json.loads(raw)
    except ValueError:
        raise UsageError(f"The input from {agent} is not JSON.") from None
    except RecursionError:
        raise UsageError(f"The input from {agent} is nested too deeply.") from None
    if not isinstance(data, dict):
        raise UsageError(f"The input from {agent} is not a JSON object.")
    event = AGENTS[agent].parse(data)
    if not event.event:
        raise UsageError(f"The input from {agent} does not name the event.")
    if not event.session or not event.cwd:
        raise UsageError(f"The input from {agent} lacks the session or the directory.")
    if event.moment is Moment.BEFORE_TOOL and not event.tool:
        return replace(event, touches=Touches.ANYTHING)  # an unnamed tool may change anything
    return event
