"""Hooks of Claude Code, as 2.1 has them.

`continue: false` alone lets the tool run, so a stop is said together with a denial. Allowing is
never said: it would pass over what the user is asked. A subagent has the session and the transcript
of its parent, and an id of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.hooks.reply import Reply, decided, paths_in, text, touched
from holdfast.model.loop import Decision, LoopEvent, Moment, Verdict

NAME = "claude-code"
EVENTS = ("PreToolUse", "UserPromptSubmit")
_MOMENTS = {
    "SessionStart": Moment.SESSION_START,
    "UserPromptSubmit": Moment.PROMPT,
    "PreToolUse": Moment.BEFORE_TOOL,
    "PostToolUse": Moment.AFTER_TOOL,
    "PostToolUseFailure": Moment.AFTER_TOOL,
    "Stop": Moment.STOP,
    "SubagentStop": Moment.STOP,
    "SessionEnd": Moment.SESSION_END,
}
_NAMED = frozenset(("Edit", "MultiEdit", "NotebookEdit", "Write"))
#: What these start has hooks of its own, or they change nothing.
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
    event, tool = text(data, "hook_event_name"), text(data, "tool_name")
    arguments = data.get("tool_input")
    failed = {"PostToolUse": False, "PostToolUseFailure": True}.get(event)
    return LoopEvent(
        agent=NAME,
        event=event,
        moment=_MOMENTS.get(event, Moment.OTHER),
        session=text(data, "session_id"),
        cwd=text(data, "cwd"),
        turn=text(data, "prompt_id"),
        call=text(data, "tool_use_id"),
        tool=tool,
        arguments=arguments,
        touches=touched(tool, reading=_READING, named=_NAMED),
        paths=paths_in(arguments, "file_path", "notebook_path") if tool in _NAMED else (),
        transcript=text(data, "transcript_path"),
        subagent=text(data, "agent_id"),
        failed=failed,
        again=data.get("stop_hook_active") is True,
    )


def answer(event: LoopEvent, decision: Decision) -> Reply:
    stops = {"continue": False, "stopReason": decision.reason}
    more = stops if decision.verdict is Verdict.STOP else {}
    return decided(event, decision, **more)
