"""Saved plans: what is applied is what was saved, on the home it was saved for."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.cli.machine import Machine, age, entries, item_id, removals


@pytest.fixture
def saved(used: Machine) -> Path:
    """A plan for everything that is older than 90 days."""
    used.ok("sessions", "prune", "--plan-out", "plan.json")
    return used.root / "plan.json"


def _last_line(text: str) -> list[str]:
    """The suggested command, as a shell would read it."""
    return shlex.split(text.splitlines()[-1])


def test_saving_removes_nothing(used: Machine) -> None:
    before = entries(used.home)
    result = used.ok("sessions", "prune", "--plan-out", "plan.json", "--yes")
    assert "The plan removes 5 items" in result.out
    assert entries(used.home) == before
    assert (used.root / "plan.json").stat().st_mode & 0o777 == 0o600


def test_apply_does_what_the_plan_says(used: Machine, saved: Path) -> None:
    planned = removals(used.json("sessions", "prune", "--dry-run"))
    assert removals(used.json("apply", str(saved), "--dry-run")) == planned
    assert len(used.names()) == 7
    done = used.json("apply", str(saved), "--yes")
    assert removals(done) == planned
    assert done["report"]["removed"] == 5
    command = used.json("log")["operations"][0]["command"]
    assert command.startswith(f"apply {saved}: sessions prune")
    assert used.json("undo")["report"]["brought_back"] == 5


def test_apply_asks(used: Machine, saved: Path) -> None:
    with used.terminal("apply", str(saved)) as terminal:
        terminal.wait_for("Remove 5 items, ")
        terminal.type("y\n")
        assert terminal.end().code == 0
    assert len(used.names()) == 2


@pytest.mark.parametrize("name", ["plan.json", "my plan.json", "-plan.json", "~plan"])
def test_the_suggested_command_works(used: Machine, name: str) -> None:
    home = used.home.rename(used.root / "-odd home")
    result = used.run("--home", f"./{home.name}", "sessions", "prune", "--plan-out", name)
    assert result.code == 0
    program, *words = _last_line(result.out)
    assert program == "holdfast"
    assert used.run(*words, "--yes").code == 0
    assert len(list((home / "sessions").iterdir())) == 2


def test_the_suggested_undo_works_on_another_home(used: Machine) -> None:
    home = used.home.rename(used.root / "another home")
    result = used.ok("--home", str(home), "sessions", "prune", "--yes")
    program, *words = _last_line(result.out)
    assert program == "holdfast"
    assert "5 brought back" in used.ok(*words).out


def test_a_plan_without_removals(machine: Machine) -> None:
    machine.transcript(days=3)
    machine.ok("sessions", "prune", "--plan-out", "plan.json")
    assert machine.json("apply", str(machine.root / "plan.json"))["applied"] is False


def test_an_earlier_plan_is_replaced(used: Machine, saved: Path) -> None:
    used.ok("sessions", "prune", "--source", "telegram", "--plan-out", str(saved))
    assert len(removals(used.json("apply", str(saved), "--dry-run"))) == 2


def test_something_else_is_not_replaced(used: Machine) -> None:
    mine = used.file(used.root / "notes.txt")
    result = used.run("sessions", "prune", "--plan-out", str(mine))
    assert result.code == 2
    assert str(mine) in result.err
    assert "left alone" in result.err
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("place", ["missing/plan.json", "user", "file/plan.json"])
def test_a_place_where_no_plan_can_be(used: Machine, place: str) -> None:
    used.file(used.root / "file")
    before = entries(used.root)
    result = used.run("sessions", "prune", "--plan-out", place, "--yes")
    assert result.code == 2
    assert place.partition("/")[0] in result.err
    assert entries(used.root) == before


# --- Bad plans ------------------------------------------------------------------------------------


def test_an_edited_plan_is_refused(used: Machine, saved: Path) -> None:
    before = entries(used.home)
    saved.write_text(saved.read_text().replace('"action": "keep"', '"action": "remove"'))
    for flags in (["--yes"], ["--dry-run"]):
        result = used.run("apply", str(saved), *flags)
        assert result.code == 2
        assert "edited or damaged" in result.err
    assert entries(used.home) == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "null",
        "not json",
        '{"holdfast_plan": 1}',
        '{"holdfast_plan": 1, "seal": "x", "plan": {}}',
        '{"holdfast_plan": 99, "seal": "x", "plan": {}}',
        "[" * 100_000,
        "\x00\xff",
    ],
    ids=["empty", "object", "list", "null", "text", "bare", "hollow", "newer", "deep", "binary"],
)
def test_something_that_is_no_plan(used: Machine, content: str) -> None:
    before = entries(used.home)
    plan = used.root / "plan.json"
    plan.write_bytes(content.encode("latin-1"))
    result = used.run("apply", str(plan), "--yes")
    assert result.code == 2
    assert str(plan) in result.err
    assert entries(used.home) == before


def test_a_folder_is_no_plan(used: Machine) -> None:
    result = used.run("apply", str(used.user), "--yes")
    assert result.code == 2
    assert "is not a file" in result.err


def test_a_plan_from_another_home(used: Machine, saved: Path) -> None:
    other = used.root / "other"
    used.transcript(home=other)
    before = entries(other), entries(used.home)
    for flags in (["--yes"], ["--dry-run"], []):
        result = used.run("--home", str(other), "apply", str(saved), *flags)
        assert result.code == 2
        assert str(used.home) in result.err
        assert str(other) in result.err
        assert result.out == ""
    assert (entries(other), entries(used.home)) == before
    assert used.run("--home", str(used.home), "apply", str(saved), "--yes").code == 0


def test_a_sealed_plan_cannot_reach_outside(used: Machine, saved: Path) -> None:
    """Anybody can make a seal; a plan still touches nothing but session files."""
    from holdfast.model.plan import Plan
    from holdfast.stores import plan_file

    mine = used.file(used.home / "precious")
    body = json.loads(saved.read_text())["plan"]
    first, second = [item for item in body["items"] if item["action"] == "remove"][:2]
    first["id"] = "sessions/../precious"
    second["id"] = "sessions/sessions.json"
    plan_file.save(Plan.from_json(body), saved)
    document = used.json("apply", str(saved), "--yes", code=1)
    assert document["report"]["failed"] == 2
    assert mine.read_text() == "mine"
    assert "sessions.json" in used.names()


# --- Plans that are older than the state ----------------------------------------------------------


def test_a_file_that_changed_is_skipped_and_reported(used: Machine, saved: Path) -> None:
    changed = used.numbered(2)
    with changed.open("a") as more:
        more.write("more")
    age(changed, 100)
    result = used.run("apply", str(saved), "--yes")
    assert result.code == 0
    assert "4 removed, 1 skipped" in result.out
    assert "changed since the plan was made" in result.words
    assert changed.read_text().endswith("more")


def test_a_file_that_was_replaced_or_is_gone_or_is_open(used: Machine, saved: Path) -> None:
    replaced, gone, held = (
        next(path for path in used.sessions.iterdir() if f"00000{n}" in path.name)
        for n in (1, 2, 3)
    )
    status = replaced.stat()
    content = replaced.read_bytes()
    (used.sessions / "new").write_bytes(content)
    (used.sessions / "new").replace(replaced)
    os.utime(replaced, ns=(status.st_mtime_ns, status.st_mtime_ns))
    gone.unlink()
    with held.open("rb"):
        document = used.json("apply", str(saved), "--yes")
    skipped = {
        item["id"]: item["reason"]
        for item in document["report"]["items"]
        if item["result"] == "skipped"
    }
    assert skipped == {
        item_id(replaced): "changed since the plan was made",
        item_id(gone): "already gone",
        item_id(held): "open in another process",
    }
    assert document["report"]["removed"] == 2
    assert replaced.read_bytes() == content


def test_when_all_changed_it_failed(used: Machine, saved: Path) -> None:
    for path in used.sessions.iterdir():
        os.utime(path)
    before = entries(used.sessions)
    document = used.json("apply", str(saved), "--yes", code=1)
    assert document["report"]["removed"] == 0
    assert document["report"]["skipped"] == 5
    assert entries(used.sessions) == before


def test_a_plan_applied_twice(used: Machine, saved: Path) -> None:
    used.ok("apply", str(saved), "--yes")
    document = used.json("apply", str(saved), "--yes", code=1)
    assert document["report"]["skipped"] == 5
    assert {item["reason"] for item in document["report"]["items"]} == {"already gone"}
    assert used.json("undo", "1")["report"]["brought_back"] == 5
