"""`holdfast doctor` in real processes: what it says, how it ends, and what it touches."""

from __future__ import annotations

import contextlib
import random
import re
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.cli.machine import Machine, entries
from tests.cli.privileges import as_nobody_special
from tests.trees import everything

NOW = 1_800_000_000.0
CHECKS = [
    "configuration",
    "access",
    "permissions",
    "session store",
    "pages",
    "references",
    "messages",
    "totals",
    "search index",
    "write-ahead log",
    "archive",
    "checkpoint store",
    "operation log",
    "trash",
    "operations",
]


@pytest.fixture
def kept(machine: Machine) -> Machine:
    """A private home with a session store."""
    with contextlib.closing(SqliteSessionStore(database(machine))) as store:
        store.create(Session(id="one", source="cli", started_at=NOW, last_active_at=NOW))
        store.append(
            "one",
            [Message(role="user", content=f"<{n}> word{n} same") for n in range(900)],
            now=NOW,
        )
    return machine


def database(machine: Machine) -> Path:
    return machine.home / "sessions.db"


def execute(machine: Machine, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(database(machine), isolation_level=None)) as db:
        db.execute(statement)


def tear(machine: Machine, place: int) -> None:
    data = bytearray(database(machine).read_bytes())
    data[place : place + 4096] = random.Random(1).randbytes(4096)
    database(machine).write_bytes(data)


def problems(document: Any) -> dict[str, str]:
    return {f["check"]: f["severity"] for f in document["findings"] if f["severity"] != "ok"}


def finding(document: Any, check: str) -> Any:
    return next(each for each in document["findings"] if each["check"] == check)


def count(machine: Machine) -> int:
    with contextlib.closing(SqliteSessionStore(database(machine), create=False)) as store:
        return len(store.search(Search(text="same", wanted=SessionFilter(), limit=2000)))


def test_a_sound_home(kept: Machine) -> None:
    before = entries(kept.home)
    document = kept.json("doctor")
    assert document.keys() == {"findings", "hooks", "ok"}
    assert document["ok"] is True
    assert [each["check"] for each in document["findings"]] == CHECKS
    assert problems(document) == {}
    assert "No problems were found." in kept.ok("doctor").out
    assert entries(kept.home) == before


def test_an_empty_home(machine: Machine) -> None:
    machine.home.mkdir(mode=0o700)
    document = machine.json("doctor")
    assert (document["ok"], problems(document)) == (True, {})
    assert finding(document, "session store")["message"] == "no store exists yet"
    assert list(machine.home.iterdir()) == []


def test_no_home(machine: Machine) -> None:
    assert machine.run("doctor").code == 2
    assert not machine.home.exists()


def test_a_folder_that_is_no_home(machine: Machine) -> None:
    machine.file(machine.home / "notes.txt")
    assert machine.run("doctor").code == 2


def test_a_broken_configuration_does_not_keep_it_from_looking(kept: Machine) -> None:
    kept.configure("trash_dayz = 3")
    document = kept.json("doctor")
    assert problems(document) == {"configuration": "warning"}
    assert "trash_dayz" in finding(document, "configuration")["message"]


def test_warnings_alone_are_no_damage(kept: Machine) -> None:
    kept.home.chmod(0o755)
    database(kept).chmod(0o644)
    transcript = kept.transcript()
    kept.sessions.chmod(0o700)
    document = kept.json("doctor")
    assert (document["ok"], problems(document)) == (True, {"permissions": "warning"})
    assert "3 files and folders" in finding(document, "permissions")["message"]
    kept.ok("doctor", "--repair", "--yes")
    assert problems(kept.json("doctor")) == {}
    for path, mode in ((kept.home, 0o700), (database(kept), 0o600), (transcript, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert not list(kept.home.glob("*.backup-*")), "nothing of the store was changed"


def test_links_are_not_followed_when_rights_are_taken(kept: Machine) -> None:
    theirs = kept.file(kept.root / "theirs")
    theirs.chmod(0o644)
    kept.sessions.mkdir(mode=0o700)
    (kept.sessions / "link.json").symlink_to(theirs)
    kept.home.chmod(0o755)
    kept.ok("doctor", "--repair", "--yes")
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE sessions SET message_count = 1", "totals"),
        ("DELETE FROM message_index_data WHERE id > 10", "search index"),
        ("DELETE FROM sessions", "references"),
        ("UPDATE messages SET form = 2, body = x'00' WHERE number = 3", "messages"),
    ],
)
def test_damage_in_a_store_with_sound_pages(kept: Machine, statement: str, check: str) -> None:
    execute(kept, statement)
    before = entries(kept.home)
    document = kept.json("doctor", code=5)
    assert document["ok"] is False
    assert finding(document, check)["severity"] == "damage"
    assert "--repair" in finding(document, check)["advice"]
    assert kept.run("doctor").code == 5
    assert entries(kept.home) == before
    document = kept.json("doctor", "--repair", "--yes")
    assert (document["ok"], problems(document)) == (True, {})
    assert Path(document["repair"]["backup"]).exists()


def test_an_index_out_of_step_is_mended_and_found_again(kept: Machine) -> None:
    execute(
        kept,
        "UPDATE message_index_data SET block = (SELECT block FROM message_index_data WHERE id = 1) "
        "WHERE id > 10",
    )
    kept.json("doctor", code=5)
    kept.ok("doctor", "--repair", "--yes")
    assert count(kept) == 900


def test_torn_pages(kept: Machine) -> None:
    tear(kept, database(kept).read_bytes().index(b"<700> ") // 4096 * 4096)
    before = entries(kept.home)
    document = kept.json("doctor", code=5)
    assert problems(document) == {"pages": "damage"}
    assert entries(kept.home) == before
    document = kept.json("doctor", "--repair", "--yes")
    [loss] = document["repair"]["losses"]
    assert (loss["what"], loss["exact"]) == ("message", True)
    assert any(first <= 701 <= last for first, last in loss["ranges"])
    assert count(kept) == 900 - loss["count"]
    assert document["ok"] is True


def test_what_was_done_and_lost_is_said(kept: Machine) -> None:
    tear(kept, database(kept).read_bytes().index(b"<700> ") // 4096 * 4096)
    assert "doctor --repair` repairs it" in kept.run("doctor").out
    out = kept.ok("doctor", "--repair", "--yes").out
    assert "repairs it" not in out, "it is just being repaired"
    assert "Done: saved every readable row into a new store." in out
    words = " ".join(out.split())
    assert re.search(r"Lost: (\d+) messages: \1 of session one\.", words)
    assert "No problems were found." not in words
    assert words.endswith("The backup holds the store as it was.")
    assert "sessions.db.backup-" in out.replace("\n", "")


def test_a_damaged_header(kept: Machine) -> None:
    data = database(kept).read_bytes()
    database(kept).write_bytes(bytes(40) + data[40:])
    assert "not a database" in finding(kept.json("doctor", code=5), "session store")["message"]
    document = kept.json("doctor", "--repair", "--yes")
    assert (document["repair"]["losses"], count(kept)) == ([], 900)


def test_a_file_of_which_nothing_can_be_saved(kept: Machine) -> None:
    database(kept).write_bytes(b"no database at all " * 5000)
    found = finding(kept.json("doctor", code=5), "session store")
    assert (found["severity"], found["repairable"]) == ("damage", False), "nothing is promised"
    assert "nothing in it is readable" in found["advice"]
    assert kept.json("doctor", "--repair", "--yes", code=5)["repair"] is None
    assert database(kept).read_bytes() == b"no database at all " * 5000


def test_newer_and_foreign_stores_are_left_alone(kept: Machine) -> None:
    for statement, code in (("PRAGMA user_version = 99", 0), ("PRAGMA application_id = 1", 5)):
        execute(kept, statement)
        before = entries(kept.home)
        document = kept.json("doctor", code=code)
        assert "left alone" in finding(document, "session store")["message"]
        kept.json("doctor", "--repair", "--yes", code=code)
        assert entries(kept.home) == before


def test_a_store_that_may_not_be_read(kept: Machine) -> None:
    database(kept).chmod(0o000)
    result = kept.run("--json", "doctor", before=as_nobody_special())
    assert result.code == 5
    found = finding(result.document, "session store")
    assert (found["severity"], found["repairable"]) == ("damage", False)
    assert "owns it" in found["advice"]


def test_a_store_in_use_is_looked_at_all_the_same(kept: Machine) -> None:
    with contextlib.closing(SqliteSessionStore(database(kept))) as store, store.transaction():
        store.append("one", [Message(role="user", content="unfinished")], now=NOW)
        assert problems(kept.json("doctor")) == {}


def test_a_locked_store(kept: Machine) -> None:
    with contextlib.closing(sqlite3.connect(database(kept), isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE sessions SET title = 'x'")
        db.execute("COMMIT")
        document = kept.json("doctor")
    assert problems(document) == {"session store": "warning"}


def test_a_damaged_store_in_use_waits_for_its_programs(kept: Machine) -> None:
    tear(kept, database(kept).read_bytes().index(b"<700> ") // 4096 * 4096)
    with contextlib.closing(SqliteSessionStore(database(kept))) as store:
        store.append("one", [Message(role="user", content="in use")], now=NOW)
        result = kept.run("doctor", "--repair", "--yes")
    assert result.code == 4
    assert "Close every program" in result.err


def test_a_record_that_cannot_be_read(damaged: Machine) -> None:
    document = damaged.json("doctor", code=5)
    assert finding(document, "operation log")["severity"] == "damage"
    assert "2.jsonl" in finding(document, "operation log")["message"]


def test_undo_copies_that_are_gone(pruned: Machine) -> None:
    next(each for each in pruned.trash.rglob("*") if each.is_file()).unlink()
    document = pruned.json("doctor", code=5)
    found = finding(document, "trash")
    assert found["severity"] == "damage"
    assert "1 undo copy" in found["message"]
    assert "operation 1" in found["message"]


def test_an_interrupted_operation_is_settled(pruned: Machine) -> None:
    journal = pruned.home / "operations" / "1.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    assert problems(pruned.json("doctor"))["operations"] == "warning"
    document = pruned.json("doctor", "--repair", "--yes")
    assert "settled operation 1" in document["repair"]["steps"]
    assert problems(document) == {}


def test_without_a_terminal_it_refuses(kept: Machine) -> None:
    execute(kept, "UPDATE sessions SET bytes = 1")
    before = entries(kept.home)
    result = None
    for flags in ((), ("--json",)):
        result = kept.run(*flags, "doctor", "--repair", stdin="y\n")
        assert result.code == 3
        assert "no terminal" in result.err
        assert "--yes" in result.err
    assert result is not None
    assert result.document["repair"] is None
    assert entries(kept.home) == before


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
def test_anything_but_yes_changes_nothing(kept: Machine, answer: str) -> None:
    execute(kept, "UPDATE sessions SET bytes = 1")
    before = entries(kept.home)
    with kept.terminal("doctor", "--repair") as terminal:
        terminal.wait_for("Repair totals? [y/N]")
        terminal.type(answer)
        result = terminal.end()
    assert result.code == 3
    assert "Nothing was changed." in result.err
    assert entries(kept.home) == before


def test_yes_repairs(kept: Machine) -> None:
    execute(kept, "UPDATE sessions SET bytes = 1")
    with kept.terminal("doctor", "--repair") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        result = terminal.end()
    assert result.code == 0
    assert "recounted the totals of 1 session" in result.out
    assert problems(kept.json("doctor")) == {}


def test_nothing_to_mend_asks_nothing(kept: Machine) -> None:
    before = entries(kept.home)
    document = kept.json("doctor", "--repair")
    assert document["repair"] is None
    assert entries(kept.home) == before


@pytest.fixture
def project(machine: Machine) -> Path:
    """A folder of the user with some of the names that a home has."""
    project = machine.user / "project"
    for name in ("sessions", "checkpoints", "trash"):
        (project / name).mkdir(parents=True)
        (project / name / "notes.txt").write_text("mine " * 1_000)
    (project / "config.toml").write_text("")
    for each in (project, *project.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return project


def test_a_folder_that_may_not_be_a_home_is_not_repaired(machine: Machine, project: Path) -> None:
    before = everything(project)
    for flags in ([], ["--repair"], ["--repair", "--yes"]):
        said = machine.run("--home", str(project), "doctor", *flags)
        assert "only Holdfast writes" in " ".join(said.out.split()), said
        after = everything(project)
        assert {path: after[path] for path in before} == before
        assert stat.S_IMODE(project.stat().st_mode) == 0o755


def test_a_trash_folder_of_the_user_is_not_our_trash(machine: Machine, project: Path) -> None:
    shown = machine.ok("--home", str(project), "status").out
    assert "in the trash" not in shown
    assert "trash empty" not in shown
