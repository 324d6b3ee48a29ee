"""Random sequences of all commands beside a plain model: nothing that was made is ever lost.

Each sequence creates, talks, resets, ends, prunes, collects, deletes, archives, restores, exports,
imports, undoes in any order, empties, maintains, and takes, restores and prunes checkpoints, in a
home of our own or in one that Hermes made. After every step everything that a user can find is
compared with the model; at the end everything that was not discarded is brought back, and then
discarded. One that fails is told with its seed and its fewest steps.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tally

ROOT = Path(__file__).parents[2]
#: In memory where there is such a place: what a sequence waits for is the disk.
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it are made with chance names
#: So many sequences share one process of a deep run.
_TOGETHER = 10
_MANY = int(os.environ.get("HOLDFAST_EXAMPLES", "100")) // 5 // _TOGETHER


def go_through(seed: int, seeds: int, steps: int, *flags: str) -> dict[str, int]:
    """Run sequences in a program of their own; how often each step was done."""
    environment = dict(os.environ)
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        environment["TMPDIR"] = str(_MEMORY)
    run = [sys.executable, "-m", "tests.model.sequence", str(seed), str(seeds), str(steps), *flags]
    done = subprocess.run(
        run, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{' '.join(run[1:])}\n{done.stdout}{done.stderr}"
    counts: dict[str, int] = json.loads(done.stdout)
    tally.injected(counts.pop("faults", 0))
    tally.verified(sum(counts.values()))
    return counts


def test_sequences_lose_nothing() -> None:
    counts = go_through(1, 2, 40)
    assert len(counts) > 12


def test_sequences_with_faults_lose_nothing() -> None:
    assert go_through(400, 1, 40, "--faults")


def test_a_sequence_of_started_commands_loses_nothing() -> None:
    assert go_through(202, 1, 20, "--real")


def test_a_sequence_in_a_home_of_hermes_loses_nothing() -> None:
    assert go_through(301, 1, 15, "--hermes")


@pytest.mark.deep
@pytest.mark.parametrize("flags", [(), ("--faults",), ("--hermes", "--faults")])
@pytest.mark.parametrize("part", range(max(1, _MANY // 3)))
def test_many_sequences_lose_nothing(part: int, flags: tuple[str, ...]) -> None:
    # Others every time: what fails says which they were.
    seed = random.SystemRandom().randrange(10**9)
    assert go_through(seed, _TOGETHER, 50, *flags)
