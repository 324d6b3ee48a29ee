"""Law 4 for what an agent says: acknowledged is kept, and a batch is there whole or not at all."""

from __future__ import annotations

import pytest

from tests.crash.append_harness import SCENARIOS
from tests.crash.child import FEWEST_KILLS, all_killed, harness

MODULE = "append_harness"
#: For every run of the tests; a prime, so that runs of the same calls are met at each of them.
SOME = "2"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_messages_are_stored_and_killed_at_some_calls(scenario: str) -> None:
    counts = harness(scenario, SOME, module=MODULE)
    assert all_killed(counts)
    assert counts["kills"] > 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_messages_are_stored_and_killed_at_every_call(scenario: str) -> None:
    counts = harness(scenario, "1", module=MODULE)
    # What is imported here is one transaction.
    assert counts["kills"] >= (5 if scenario == "import" else FEWEST_KILLS)
    assert all_killed(counts)
