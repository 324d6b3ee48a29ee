"""Every home that a real agent made, recorded by `tools/record_home.py`: one line an agent."""

from __future__ import annotations

from tests.contract import agent_homes
from tests.contract.agents import (
    continue_cli,
    droid,
    goose,
    gptme,
    kimi_code,
    openclaw,
    openhands,
    pi,
    vibe,
)
from tests.contract.agents.home import AgentHome

RECORDED: tuple[AgentHome, ...] = (
    *agent_homes.FOUR,
    goose.HOME,
    gptme.HOME,
    vibe.HOME,
    kimi_code.HOME,
    openclaw.HOME,
    continue_cli.HOME,
    droid.HOME,
    openhands.HOME,
    pi.HOME,
)
