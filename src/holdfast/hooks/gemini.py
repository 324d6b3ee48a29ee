"""Hooks of Gemini CLI 0.61.

Plain text on stdout is shown to the user, so a hook prints JSON or nothing. Subagents do not
identify themselves, and tool calls have no id, so their timestamp is used; turns are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect import EVENTS
from holdfast.hooks.reply import Reply, paths_in, said, text, told
from holdfast.model.loop import Decision, LoopEvent, Moment, Verdict
from holdfast.value import replace

NAME = "gemini"
_EVENTS = EVENTS[NAME]
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
    event = told(NAME, _EVENTS, data, reading=_READING, named=_NAMED)
    paths = paths_in(event.arguments, "file_path") if event.tool in _NAMED else ()
    return replace(event, call=text(data, "timestamp") if event.tool else "", paths=paths)


def answer(event: LoopEvent, decision: Decision) -> Reply:
    if event.moment in (Moment.BEFORE_TOOL, Moment.PROMPT) and not decision.passes:
        stops = {"continue": False, "stopReason": decision.reason}
        more = stops if decision.verdict is Verdict.STOP else {}
        return said({"decision": "deny", "reason": decision.reason, **more})
    # Before a tool there is no way to reach the model, so the advice goes to the user.
    message = "\n".join(filter(None, (decision.notice, decision.advice)))
    return said({"systemMessage": message})
