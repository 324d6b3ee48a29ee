"""Law 4 in the home of another agent: killed at any point, Hermes's sessions are whole."""

from __future__ import annotations

import pytest

from tests.crash.hermes_session_harness import SCENARIOS
from tests.crash.test_kill_everywhere import FEWEST_KILLS, harness

#: Each kill costs some tenths of a second: the copy of a home, and a look at every row it left.
SOME = "61"


@pytest.mark.parametrize("scenario", ["prune", "archive"])
def test_sessions_of_hermes_are_killed_at_some_calls(scenario: str) -> None:
    tally = harness(scenario, SOME, module="hermes_session_harness")
    assert tally["states"] == tally["kills"] + 1 > 2


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sessions_of_hermes_are_killed_at_every_call(scenario: str) -> None:
    tally = harness(scenario, "1", module="hermes_session_harness")
    assert tally["kills"] >= FEWEST_KILLS
