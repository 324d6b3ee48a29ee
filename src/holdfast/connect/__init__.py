"""Holdfast's entries in the settings of agents: which they are, how they are put in and taken out,
and what keeps an agent from starting them."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which is slow to load: each hook loads this
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The exit code of a hook by which Claude Code, Codex and Gemini CLI know that a tool must not run.
#: Codex needs a word on the standard error as well.
BLOCKED = 2
#: The agents that Holdfast can be connected to, and the events that it asks each for: before a
#: tool, and when the user speaks.
EVENTS: Mapping[str, tuple[str, str]] = {
    "claude-code": ("PreToolUse", "UserPromptSubmit"),
    "codex": ("PreToolUse", "UserPromptSubmit"),
    "gemini": ("BeforeTool", "BeforeAgent"),
    "opencode": ("tool.execute.before", "chat.message"),
}
