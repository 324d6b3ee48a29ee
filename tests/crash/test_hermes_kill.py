"""Law 4 in the home of another agent: killed at any point, Hermes's checkpoints are whole."""

from __future__ import annotations

import pytest

from tests.crash.child import FEWEST_KILLS, all_killed, harness
from tests.crash.hermes_harness import SCENARIOS

#: Each kill costs a second: the copy of a home, git, and the look at what it left.
SOME = "4"
#: To bring checkpoints in takes some hundred calls; most of them are like others.
EVERY = {"import": "3"}


@pytest.mark.parametrize("scenario", ["prune-middle"])
def test_hermes_is_bounded_and_killed_at_some_calls(scenario: str) -> None:
    tally = harness(scenario, SOME, module="hermes_harness")
    assert all_killed(tally)
    assert tally["kills"] > 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_hermes_is_bounded_and_killed_at_every_call(scenario: str) -> None:
    tally = harness(scenario, EVERY.get(scenario, "1"), module="hermes_harness")
    assert tally["kills"] >= FEWEST_KILLS
