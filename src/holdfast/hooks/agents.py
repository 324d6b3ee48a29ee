"""The agents that Holdfast can be connected to: what they say, and what they understand."""

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
    """How one agent speaks with a hook."""

    parse: Callable[[Mapping[str, Any]], LoopEvent]
    answer: Callable[[LoopEvent, Decision], Reply]


AGENTS: Mapping[str, Agent] = {
    each.NAME: Agent(parse=each.parse, answer=each.answer)
    for each in (claude_code, codex, gemini, opencode)
}


def parsed(agent: str, raw: bytes) -> LoopEvent:
    """What an agent gave to a hook. Raises `UsageError` for what no agent would say."""
    if agent not in AGENTS:
        raise UsageError(f"Holdfast has no hooks for {agent!r}.")
    try:
        data = json.loads(raw)
    except ValueError:
        raise UsageError(f"What {agent} gave to its hook is not JSON.") from None
    except RecursionError:
        raise UsageError(f"What {agent} gave to its hook is nested too deeply.") from None
    if not isinstance(data, dict):
        raise UsageError(f"What {agent} gave to its hook is not a JSON object.")
    event = AGENTS[agent].parse(data)
    if not event.event:
        raise UsageError(f"What {agent} gave to its hook does not say what happens.")
    if not event.session or not event.cwd:
        raise UsageError(f"What {agent} gave to its hook names no session or no directory.")
    if event.moment is Moment.BEFORE_TOOL and not event.tool:
        return replace(event, touches=Touches.ANYTHING)  # whatever tool it is
    return event
