"""Law 5 after a kill: a restore is finished by doing it again, or taken back from where it was."""

from __future__ import annotations

import pytest

from tests.crash.checkpoint_harness import SCENARIOS, SLOW
from tests.crash.child import FEWEST_KILLS, all_killed, harness, quick

#: A scenario that takes checkpoints has hundreds of calls, and most of them are not the restore's.
SOME = "4"


@pytest.mark.parametrize(
    ("scenario", "every"), [("restore-then-again", "2"), ("many-then-again", "3")]
)
def test_a_restore_is_killed_at_some_calls(scenario: str, every: str) -> None:
    tally = harness(scenario, every, module="checkpoint_harness")
    assert all_killed(tally)
    assert tally["kills"] > 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_restore_is_killed_at_every_call(scenario: str) -> None:
    tally = harness(scenario, "1", module="checkpoint_harness")
    assert tally["kills"] >= FEWEST_KILLS
    assert all_killed(tally)


@pytest.mark.parametrize("scenario", quick(SLOW, "restore-then-take"))
def test_a_rollback_is_killed_at_some_calls(scenario: str) -> None:
    tally = harness(scenario, SOME, module="checkpoint_harness")
    assert all_killed(tally)
    assert tally["kills"] > 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SLOW)
def test_a_rollback_is_killed_at_every_call(scenario: str) -> None:
    tally = harness(scenario, "1", module="checkpoint_harness")
    assert tally["kills"] >= FEWEST_KILLS
