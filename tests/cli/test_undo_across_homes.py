"""One command in several homes: what it says, and how all of it is undone together."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.progress import TerminalProgress
from holdfast.cli.streams import state
from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine

_PRUNE = ("sessions", "prune", "--all-homes", "--older-than", "0s")


@pytest.fixture(scope="module")
def two_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(root=tmp_path_factory.mktemp("two"))
    machine.user.mkdir(mode=0o700)
    return settle(machine, "holdfast", "hermes", "codex")


@pytest.fixture
def two(two_once: Machine, tmp_path: Path) -> Inside:
    shutil.copytree(two_once.user, tmp_path / "user", symlinks=True)
    return Inside(Machine(root=tmp_path))


def _sessions(two: Inside) -> set[str]:
    listed = two.ok("--json", "sessions", "list", "--limit", "999").document["sessions"]
    return {each["id"] for each in listed}


def test_the_question_names_an_undo_that_works(two: Inside) -> None:
    before = _sessions(two)
    done = two.run(*_PRUNE, answers="y\n")
    assert done.code == 0, done
    assert "`holdfast undo --all-homes` can bring it all back" in done.err
    assert "`holdfast undo`" not in done.err
    closing = done.out[done.out.rindex("Total:") :]
    assert re.match(r"Total: \d+ removed in \d homes\. Freed .*\n", closing)
    assert closing.rstrip().endswith("holdfast undo --all-homes")
    assert _sessions(two) != before
    two.ok("undo", "--all-homes")
    assert _sessions(two) == before


def test_the_question_in_one_of_several_homes_names_it(two: Inside) -> None:
    asked = two.run("--home", "hermes", *_PRUNE[:2], "--older-than", "0s", answers="n\n")
    assert "`holdfast --home hermes undo` can bring it all back" in asked.err


def test_a_dry_run_sums_up(two: Inside) -> None:
    shown = two.ok(*_PRUNE, "--dry-run")
    assert re.search(r"Total: the plans remove \d+ items, .*, in \d homes\.", shown.out)


def test_only_the_latest_joint_run_is_undone(two: Inside) -> None:
    first = "20260101_101010_aaaaaa"
    two.ok("sessions", "delete", first, "--yes")
    older = _sessions(two)
    gone = two.ok(
        "sessions", "prune", "--all-homes", "--source", "cron", "--older-than", "0s", "-y"
    )
    assert "Nothing to remove" in gone.out
    assert _sessions(two) != older
    undone = two.ok("undo", "--all-homes")
    assert _sessions(two) == older  # what was deleted in Hermes before stays deleted
    assert "error:" not in undone.err
    assert "note: That run has nothing to undo here" in undone.err


def test_a_later_run_whose_record_is_damaged_is_not_passed_over(two: Inside) -> None:
    two.ok(*_PRUNE, "--source", "cron", "--yes")
    two.ok(*_PRUNE, "--yes")
    gone = _sessions(two)
    codex = two.machine.user / ".codex" / ".holdfast" / "operations"
    latest = max(codex.glob("*.jsonl"), key=lambda path: int(path.stem))
    whole = latest.read_bytes()
    latest.write_bytes(b"garbage\n")
    refused = two.run("undo", "--all-homes", "--yes")
    assert refused.code == 5
    assert f"operation {latest.stem} is damaged: it may be the latest" in refused.err
    assert _sessions(two) == gone
    latest.write_bytes(whole)
    two.ok("undo", "--all-homes")
    back = _sessions(two)
    undo = latest.with_name(f"{int(latest.stem) + 1}.jsonl")
    undo.write_bytes(b"garbage\n")
    assert two.run("redo", "--all-homes", "--yes").code == 5
    assert _sessions(two) == back


def test_unrelated_operations_are_undone_only_after_a_question(two: Inside) -> None:
    for agent in ("hermes", "holdfast"):
        two.ok("--home", agent, "sessions", "prune", "--older-than", "0s", "--yes")
    left = _sessions(two)
    refused = two.run("undo", "--all-homes")
    assert refused.code == 3
    assert _sessions(two) == left
    said = two.run("undo", "--all-homes", answers="n\n")
    assert "hermes" in said.out
    assert "sessions prune --older-than 0s" in said.out
    assert _sessions(two) == left
    two.ok("undo", "--all-homes", answers="y\n")
    assert _sessions(two) > left


def test_the_operation_of_one_home_is_undone_only_after_a_question(two: Inside) -> None:
    """Nobody who says --all-homes thinks of what was done in one home before."""
    two.ok("--home", "hermes", "sessions", "prune", "--older-than", "0s", "--yes")
    left = _sessions(two)
    assert two.run("undo", "--all-homes").code == 3
    said = two.run("undo", "--all-homes", answers="n\n")
    assert "only an operation of one home" in said.out
    assert "Undo this operation?" in said.err
    assert _sessions(two) == left
    two.ok("--home", "hermes", "undo")
    said = two.run("redo", "--all-homes", answers="n\n")
    assert (said.code, "Redo this operation?" in said.err) == (3, True)


def test_where_there_is_one_home_undo_in_all_homes_needs_no_question(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    machine.user.mkdir(mode=0o700)
    one = Inside(settle(machine, "hermes"))
    before = _sessions(one)
    one.ok("sessions", "prune", "--older-than", "0s", "--yes")
    one.ok("undo", "--all-homes")
    assert _sessions(one) == before


def test_only_what_one_undo_took_back_is_redone(two: Inside) -> None:
    """An older undo in one home has nothing to do with the latest over all of them."""
    first = "20260101_101010_aaaaaa"
    two.ok("sessions", "delete", first, "--yes")
    two.ok("--home", "hermes", "undo")
    before = _sessions(two)
    two.ok("sessions", "prune", "--all-homes", "--source", "cron", "--older-than", "0s", "-y")
    gone = _sessions(two)
    two.ok("undo", "--all-homes")
    assert _sessions(two) == before
    redone = two.ok("redo", "--all-homes", "-y")
    assert "what the latest undo over several homes took back: sessions prune" in redone.out
    assert "note: That run has nothing to redo here" in redone.err
    assert _sessions(two) == gone
    assert first in gone
    two.ok("undo", "--all-homes")
    assert _sessions(two) == before


def test_unrelated_undos_are_redone_only_after_a_question(two: Inside) -> None:
    for agent in ("hermes", "holdfast"):
        two.ok("--home", agent, "sessions", "prune", "--older-than", "0s", "--yes")
        two.ok("--home", agent, "undo")
    before = _sessions(two)
    said = two.run("redo", "--all-homes", answers="n\n")
    assert (said.code, "come from different runs" in said.out) == (3, True)
    assert "Redo these 2 operations?" in said.err
    assert _sessions(two) == before


def test_a_home_with_nothing_left_is_no_failure(two: Inside) -> None:
    two.ok("--home", "hermes", "sessions", "prune", "--older-than", "0s", "--yes")
    for command in ("undo", "redo"):
        done = two.ok(command, "--all-homes", "--yes")
        assert "error:" not in done.err
        assert f"nothing to {command}" in done.err
    two.ok("undo", "--all-homes", "--yes")
    nothing = two.run("undo", "--all-homes")
    assert nothing.code == 1
    assert "error:" not in nothing.err


@pytest.mark.parametrize("command", ["sessions prune --yes", "undo"])
def test_a_machine_without_homes_says_so(tmp_path: Path, command: str) -> None:
    machine = Machine(root=tmp_path)
    machine.user.mkdir(mode=0o700)
    said = Inside(machine).ok(*command.split(), "--all-homes")
    assert said.out == "There is no home of an agent on this machine.\n"


def test_ctrl_c_begins_no_other_home(two: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch at hand may be the last one of its home: then the run there was not stopped."""
    monkeypatch.setattr(TerminalProgress, "step", lambda *_: setattr(state, "stop_asked", True))
    done = two.run(*_PRUNE, "--yes")
    assert done.code == 130
    assert "Nothing was done in: " in done.err
    monkeypatch.undo()
    logs = two.ok("--json", "log").document["homes"]
    assert sum(len(each["operations"]) for each in logs) == 1


def test_a_program_undoes_and_redoes_what_one_run_did(two: Inside, tmp_path: Path) -> None:
    """As `undo --all-homes` and `redo --all-homes`: what one home did before by itself stays."""
    [alone, *_] = two.ok("--home", "codex", "--json", "sessions", "list").document["sessions"]
    two.ok("--home", "codex", "sessions", "delete", alone["id"], "--yes")
    before = _sessions(two)
    two.ok(*_PRUNE, "--source", "cron", "--source", "telegram", "--source", "cli", "-y")
    gone = _sessions(two)
    with holdfast.machine(user_home=tmp_path / "user", environ={}) as machine:
        done = machine.to_undo()
        assert done.run is not None
        assert done.latest is not None
        assert done.latest.command.startswith("sessions prune")
        assert {home.agent for home in done.of_home} == {"hermes", "holdfast"}
        for home, step in done.of_home.items():
            assert step.run == done.run
            machine.open(home).undo(step.operation)
        assert _sessions(two) == before
        redone = machine.to_redo()
        assert redone.run is None  # each was undone by itself
        assert redone.of_home.keys() == done.of_home.keys()
        for home, step in redone.of_home.items():
            machine.open(home).redo(step.operation)
    assert _sessions(two) == gone
