"""Names, pins and ends are operations: undo takes back the last of them, and redo does it again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.cli.checkpoint_bench import taken
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.session_bench import CJK, CRON, DISK, EMPTY, fill
from tests.contract.agent_homes import make_codex


@pytest.fixture
def run(machine: Machine) -> Inside:
    fill(machine.home)
    return Inside(machine)


def _session(run: Inside, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = run.ok("--json", "sessions", "show", name).document["session"]
    return shown


@pytest.mark.parametrize(
    ("words", "name", "did", "undone"),
    [
        (("rename", DISK, "other"), DISK, "is now called 'other'", "again"),
        (("pin", CRON, DISK), CRON, "is pinned", "is no longer pinned"),
        (("end", CJK), CJK, "has ended", "is open again"),
        (("end", CJK, "--reason", "mine"), CJK, "has ended (mine)", "is open again"),
    ],
)
def test_undo_takes_back_the_last_thing_done(
    run: Inside, words: tuple[str, ...], name: str, did: str, undone: str
) -> None:
    run.ok("sessions", "end", EMPTY)
    run.ok("sessions", "delete", EMPTY, "--yes")
    before = _session(run, name)
    assert did in run.ok("sessions", *words).out
    after = _session(run, name)
    assert after != before
    dry = run.ok("undo", "--dry-run")
    assert "Nothing was changed." in dry.out
    assert _session(run, name) == after
    back = run.ok("undo")
    assert f"Undoing operation 3: sessions {words[0]}" in back.out
    assert undone in back.out
    assert _session(run, name) == before
    assert run.run("sessions", "show", EMPTY).code != 0  # what was done earlier stays done
    assert run.ok("redo", "--yes").code == 0
    assert _session(run, name) | {"ended_at": 0, "last_active_at": 0} == after | {
        "ended_at": 0,
        "last_active_at": 0,
    }
    run.ok("undo")
    assert _session(run, name) == before


def test_several_at_once_are_one_operation(run: Inside) -> None:
    run.ok("sessions", "pin", DISK, CRON)
    assert "2 changed" in run.ok("log").out
    run.ok("undo")
    assert not any(_session(run, each)["pinned"] for each in (DISK, CRON))


def test_what_is_already_so_is_no_operation(run: Inside) -> None:
    run.ok("sessions", "pin", DISK)
    again = run.ok("--json", "sessions", "pin", DISK).document
    assert (again["operation"], again["session"]["pinned"]) == (None, True)
    assert len(run.ok("--json", "log").document["operations"]) == 1


def test_a_name_that_changed_since_stays(run: Inside) -> None:
    run.ok("sessions", "rename", DISK, "one")
    run.ok("sessions", "rename", DISK, "two")
    refused = run.run("undo", "1", answers="y\n")
    assert "Session " not in refused.out  # no change is shown that is then refused
    assert refused.code == 1
    assert f"session {DISK} was changed again since, by operation 2." in refused.words
    assert "holdfast undo 2" in refused.words
    assert "[y/N]" not in refused.err
    assert _session(run, DISK)["title"] == "two"
    run.ok("undo")
    assert _session(run, DISK)["title"] == "one"
    back = run.ok("undo", "1", "-y")
    assert _session(run, DISK)["title"] != "one"
    assert "1 changed back" in back.out
    assert "brought back" not in back.out + run.ok("log").out


def test_an_older_removal_is_redone_after_a_rename(run: Inside) -> None:
    """A rename is no leaving: what has its old name again is removed again."""
    run.ok("sessions", "delete", DISK, CRON, "--yes")
    run.ok("undo")
    run.ok("sessions", "rename", CRON, "other")
    run.ok("undo")
    redone = run.ok("redo", "1", "--yes")
    assert "2 removed" in redone.out


def test_a_refusal_is_no_operation(run: Inside) -> None:
    assert run.run("sessions", "end", CJK, "--reason", "").code == 2
    assert run.ok("--json", "log").document["operations"] == []


def test_checkpoints_too(run: Inside, project: Path) -> None:
    first = taken(run.machine, project)
    run.ok("checkpoints", "rename", first, "good")
    run.ok("checkpoints", "pin", first)
    undone = run.ok("undo")
    assert f"Checkpoint {first[:12]} is no longer pinned." in undone.out
    run.ok("undo", "1", "-y")
    shown = run.ok("--json", "checkpoints", "show", first).document["checkpoint"]
    assert (shown["name"], shown["pinned"]) == (None, False)
    assert "'good'" in run.ok("redo", "1", "--dry-run").out
    run.ok("redo", "1", "-y")
    assert run.ok("--json", "checkpoints", "show", first).document["checkpoint"]["name"] == "good"


@pytest.mark.parametrize(
    ("first", "second"),
    [(("rename", DISK, "one"), ("rename", DISK, "two")), (("pin", DISK), ("unpin", DISK))],
)
def test_all_that_was_undone_is_redone_in_order(
    run: Inside, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    """A redo of the first change is no reason to forget that the second was undone too."""
    before = _session(run, DISK)
    run.ok("sessions", *first)
    run.ok("sessions", *second)
    after = _session(run, DISK)
    for _ in range(2):  # a redo can be undone and done again as well
        run.ok("undo")
        run.ok("undo", "--yes")
        assert _session(run, DISK) == before
        assert f": sessions {first[0]}" in run.ok("redo", "--yes").out
        assert f": sessions {second[0]}" in run.ok("redo", "--yes").out
        assert _session(run, DISK) == after
        assert "everything that was undone was redone" in run.run("redo", "--yes").err


def test_restores_of_one_project_are_redone_in_order(run: Inside, project: Path) -> None:
    file = project / "a.txt"
    file.write_text("one")
    first = taken(run.machine, project)
    file.write_text("two")
    second = taken(run.machine, project)
    file.write_text("three")
    run.ok("checkpoints", "restore", first, "--yes")
    run.ok("checkpoints", "restore", second, "--yes")
    run.ok("undo", "--yes")
    run.ok("undo", "--yes")
    assert file.read_text() == "three"
    run.ok("redo", "--yes")
    assert file.read_text() == "one"
    run.ok("redo", "--yes")
    assert file.read_text() == "two"


def test_changes_of_several_kinds_are_redone_in_order(run: Inside) -> None:
    for words in (("rename", CJK, "one"), ("end", CJK), ("rename", CJK, "")):
        run.ok("sessions", *words)
    for _ in range(3):
        run.ok("undo", "--yes")
    done = [run.ok("redo", "--yes").out.splitlines()[0] for _ in range(3)]
    assert [line.split()[:3] for line in done] == [["Redoing", "operation", f"{n}:"] for n in "123"]
    session = _session(run, CJK)
    assert (session["title"], session["end_reason"]) == (None, "ended")


def test_another_rename_ends_what_can_be_redone(run: Inside) -> None:
    run.ok("sessions", "rename", DISK, "one")
    run.ok("undo")
    run.ok("sessions", "rename", DISK, "two")
    assert "was changed again since" in run.run("redo", "1", "--yes").err
    assert "has left or changed since" in run.run("redo", "--yes").err


def test_redone_out_of_order_it_is_not_forgotten(run: Inside) -> None:
    run.ok("sessions", "rename", DISK, "one")
    run.ok("sessions", "rename", DISK, "two")
    run.ok("undo")
    run.ok("undo", "--yes")
    assert run.run("redo", "2", "--yes").code == 1  # it changes a name that is not there yet
    run.ok("redo", "--yes")
    assert "holdfast redo 2" in run.run("redo", "--yes").words
    run.ok("redo", "2", "--yes")
    assert _session(run, DISK)["title"] == "two"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("rename", CRON, "one"), "trash"),
        (("rename", CRON, "one"), "archive"),
        (("end", CJK), "trash"),
    ],
)
def test_what_left_since_comes_back_first(run: Inside, change: tuple[str, ...], place: str) -> None:
    name = change[1]
    run.ok("sessions", *change)
    removes = "delete" if place == "trash" else "archive"
    run.ok("sessions", removes, name, "--yes")
    number = run.ok("--json", "log").document["operations"][0]["id"]
    refused = run.run("undo", "1", answers="y\n")
    assert f"session {name} is in the {place} since operation {number}." in refused.words
    assert f"Undo operation {number} (sessions {removes} {name}) first:" in refused.words
    run.ok("undo")
    run.ok("undo", "1", "--yes")


def test_an_undo_starts_from_what_is_there(run: Inside) -> None:
    """One of two sessions left: the other is shown, and it alone changes."""
    run.ok("sessions", "pin", DISK, CRON)
    run.ok("sessions", "unpin", CRON)
    run.ok("sessions", "delete", CRON, "--yes")
    run.ok("sessions", "rename", DISK, "other")
    shown = run.run("undo", "1", answers="y\n")
    assert f"This takes back 1 change: Session {DISK} pinned → not pinned" in shown.words
    assert f"Session {CRON} is in the trash since operation 3." in shown.words
    assert "Since then you ran operations 2 to 4 (the last: sessions rename" in shown.words
    assert shown.err.splitlines()[-1] == "Undo operation 1? [y/N]: "
    assert (shown.code, "1 changed back, 1 failed" in shown.out) == (1, True)
    assert not _session(run, DISK)["pinned"]


def test_changed_by_the_agent_since(run: Inside) -> None:
    run.ok("sessions", "rename", DISK, "one")
    with holdfast.open(run.machine.home) as home:
        home.sessions.rename(DISK, "the agent's")
    refused = run.run("undo", "--dry-run")
    assert (refused.code, "but not through Holdfast" in refused.words) == (1, True)
    assert run.run("undo", "--yes").code == 1
    assert _session(run, DISK)["title"] == "the agent's"


def test_unpinning_what_was_not_pinned_says_so(run: Inside, project: Path) -> None:
    assert f"Session {DISK} was not pinned." in run.ok("sessions", "unpin", DISK).out
    first = taken(run.machine, project)
    said = run.ok("checkpoints", "unpin", first)
    assert f"Checkpoint {first[:12]} was not pinned." in said.out


def test_a_pin_of_the_agent_itself_is_the_agents_to_take_away(machine: Machine) -> None:
    root = machine.user / ".codex"
    make_codex(root)
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db, db:
        [(name,)] = db.execute("SELECT id FROM threads ORDER BY id LIMIT 1").fetchall()
        db.execute("UPDATE threads SET is_pinned = 1 WHERE id = ?", (name,))
    run = Inside(machine)
    home = ("--home", str(root))
    assert "ended, pinned" in run.ok(*home, "sessions", "list", "--pinned").out
    said = run.ok(*home, "sessions", "unpin", name, "--dry-run").out
    assert f"Session {name} would stay pinned: it is pinned in Codex itself." in said
    refused = run.run(*home, "sessions", "unpin", name)
    assert refused.code == 2
    assert f"Session {name} is pinned in Codex itself" in refused.err
    assert "is pinned." in run.ok(*home, "sessions", "pin", name).out
