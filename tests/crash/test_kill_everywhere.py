"""Law 4: killed at any point, a run leaves nothing half-gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tally
from tests.crash import session_harness
from tests.crash.harness import SCENARIOS
from tests.crash.quick import quick

ROOT = Path(__file__).parents[2]
#: Fewer kills than this mean that the harness no longer reaches into the operation.
FEWEST_KILLS = 20


def harness(*arguments: str, module: str = "harness") -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.crash.{module}", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    tally.injected(counts["kills"])
    tally.verified(counts["states"])
    return counts


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_call(scenario: str) -> None:
    counts = harness(scenario, "once")
    assert counts["kills"] >= FEWEST_KILLS
    assert counts["states"] == counts["kills"] + 1


@pytest.mark.parametrize("scenario", quick(session_harness.SCENARIOS, "prune", "undo"))
def test_sessions_are_killed_at_every_call(scenario: str) -> None:
    counts = harness(scenario, module="session_harness")
    assert counts["kills"] >= FEWEST_KILLS
    assert counts["states"] == counts["kills"] + 1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_again_while_settling(scenario: str) -> None:
    counts = harness(scenario, "twice")
    assert counts["kills"] >= FEWEST_KILLS**2 / 2
