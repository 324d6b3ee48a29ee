"""What an agent records of tokens and cost, as our values: what came from a cache is apart."""

from __future__ import annotations

from holdfast.homes import cline
from holdfast.model.session import Tokens


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
