"""The rules for agents that Holdfast is only connected to, and what gaps in the checkpoint before a
tool call mean for that call. Quick to load: every hook loads it.

What could not be read cannot be restored, so it counts as a failure. A file that is larger than the
user wants to keep is left out on purpose: the user is told, and the tool runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.checkpoint import NotCaptured
from holdfast.model.text import one_line
from holdfast.policy.budgets import Budget, Budgets, GuardOptions
from holdfast.policy.prices import Prices
from holdfast.value import dataclass, field

#: The budgets that need the agent's records.
_FROM_RECORDS = {
    Budget.TOKENS,
    Budget.TOKENS_IN,
    Budget.TOKENS_OUT,
    Budget.COST,
    Budget.DAILY_TOKENS,
    Budget.DAILY_COST,
}
_SET_ONE = "set one under [prices]"
_OF_DAYS = {Budget.DAILY_TOKENS, Budget.DAILY_COST}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRules:
    """The rules for connected agents. The two for a project limit what all sessions use in it on
    one UTC day; 0 means no limit. With `blocks_on_failure`, a tool call is blocked if Holdfast
    cannot decide whether it may run."""

    options: GuardOptions = field(default_factory=GuardOptions)
    prices: Prices = field(default_factory=Prices)
    project_daily_tokens: int = 0
    project_daily_cost: float = 0.0
    blocks_on_failure: bool = False

    @property
    def of_project(self) -> Budgets:
        """The limits of a project. They come without warnings."""
        return Budgets(
            daily_tokens=self.project_daily_tokens,
            daily_cost=self.project_daily_cost,
            warn_shares=(),
        )

    def _bounded(self, agent: str) -> set[Budget]:
        """The budgets that apply to an agent."""
        every = (self.options.everywhere, self.options.budgets_of(agent), self.of_project)
        return {budget for each in every for budget, _ in each.limits()}

    def bounds_days(self, agent: str) -> bool:
        return not self._bounded(agent).isdisjoint(_OF_DAYS)

    def bounds_session(self, agent: str) -> bool:
        """True if a budget applies to a session as a whole."""
        limits = {budget for budget, _ in self.options.budgets_of(agent).limits()}
        return bool(limits - _OF_DAYS - {Budget.MESSAGES_PER_MINUTE})

    def lacks_prices(self, agent: str) -> bool:
        """True if a budget on cost can never be checked, because no model has a price."""
        return self.bounds_cost(agent) and not self.prices.by_model

    def bounds_cost(self, agent: str) -> bool:
        return not self._bounded(agent).isdisjoint({Budget.COST, Budget.DAILY_COST})

    def lacks_price(self, agent: str, model: str) -> str:
        """Why a budget on cost cannot be checked, as far as that is known before the first answer;
        "" if it can perhaps. OpenCode reports what its answers cost."""
        if agent == "opencode" or not self.bounds_cost(agent):
            return ""
        if model and self.prices.of(model) is None:
            return f"there is a budget on cost, and no price for {model}; {_SET_ONE}"
        if not self.prices.by_model:
            return f"there is a budget on cost, and no model has a price; {_SET_ONE}"
        return ""

    def bounds_use(self, agent: str) -> bool:
        """True if a budget depends on the agent's records."""
        return not self._bounded(agent).isdisjoint(_FROM_RECORDS)


_MOST_NAMED = 3
_LONGEST = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The message about the gaps. `failed` is "" if everything missing was left out on purpose."""

    words: str = ""
    failed: str = ""


def gaps(left: Sequence[NotCaptured]) -> Gaps:
    """The gaps of a checkpoint. A socket has no content, and a worktree is a project of its own."""
    lacking = [each for each in left if not each.is_no_content]
    lost = [each for each in lacking if not each.by_rule]
    if not lacking:
        return Gaps()
    return Gaps(words=_words(lost or lacking), failed=_words(lost) if lost else "")


def _words(left: Sequence[NotCaptured]) -> str:
    named = [f"{one_line(each.path)[:_LONGEST]} ({each.reason})" for each in left[:_MOST_NAMED]]
    more = len(left) - len(named)
    rest = f" and {more:,} more" if more else ""
    return f"the checkpoint lacks {', '.join(named)}{rest}"
