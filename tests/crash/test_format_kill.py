"""Law 4 for the homes of formats: killed at any point, a session is whole, here or in the trash."""

from __future__ import annotations

import pytest

from tests.contract.formats import FORMATS
from tests.crash.format_harness import SCENARIOS
from tests.crash.test_kill_everywhere import harness


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", FORMATS)
def test_killed_now_and_then(name: str, scenario: str) -> None:
    counts = harness(name, scenario, "151", module="format_harness")
    assert counts["kills"] >= 1
    assert counts["states"] == counts["kills"] + 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_many_calls(name: str, scenario: str) -> None:
    # All of some 4,300 calls would take twenty minutes. For those of one scenario:
    # python -m tests.crash.format_harness NAME SCENARIO 1
    counts = harness(name, scenario, "5", module="format_harness")
    assert counts["states"] == counts["kills"] + 1
