"""The command on a home of Hermes, as its owner uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.machine import Machine
from tests.compat.hermes_sessions import (
    ABANDONED,
    OLD,
    check,
    database,
    files,
    recorded,
    seen,
    session_ids,
)

FIRST, ODD = "20260101_101010_aaaaaa", "api:chat/1"
#: What has no end stays, however long ago it was used.
OPEN = {"20260108_000000_routed", "20260502_000000_open00", ABANDONED}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A user who has Hermes, and has never heard of Holdfast."""
    made = Machine(root=tmp_path)
    made.user.mkdir()
    recorded(tmp_path).rename(made.user / ".hermes")
    return made


@pytest.fixture
def root(machine: Machine) -> Path:
    return machine.user / ".hermes"


def test_all_homes_of_a_machine_are_shown_side_by_side(machine: Machine, root: Path) -> None:
    profile = root / "profiles" / "coder"
    elsewhere = machine.root / "somewhere else"
    shutil.copytree(root, elsewhere)
    shutil.copytree(elsewhere, profile)
    machine.home.mkdir()
    (machine.home / "config.toml").touch()
    document = machine.json("status", env={"HERMES_HOME": str(elsewhere)})
    found = {each["home"]: (each["kind"], each["version"]) for each in document["homes"]}
    assert found == {
        str(machine.home): ("holdfast", None),
        str(elsewhere): ("hermes", "0.19"),
        str(root): ("hermes", "0.19"),
        str(profile): ("hermes", "0.19"),
    }
    screen = machine.ok("status", env={"HERMES_HOME": str(elsewhere)}).out
    for label in ("hermes 0.19", "hermes/.hermes 0.19", "hermes/coder 0.19", "holdfast"):
        assert label in screen
    sizes = {each["home"]: each["total_bytes"] for each in document["homes"]}
    assert sizes[str(root)] < 2 * sizes[str(elsewhere)], "the profile is counted twice"


def test_a_home_that_is_damaged_does_not_hide_the_others(machine: Machine, root: Path) -> None:
    bad = root / "profiles" / "bad"
    shutil.copytree(root, machine.root / "copy")
    shutil.copytree(machine.root / "copy", bad)
    (bad / "state.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    result = machine.run("status", "--json")
    assert result.code == 5
    assert [each["home"] for each in result.document["homes"]] == [str(root)]
    [failed] = result.document["failed"]
    assert (failed["home"], failed["error"]["kind"]) == (str(bad), "damage")


def test_the_only_home_need_not_be_named(machine: Machine, root: Path) -> None:
    listed = machine.json("sessions", "list")
    assert listed == machine.json("--home", str(root), "sessions", "list")
    assert "holdfast --home hermes sessions prune" in machine.ok("status").out


def test_who_asks_for_a_home_of_ours_is_told_of_the_other(machine: Machine, root: Path) -> None:
    result = machine.run("checkpoints", "list")
    assert result.code == 2
    assert "For the home of Hermes, add --home hermes" in result.err


def test_prune_and_undo_are_an_identity(machine: Machine, root: Path) -> None:
    before = seen(root)
    machine.ok("--home", str(root), "sessions", "prune", "--yes")
    assert session_ids(root) == OPEN
    check(root)
    machine.ok("--home", str(root), "undo")
    assert seen(root) == before


def test_archive_restore_and_export_take_any_id(machine: Machine, root: Path) -> None:
    home = ("--home", str(root))
    machine.ok(*home, "sessions", "archive", ODD, FIRST, "--yes")
    assert not {ODD, FIRST} & session_ids(root)
    assert ODD in machine.ok(*home, "sessions", "list", "--archived").out
    machine.ok(*home, "sessions", "restore", ODD)
    line = json.loads(machine.ok(*home, "sessions", "export", ODD).out)
    assert (line["id"], len(line["messages"])) == (ODD, 2)
    check(root)


def test_maintenance_goes_by_a_policy_of_our_own_beside_what_is_hermess(
    machine: Machine, root: Path
) -> None:
    home = ("--home", str(root))
    theirs = {path.name for path in root.iterdir()}
    assert machine.json(*home, "config", "path")["path"] == str(root / ".holdfast/config.toml")
    machine.ok(*home, "config", "init")
    (root / ".holdfast" / "config.toml").write_text("[sessions]\nauto_prune = true\n")
    machine.ok(*home, "maintain")
    assert session_ids(root) == OPEN
    assert {path.name for path in root.iterdir()} == {*theirs, ".holdfast"}
    line = machine.ok(*home, "maintain", "--install", "cron", "--dry-run").out
    assert f"--home {root} maintain" in line


def test_a_newer_schema_is_read_and_never_written(machine: Machine, root: Path) -> None:
    with database(root) as db:
        db.execute("UPDATE schema_version SET version = 99")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    home = ("--home", str(root))
    before = _content(root)
    assert "99" in machine.ok(*home, "status").words
    assert len(machine.ok(*home, "sessions", "export", "--all").lines) == len(OLD) + 4
    machine.ok(*home, "maintain")  # without auto_prune there is nothing to do
    for words in ("sessions prune --yes", f"sessions archive {FIRST} --yes"):
        result = machine.run(*home, *words.split())
        assert result.code != 0, words
        assert "schema version is 99" in result.err, result
    assert _content(root) == before
    assert machine.json(*home, "log")["operations"] == []


def _content(root: Path) -> list[str]:
    with database(root) as db:
        return [*db.iterdump(), *sorted(files(root))]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (f"sessions pin {FIRST}", "Hermes has no pins"),
        ("sessions import nowhere.jsonl", "a home of Hermes, which writes its sessions itself"),
    ],
)
def test_what_has_no_meaning_there_is_refused(
    machine: Machine, root: Path, words: str, why: str
) -> None:
    (machine.root / "nowhere.jsonl").touch()
    result = machine.run("--home", str(root), *words.split())
    assert result.code == 2
    assert why in result.err


def test_a_check_up_looks_at_hermess_database_and_mends_what_is_ours(
    machine: Machine, root: Path
) -> None:
    home = ("--home", str(root))
    found = machine.json(*home, "doctor")
    checks = {each["check"]: each["message"] for each in found["findings"]}
    assert checks["Hermes's database"] == "schema 22 of Hermes 0.19"
    assert found["ok"]
    with database(root) as db:
        db.execute("DELETE FROM messages_fts WHERE rowid = 1")
    [finding] = [
        each for each in machine.json(*home, "doctor")["findings"] if each["severity"] != "ok"
    ]
    assert (finding["check"], finding["repairable"]) == ("search tables", True)
    machine.ok(*home, "doctor", "--repair", "--yes")
    check(root)


def test_the_trash_names_an_archived_session_by_its_id(machine: Machine, root: Path) -> None:
    """Its bundle has another name: an id that is no name of a file is written differently there."""
    machine.ok("--home", str(root), "sessions", "archive", ODD, "--yes")
    prune = ("sessions", "prune", "--archived", "--older-than", "0s", "--yes")
    machine.ok("--home", str(root), *prune)
    [entry] = machine.json("--home", str(root), "trash", "list")["trash"]
    assert (entry["kind"], entry["session"]) == ("archived_session", ODD)
    machine.ok("--home", str(root), "undo")
    [archived] = machine.json("--home", str(root), "sessions", "list", "--archived")["sessions"]
    assert archived["id"] == ODD
