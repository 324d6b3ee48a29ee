"""Every home that a real agent made, recorded by `tools/record_home.py`: one line an agent."""

from __future__ import annotations

from tests.contract import agent_homes
from tests.contract.agents import cline, copilot, kilo, qwen
from tests.contract.agents.home import AgentHome

RECORDED: tuple[AgentHome, ...] = (
    *agent_homes.FOUR,
    cline.HOME,
    copilot.HOME,
    kilo.HOME,
    qwen.HOME,
)
