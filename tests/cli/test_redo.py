"""`holdfast redo`: an undone operation is done again, asked for and in the log like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import CannotUndoError
from tests.cli.checkpoint_bench import change, contents, taken
from tests.cli.every_command import Said, say
from tests.cli.machine import Machine, age, entries
from tests.cli.session_bench import fill


@pytest.fixture(autouse=True)
def _at_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(machine.user))


def _run(*words: str, code: int = 0) -> Said:
    said = say(*words)
    assert said.code == code, said
    return said


def _document(*words: str, code: int = 0) -> Any:
    return json.loads(_run("--json", *words, code=code).out)


def _undo(machine: Machine) -> None:
    with holdfast.open(machine.home) as home:
        assert home.undo_latest().failed == 0


@pytest.fixture
def one(machine: Machine) -> Path:
    """A transcript that was pruned by operation 1 and brought back by operation 2."""
    path = machine.transcript()
    machine.transcript(days=1)
    _run("sessions", "prune", "--yes")
    _undo(machine)
    assert path.exists()
    return path


def test_it_shows_what_it_will_do_and_asks(machine: Machine, one: Path) -> None:
    before = entries(machine.home)
    dry, refused = _run("redo", "--dry-run"), _run("redo", code=3)
    assert "This would redo operation 1: sessions prune" in dry.text
    assert "Redoing operation 1: sessions prune" in refused.text
    for said in (dry, refused):
        assert "The plan removes 1 item" in said.text
    assert entries(machine.home) == before


def test_it_is_an_operation_like_any_other(machine: Machine, one: Path) -> None:
    done = _document("redo", "--yes")
    assert (done["plan"]["redoes"], done["report"]["operation"]) == ("1", "3")
    assert not one.exists()
    redo, undo, first = _document("log")["operations"]
    assert (redo["command"], redo["redoes"], redo["removed"]) == ("redo 1", "1", 1)
    assert (undo["undoes"], first["redone_by"]) == ("1", ["3"])
    assert "1 removed; undone; redone by 3" in " ".join(_run("log").text.split())
    _undo(machine)
    assert one.exists()
    again = _run("redo", "3", "--yes")
    assert "Redoing operation 3: sessions prune" in again.text
    assert not one.exists()


def test_a_saved_redo_is_one_too(tmp_path: Path, one: Path) -> None:
    _run("redo", "--plan-out", str(tmp_path / "plan.json"))
    _run("apply", str(tmp_path / "plan.json"), "--yes")
    assert not one.exists()
    applied = _document("log")["operations"][0]
    assert applied["redoes"] == "1"
    assert applied["command"].startswith("apply ")
    assert ": redo 1" in applied["command"]


def test_undo_undo_redo_redo_ends_where_it_began(machine: Machine) -> None:
    first, second = machine.transcript(source="cron"), machine.transcript(source="cli")
    for source in ("cron", "cli"):
        _run("sessions", "prune", "--source", source, "--yes")
    seen = []
    for number in range(4):
        if number < 2:
            _undo(machine)
        else:
            _run("redo", "--yes")
        seen.append((first.exists(), second.exists()))
    assert seen == [(False, True), (True, True), (False, True), (False, False)]
    said = _run("redo", "--yes", code=1).text
    assert "nothing left to redo: everything that was undone was redone. The last was op" in said
    assert "operation 2 (sessions prune --source cli), redone by operation 6" in said


def test_where_nothing_was_undone_redo_says_so(machine: Machine) -> None:
    machine.transcript()
    assert "nothing was undone in this home" in _run("redo", code=1).text
    _run("sessions", "prune", "--yes")
    assert "nothing was undone in this home" in _run("redo", code=1).text


def test_what_came_back_and_left_again_is_not_redone(machine: Machine, one: Path) -> None:
    _run("sessions", "prune", "--yes")
    said = _run("redo", "--yes", code=1).text
    assert "what came back of operation 1 (sessions prune) has left or changed since" in said


def test_what_changed_since_stays(one: Path) -> None:
    one.write_text("more was said")
    age(one, 1)
    said = _run("redo", "--yes", code=1)
    assert "changed since the plan was made" in said.text
    assert one.read_text() == "more was said"


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        ("9", 2, "There is no operation '9'"),
        ("3", 1, "Operation 3 was not undone"),
        ("1", 0, "operation 1: sessions prune"),
        ("2", 0, "operation 1: sessions prune"),  # by the number of the undo
    ],
)
def test_by_number(machine: Machine, one: Path, number: str, code: int, why: str) -> None:
    other = machine.transcript(source="telegram")
    _run("sessions", "prune", "--source", "telegram", "--yes")
    assert not other.exists()
    assert why in _run("redo", number, "--yes", code=code).text


def test_what_left_again_since_belongs_to_the_later_operation(one: Path) -> None:
    _run("sessions", "prune", "--yes")
    assert "has left again since" in _run("redo", "1", "--yes", code=1).text


def test_archived_again(machine: Machine) -> None:
    fill(machine.home)
    _run("sessions", "archive", "20260101", "--yes")
    _undo(machine)
    assert _document("sessions", "list", "--archived")["total"] == 0
    _run("redo", "--yes")
    assert _document("sessions", "list", "--archived")["total"] == 1
    _undo(machine)
    assert _document("sessions", "list", "--archived")["total"] == 0


def test_a_restore_is_done_again_and_leaves_what_changed(machine: Machine, project: Path) -> None:
    first = taken(machine, project)
    captured = contents(project)
    change(project)
    changed = contents(project)
    _run("checkpoints", "restore", first, "--yes")
    _undo(machine)
    assert contents(project) == changed
    dry = _run("redo", "--dry-run")
    assert "src/main.py" in dry.text
    assert "Nothing was changed." in dry.text
    _run("redo", code=3)
    assert contents(project) == changed
    done = _document("redo", "--yes")
    assert "src/main.py" in done["projects"][0]["written"]
    assert contents(project) == captured
    _undo(machine)
    assert contents(project) == changed
    (project / "src" / "main.py").write_text("mine\n")
    said = _run("redo", "--yes")
    assert "src/main.py" in said.text
    assert (project / "src" / "main.py").read_text() == "mine\n"
    assert (project / "with space").exists()


# --- After a kill -----------------------------------------------------------------------------


def _cut(machine: Machine, number: int, lines: int) -> None:
    """The record of an operation as a kill leaves it, without its last lines."""
    journal = machine.home / "operations" / f"{number}.jsonl"
    kept = journal.read_bytes().splitlines(keepends=True)[:-lines]
    journal.write_bytes(b"".join(kept))


@pytest.mark.parametrize("lines", [1, 2])
def test_a_killed_redo_is_finished_without_its_number(
    machine: Machine, one: Path, lines: int
) -> None:
    _run("redo", "--yes")
    _cut(machine, 3, lines)
    said = _run("redo", "--yes")
    assert "Redoing operation 1: sessions prune" in said.text
    assert "operation 3 was interrupted, and is finished now" in said.text
    assert len(_document("log")["operations"]) == 3
    assert not one.exists()


@pytest.mark.parametrize("lines", [1, 2])
def test_a_killed_redo_of_a_restore_is_finished_without_its_number(
    machine: Machine, project: Path, lines: int
) -> None:
    first = taken(machine, project)
    captured = contents(project)
    change(project)
    _run("checkpoints", "restore", first, "--yes")
    _undo(machine)
    _run("redo", "--yes")
    _cut(machine, 3, lines)
    said = _run("redo", "--yes")
    assert "operation 3 was interrupted, and is finished now" in said.text
    assert contents(project) == captured
    assert len(_document("log")["operations"]) == 3


def test_after_a_killed_undo_it_says_what_finishes_that(machine: Machine, project: Path) -> None:
    first = taken(machine, project)
    change(project)
    changed = contents(project)
    _run("checkpoints", "restore", first, "--yes")
    _undo(machine)
    _cut(machine, 2, 2)
    for words in (["redo", "--dry-run"], ["redo", "--yes"]):
        said = _run(*words, code=1)
        assert "operation 2 (undo 1) was interrupted and is not finished" in said.text
        assert "To finish it: holdfast undo 1" in said.text
    assert "operation 2 was interrupted" in _run("undo", "1", "--yes").text
    assert contents(project) == changed
    assert "This would redo operation 1: checkpoints restore" in _run("redo", "--dry-run").text


@pytest.mark.parametrize("killed", ["undo", "redo"])
def test_what_was_killed_is_finished_before_a_number_is_refused(
    machine: Machine, project: Path, killed: str
) -> None:
    """It was refused because of the killed operation, which stayed half done."""
    first = taken(machine, project)
    captured = contents(project)
    change(project)
    _run("checkpoints", "restore", first, "--yes")
    _undo(machine)
    _run("redo", "--yes")
    if killed == "undo":
        _undo(machine)
    _cut(machine, 4 if killed == "undo" else 3, 2)
    again = "redo" if killed == "undo" else "undo"
    number = "3" if killed == "undo" else "1"
    _run(again, number, "--dry-run", code=1)
    before = contents(project)
    asked = _run(again, number, code=3)
    assert "was interrupted and is in the way" in asked.text
    assert contents(project) == before
    assert _document("log")["operations"][0]["state"] == "unfinished"
    said = _run(again, number, "--yes", code=0 if killed == "undo" else 1)
    assert "was interrupted, and is finished now" in said.text
    assert _document("log")["operations"][-1]["state"] != "unfinished"
    assert contents(project) == captured


def test_a_later_undo_whose_record_is_damaged_is_not_passed_over(machine: Machine) -> None:
    for _ in range(2):
        machine.transcript()
        _run("sessions", "prune", "--older-than", "1d", "--yes")
    for _ in range(2):
        _undo(machine)
    (machine.home / "operations" / "4.jsonl").write_bytes(b"garbage\n")
    before = entries(machine.home)
    said = _run("redo", "--yes", code=5)
    assert "The record of operation 4 is damaged: it may be the latest, and cannot be redone." in (
        said.text
    )
    assert "The latest before it: holdfast redo 2" in said.text
    assert entries(machine.home) == before


def test_a_refused_number_leaves_a_killed_restore_alone_that_is_not_about_it(
    machine: Machine, project: Path, one: Path
) -> None:
    first = taken(machine, project)
    change(project)
    changed = contents(project)
    machine.ok("checkpoints", "restore", first, "--yes")
    restore = _document("log")["operations"][0]["id"]
    journal = machine.home / "operations" / f"{restore}.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    (project / "src" / "main.py").write_bytes(changed["src/main.py"])  # half done
    before = contents(project)
    for number in ("1", "2"):
        assert "interrupted" not in _run("undo", number, "--yes", code=1).text
        with holdfast.open(machine.home) as home, pytest.raises(CannotUndoError):
            home.undo(number)
    assert contents(project) == before
    assert _document("log")["operations"][0]["state"] == "unfinished"


def test_a_plain_redo_after_a_killed_undo_does_not_take_the_one_before(machine: Machine) -> None:
    machine.transcript(days=1)
    machine.transcript()
    _run("sessions", "prune", "--yes")
    newer = machine.transcript()
    _run("sessions", "prune", "--yes")
    assert not newer.exists()
    _undo(machine)
    _undo(machine)
    _cut(machine, 4, 2)
    said = _run("redo", "--yes", code=1)
    assert (
        "The latest undo, operation 4 (undo 1), was interrupted and is not finished." in said.text
    )
    assert "To finish it: holdfast undo 1" in said.text
    assert "To redo the one before it: holdfast redo 2" in said.text
    assert newer.exists()
    _run("undo", "1", "--yes")
    assert "Redoing operation 1" in _run("redo", "--yes").text


def test_after_a_killed_restore_it_says_what_finishes_that(machine: Machine, project: Path) -> None:
    first = taken(machine, project)
    change(project)
    _run("checkpoints", "restore", first, "--yes")
    _cut(machine, 1, 2)
    said = _run("redo", code=1)
    assert "operation 1 (checkpoints restore" in said.text
    assert "The same command again finishes it." in said.text
    assert "holdfast undo 1" in said.text


def test_two_redoes_at_once_are_one_operation(machine: Machine, project: Path) -> None:
    """The other was still running when this one looked, and had finished when its turn came."""
    first = taken(machine, project)
    captured = contents(project)
    change(project)
    changed = contents(project)
    _run("checkpoints", "restore", first, "--yes")
    _undo(machine)
    with holdfast.open(machine.home) as home:
        planned = home.plan_redo(None)
        _run("redo", "--yes")
        with pytest.raises(CannotUndoError, match="was already redone, by operation 3"):
            planned.apply()
    assert contents(project) == captured
    assert len(_document("log")["operations"]) == 3
    _undo(machine)
    assert contents(project) == changed
