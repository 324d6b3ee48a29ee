"""Every home that a real agent made, recorded by `tools/record_home.py`: one line an agent."""

from __future__ import annotations

from tests.contract import agent_homes
from tests.contract.agents import cline, copilot, goose, gptme, kilo, kimi_code, qwen, vibe
from tests.contract.agents.home import AgentHome

RECORDED: tuple[AgentHome, ...] = (
    *agent_homes.FOUR,
    cline.HOME,
    copilot.HOME,
    goose.HOME,
    gptme.HOME,
    kilo.HOME,
    kimi_code.HOME,
    qwen.HOME,
    vibe.HOME,
)
