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
from typing import Any

import pytest

from tests import tally
from tests.model import judge, kept, return_steps, run
from tests.model.faults import Fault
from tests.model.look import Seen, SeenSession
from tests.model.world import Said, World

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


class Quiet(World):
    """A world in which commands do as a test says, not as Holdfast does."""

    def holdfast(self, *args: str, fault: Fault | None = None, json_out: bool = True) -> Said:
        items = [
            {"action": "rename", "id": "one", "version": json.dumps(None), "target": '"New"'},
        ]
        return Said(0, json.dumps({"plan": {"items": items}}), "")


def _edited() -> tuple[run.Run, kept.Session]:
    """A session that a command has renamed, as operation 4."""
    session = run.a_session("one", "cli", 1.0, title="New")
    session.place = kept.STORE
    edit = kept.Edit(session="one", field="title", before=None, after="New")
    model = kept.Model(sessions=[session], edits={"4": edit}, operations={"4"})
    return run.Run(Quiet(Path(), ""), model, run.Options()), session


def _judged(going: run.Run, step: judge.Step | None, shown: dict[str, Any], *numbers: str) -> None:
    assert step is not None
    [session] = going.model.sessions
    row = {name: shown.get(name, value) for name, value in session.row.items()}
    line = {name: shown.get(name, value) for name, value in session.line.items()}
    seen = Seen(
        store={"one": SeenSession(line=line, row=row, parent_id=None, key=None)},
        places={"one": Counter([kept.STORE])},
        files={},
        trash={},
        bundles={},
        checkpoints={},
        operations={each: {"can_bring_back": 0} for each in numbers},
    )
    judge.judge(going.model, step, seen, 2.0)


@pytest.mark.parametrize(
    "shown", [{}, {"title": "Other"}, {"title": None, "pinned": True}, {"title": None, "cwd": "/"}]
)
def test_an_undo_of_an_edit_that_changes_too_little_or_too_much_is_noticed(
    shown: dict[str, Any],
) -> None:
    going, _ = _edited()
    with pytest.raises(AssertionError, match="session one is found"):
        _judged(going, return_steps.undo(going, 1, 0, 0), shown, "4", "5")


def test_an_edit_is_undone_once_and_belongs_to_its_redo() -> None:
    going, session = _edited()
    _judged(going, return_steps.undo(going, 1, 0, 0), {"title": None}, "4", "5")
    assert session.line["title"] is None
    again = return_steps.redo(going, 0, 0, 0)
    with pytest.raises(AssertionError, match="session one is found"):
        _judged(going, again, {}, "4", "5", "6")
    _judged(going, again, {"title": "New"}, "4", "5", "6")
    assert list(going.model.edits) == ["6"]
    with pytest.raises(AssertionError, match="nobody undid"):
        return_steps.redo(going, 0, 0, 0)


def test_an_undo_leaves_a_value_that_was_changed_again() -> None:
    going, session = _edited()
    session.line["title"] = "The agent's"
    step = return_steps.undo(going, 1, 0, 0)
    _judged(going, step, {}, "4")
    with pytest.raises(AssertionError, match="session one is found"):
        _judged(going, step, {"title": None}, "4", "5")


def test_what_is_already_so_is_no_operation() -> None:
    going, _ = _edited()
    same = kept.Edit(session="one", field="pinned", before=False, after=False)
    with pytest.raises(AssertionError, match="is operations"):
        _judged(going, judge.Step(edit=same), {}, "4", "5")
    _judged(going, judge.Step(edit=same), {}, "4")


@pytest.mark.parametrize("only", [True, False])
def test_an_undo_of_an_end_by_hand_opens_that_session(only: bool) -> None:
    going, session = _edited()
    session.line |= {"ended_at": 1.5, "end_reason": "ended"}
    session.ended_by, going.model.edits = ("4",) if only else ("3", "4"), {}
    step = return_steps.undo(going, 5, 0, 0)
    if only:
        with pytest.raises(AssertionError, match="session one is found"):
            _judged(going, step, {}, "4", "5")
    _judged(going, step, {"ended_at": None, "end_reason": None}, "4", "5")
    assert not session.ended_by


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
