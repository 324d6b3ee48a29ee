"""Start a harness as a process of its own, and read what it injected and verified."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests import tally

ROOT = Path(__file__).parents[2]
#: Fewer kills than this mean that the harness no longer reaches into the operation.
FEWEST_KILLS = 20


def harness(*arguments: str, module: str) -> dict[str, int]:
    # One word more before the arguments: a process with the name of an agent among its first words
    # would count as that agent, and keep what a running agent writes back.
    done = subprocess.run(
        [sys.executable, "-u", "-m", f"tests.crash.{module}", *arguments],
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


def quick(scenarios: Iterable[str], *names: str) -> list[Any]:
    """All scenarios. Those that are not named are for `make test-deep`."""
    return [
        each if each in names else pytest.param(each, marks=pytest.mark.deep) for each in scenarios
    ]
