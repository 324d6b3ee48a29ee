"""Hooks of Codex 0.166.

A hook cannot end a run: `continue: false`, even with a denial, makes the answer invalid, and the
tool runs. So every further tool is denied, and the next prompt is blocked. A subagent has the
session of its parent, but its own transcript and turns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.connect import EVENTS
from holdfast.hooks.reply import Reply, decided, text, told
from holdfast.model.loop import Decision, LoopEvent
from holdfast.value import replace

NAME = "codex"
_EVENTS = EVENTS[NAME]
_PATCH = "apply_patch"
_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
_READING = frozenset(
    (
        "close_agent",
        "list_agents",
        "list_mcp_resource_templates",
        "list_mcp_resources",
        "read_mcp_resource",
        "request_user_input",
        "resume_agent",
        "send_input",
        "send_message",
        "spawn_agent",
        "update_plan",
        "view_image",
        "wait",
        "wait_agent",
        "web_search",
    )
)


def parse(data: Mapping[str, Any]) -> LoopEvent:
    event = told(NAME, _EVENTS, data, reading=_READING, named=(_PATCH,))
    paths = _patched(event.arguments) if event.tool == _PATCH else ()
    return replace(event, turn=text(data, "turn_id"), model=text(data, "model"), paths=paths)


def _patched(arguments: object) -> tuple[str, ...]:
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return tuple(_PATCHED.findall(command)) if isinstance(command, str) else ()


def answer(event: LoopEvent, decision: Decision) -> Reply:
    return decided(event, decision)
