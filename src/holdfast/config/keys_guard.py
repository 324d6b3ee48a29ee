"""The keys of the guards: what a session may use, and what tokens cost."""

from __future__ import annotations

from holdfast.config.key import GUARD, PRICES, Key
from holdfast.config.kinds import Number
from holdfast.config.kinds_numbers import Percents, Steps
from holdfast.policy.budgets import MINUTE, MOST_COST, MOST_TOKENS, GuardOptions, Thresholds

_TOKENS = Number(low=0, high=MOST_TOKENS)
_COST = Number(low=0, high=int(MOST_COST), whole=False)
_COUNT = Number(low=0, high=1_000_000_000)
_MINUTES = Number(low=0, high=525_600, whole=False)
_USUAL = GuardOptions()
_PERCENT = 100


def _budget(name: str, kind: Number, *about: str) -> Key:
    return Key(
        path=(GUARD, name),
        kind=kind,
        default=0,
        about=(*about[:-1], f"{about[-1]} 0 is no limit."),
        per_source=True,
    )


def _steps(name: str, usual: Thresholds, *about: str) -> Key:
    default = (usual.nudge, usual.strong_nudge, usual.stop)
    return Key(path=(GUARD, name), kind=Steps(), default=default, about=about)


GUARD_KEYS: tuple[Key, ...] = (
    _budget("max_tokens", _TOKENS, "The most tokens a session may use, read and written together."),
    _budget("max_tokens_in", _TOKENS, "The most tokens that its model may read."),
    _budget("max_tokens_out", _TOKENS, "The most tokens that its model may write."),
    _budget(
        "max_cost",
        _COST,
        "The most a session may cost, in the currency of your prices. While its cost is unknown,",
        "its calls are refused: set [prices] as well.",
    ),
    _budget("max_iterations", _COUNT, "The most turns of its loop that a session may take."),
    _budget("max_minutes", _MINUTES, "The most minutes that a session may be at work."),
    _budget("max_messages_per_minute", _COUNT, "The most messages in any minute."),
    _budget("daily_tokens", _TOKENS, "The most tokens that all sessions may use in one day (UTC)."),
    _budget("daily_cost", _COST, "The most that all sessions may cost in one day (UTC)."),
    Key(
        path=(GUARD, "warn_percent"),
        kind=Percents(),
        default=tuple(round(share * _PERCENT) for share in _USUAL.everywhere.warn_shares),
        about=("Warn at these shares of each limit, in percent; [] never warns.",),
        per_source=True,
    ),
    _steps(
        "breaker",
        _USUAL.breaker,
        "After how many tool errors in a row the model is nudged, nudged strongly, and stopped.",
        "0 leaves one out.",
    ),
    _steps("same_call", _USUAL.same_call, "The same for one tool with the same arguments."),
    _steps("same_tool", _USUAL.same_tool, "The same for one tool with any arguments."),
    Key(
        path=(GUARD, "idle_minutes"),
        kind=_MINUTES,
        default=int(_USUAL.idle_after // MINUTE),
        about=(
            "A longer pause counts for max_minutes only up to this: a session that waits for its",
            "user is not at work.",
        ),
    ),
)

_PRICE = Number(low=0, high=1_000_000, whole=False)
#: What stands in the table of one model.
PRICE_KEYS = {
    "input": Key(path=(PRICES, "input"), kind=_PRICE, about=("A million tokens read.",)),
    "output": Key(path=(PRICES, "output"), kind=_PRICE, about=("A million tokens written.",)),
    "cached": Key(
        path=(PRICES, "cached"),
        kind=_PRICE,
        about=("A million tokens read from the cache; as input if left out.",),
    ),
}
#: A price without these is none.
NEEDED = ("input", "output")
