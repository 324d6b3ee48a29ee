"""Laws 4 and 5 after a kill: a checkpoint is whole or not there, and none is lost."""

from __future__ import annotations

import pytest

from tests.crash.checkpoint_take_harness import SCENARIOS
from tests.crash.child import FEWEST_KILLS, all_killed, harness

MODULE = "checkpoint_take_harness"
#: For every run of the tests; a prime, so that runs of the same calls are met at each of them.
SOME = "5"


@pytest.mark.parametrize("scenario", ["first", "changed", "reclaim"])
def test_takes_and_reclaims_are_killed_at_some_calls(scenario: str) -> None:
    counts = harness(scenario, SOME, module=MODULE)
    assert all_killed(counts)
    assert counts["kills"] > 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_takes_and_reclaims_are_killed_at_every_call(scenario: str) -> None:
    counts = harness(scenario, "1", module=MODULE)
    assert counts["kills"] >= FEWEST_KILLS
    assert all_killed(counts)
