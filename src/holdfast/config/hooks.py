"""[hooks]: what Holdfast does in the loop of agents that it is connected to."""

from __future__ import annotations

from holdfast.config.key import key
from holdfast.config.kinds import Choice, Flag, Number
from holdfast.model.checkpoint import MAX_SNAPSHOTS_CONNECTED
from holdfast.policy.budgets import MOST_COST, MOST_TOKENS
from holdfast.value import dataclass

ALLOW, BLOCK = "allow", "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """[hooks]."""

    checkpoints: bool = key(
        Flag(),
        True,
        "Take a checkpoint before each tool of a connected agent that may change files.",
    )
    on_failure: str = key(
        Choice(ALLOW, BLOCK),
        ALLOW,
        "When a checkpoint cannot be taken, or a budget cannot be checked: let the tool run",
        'and say so ("allow"), or do not let it run ("block").',
    )
    helper: bool = key(
        Flag(),
        True,
        "Keep a helper process for the hooks of connected agents, which makes them quick. It",
        "starts on demand and ends when it is idle.",
    )
    max_snapshots: int = key(
        Number(0, 1_000_000),
        MAX_SNAPSHOTS_CONNECTED,
        "How many checkpoints each project keeps in a home that agents are connected to, if",
        "checkpoints.max_snapshots is less: each tool call has one. 0 means no limit.",
    )
    project_daily_tokens: int = key(
        Number(0, MOST_TOKENS),
        0,
        "The most tokens that connected agents may use in one project in one day (UTC). 0",
        "means no limit.",
    )
    project_daily_cost: float = key(
        Number(0, int(MOST_COST), whole=False),
        0,
        "The most that they may cost in one project in one day (UTC). 0 means no limit.",
    )
