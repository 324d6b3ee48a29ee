"""Every real agent that is tried: one line an agent."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.agents.lab import FOUR, Lab
from tests.compat.agents.labs.cline import Cline
from tests.compat.agents.labs.copilot import Copilot
from tests.compat.agents.labs.kilo import Kilo
from tests.compat.agents.labs.qwen import Qwen

LABS: Sequence[type[Lab]] = (
    *FOUR,
    Cline,
    Copilot,
    Kilo,
    Qwen,
)
