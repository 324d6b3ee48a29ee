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
from collections import Counter
from pathlib import Path

import pytest

from tests import tally
from tests.model import judge, kept, run
from tests.model.look import Seen, SeenSession

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
    command = [
        sys.executable,
        "-m",
        "tests.model.sequence",
        str(seed),
        str(seeds),
        str(steps),
        *flags,
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{' '.join(command[1:])}\n{done.stdout}{done.stderr}"
    counts: dict[str, int] = json.loads(done.stdout)
    tally.injected(counts.pop("faults", 0))
    tally.verified(sum(counts.values()))
    return counts


@pytest.mark.parametrize("still_there", [True, False])
def test_a_file_is_gone_only_if_its_bundle_is(still_there: bool) -> None:
    """What is in the archive is out of sight: a command that met a fault may have left it there."""
    session = run.a_session("old", "cli", 1.0)
    session.place = kept.STORE
    file = kept.File(name="old.jsonl", session="old", content=b"", touched=1.0, place=kept.ARCHIVE)
    bundle = kept.Bundle(id="old", session=session, files=[file], place=kept.ARCHIVE)
    model = kept.Model(sessions=[session], files=[file], bundles=[bundle])
    step = judge.Step(faulty=True, discards=True)
    for thing in (bundle, file):
        step.move(thing, kept.GONE, must=False)
    there = SeenSession(line=session.line, row=session.row, parent_id=None, key=None)
    seen = Seen(
        store={"old": there},
        places={"old": Counter([kept.STORE])},
        files={},
        trash={},
        bundles={"old": Counter([kept.ARCHIVE])} if still_there else {},
        checkpoints={},
        operations={},
    )
    judge.judge(model, step, seen, 2.0)
    assert file.place == bundle.place == (kept.ARCHIVE if still_there else kept.GONE)


def test_what_returns_to_the_archive_is_of_the_operation_that_archived_it() -> None:
    """An undo cannot be undone: to undo what archived it is what brings it back."""
    session = run.a_session("old", "cli", 1.0)
    model = kept.Model(sessions=[session])
    places = [(kept.ARCHIVE, "4"), (f"{kept.BIN}5", "5"), (kept.ARCHIVE, "6")]
    for place, operation in places:
        step = judge.Step()
        step.move(session, kept.BIN if place.startswith(kept.BIN) else place)
        seen = Seen(
            store={},
            places={"old": Counter([place])},
            files={},
            trash={},
            bundles={},
            checkpoints={},
            operations={each: {"can_bring_back": 1} for each in (*model.operations, operation)},
        )
        judge.judge(model, step, seen, 2.0)
        assert session.place == place
    assert session.operation == "4"


def test_sequences_lose_nothing() -> None:
    counts = go_through(1, 2, 40)
    assert len(counts) > 12


def test_sequences_with_faults_lose_nothing() -> None:
    assert go_through(400, 1, 40, "--faults")


@pytest.mark.deep
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
