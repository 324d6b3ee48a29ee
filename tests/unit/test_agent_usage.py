"""What an agent records of tokens and cost, as our values: what came from a cache is apart."""

from __future__ import annotations

from holdfast.homes.agents import cline
from holdfast.homes.agents.message_blocks import numbers_of, usage_of
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage


def test_input_of_cline_has_what_came_from_a_cache() -> None:
    """And what was written into one: both stand beside it once more."""
    metrics = {
        "inputTokens": 100,
        "outputTokens": 12,
        "cacheReadTokens": 40,
        "cacheWriteTokens": 10,
        "cost": 0.25,
    }
    [said] = cline.spoken(
        {"messages": [{"role": "assistant", "content": "Hi", "metrics": metrics}]}
    )
    assert said.tokens == Tokens(input=60, output=12, cached=40)
    assert said.cost == 0.25


def test_what_was_used_is_noted_whole() -> None:
    read = Tokens(input=1, output=2, cached=3)
    used = Usage(tokens=read, cost=4.5, unpriced=Tokens(input=6, output=7, cached=8))
    assert usage_of(numbers_of(used)) == used
