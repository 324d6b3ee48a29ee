"""`sessions delete` and `sessions end`: what a person does to sessions by name."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.policy.rules import DAY
from holdfast.stores import processes
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries, item_id, reasons, removals
from tests.stored import a_dead_holder, a_line, an_open_line, bring_in, disk_bytes, opened, see

FIRST = "20260325_112518_6995d1"
SECOND = "20260325_112518_6995d2"
THIRD = "20260401_080000_0a0a0a"
OPEN = "20260402_080000_0b0b0b"


def ago(days: float) -> float:
    return time.time() - days * DAY


@pytest.fixture
def four(machine: Machine) -> Machine:
    """Three sessions that have ended, one of them pinned, and one that has not."""
    lines = [
        a_line(FIRST, at=ago(3), title="one"),
        a_line(SECOND, at=ago(2), parent_id=FIRST, relation="branch", messages=3),
        a_line(THIRD, at=ago(1), pinned=True, routing_key="telegram:3"),
        an_open_line(OPEN, at=ago(5)),
    ]
    bring_in(machine.home, lines, now=time.time())
    for name in (FIRST, SECOND, THIRD, OPEN):
        machine.file(machine.sessions / f"{name}.jsonl", days=3)
    return machine


def left(machine: Machine) -> set[str]:
    return set(see(machine.home).sessions)


def sessions_of(document: Any, action: str = "remove") -> list[str]:
    return sorted(
        item["id"]
        for item in document["plan"]["items"]
        if item["kind"] == "session" and item["action"] == action
    )


def test_by_id_with_its_files_and_back(four: Machine) -> None:
    before = see(four.home)
    document = four.json("sessions", "delete", FIRST, "--yes")
    assert removals(document) == [FIRST, f"sessions/{FIRST}.jsonl"]
    assert reasons(document)[FIRST] == "deleted by id"
    assert document["plan"]["bytes"] == sum(
        item["bytes"] for item in document["plan"]["items"] if item["action"] == "remove"
    )
    report = document["report"]
    assert (report["removed"], report["skipped"], report["failed"]) == (2, 0, 0)
    assert report["operation"] == "1"
    assert left(four) == {SECOND, THIRD, OPEN}
    assert see(four.home).sessions[SECOND].parent_id is None
    assert f"{FIRST}.jsonl" not in four.names()
    four.ok("undo")
    assert see(four.home) == before


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("20260401", THIRD), (FIRST, FIRST), ("20260325_112518_6995d2", SECOND)],
)
def test_by_a_prefix_that_is_unique(four: Machine, prefix: str, found: str) -> None:
    assert sessions_of(four.json("sessions", "delete", prefix, "-n")) == [found]


def test_an_ambiguous_prefix_lists_what_it_could_be(four: Machine) -> None:
    before = entries(four.sessions)
    result = four.run("sessions", "delete", "20260325", THIRD, "--yes")
    assert result.code == 2
    assert FIRST in result.err
    assert SECOND in result.err
    assert THIRD not in result.err
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}
    assert entries(four.sessions) == before
    document = four.json("sessions", "delete", "20260325", "--yes", code=2)
    assert document["error"]["kind"] == "usage"


def test_an_unknown_id_gets_a_suggestion(four: Machine) -> None:
    result = four.run("sessions", "delete", "20260325_112518_6995ff", THIRD, "--yes")
    assert result.code == 2
    assert "There is no session '20260325_112518_6995ff'" in result.err
    assert f"Did you mean {FIRST}?" in result.err
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}
    assert four.run("sessions", "delete", "nothing-like-it", "--yes").code == 2


@pytest.mark.parametrize("name", ["../../x", "a/b", "*", "", "%", "a'b", "x" * 300, "é"])
def test_what_is_no_id_is_refused(four: Machine, name: str) -> None:
    result = four.run("sessions", "delete", name, "--yes")
    assert result.code == 2
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}
    assert len(four.names()) == 4


@pytest.mark.parametrize("names", [[""], [FIRST, ""]])
@pytest.mark.parametrize("command", ["delete", "archive", "end", "pin", "restore"])
def test_an_empty_id_is_called_empty(four: Machine, command: str, names: list[str]) -> None:
    result = Inside(four).run("sessions", command, *names)
    assert result.code == 2
    assert "A session id cannot be empty." in result.err
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}


@pytest.mark.parametrize("word", ["--yes", "--home", "-q", "--agent=x"])
def test_the_log_has_what_only_looks_like_a_flag(four: Machine, word: str) -> None:
    inside = Inside(four)
    inside.ok("sessions", "rename", "-q", "--", FIRST, word)
    log = inside.json("log")
    assert isinstance(log, dict)
    assert log["operations"][0]["command"] == f"sessions rename -- {FIRST} {word}"


def test_without_a_name_nothing_is_deleted(four: Machine) -> None:
    assert four.run("sessions", "delete", "--yes").code == 2
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}


def test_several_of_which_one_is_open(four: Machine) -> None:
    """The open one is named and kept with its file, the others go; that is no success."""
    document = four.json("sessions", "delete", FIRST, OPEN, THIRD, "--yes", code=1)
    assert sessions_of(document) == [FIRST, THIRD]
    assert sessions_of(document, "keep") == [OPEN]
    assert reasons(document)[OPEN] == "in use: it has not ended"
    assert document["report"]["removed"] == 4
    assert left(four) == {SECOND, OPEN}
    assert f"{OPEN}.jsonl" in four.names()


def test_an_open_one_alone(four: Machine) -> None:
    result = four.run("sessions", "delete", OPEN, "--yes")
    assert result.code == 1
    assert "in use" in result.words
    assert left(four) == {FIRST, SECOND, THIRD, OPEN}
    assert four.json("log")["operations"] == []


def test_an_open_one_is_named_to_a_person(four: Machine) -> None:
    result = four.run("sessions", "delete", FIRST, OPEN, "--yes")
    assert result.code == 1
    assert OPEN in result.words
    assert "it has not ended" in result.words
    assert "holdfast sessions end" in result.words


def test_a_pin_does_not_protect_what_is_named(four: Machine) -> None:
    before = see(four.home)
    four.ok("sessions", "delete", THIRD, "--yes")
    assert left(four) == {FIRST, SECOND, OPEN}
    four.ok("undo")
    assert see(four.home) == before


def test_the_same_one_twice(four: Machine) -> None:
    document = four.json("sessions", "delete", FIRST, FIRST, "20260325_112518_6995d1", "--yes")
    assert document["report"]["removed"] == 2


def test_now_skips_the_trash(four: Machine) -> None:
    report = four.json("sessions", "delete", FIRST, SECOND, "--now", "--yes")["report"]
    assert (report["removed"], report["bytes_in_trash"]) == (4, 0)
    assert report["bytes_freed"] >= 2 * disk_bytes(four.sessions / f"{THIRD}.jsonl")
    assert list(four.trash.rglob("*")) == []
    assert four.run("undo").code == 1
    assert left(four) == {THIRD, OPEN}


def test_it_asks_and_a_no_is_a_no(four: Machine) -> None:
    assert four.run("sessions", "delete", FIRST).code == 3
    with four.terminal("sessions", "delete", FIRST) as terminal:
        terminal.wait_for("Remove 2 items")
        terminal.type("n\n")
        assert terminal.end().code == 3
    assert FIRST in left(four)
    with four.terminal("sessions", "delete", FIRST) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.end().code == 0
    assert FIRST not in left(four)


def test_a_file_that_is_open_keeps_its_session(four: Machine) -> None:
    held = four.sessions / f"{FIRST}.jsonl"
    with held.open("ab"):
        document = four.json("sessions", "delete", FIRST, "--yes", code=1)
    assert reasons(document)[item_id(held)].startswith("in use: open")
    assert FIRST in left(four)
    assert held.exists()


def test_a_home_without_a_store(machine: Machine) -> None:
    machine.transcript()
    result = machine.run("sessions", "delete", FIRST, "--yes")
    assert result.code == 2
    assert "no session store" in result.err
    assert not (machine.home / "sessions.db").exists()


# --- end ------------------------------------------------------------------------------------------


def test_an_open_session_is_ended_by_hand_and_then_goes(four: Machine) -> None:
    before = time.time()
    document = four.json("sessions", "end", OPEN[:10], "--reason", "gave up")
    assert document["session"]["end_reason"] == "gave up"
    assert document["session"]["ended_at"] >= before
    four.ok("sessions", "delete", OPEN, "--yes")
    assert OPEN not in left(four)


def test_the_end_of_a_session_that_has_one_stays(four: Machine) -> None:
    before = see(four.home)
    four.ok("sessions", "end", FIRST, "--reason", "other")
    assert see(four.home) == before


def test_a_session_that_a_process_holds_is_not_ended(four: Machine) -> None:
    with opened(four.home) as store:
        store.hold(OPEN, processes.this_process(), now=ago(5))
    before = see(four.home)
    result = four.run("sessions", "end", OPEN)
    assert result.code == 4
    assert f"Session {OPEN} was not ended: a process holds it open" in result.err
    assert see(four.home) == before
    with opened(four.home) as store:
        store.release(OPEN, processes.this_process())
        store.hold(OPEN, a_dead_holder(), now=ago(5))
    assert "has ended." in four.ok("sessions", "end", OPEN).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["20260325"], SECOND),
        (["20269999"], "no session"),
        ([OPEN, "--reason", " "], "cannot be empty"),
        ([], "ID"),
    ],
)
def test_what_cannot_be_ended(four: Machine, words: list[str], said: str) -> None:
    before = see(four.home)
    result = four.run("sessions", "end", *words)
    assert result.code == 2
    assert said in result.words
    assert see(four.home) == before
