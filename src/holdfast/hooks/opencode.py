"""Hooks of OpenCode 1.18: functions of a plugin, `connect/opencode_plugin.js`.

The plugin sends its arguments, the directory, the database and the top session, because a subagent
has a session of its own. To deny a tool it throws; to end the run it aborts the session first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect import EVENTS
from holdfast.hooks.reply import Reply, moment_of, paths_in, said, text, touched
from holdfast.model.loop import Decision, LoopEvent

NAME = "opencode"
_EVENTS = EVENTS[NAME]
_NAMED = frozenset(("edit", "multiedit", "write"))
_READING = frozenset(
    (
        "glob",
        "grep",
        "list",
        "lsp",
        "question",
        "read",
        "skill",
        "task",
        "todoread",
        "todowrite",
        "webfetch",
        "websearch",
    )
)


def parse(data: Mapping[str, Any]) -> LoopEvent:
    event = text(data, "event")
    given, made = _object(data.get("input")), _object(data.get("output"))
    tool, own = text(given, "tool"), text(given, "sessionID")
    top = text(data, "session") or own
    arguments = made.get("args", given.get("args"))
    return LoopEvent(
        agent=NAME,
        event=event,
        moment=moment_of(event, _EVENTS),
        session=top,
        cwd=text(data, "directory"),
        turn=text(_object(made.get("message")), "id") or text(data, "turn"),
        call=text(given, "callID"),
        tool=tool,
        arguments=arguments,
        touches=touched(tool, reading=_READING, named=_NAMED),
        paths=paths_in(arguments, "filePath") if tool in _NAMED else (),
        transcript=text(data, "database"),
        subagent=own if own != top else "",
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def answer(_: LoopEvent, decision: Decision) -> Reply:
    if decision.passes:
        return said({"notice": "\n".join(filter(None, (decision.notice, decision.advice)))})
    return said({"verdict": decision.verdict.value, "reason": decision.reason})
