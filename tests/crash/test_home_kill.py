"""Law 4 over every home of the factory: killed at any point, a run leaves nothing half gone."""

from __future__ import annotations

import pytest

from tests.contract.agents.recorded import RECORDED
from tests.crash.child import harness
from tests.crash.home_harness import cases

#: Kills of each case. `make test` spreads a few over the run, `make test-deep` takes every call, or
#: a thousand.
FEW, MANY = "2", "1000"

AGENTS = {each.name for each in RECORDED}
#: Of the homes that agents made, which share one mover, some scenarios at a time.
QUICK = [case for number, case in enumerate(cases()) if case[0] not in AGENTS or number % 3 == 0]


@pytest.mark.parametrize(("name", "scenario"), QUICK)
def test_killed_at_a_few_calls(name: str, scenario: str) -> None:
    counts = harness(name, scenario, FEW, module="home_harness")
    assert counts["states"] == counts["kills"] >= int(FEW)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "scenario"), [*cases()])
def test_killed_at_every_call(name: str, scenario: str) -> None:
    counts = harness(name, scenario, MANY, module="home_harness")
    assert counts["states"] == counts["kills"] >= int(FEW)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "scenario"), [*cases()])
def test_killed_again_while_settling(name: str, scenario: str) -> None:
    counts = harness(name, scenario, "25", "20", module="home_harness")
    assert counts["states"] >= int(FEW)
