"""Law 4 without power: what nobody flushed is lost, and still nothing acknowledged is."""

from __future__ import annotations

import sys

import pytest

from tests.crash import power_restore_harness, power_take_harness
from tests.crash.child import FEWEST_KILLS, harness
from tests.crash.power_harness import SCENARIOS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: For every run of the tests; a prime, so that runs of the same calls are met at each of them.
SOME = "43"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_power_goes_at_some_calls(scenario: str) -> None:
    assert harness(scenario, SOME, module="power_harness")["states"] > 2


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_power_goes_at_every_call(scenario: str) -> None:
    assert harness(scenario, "1", module="power_harness")["states"] >= FEWEST_KILLS


def test_the_power_goes_at_some_calls_of_taking_a_checkpoint() -> None:
    assert harness("path-known", SOME, module="power_take_harness")["states"] > 2


@pytest.mark.deep
@pytest.mark.parametrize("scenario", power_take_harness.SCENARIOS)
def test_the_power_goes_at_every_call_of_taking_a_checkpoint(scenario: str) -> None:
    assert harness(scenario, "1", module="power_take_harness")["states"] >= FEWEST_KILLS


@pytest.mark.parametrize("scenario", ["restore-then-again", "many-then-again"])
def test_the_power_goes_at_some_calls_of_a_restore(scenario: str) -> None:
    assert harness(scenario, SOME, module="power_restore_harness")["states"] > 2


@pytest.mark.deep
@pytest.mark.parametrize("scenario", power_restore_harness.SCENARIOS)
def test_the_power_goes_at_every_call_of_a_restore(scenario: str) -> None:
    assert harness(scenario, "1", module="power_restore_harness")["states"] >= FEWEST_KILLS
