"""`sessions gc`: what was never worth keeping goes, and nobody goes for having come from it."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from holdfast.policy.rules import DAY
from holdfast.stores import processes
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.cli.machine import Machine, item_id, reasons, removals
from tests.cli.runner import COMMAND
from tests.stored import a_dead_holder, a_line, an_open_line, bring_in, check_whole, opened, see


def ago(days: float) -> float:
    return time.time() - days * DAY


def sessions_of(document: Any, action: str = "remove") -> list[str]:
    return sorted(
        item["id"]
        for item in document["plan"]["items"]
        if item["kind"] == "session" and item["action"] == action
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Sessions of every size and age; only ever looked at."""
    machine = Machine(root=tmp_path_factory.mktemp("small"))
    machine.home.mkdir(parents=True)
    lines = [
        a_line("empty-23h", at=ago(23 / 24), messages=0),
        a_line("empty-25h", at=ago(25 / 24), messages=0),
        a_line("empty-49h", at=ago(49 / 24), messages=0, source="cron"),
        a_line("one-6d", at=ago(6), messages=1),
        a_line("one-8d", at=ago(8), messages=1),
        a_line("five-8d", at=ago(8), messages=5, source="cron"),
        a_line("six-8d", at=ago(8), messages=6),
        a_line("six-900d", at=ago(900), messages=6),
        a_line("titled", at=ago(900), messages=0, title="worth it"),
        a_line("pinned", at=ago(900), messages=0, pinned=True),
        an_open_line("open", at=ago(900), messages=0),
    ]
    bring_in(machine.home, lines, now=time.time())
    return machine


@pytest.mark.parametrize(
    ("flags", "going"),
    [
        ("", "empty-25h empty-49h five-8d one-8d titled"),
        ("--keep-titled", "empty-25h empty-49h five-8d one-8d"),
        ("--empty-hours 48", "empty-49h five-8d one-8d titled"),
        ("--empty-hours 0", "five-8d one-8d"),
        ("--empty-hours 0.5", "empty-23h empty-25h empty-49h five-8d one-8d titled"),
        ("--trivial-days 5", "empty-25h empty-49h five-8d one-6d one-8d titled"),
        ("--trivial-days 0", "empty-25h empty-49h titled"),
        ("--trivial-max 4", "empty-25h empty-49h one-8d titled"),
        ("--trivial-max 6", "empty-25h empty-49h five-8d one-8d six-8d six-900d titled"),
        ("--trivial-max 0", "empty-25h empty-49h titled"),
        ("--source cron", "empty-49h five-8d"),
        ("--source cron --source cli --trivial-days 9999", "empty-25h empty-49h titled"),
        ("--empty-hours 0 --trivial-days 7.5 --trivial-max 1 --source cli", "one-8d"),
        ("--empty-hours 9999 --trivial-days 9999 --keep-titled", ""),
    ],
)
def test_every_number_is_a_flag(small: Machine, flags: str, going: str) -> None:
    document = small.json("sessions", "gc", *flags.split(), "--dry-run")
    assert sessions_of(document) == going.split()


def test_defaults_are_those_of_the_configuration(small: Machine) -> None:
    more = {"HOLDFAST_SESSIONS_EMPTY_HOURS": "48", "HOLDFAST_SESSIONS_TRIVIAL_MAX": "1"}
    document = small.json("sessions", "gc", "--dry-run", env=more)
    assert sessions_of(document) == ["empty-49h", "one-8d", "titled"]
    more |= {"HOLDFAST_SESSIONS_KEEP_TITLED": "true"}
    kept = small.json("sessions", "gc", "--dry-run", env=more)
    assert sessions_of(kept) == ["empty-49h", "one-8d"]
    asked = small.json("sessions", "gc", "--dry-run", "--titled-too", env=more)
    assert sessions_of(asked) == ["empty-49h", "one-8d", "titled"]


def test_reasons_say_why(small: Machine) -> None:
    why = reasons(small.json("sessions", "gc", "--dry-run"))
    assert why["empty-25h"] == "empty: last active 25 h ago"
    assert why["five-8d"] == "trivial: 5 messages, last active 8 d ago"
    assert why["titled"] == "empty: last active 900 d ago"
    assert why["pinned"] == "pinned"
    assert why["open"] == "in use: it has not ended"
    assert why["empty-23h"].startswith("younger than 24 h")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--empty-hours -1", "-1"),
        ("--trivial-days x", "'x'"),
        ("--trivial-max 2.5", "2.5"),
        ("--empty-hours nan", "nan"),
        ("--empty-hours 0 --trivial-days 0", "empty and for trivial sessions are both off"),
    ],
)
def test_what_makes_no_sense_is_an_error(small: Machine, flags: str, said: str) -> None:
    result = small.run("sessions", "gc", *flags.split(), "--yes")
    assert result.code == 2
    assert said in result.words


def test_a_source_that_is_not_there_gets_a_suggestion(small: Machine) -> None:
    result = small.run("sessions", "gc", "--source", "corn", "--yes")
    assert result.code == 0
    assert "did you mean 'cron'" in result.err


def test_a_home_without_a_store_has_nothing_to_collect(machine: Machine) -> None:
    machine.transcript(days=100)
    document = machine.json("sessions", "gc", "--yes")
    assert (document["applied"], document["plan"]["items"]) == (False, [])
    assert len(machine.names()) == 1


def test_the_document_of_a_gc(machine: Machine) -> None:
    lines = [a_line(f"e{n}", at=ago(2), messages=0) for n in range(3)]
    bring_in(machine.home, [*lines, a_line("big", at=ago(2))], now=time.time())
    mine = machine.file(machine.sessions / "request_dump_e1_20250101_000000.json", days=2)
    orphan = machine.transcript(days=900)
    document = machine.json("sessions", "gc", "--yes")
    assert document["applied"] is True
    assert removals(document) == ["e0", "e1", "e2", item_id(mine)]
    assert document["plan"]["bytes"] == sum(
        item["bytes"] for item in document["plan"]["items"] if item["action"] == "remove"
    )
    report = document["report"]
    assert (report["removed"], report["skipped"], report["failed"]) == (4, 0, 0)
    assert report["operation"] == "1"
    assert report["bytes_freed"] >= 0
    assert not mine.exists()
    assert orphan.exists(), "files without a session are no business of gc"
    assert machine.json("undo")["report"]["brought_back"] == 4


def test_now_skips_the_trash(machine: Machine) -> None:
    bring_in(machine.home, [a_line("e", at=ago(2), messages=0)], now=time.time())
    report = machine.json("sessions", "gc", "--now", "--yes")["report"]
    assert (report["removed"], report["bytes_in_trash"]) == (1, 0)
    assert list(machine.trash.rglob("*")) == []
    assert machine.run("undo").code == 1


def test_without_yes_and_without_a_terminal_nothing_goes(machine: Machine) -> None:
    bring_in(machine.home, [a_line("e", at=ago(2), messages=0)], now=time.time())
    result = machine.run("sessions", "gc")
    assert result.code == 3
    assert see(machine.home).sessions.keys() == {"e"}


# --- Families -------------------------------------------------------------------------------------


def test_a_substantial_child_survives_its_trivial_parent(machine: Machine) -> None:
    lines = [
        a_line("parent", at=ago(30), messages=1),
        a_line("big", at=ago(20), messages=6, parent_id="parent", relation="delegate"),
        a_line("small", at=ago(1), messages=2, parent_id="parent", relation="delegate"),
        a_line("branch", at=ago(1), messages=2, parent_id="parent", relation="branch"),
        a_line("grandchild", at=ago(1), messages=1, parent_id="small", relation="delegate"),
    ]
    bring_in(machine.home, lines, now=time.time())
    before = see(machine.home)
    document = machine.json("sessions", "gc", "--yes")
    assert sessions_of(document) == ["grandchild", "parent", "small"]
    assert reasons(document)["small"] == "delegate of a session that is removed: parent"
    after = see(machine.home)
    assert after.sessions.keys() == {"big", "branch"}
    assert {session.parent_id for session in after.sessions.values()} == {None}
    assert after.messages["big"] == before.messages["big"]
    machine.ok("undo")
    assert see(machine.home) == before


def _attached(store: SqliteSessionStore) -> int:
    """How many still have their parent."""
    with store.database.read() as db:
        [count] = db.execute("SELECT count(*) FROM sessions WHERE parent IS NOT NULL").fetchone()
        return int(count)


@pytest.mark.deep
def test_three_thousand_children_are_attached_in_one_step(machine: Machine) -> None:
    children = (
        a_line(f"c{n}", at=ago(5), messages=1, parent_id="parent", relation="branch")
        for n in range(3_000)
    )
    parent = a_line("parent", at=ago(5), messages=0)
    bring_in(machine.home, [parent, *children], now=time.time())
    before = see(machine.home)
    seen = {3_000}
    with opened(machine.home) as store, (machine.root / "out").open("w+") as out:
        command = [*COMMAND, "--json", "sessions", "gc", "--yes"]
        process = subprocess.Popen(command, env=machine.env(), stdout=out)
        while process.poll() is None:
            seen.add(_attached(store))
        assert (process.returncode, _attached(store)) == (0, 0)
        out.seek(0)
        assert sessions_of(json.load(out)) == ["parent"]
    assert seen <= {0, 3_000}, "somebody saw some of them with their parent, and some without"
    machine.ok("undo")
    assert see(machine.home) == before
    check_whole(machine.home)


# --- Abandoned ------------------------------------------------------------------------------------


def test_sessions_without_an_end_stay_whatever_became_of_their_process(machine: Machine) -> None:
    lines = [an_open_line(name, at=ago(9), messages=1) for name in ("dead", "held", "nobodys")]
    bring_in(machine.home, lines, now=time.time())
    with opened(machine.home) as store:
        store.hold("dead", a_dead_holder(), now=ago(9))
        store.hold("held", processes.this_process(), now=ago(9))
    before = see(machine.home)
    document = machine.json("sessions", "gc", "--yes")
    assert (sessions_of(document), sessions_of(document, "end")) == ([], [])
    assert document["applied"] is False
    assert see(machine.home) == before
