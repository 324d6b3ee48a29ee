"""Every home that a real agent made, recorded by `tools/record_home.py`: one line an agent."""

from __future__ import annotations

from tests.contract import agent_homes
from tests.contract.agents import (
    cline,
    continue_cli,
    copilot,
    droid,
    goose,
    gptme,
    kilo,
    kimi_code,
    openclaw,
    openhands,
    pi,
    qwen,
    vibe,
)
from tests.contract.agents.home import AgentHome

RECORDED: tuple[AgentHome, ...] = (
    *agent_homes.FOUR,
    cline.HOME,
    continue_cli.HOME,
    copilot.HOME,
    droid.HOME,
    goose.HOME,
    gptme.HOME,
    kilo.HOME,
    kimi_code.HOME,
    openclaw.HOME,
    openhands.HOME,
    pi.HOME,
    qwen.HOME,
    vibe.HOME,
)
