"""Law 4 over every home of the factory: killed at any point, a run leaves nothing half gone."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.factory import AGENTS, ELSEWHERE
from tests.contract.turns import Turns
from tests.crash.child import all_killed, harness
from tests.crash.home_harness import EDITS, SCENARIOS, VAULT, cases

#: Kills of each case. `make test` spreads a few over the run, `make test-deep` takes every call
#: that differs from the one before (see `points_of`). Of the agents' homes, which share their
#: movers, it takes all of one that has files and of one that has rows, and spreads some over each
#: of the others; with another seed, others.
FEW, SOME, ALL = "2", "12", "100000"
SEED = os.environ.get("HOLDFAST_SEED") or str(int(time.time()) // 3600)
_EVERY_CALL = {"claude-code", "opencode"}
_VAULT_QUICK = ("vault-alone", "vault-restore", "vault-prune-watched")


def _spread(name: str) -> bool:
    return name in {*AGENTS, *ELSEWHERE} - _EVERY_CALL


def _quick() -> Iterator[tuple[str, str]]:
    """Each scenario kills some of the agents' homes, which share one mover, and all others."""
    turns = Turns([*AGENTS, "marmot"], share=2)
    vaults = Turns(AGENTS, share=1)
    for scenario in SCENARIOS:
        # What needs a server is killed in the long tests, and in test_postgres_kill.py.
        names = [name for name, each in cases() if each == scenario and name not in ELSEWHERE]
        if scenario in EDITS:
            yield names[0], scenario
            continue
        if scenario in VAULT:
            # What the vault does, it does through the movers of all others.
            if scenario in _VAULT_QUICK:
                yield vaults.take(names).pop(), scenario
            continue
        quick = turns.take(names)
        yield from ((name, scenario) for name in names if name in quick)


#: The scenarios of each home. One process runs all of them: to start is a third of the work.
QUICK = {
    name: [scenario for _, scenario in found]
    for name, found in itertools.groupby(sorted(_quick()), key=lambda case: case[0])
}


def test_every_agent_is_killed_in_a_quick_run() -> None:
    assert QUICK.keys() >= {*AGENTS}


@pytest.mark.parametrize("name", QUICK)
def test_killed_at_a_few_calls(name: str) -> None:
    counts = harness(name, ",".join(QUICK[name]), FEW, module="home_harness")
    assert all_killed(counts)
    assert counts["states"] >= int(FEW) * len(QUICK[name])


def _deep() -> Iterator[Any]:
    """Each case by itself; of a home with few kills all in one process."""
    for name, found in itertools.groupby(cases(), key=lambda case: case[0]):
        scenarios = [scenario for _, scenario in found]
        for each in [",".join(scenarios)] if _spread(name) else scenarios:
            yield pytest.param(name, each, id=name if _spread(name) else f"{name}-{each}")


@pytest.mark.deep
@pytest.mark.parametrize(("name", "scenarios"), [*_deep()])
def test_killed_at_every_call(name: str, scenarios: str) -> None:
    most = SOME if _spread(name) else ALL
    counts = harness(name, scenarios, most, "0", SEED, module="home_harness")
    assert all_killed(counts)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "scenarios"), [*_deep()])
def test_killed_again_while_settling(name: str, scenarios: str) -> None:
    first, again = ("4", "5") if _spread(name) else ("10", "20")
    counts = harness(name, scenarios, first, again, SEED, module="home_harness")
    assert counts["kills"] > counts["states"] * 1.8
