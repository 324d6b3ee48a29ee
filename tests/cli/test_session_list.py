"""`holdfast sessions list`, and what all of these commands say where nothing is."""

from __future__ import annotations

import time

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.session_bench import (
    CJK,
    CRON,
    DISK,
    EMPTY,
    EVERY,
    NAMING,
    PROMISED,
    READING,
    ids,
    line,
    take_in,
)


def test_the_document_of_a_list(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "list")
    assert set(document) == {"sessions", "total"}
    assert document["total"] == 4
    assert [session["id"] for session in document["sessions"]] == EVERY
    for session in document["sessions"]:
        assert session.keys() >= PROMISED
        assert session["started_at"] <= session["last_active_at"] <= time.time()
    disk = document["sessions"][-1]
    assert disk["source"] == "telegram"
    assert disk["end_reason"] == "ended"
    assert disk["ended_at"] >= disk["last_active_at"]
    assert (disk["message_count"], disk["tool_call_count"]) == (4, 1)
    assert (disk["tokens_in"], disk["tokens_out"], disk["tokens_cached"]) == (812, 65, 700)
    assert disk["cost"] == pytest.approx(0.005)
    assert disk["bytes"] > 0
    assert disk["extra"] == {"chat": {"id": 42}}
    branch = document["sessions"][1]
    assert (branch["parent_id"], branch["relation"]) == (DISK, "branch")
    assert branch["ended_at"] is branch["end_reason"] is None


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", EVERY),
        ("--source cron", [CRON]),
        ("--source cron --source telegram", [CRON, DISK]),
        ("--older-than 7d", [CRON, DISK]),
        ("--newer-than 7d", [EMPTY, CJK]),
        ("--newer-than 35d --older-than 12h", [CJK, CRON]),
        ("--title CLEAN", [DISK]),
        ("--title 標題", [CJK]),
        ("--model sonnet", [DISK]),
        ("--cwd /work/alpha", [CJK, DISK]),
        ("--cwd /work/alpha/", [CJK, DISK]),
        ("--cwd /work/alph", []),
        ("--end-reason delivered", [CRON]),
        ("--end-reason delivered --end-reason ended", [CRON, DISK]),
        ("--open", [EMPTY, CJK]),
        ("--ended", [CRON, DISK]),
        ("--pinned", [CJK]),
        ("--not-pinned", [EMPTY, CRON, DISK]),
        ("--min-messages 1 --max-messages 2", [CJK, CRON]),
        ("--max-messages 0", [EMPTY]),
        ("--min-tokens 30 --max-tokens 100", [CRON]),
        ("--min-cost 0.001", [DISK]),
        ("--max-cost 0", [EMPTY, CJK]),  # what a cron job cost is not known
        ("--source cli --open --not-pinned", [EMPTY]),
        ("--not-source cron", [EMPTY, CJK, DISK]),
        ("--not-source cron --not-source cli", [DISK]),
        ("--root-only", [EMPTY, CRON, DISK]),
        ("--relation branch", [CJK]),
        ("--relation delegate", []),
        ("--relation delegate --relation branch", [CJK]),
        ("--title-is 中文標題", [CJK]),
        ("--title-is 中文", []),
        ("--started-after 35d", [EMPTY, CJK, CRON]),
        ("--started-before 35d", [DISK]),
        ("--started-after 35d --started-before 2h", [EMPTY, CJK, CRON]),
        ("--cwd /work --ended --min-messages 4 --title disk", [DISK]),
        ("--source cron --open", []),
        ("--sort started", EVERY),
        ("--sort messages", [DISK, CJK, CRON, EMPTY]),
        ("--sort tokens --limit 2", [DISK, CRON]),
        ("--sort cost --limit 1", [DISK]),
        ("--sort size --limit 1 --offset 1", [CJK]),
        ("--offset 3", [DISK]),
        ("--offset 99", []),
    ],
)
def test_filters_combine(stored_once: Machine, flags: str, expected: list[str]) -> None:
    assert ids(stored_once, *flags.split()) == expected


@pytest.mark.parametrize(
    "flag",
    ["--cwd", "--model", "--title", "--title-is", "--source", "--not-source", "--end-reason"],
)
@pytest.mark.parametrize("command", ["list", "export", "prune --dry-run"])
def test_an_unset_variable_selects_neither_all_nor_none(
    stored_once: Machine, flag: str, command: str
) -> None:
    result = stored_once.run("sessions", *command.split(), f"{flag}=")
    assert (result.code, f"{flag} is empty" in result.err) == (2, True), result.err


def test_the_total_counts_what_the_filters_let_through(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "list", "--source", "cli", "--limit", "1")
    assert len(document["sessions"]) == 1
    assert document["total"] == 2


def test_people_see_twenty_and_scripts_see_all(machine: Machine) -> None:
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}") for n in range(25)))
    assert len(ids(machine)) == 25
    shown = machine.ok("sessions", "list")
    assert sum(row.startswith("2026") for row in shown.lines) == 20
    assert "1 to 20 of 25 sessions. Next page: --offset 20. All: --limit 25." in shown.words


def test_a_list_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "list", env={"COLUMNS": "120"})
    for session_id in EVERY:
        assert session_id in shown.out, "an id is there to be copied, so it is in one piece"
    assert "● 📌 中文標題" in shown.out
    assert "4 sessions. ● is open, 📌 is pinned." in shown.words
    assert "Nothing new in the inbox" in shown.out, "untitled: how it began"
    assert "No sessions match." in stored_once.ok("sessions", "list", "--title", "zzz").out
    assert "past the last session" in stored_once.ok("sessions", "list", "--offset", "9").out


@pytest.mark.parametrize("line", ["list", "search hello", "archive -n", "prune -n"])
@pytest.mark.parametrize(
    ("source", "said"),
    [("clli", "comes from 'clli'; did you mean 'cli'?"), ("xyzzy", "comes from 'xyzzy'.")],
)
def test_a_mistyped_source_is_told(stored_once: Machine, line: str, source: str, said: str) -> None:
    words = [*line.split(), "--source", source]
    assert said in stored_once.ok("sessions", *words).err
    assert "comes from" not in stored_once.ok("sessions", *line.split(), "--source", "cli").err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--newer-than 2d --older-than 3d", "leave no time in between"),
        ("--started-after 2d --started-before 3d", "leave no time in between"),
        ("--started-after tomorrow", "tomorrow"),
        ("--relation cousin", "--relation"),
        ("--older-than yesterday", "yesterday"),
        ("--limit 0", "--limit"),
        ("--offset -1", "--offset"),
        ("--min-messages -1", "--min-messages"),
        ("--sort bytes", "is called 'size' here"),
        ("--sorce cron", "--source"),
    ],
)
def test_a_filter_that_makes_no_sense(stored_once: Machine, flags: str, named: str) -> None:
    result = stored_once.run("sessions", "list", *flags.split())
    assert result.code == 2
    assert named in result.words


@pytest.mark.parametrize("flag", ["--title", "--title-is", "--model", "--cwd"])
def test_a_filter_that_is_no_text(stored_once: Machine, flag: str) -> None:
    result = stored_once.run("sessions", "list", flag, b"\xff")
    assert result.code == 2
    assert flag in result.err


@pytest.mark.parametrize("flag", ["--source", "--end-reason"])
def test_a_filter_that_no_session_can_have(stored_once: Machine, flag: str) -> None:
    assert stored_once.run("sessions", "list", flag, b"\xff").code == 0


# --- Nothing there --------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING)
def test_reading_a_home_without_a_store_creates_nothing(used: Machine, command: str) -> None:
    before = entries(used.root)
    result = used.ok("sessions", *command.split())
    assert result.out.strip()
    assert entries(used.root) == before


@pytest.mark.parametrize("command", NAMING)
def test_naming_a_session_where_there_is_no_store(used: Machine, command: str) -> None:
    before = entries(used.root)
    result = used.run("sessions", *command.replace("ID", DISK).split())
    assert result.code == 2
    assert "no session store" in result.err
    assert "holdfast sessions import" in result.err
    assert entries(used.root) == before


@pytest.mark.parametrize("command", ["list", "search disk", "stats", "show ID", "export --all"])
def test_without_a_home(machine: Machine, command: str) -> None:
    result = machine.run("sessions", *command.replace("ID", DISK).split())
    assert result.code == 2
    assert "There is no home" in result.err
    assert list(machine.user.iterdir()) == []


def test_the_documents_of_nothing(used: Machine) -> None:
    assert used.json("sessions", "list") == {"sessions": [], "total": 0}
    assert used.json("sessions", "search", "disk") == {"hits": [], "more": False, "problems": []}
    stats = used.json("sessions", "stats")
    assert stats["sessions"] is None
    assert stats["largest"] == []
    assert "There is no session store" in used.ok("sessions", "stats").out


@pytest.mark.parametrize("command", [*READING, f"show {DISK}", "export --all"])
def test_reading_a_store_leaves_its_bytes(stored: Machine, command: str) -> None:
    database = stored.home / "sessions.db"
    before = database.read_bytes()
    names = sorted(path.name for path in stored.home.iterdir())
    stored.ok("sessions", *command.split())
    assert database.read_bytes() == before
    assert sorted(path.name for path in stored.home.iterdir()) == names


# --- Little room ----------------------------------------------------------------------------------


def test_an_order_by_the_start_shows_it(stored_once: Machine) -> None:
    inside = Inside(stored_once)
    assert "started" in inside.ok("sessions", "list", "--sort", "started").lines[0].split()
    assert "started" not in inside.ok("sessions", "list").lines[0].split()


@pytest.mark.parametrize("order", ["active", "size", "cost"])
def test_columns_go_before_an_id_is_cut(machine: Machine, order: str) -> None:
    long_id = "cron_price-watch_20261104_070633"
    take_in(machine, line(long_id, "a long beginning of a long conversation"))
    words = ("sessions", "list", "--sort", order)
    with machine.terminal(*words, columns=60, env={"NO_COLOR": "1"}) as terminal:
        shown = terminal.end().out
    assert f"{long_id} " in shown
    assert order in shown
    with machine.terminal(*words, columns=40, env={"NO_COLOR": "1"}) as terminal:
        assert long_id not in terminal.end().out
