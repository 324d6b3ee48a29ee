"""Law 4 for the homes of formats: killed at any point, a session is whole, here or in the trash."""

from __future__ import annotations

import pytest

from tests.contract.formats import FORMATS
from tests.crash.format_harness import SCENARIOS
from tests.crash.test_kill_everywhere import harness


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", FORMATS)
def test_killed_now_and_then(name: str, scenario: str) -> None:
    counts = harness(name, scenario, "23", module="format_harness")
    assert counts["kills"] >= 4
    assert counts["states"] == counts["kills"] + 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_every_call(name: str, scenario: str) -> None:
    counts = harness(name, scenario, "1", module="format_harness")
    assert counts["states"] == counts["kills"] + 1
