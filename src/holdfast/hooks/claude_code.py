"""Hooks of Claude Code 2.1.

`continue: false` alone lets the tool run, so a stop is sent together with a denial. We never send
"allow": it would skip the agent's own permission prompt. A subagent has the session and the
transcript of its parent, and an id of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect import EVENTS
from holdfast.hooks.reply import Reply, decided, paths_in, text, told
from holdfast.model.loop import Decision, LoopEvent, Verdict
from holdfast.value import replace

NAME = "claude-code"
_EVENTS = EVENTS[NAME]
_NAMED = frozenset(("Edit", "MultiEdit", "NotebookEdit", "Write"))
#: Tools that change nothing, or that start something with hooks of its own.
_READING = frozenset(
    (
        "Agent",
        "AskUserQuestion",
        "BashOutput",
        "EnterPlanMode",
        "ExitPlanMode",
        "Glob",
        "Grep",
        "KillShell",
        "LS",
        "ListMcpResourcesTool",
        "NotebookRead",
        "Read",
        "ReadMcpResourceTool",
        "SendMessage",
        "Skill",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "TaskUpdate",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
    )
)


def parse(data: Mapping[str, Any]) -> LoopEvent:
    event = told(NAME, _EVENTS, data, reading=_READING, named=_NAMED)
    named = event.tool in _NAMED
    paths = paths_in(event.arguments, "file_path", "notebook_path") if named else ()
    return replace(event, turn=text(data, "prompt_id"), paths=paths)


def answer(event: LoopEvent, decision: Decision) -> Reply:
    stops = {"continue": False, "stopReason": decision.reason}
    more = stops if decision.verdict is Verdict.STOP else {}
    return decided(event, decision, **more)
