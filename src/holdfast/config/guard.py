"""[guard], [prices], [hooks] and [mcp]: what a session may use, what tokens cost, what Holdfast
does in the loop of connected agents, and what agents may change through its MCP server."""

from __future__ import annotations

from typing import Any

from holdfast.config.key import Key, key
from holdfast.config.kinds import Choice, Flag, Number, Percents, Steps
from holdfast.model.checkpoint import MAX_SNAPSHOTS_CONNECTED
from holdfast.policy.budgets import (
    MINUTE,
    MOST_COST,
    MOST_TOKENS,
    Budgets,
    GuardOptions,
    Thresholds,
)
from holdfast.value import dataclass

_TOKENS = Number(0, MOST_TOKENS)
_COST = Number(0, int(MOST_COST), whole=False)
_COUNT = Number(0, 1_000_000_000)
_MINUTES = Number(0, 525_600, whole=False)
_PRICE = Number(0, 1_000_000, whole=False)
_USUAL = GuardOptions()
_PERCENT = 100
ALLOW, BLOCK = "allow", "block"


def _budget(kind: Number, *about: str) -> Any:
    return key(kind, 0, *about[:-1], f"{about[-1]} 0 means no limit.", per_source=True)


def _steps(usual: Thresholds, *about: str) -> Any:
    return key(Steps(), (usual.nudge, usual.strong_nudge, usual.stop), *about)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """[guard]: 0 turns a limit off."""

    max_tokens: int = _budget(
        _TOKENS, "The most tokens a session may use, input and output together."
    )
    max_tokens_in: int = _budget(_TOKENS, "The most tokens that its model may read.")
    max_tokens_out: int = _budget(_TOKENS, "The most tokens that its model may write.")
    max_cost: float = _budget(
        _COST,
        "The most a session may cost, in US dollars. While its cost is unknown, its calls are",
        "refused: set [prices] as well.",
    )
    max_iterations: int = _budget(_COUNT, "The most turns of its loop that a session may take.")
    max_minutes: float = _budget(_MINUTES, "The most minutes that a session may be at work.")
    max_messages_per_minute: int = _budget(_COUNT, "The most messages in any minute.")
    daily_tokens: int = _budget(
        _TOKENS, "The most tokens that all sessions may use in one day (UTC)."
    )
    daily_cost: float = _budget(_COST, "The most that all sessions may cost in one day (UTC).")
    warn_percent: tuple[int, ...] = key(
        Percents(),
        tuple(round(share * _PERCENT) for share in _USUAL.everywhere.warn_shares),
        "Warn at these shares of each limit, in percent; [] never warns.",
        per_source=True,
    )
    breaker: tuple[int, int, int] = _steps(
        _USUAL.breaker,
        "After how many tool errors in a row the model is nudged, nudged strongly, and stopped.",
        "0 leaves a step out.",
    )
    same_call: tuple[int, int, int] = _steps(
        _USUAL.same_call, "The same for calls of one tool with the same arguments."
    )
    same_tool: tuple[int, int, int] = _steps(
        _USUAL.same_tool, "The same for calls of one tool with any arguments."
    )
    idle_minutes: float = key(
        _MINUTES,
        int(_USUAL.idle_after // MINUTE),
        "A longer pause counts for max_minutes only up to this: a session that waits for its",
        "user is not at work.",
    )

    def budgets(self) -> Budgets:
        return Budgets(
            tokens=self.max_tokens,
            tokens_in=self.max_tokens_in,
            tokens_out=self.max_tokens_out,
            cost=self.max_cost,
            iterations=self.max_iterations,
            wall_seconds=self.max_minutes * MINUTE,
            messages_per_minute=self.max_messages_per_minute,
            daily_tokens=self.daily_tokens,
            daily_cost=self.daily_cost,
            warn_shares=tuple(percent / _PERCENT for percent in self.warn_percent),
        )

    def options(self, by_source: dict[str, Budgets]) -> GuardOptions:
        return GuardOptions(
            everywhere=self.budgets(),
            by_source=by_source,
            breaker=_thresholds(self.breaker),
            same_call=_thresholds(self.same_call),
            same_tool=_thresholds(self.same_tool),
            idle_after=self.idle_minutes * MINUTE,
        )


def _thresholds(steps: tuple[int, int, int]) -> Thresholds:
    nudge, strong_nudge, stop = steps
    return Thresholds(nudge=nudge, strong_nudge=strong_nudge, stop=stop)


#: The keys for one model, [prices.MODEL]: the cost of a million tokens.
PRICE_KEYS = {
    name: Key(path=("prices", name), kind=_PRICE) for name in ("input", "output", "cached")
}
#: A price needs at least these.
NEEDED = ("input", "output")


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
        _TOKENS,
        0,
        "The most tokens that connected agents may use in one project in one day (UTC). 0",
        "means no limit.",
    )
    project_daily_cost: float = key(
        _COST,
        0,
        "The most that they may cost in one project in one day (UTC). 0 means no limit.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """[mcp]."""

    changes: str = key(
        Choice("ask", "allow", "refuse"),
        "ask",
        "What an agent may change through `holdfast mcp`. With ask, the user confirms a restore.",
        "With refuse, it can only read, and takes no checkpoints.",
    )
