"""A user of six agents: their homes as they left them, each at its usual place."""

from __future__ import annotations

from pathlib import Path

from tests.cli.machine import Machine
from tests.cli.session_bench import fill
from tests.compat import hermes_sessions
from tests.contract import agent_homes
from tests.contract.agents.recorded import RECORDED

#: The usual places of the homes, below the home directory.
FOLDERS = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "hermes": ".hermes",
    "holdfast": ".holdfast",
    "opencode": ".local/share/opencode",
}
_MAKE = {
    "claude-code": agent_homes.make_claude,
    "codex": agent_homes.make_codex,
    "gemini": agent_homes.make_gemini,
    "opencode": agent_homes.make_opencode,
    "hermes": lambda root: hermes_sessions.recorded(root.parent).rename(root),
    "holdfast": fill,
}


def settle(machine: Machine, *agents: str) -> Machine:
    """Homes of these agents, of all of them without any."""
    for agent in agents or FOLDERS:
        root = home_of(machine, agent)
        root.parent.mkdir(parents=True, exist_ok=True)
        _MAKE[agent](root)
    return machine


def settle_all(machine: Machine) -> Machine:
    """Homes of every agent that there is a recording of, and of Hermes and Holdfast."""
    settle(machine, "hermes", "holdfast")
    for agent in RECORDED:
        root = machine.user / agent.folder
        root.parent.mkdir(parents=True, exist_ok=True)
        agent.make(root)
    return machine


def home_of(machine: Machine, agent: str) -> Path:
    return machine.user / FOLDERS[agent]
