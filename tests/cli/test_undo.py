"""Undo where it cannot simply work: done already, its place taken, its copy damaged or gone."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.model.plan import Plan
from holdfast.model.plan_words import for_good
from holdfast.spine import carry_out
from holdfast.stores.journal import FileJournal
from tests.cli.every_command import say
from tests.cli.machine import Machine, age, entries


@pytest.fixture
def one(machine: Machine) -> Path:
    """The path of a transcript that operation 1 removed; operation 1 removed another one too."""
    path = machine.transcript()
    machine.transcript()
    machine.ok("sessions", "prune", "--yes")
    return path


def _copy(machine: Machine, of: Path) -> Path:
    [copy] = machine.trash.rglob(f"*{of.name}")
    return copy


def test_nothing_to_undo(machine: Machine) -> None:
    machine.transcript(days=1)
    result = machine.run("undo")
    assert result.code == 1
    assert "nothing to undo" in result.err


def test_undo_twice(machine: Machine, one: Path) -> None:
    machine.ok("undo", "1")
    before = entries(machine.home)
    by_id, by_default, the_undo = (machine.run("undo", *args) for args in (["1"], [], ["2"]))
    assert by_id.code == by_default.code == the_undo.code == 1
    assert "was already undone, by operation 2" in by_id.err
    assert "nothing left to undo" in by_default.err
    assert "operation 1 (sessions prune), undone by operation 2" in " ".join(by_default.err.split())
    assert "is itself an undo, of operation 1" in the_undo.err
    assert entries(machine.home) == before


def test_undo_takes_the_latest(machine: Machine) -> None:
    first, second = machine.transcript(source="cron"), machine.transcript(source="cli")
    machine.ok("sessions", "prune", "--source", "cron", "--yes")
    machine.ok("sessions", "prune", "--source", "cli", "--yes")
    machine.ok("undo")
    assert (first.exists(), second.exists()) == (False, True)
    machine.ok("undo", "--yes")
    assert (first.exists(), second.exists()) == (True, True)


def test_the_place_was_taken_again(machine: Machine, one: Path) -> None:
    newer = machine.file(one, days=0, content="newer")
    older = _copy(machine, one).read_bytes()
    result = machine.run("undo")
    assert result.code == 1
    assert "1 brought back, 1 failed" in result.out
    assert "something else is in its place" in result.words
    assert newer.read_text() == "newer"
    assert _copy(machine, one).read_bytes() == older
    assert machine.json("log")["operations"][-1]["state"] == "partly undone"

    newer.rename(machine.root / "moved away")
    assert machine.json("undo")["report"]["brought_back"] == 1
    assert one.read_bytes() == older
    assert (machine.root / "moved away").read_text() == "newer"
    assert machine.json("log")["operations"][-1]["state"] == "undone"


@pytest.mark.parametrize("kind", ["folder", "link", "dangling"])
def test_the_place_was_taken_by_something_else(machine: Machine, one: Path, kind: str) -> None:
    target = machine.file(machine.root / "target")
    if kind == "folder":
        one.mkdir()
    else:
        one.symlink_to(target if kind == "link" else machine.root / "nowhere")
    assert machine.json("undo", code=1)["report"]["failed"] == 1
    assert target.read_text() == "mine"
    assert one.is_dir() if kind == "folder" else one.is_symlink()
    assert _copy(machine, one).is_file()
    assert not (machine.root / "nowhere").exists()


def test_a_damaged_copy(machine: Machine, one: Path) -> None:
    copy = _copy(machine, one)
    copy.write_text("scribbled over")
    result = machine.run("undo")
    assert result.code == 5
    assert "1 brought back, 1 failed" in result.out
    assert "changed" in result.words
    assert not one.exists()
    assert copy.read_text() == "scribbled over"


def test_damage_of_the_same_length_is_seen(machine: Machine, one: Path) -> None:
    copy = _copy(machine, one)
    copy.write_bytes(bytes(len(copy.read_bytes())))
    assert machine.json("undo", code=5)["report"]["failed"] == 1


def test_a_copy_that_is_gone(machine: Machine, one: Path) -> None:
    _copy(machine, one).unlink()
    result = machine.run("undo")
    assert result.code == 5
    assert "no longer in the trash" in result.words
    assert len(machine.names()) == 1


def test_a_trash_that_is_gone(machine: Machine, one: Path) -> None:
    for copy in list(machine.trash.rglob("*.json")):
        copy.unlink()
    (machine.trash / "1").rmdir()
    machine.trash.rmdir()
    assert machine.json("undo", code=5)["report"]["failed"] == 2
    assert machine.run("log").code == 0


def test_a_sessions_folder_that_is_gone(machine: Machine, one: Path) -> None:
    machine.sessions.rmdir()
    assert machine.json("undo")["report"]["brought_back"] == 2
    assert one.exists()


def test_a_copied_home_can_be_undone(machine: Machine, one: Path) -> None:
    """A restored backup has other inodes; what was in the trash is still the same."""
    copy = machine.root / "copy"
    shutil.copytree(machine.home, copy, symlinks=True)
    document = machine.json("--home", str(copy), "undo")
    assert document["report"]["brought_back"] == 2
    assert not one.exists()


# --- Two at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["sessions prune --yes", "undo"])
def test_a_home_that_is_busy(machine: Machine, one: Path, command: str) -> None:
    machine.transcript()
    before = entries(machine.sessions), entries(machine.trash)
    with (machine.home / "operations" / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate()
        lock.write("process 7, `holdfast undo`")
        lock.flush()
        result = machine.run(*command.split())
    assert result.code == 4
    assert f"Another process is changing {machine.home}" in result.err
    assert "process 7, `holdfast undo`" in result.err
    assert "Wait" in result.err
    assert (entries(machine.sessions), entries(machine.trash)) == before
    assert machine.run(*command.split()).code == 0


def test_looking_does_not_wait(machine: Machine, one: Path) -> None:
    with (machine.home / "operations" / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("status", "log", "trash list", "undo --dry-run", "sessions prune -n"):
            machine.ok(*command.split())


# --- A damaged log --------------------------------------------------------------------------------


def _damage(machine: Machine) -> Path:
    return machine.home / "operations" / "2.jsonl"


def test_log_names_the_damage_and_lists_the_rest(damaged: Machine) -> None:
    result = damaged.run("log")
    assert result.code == 5
    assert f"{_damage(damaged)}:2" in result.err
    document = damaged.json("log", code=5)
    assert [operation["id"] for operation in document["operations"]] == ["3", "1"]
    [problem] = document["problems"]
    assert problem["path"] == str(_damage(damaged))


def test_other_operations_can_still_be_undone(damaged: Machine) -> None:
    content = _damage(damaged).read_bytes()
    assert damaged.json("undo")["undone"] == "3"
    assert damaged.json("undo", "1", "--yes")["report"]["brought_back"] == 1
    assert _damage(damaged).read_bytes() == content
    assert len(list(damaged.trash.rglob("*.json"))) == 1


def test_a_damaged_log_does_not_stop_a_prune(damaged: Machine) -> None:
    damaged.transcript()
    result = damaged.ok("sessions", "prune", "--yes")
    assert str(_damage(damaged)) in result.err
    assert "(operation 4)" in result.out
    assert "2.jsonl" in damaged.ok("status").words.replace(" ", "")


def test_undo_of_a_damaged_operation_says_so(damaged: Machine) -> None:
    """It did happen, and its file is in the trash: "there is no operation 2" would be wrong."""
    before = entries(damaged.home)
    result = damaged.run("undo", "2")
    assert result.code == 5
    assert str(_damage(damaged)) in result.err
    assert entries(damaged.home) == before


def test_a_torn_last_line_is_no_damage(machine: Machine, one: Path) -> None:
    """A kill can cut the last line short; the next command that writes settles it."""
    journal = machine.home / "operations" / "1.jsonl"
    journal.write_bytes(journal.read_bytes().rstrip(b"\n")[:-5])
    [operation] = machine.json("log")["operations"]
    assert operation["state"] == "unfinished"
    assert "interrupted" in machine.ok("status").words
    machine.ok("undo")
    assert one.exists()
    assert machine.json("log")["operations"][-1]["state"] == "undone"


def test_it_says_what_an_undo_that_a_full_disk_stopped_had_brought_back(
    machine: Machine, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(carry_out, "_first", lambda _: 1)
        full.setattr(FileJournal, "record", _no_room)
        assert say("--home", str(machine.home), "undo").code != 0
    assert len(list(one.parent.iterdir())) == 1  # one of two, and the log does not say so
    said = say("--home", str(machine.home), "undo")
    assert said.code == 0
    assert "1 brought back" in said.text
    assert "warning: operation 2 was interrupted, and is finished now." in said.text
    assert "operation 2 brought back 1 item of this; the report has the rest" in said.text
    assert len(list(one.parent.iterdir())) == 2


def _no_room(*_: object) -> None:
    raise StorageError("Cannot write the operation log: the disk is full.")


def test_a_stray_file_in_the_log_is_nothing(machine: Machine, one: Path) -> None:
    machine.file(machine.home / "operations" / "notes.txt")
    machine.file(machine.home / "operations" / "x.jsonl")
    age(machine.file(machine.home / "operations" / "1.jsonl.bak"), 3)
    assert machine.json("log")["problems"] == []


@pytest.mark.parametrize(
    ("flags", "some"),
    [
        (["--now"], "This"),
        (["--max-total-size", "250kB"], "This"),
        (["--max-total-size", "900kB", "--older-than", "60d"], " of it"),
        (["--older-than", "60d"], ""),
    ],
)
def test_plan_and_report_say_how_much_goes_for_good(
    machine: Machine, flags: list[str], some: str
) -> None:
    for days in (100, 90, 80, 50, 40, 1):
        machine.transcript(days=days, kb=200)
    words = ["sessions", "prune", *flags]
    plan = Plan.from_json(machine.json(*words, "--dry-run")["plan"])
    final = [item for item in plan.removals if not item.undoable]
    assert bool(final) is bool(some)
    warning = for_good(plan.removals)
    assert some in warning
    if some == " of it":
        assert 0 < len(final) < len(plan.removals)
        assert warning.startswith(f"{len(final)} item")
    dry, done = machine.ok(*words, "--dry-run"), machine.ok(*words, "--yes")
    assert dry.words.count("cannot be undone") == (1 if warning else 0)
    assert warning in dry.lines
    # Once where all of it goes for good; of a part, the report says how large it was in the end.
    assert done.words.count("cannot be undone") == {"": 0, "This": 1, " of it": 2}[some]
    if len(final) == len(plan.removals):
        refused = machine.run("undo")
        assert refused.code == 1
        assert ("--now" in refused.err) is ("--now" in flags)
        assert ("cap" in refused.err) is ("--now" not in flags)
