"""Every real agent that is tried: one line an agent."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.agents.lab import FOUR, Lab
from tests.compat.agents.labs.cline import Cline
from tests.compat.agents.labs.continue_cli import Continue
from tests.compat.agents.labs.copilot import Copilot
from tests.compat.agents.labs.droid import Droid
from tests.compat.agents.labs.goose import Goose
from tests.compat.agents.labs.gptme import Gptme
from tests.compat.agents.labs.kilo import Kilo
from tests.compat.agents.labs.kimi_code import KimiCode
from tests.compat.agents.labs.openclaw import OpenClaw
from tests.compat.agents.labs.openhands import OpenHands
from tests.compat.agents.labs.pi import Pi
from tests.compat.agents.labs.qwen import Qwen
from tests.compat.agents.labs.vibe import Vibe

LABS: Sequence[type[Lab]] = (
    *FOUR,
    Cline,
    Continue,
    Copilot,
    Droid,
    Goose,
    Gptme,
    Kilo,
    KimiCode,
    OpenClaw,
    OpenHands,
    Pi,
    Qwen,
    Vibe,
)
