"""Hooks of Gemini CLI, as 0.61 has them.

Plain text on the standard output is shown to the user, so there is JSON or nothing. Subagents do
not tell who they are, and calls of tools have no number; turns are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.hooks.reply import Reply, paths_in, said, text, touched
from holdfast.model.loop import Decision, LoopEvent, Moment, Verdict

NAME = "gemini"
EVENTS = ("BeforeTool", "BeforeAgent")
_MOMENTS = {
    "SessionStart": Moment.SESSION_START,
    "BeforeAgent": Moment.PROMPT,
    "BeforeTool": Moment.BEFORE_TOOL,
    "AfterTool": Moment.AFTER_TOOL,
    "AfterAgent": Moment.STOP,
    "SessionEnd": Moment.SESSION_END,
}
_NAMED = frozenset(("replace", "write_file"))
_READING = frozenset(
    (
        "activate_skill",
        "ask_user",
        "complete_task",
        "delegate_to_agent",
        "enter_plan_mode",
        "exit_plan_mode",
        "get_internal_docs",
        "glob",
        "google_web_search",
        "grep_search",
        "invoke_agent",
        "list_directory",
        "read_file",
        "read_many_files",
        "search_file_content",
        "web_fetch",
        "write_todos",
    )
)


def parse(data: Mapping[str, Any]) -> LoopEvent:
    event, tool = text(data, "hook_event_name"), text(data, "tool_name")
    arguments, response = data.get("tool_input"), data.get("tool_response")
    return LoopEvent(
        agent=NAME,
        event=event,
        moment=_MOMENTS.get(event, Moment.OTHER),
        session=text(data, "session_id"),
        cwd=text(data, "cwd"),
        call=text(data, "timestamp") if tool else "",
        tool=tool,
        arguments=arguments,
        touches=touched(tool, reading=_READING, named=_NAMED),
        paths=paths_in(arguments, "file_path") if tool in _NAMED else (),
        transcript=text(data, "transcript_path"),
        failed="error" in response if isinstance(response, dict) else None,
        again=data.get("stop_hook_active") is True,
    )


def answer(event: LoopEvent, decision: Decision) -> Reply:
    if event.moment in (Moment.BEFORE_TOOL, Moment.PROMPT) and not decision.passes:
        stops = {"continue": False, "stopReason": decision.reason}
        more = stops if decision.verdict is Verdict.STOP else {}
        return said({"decision": "deny", "reason": decision.reason, **more})
    # Before a tool there is no way to tell the model something: its user hears of it.
    told = "\n".join(filter(None, (decision.notice, decision.advice)))
    return said({"systemMessage": told})
