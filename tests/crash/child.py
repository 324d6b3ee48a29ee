"""Start a harness as a process of its own, and read what it injected and verified."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests import tally
from tests.cli.forked import run_module

ROOT = Path(__file__).parents[2]
#: Fewer kills than this mean that the harness no longer reaches into the operation.
FEWEST_KILLS = 20


def harness(*arguments: str, module: str) -> dict[str, int]:
    done = run_module(f"tests.crash.{module}", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    counts: dict[str, int] = json.loads(done.stdout)
    tally.injected(counts["kills"])
    tally.verified(counts["states"])
    return counts


def all_killed(counts: dict[str, int]) -> bool:
    """Whether nearly every run that was to be killed was: one of them may make fewer calls than the
    run that was counted. The last run gets through."""
    return counts["kills"] >= counts["states"] * 0.9 - 1


def quick(scenarios: Iterable[str], *names: str) -> list[Any]:
    """All scenarios. Those that are not named are for `make test-deep`."""
    return [
        each if each in names else pytest.param(each, marks=pytest.mark.deep) for each in scenarios
    ]
