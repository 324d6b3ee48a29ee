"""The output of a hook: text on stdout and stderr, and an exit code."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.model.loop import Decision, LoopEvent, Moment, Touches
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An empty reply lets the agent go on as if there were no hook."""

    out: str = ""
    err: str = ""
    code: int = 0


SILENT = Reply()


def said(document: Mapping[str, Any]) -> Reply:
    """A reply as JSON. Fields without a value are left out; without any fields it is empty."""
    found = {name: value for name, value in document.items() if value not in (None, "", {})}
    return Reply(out=json.dumps(found)) if found else SILENT


def decided(event: LoopEvent, decision: Decision, **more: object) -> Reply:
    """A decision in the format of Claude Code and Codex; `more` is added to a denial."""
    if event.moment is Moment.BEFORE_TOOL and not decision.passes:
        denied = {
            "hookEventName": event.event,
            "permissionDecision": "deny",
            "permissionDecisionReason": decision.reason,
        }
        return said({**more, "hookSpecificOutput": denied})
    if event.moment is Moment.PROMPT and not decision.passes:
        return said({"decision": "block", "reason": decision.reason})
    added = {"hookEventName": event.event, "additionalContext": decision.advice}
    return said(
        {
            "systemMessage": decision.notice,
            "hookSpecificOutput": added if decision.advice else {},
        }
    )


def told(
    agent: str,
    events: tuple[str, str],
    data: Mapping[str, Any],
    *,
    reading: Collection[str],
    named: Collection[str],
) -> LoopEvent:
    """Parse the fields that Claude Code, Codex and Gemini CLI have in common."""
    event, tool = text(data, "hook_event_name"), text(data, "tool_name")
    return LoopEvent(
        agent=agent,
        event=event,
        moment=moment_of(event, events),
        session=text(data, "session_id"),
        cwd=text(data, "cwd"),
        call=text(data, "tool_use_id"),
        tool=tool,
        arguments=data.get("tool_input"),
        touches=touched(tool, reading=reading, named=named),
        transcript=text(data, "transcript_path"),
        subagent=text(data, "agent_id"),
    )


def moment_of(event: str, events: tuple[str, str]) -> Moment:
    """`events` are the agent's names for the events before a tool and at a prompt."""
    known = dict(zip(events, (Moment.BEFORE_TOOL, Moment.PROMPT), strict=True))
    return known.get(event, Moment.OTHER)


def touched(tool: str, *, reading: Collection[str], named: Collection[str]) -> Touches:
    """Return what a tool may change: nothing, the paths in its arguments, or anything."""
    if not tool or tool in reading:
        return Touches.NOTHING
    return Touches.NAMED if tool in named else Touches.ANYTHING


def text(data: Mapping[str, Any], name: str) -> str:
    """A string field; "" if the agent left it out or sent another type."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def paths_in(data: Any, *names: str) -> tuple[str, ...]:
    """The paths in the arguments of a tool."""
    if not isinstance(data, dict):
        return ()
    return tuple(value for name in names if isinstance(value := data.get(name), str) and value)
