"""`holdfast sessions stats`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from holdfast import Message
from holdfast.api.sessions import open_sessions
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.cli.machine import Machine
from tests.cli.session_bench import CRON, DISK
from tests.stored import remove_rows


def test_the_document_of_stats(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "stats")
    store = document["sessions"]
    assert (store["sessions"], store["open_sessions"], store["messages"]) == (4, 2, 7)
    assert store["tokens"] == 907
    assert store["cost"] == pytest.approx(0.005)
    assert store["database_bytes"] == (stored_once.home / "sessions.db").stat().st_size
    by_source = {share["name"]: share["count"] for share in store["by_source"]}
    assert by_source == {"telegram": 1, "cli": 2, "cron": 1}
    by_size = {share["name"]: share["count"] for share in store["by_size"] if share["count"]}
    assert by_size == {"empty": 1, "1 to 5": 3}
    averages = {s["name"]: s["count"] for s in store["by_average_message"] if s["count"]}
    assert averages == {"empty": 1, "< 1 kB": 3}
    for shares in ("by_source", "by_age", "by_size", "by_average_message"):
        assert sum(share["count"] for share in store[shares]) == 4
        assert sum(share["bytes"] for share in store[shares]) == store["message_bytes"]
    sizes = [session["bytes"] for session in document["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert document["largest"][0]["id"] == DISK


def test_stats_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "stats")
    assert "4 sessions (2 open), 7 messages" in shown.out
    for word in ("telegram", "< 90 d", "1 to 5", "average message", "database", DISK):
        assert word in shown.out
    assert "In this home now: 4 sessions" in shown.out
    assert (
        "All-time usage, including removed sessions: 907 tokens, cost $0.0050 + unknown"
        in shown.words
    )


def test_usage_stays_when_sessions_go(stored: Machine) -> None:
    before = stored.json("sessions", "stats")["sessions"]["usage"]
    assert before == {
        "tokens_in": 812,
        "tokens_out": 95,
        "tokens_cached": 700,
        "cost": pytest.approx(0.005),
        "unpriced_in": 12,
        "unpriced_out": 30,
        "unpriced_cached": 0,
        "by_day": before["by_day"],
        "by_source": before["by_source"],
        "by_model": before["by_model"],
        "by_task": [],
    }
    sums = {"tokens_in": 0, "tokens_out": 30, "tokens_cached": 0, "cost": 0.0}
    sums |= {"unpriced_in": 0, "unpriced_out": 30, "unpriced_cached": 0}
    assert before["by_source"][1] == {"source": "cron"} | sums
    assert before["by_model"][1] == {"model": None} | sums
    days = [share["day"] for share in before["by_day"]]
    assert len(days) == 2
    assert days == sorted(days, reverse=True)
    with closing(SqliteSessionStore(stored.home / "sessions.db")) as store:
        remove_rows(store, DISK)
    after = stored.json("sessions", "stats")["sessions"]
    assert after["tokens"] == 30
    assert after["usage"] == before
    shown = stored.ok("sessions", "stats").out
    assert "In this home now: 3 sessions (2 open), 3 messages, 30 tokens\n" in shown
    assert "All-time usage, including removed sessions: 907 tokens, cost $0.0050" in shown


def test_a_store_that_used_nothing_says_nothing_of_usage(machine: Machine) -> None:
    with open_sessions(machine.home) as sessions:
        sessions.create(source="cli", id=CRON)
        sessions.append(CRON, Message(role="user", content="hello"))
    assert "All-time usage" not in machine.ok("sessions", "stats").out
    usage = machine.json("sessions", "stats")["sessions"]["usage"]
    assert (usage["tokens_in"], usage["cost"], usage["by_day"]) == (0, 0, [])


def removed_sessions(document: Any) -> tuple[int, int]:
    """How many sessions a plan removes, and what they take of the database."""
    items = document["plan"]["items"]
    going = [i for i in items if i["kind"] == "session" and i["action"] == "remove"]
    return len(going), sum(item["bytes"] for item in going)


TITLED_STAY = "[sessions]\nkeep_titled = true\n"


@pytest.mark.parametrize(
    ("settings", "command", "count"),
    [
        ("", "gc", 2),
        (TITLED_STAY, "gc", 1),
        ("[sessions]\nretention_days = 20", "prune", 2),
        (
            f"{TITLED_STAY}retention_days = 20\n[sessions.source.cron]\nretention_days = 90",
            "prune",
            1,
        ),
        (
            f"{TITLED_STAY}retention_days = 90\n[sessions.source.cron]\nretention_days = 20",
            "prune",
            1,
        ),
    ],
)
def test_the_tip_names_the_command_that_frees_most(
    stored: Machine, settings: str, command: str, count: int
) -> None:
    stored.configure(settings)
    tip = stored.json("sessions", "stats")["tip"]
    plan = stored.json("sessions", command, "--dry-run")
    going, size = removed_sessions(plan)
    assert tip["sessions"] == going == count
    assert tip["bytes"] == pytest.approx(size, abs=count)  # a plan rounds each of them
    shown = stored.ok("sessions", "stats")
    assert f"holdfast sessions {command} --dry-run" in shown.words
    assert tip["why"] in shown.words


def test_no_tip_when_nothing_may_go(stored: Machine) -> None:
    stored.configure("[sessions]\nempty_hours = 0\ntrivial_days = 0\nretention_days = 900")
    assert stored.json("sessions", "stats")["tip"] is None
    assert "holdfast config show" in stored.ok("sessions", "stats").out


def test_stats_count_files_of_stored_sessions_too(stored: Machine) -> None:
    stored.file(stored.sessions / f"session_{DISK}.json", content="{}")
    stored.transcript()
    document = stored.json("sessions", "stats")
    assert [(share["name"], share["count"]) for share in document["by_kind"]] == [("transcript", 2)]


def test_a_file_that_is_too_large_is_shown(stored: Machine) -> None:
    name = "session_20250101_000000_abcdef.json"
    (stored.home / "sessions").mkdir(exist_ok=True)
    (stored.home / "sessions" / name).write_bytes(b"x" * 15_000_000)
    shown = stored.ok("status")
    assert f"sessions/{name}" in shown.words
    assert "larger than one session may be (max_size_mb in [sessions])" in shown.words
    assert f"sessions/{name}" in stored.ok("sessions", "stats").words
    assert stored.json("status")["homes"][0]["large_files"][0]["file"] == f"sessions/{name}"
