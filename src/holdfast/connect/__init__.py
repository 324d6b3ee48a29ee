"""Holdfast's entries in the settings of agents: recognising, adding and removing them, and finding
out what keeps an agent from running them."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which is slow to load: each hook loads this
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The exit code of a hook by which Claude Code, Codex and Gemini CLI know that a tool must not run.
#: Codex also needs some output on stderr.
BLOCKED = 2
#: The agents that Holdfast can be connected to, and the two events it hooks in each: before a tool
#: runs, and when the user sends a prompt.
EVENTS: Mapping[str, tuple[str, str]] = {
    "claude-code": ("PreToolUse", "UserPromptSubmit"),
    "codex": ("PreToolUse", "UserPromptSubmit"),
    "gemini": ("BeforeTool", "BeforeAgent"),
    "opencode": ("tool.execute.before", "chat.message"),
}
