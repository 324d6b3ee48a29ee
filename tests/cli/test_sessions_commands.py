"""`holdfast sessions` on a session store: everything but what removes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from holdfast import Message, Relation, Sessions, Tokens, open_sessions
from holdfast.model.session import Json
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.cli.machine import DAY, Machine, entries
from tests.cli.runner import COMMAND, PATIENCE

DISK = "20260101_090000_aaaaaa"
CRON = "cron_inbox-digest_20260110_090000"
CJK = "20260120_090000_cccccc"
EMPTY = "20260120_090000_cccddd"
EVERY = [EMPTY, CJK, CRON, DISK]  # the last active first

#: What SPEC §9 promises of a session in a list.
PROMISED = {
    "id",
    "source",
    "parent_id",
    "started_at",
    "last_active_at",
    "ended_at",
    "end_reason",
    "message_count",
    "bytes",
}
READING = [
    "list",
    "list --source cron --older-than 1d",
    "search disk",
    "search --part disk",
    "stats",
]
NAMING = ["show ID", "rename ID TITLE", "pin ID", "export --all", "export ID"]


class Time:
    """A clock that the builder of a store sets."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now

    def days_ago(self, days: float) -> None:
        self.now = time.time() - days * DAY


def fill(home: Path) -> None:
    """Four sessions: one that used a tool, one of a cron job, one in Chinese, one without words."""
    clock = Time()
    with open_sessions(home, clock=clock) as sessions:
        clock.days_ago(40)
        _about_the_disk(sessions)
        clock.days_ago(30)
        sessions.create(source="cron", id=CRON)
        said = "Nothing new in the inbox; the backup has total_size 14 MB."
        sessions.append(CRON, Message(role="assistant", content=said, tokens=30))
        sessions.end(CRON, "delivered")
        clock.days_ago(1)
        sessions.create(
            source="cli",
            id=CJK,
            title="中文標題",
            cwd="/work/alpha/sub",
            parent_id=DISK,
            relation=Relation.BRANCH,
        )
        parts: Json = [{"type": "text", "text": "先看看 max_total_size_mb"}, {"type": "image"}]
        sessions.append(
            CJK,
            Message(role="user", content="磁碟已滿怎麼辦"),
            Message(role="assistant", content=parts),
        )
        sessions.pin(CJK)
        clock.days_ago(0.1)
        sessions.create(source="cli", id=EMPTY)


def _about_the_disk(sessions: Sessions) -> None:
    sessions.create(
        source="telegram",
        id=DISK,
        title="Disk clean-up",
        model="Sonnet-4",
        cwd="/work/alpha",
        routing_key="telegram:42",
        extra={"chat": {"id": 42}},
    )
    call: Json = {"id": "c1", "function": {"name": "shell", "arguments": '{"command":"du -sh *"}'}}
    sessions.append(
        DISK,
        Message(role="user", content="The disk is full. What can go?", tokens=12),
        Message(
            role="assistant",
            content="Let me look.",
            tool_calls=[call],
            tokens=Tokens(input=800, output=25, cached=700),
            cost=0.002,
        ),
        Message(role="tool", content="12G\tcheckpoints", tool_name="shell", tool_call_id="c1"),
        Message(role="assistant", content="Old checkpoints can go.", tokens=40, cost=0.003),
    )
    sessions.end(DISK)


@pytest.fixture(scope="session")
def stored_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """For tests that only read; a home of its own is `stored`."""
    machine = Machine(root=tmp_path_factory.mktemp("stored"))
    machine.user.mkdir(mode=0o700)
    fill(machine.home)
    return machine


@pytest.fixture
def stored(tmp_path: Path, stored_once: Machine) -> Machine:
    shutil.copytree(stored_once.user, tmp_path / "user")
    return Machine(root=tmp_path)


def ids(machine: Machine, *flags: str) -> list[str]:
    document = machine.json("sessions", "list", *flags)
    return [session["id"] for session in document["sessions"]]


def line(session_id: str, *texts: str, **more: Any) -> str:
    """A line of an export, with as little as one may have."""
    messages = [{"role": "user", "content": text} for text in texts]
    required = {"id": session_id, "source": "cli", "started_at": 1_700_000_000.0}
    return json.dumps({**required, "messages": messages, **more}) + "\n"


def take_in(machine: Machine, text: str, *flags: str, code: int = 0) -> Any:
    result = machine.run("--json", "sessions", "import", "-", *flags, stdin=text)
    assert result.code == code, result
    return result.document


def export(machine: Machine, *args: str) -> str:
    return machine.ok("sessions", "export", *args).out


# --- list -------------------------------------------------------------------------------------


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
        ("--max-cost 0", [EMPTY, CJK, CRON]),
        ("--source cli --open --not-pinned", [EMPTY]),
        ("--cwd /work --ended --min-messages 4 --title disk", [DISK]),
        ("--source cron --open", []),
        ("--sort started", EVERY),
        ("--sort messages", [DISK, CJK, CRON, EMPTY]),
        ("--sort tokens --limit 2", [DISK, CRON]),
        ("--sort cost --limit 1", [DISK]),
        ("--sort bytes --limit 1 --offset 1", [CJK]),
        ("--offset 3", [DISK]),
        ("--offset 99", []),
    ],
)
def test_filters_combine(stored_once: Machine, flags: str, expected: list[str]) -> None:
    assert ids(stored_once, *flags.split()) == expected


def test_the_total_counts_what_the_filters_let_through(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "list", "--source", "cli", "--limit", "1")
    assert len(document["sessions"]) == 1
    assert document["total"] == 2


def test_people_see_twenty_and_scripts_see_all(machine: Machine) -> None:
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}") for n in range(25)))
    assert len(ids(machine)) == 25
    shown = machine.ok("sessions", "list")
    assert sum(row.startswith("2026") for row in shown.lines) == 20
    assert "1 to 20 of 25" in shown.words


def test_a_list_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "list")
    for session_id in EVERY:
        assert session_id in shown.out, "an id is there to be copied, so it is in one piece"
    assert "● 📌 中文標題" in shown.out
    assert "1 to 4 of 4" in shown.words
    assert "No sessions match." in stored_once.ok("sessions", "list", "--title", "zzz").out
    assert "No sessions so far down." in stored_once.ok("sessions", "list", "--offset", "9").out


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--newer-than 2d --older-than 3d", "leave no time in between"),
        ("--older-than yesterday", "yesterday"),
        ("--limit 0", "--limit"),
        ("--offset -1", "--offset"),
        ("--min-messages -1", "--min-messages"),
        ("--sort size", "--sort"),
        ("--sorce cron", "--source"),
    ],
)
def test_a_filter_that_makes_no_sense(stored_once: Machine, flags: str, named: str) -> None:
    result = stored_once.run("sessions", "list", *flags.split())
    assert result.code == 2
    assert named in result.words


@pytest.mark.parametrize("flag", ["--title", "--model", "--cwd"])
def test_a_filter_that_is_no_text(stored_once: Machine, flag: str) -> None:
    result = stored_once.run("sessions", "list", flag, b"\xff")
    assert result.code == 2
    assert flag in result.err
    for other in ("--source", "--end-reason"):
        assert stored_once.run("sessions", "list", other, b"\xff").code == 0


# --- Nothing there ----------------------------------------------------------------------------


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


@pytest.mark.parametrize("command", [*READING, *NAMING])
def test_without_a_home(machine: Machine, command: str) -> None:
    result = machine.run("sessions", *command.replace("ID", DISK).split())
    assert result.code == 2
    assert "There is no home" in result.err
    assert list(machine.user.iterdir()) == []


def test_the_documents_of_nothing(used: Machine) -> None:
    assert used.json("sessions", "list") == {"sessions": [], "total": 0}
    assert used.json("sessions", "search", "disk") == {"hits": []}
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


# --- show -------------------------------------------------------------------------------------


def test_a_conversation_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "show", DISK)
    assert shown.lines[0] == "Disk clean-up"
    assert f"{DISK}  telegram  Sonnet-4  /work/alpha" in shown.lines
    said = ["The disk is full", "Let me look.", "du -sh", "12G checkpoints", "Old checkpoints"]
    places = [shown.out.index(text) for text in said]
    assert places == sorted(places), "in the order in which it was said"
    assert f"branch of {DISK}" in stored_once.ok("sessions", "show", CJK).out
    assert "[image]" in stored_once.ok("sessions", "show", CJK).out


def test_the_document_of_a_conversation(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "show", DISK)
    assert set(document) == {"session", "messages", "checkpoints"}
    assert document["session"]["id"] == DISK
    first, second, third, fourth = document["messages"]
    assert first["role"] == "user"
    assert first["content"] == "The disk is full. What can go?"
    assert first["tokens"] == 12
    assert second["tokens"] == {"in": 800, "out": 25, "cached": 700}
    assert second["tool_calls"][0]["function"]["name"] == "shell"
    assert (third["tool_name"], third["tool_call_id"]) == ("shell", "c1")
    assert third["content"] == "12G\tcheckpoints"
    numbers = [message["number"] for message in (first, second, third, fourth)]
    assert numbers == sorted(set(numbers))
    last = stored_once.json("sessions", "show", DISK, "--last", "1")
    assert last["messages"] == [fourth]
    assert last["session"]["message_count"] == 4


def test_a_long_message_is_shortened_unless_asked(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", "x" * 5_000))
    short = machine.ok("sessions", "show", "2026")
    assert "1,000 more characters; --whole shows them." in short.words
    assert machine.ok("sessions", "show", "2026", "--whole").out.count("x") == 5_000


@pytest.mark.parametrize("command", ["show", "pin", "export"])
def test_a_unique_beginning_stands_for_an_id(stored: Machine, command: str) -> None:
    assert DISK in stored.ok("sessions", command, "20260101").out


@pytest.mark.parametrize("command", ["show ID", "rename ID new"])
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("20260120", f"{CJK}, {EMPTY}"),
        ("20260101_090000_aaaaab", f"Did you mean {DISK}?"),
        ("CRON_INBOX-DIGEST_20260110_090000", f"Did you mean {CRON}?"),
        ("zzz", "holdfast sessions list"),
        ("../sessions.db", "is not a session id"),
        ("2026*", "is not a session id"),
        ("", "cannot be empty"),
        ("x" * 300, "at most 128 characters"),
    ],
)
def test_an_id_that_is_none(stored_once: Machine, command: str, typed: str, said: str) -> None:
    words = [typed if word == "ID" else word for word in command.split()]
    result = stored_once.run("sessions", *words)
    assert result.code == 2
    assert said in result.words
    assert result.out == ""


# --- search -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["disk"], [DISK]),
        (["DISK", "full"], [DISK]),
        (['"disk is full"'], [DISK]),
        (['"full disk"'], []),
        (["check*"], [DISK, DISK]),
        (["inbox OR disk"], [CRON, DISK]),
        (["checkpoints", "NOT", "old"], [DISK]),
        (["--", "checkpoints", "-old"], [DISK]),
        (["(inbox OR disk) full"], [DISK]),
        (["total_size"], [CRON, CJK]),
        (["otal_siz"], []),
        (["--part", "otal_siz"], [CJK, CRON]),
        (["已滿"], [CJK]),
        (["滿怎"], [CJK]),
        (["--role", "tool", "checkpoints"], [DISK]),
        (["--role", "user", "checkpoints"], []),
        (["--source", "cron", "inbox OR disk"], [CRON]),
        (["--older-than", "35d", "inbox OR disk"], [DISK]),
        (["--limit", "1", "check*"], [DISK]),
        (["--offset", "2", "check*"], []),
    ],
)
def test_what_a_search_finds(
    stored_once: Machine, words: list[str], expected: Sequence[str]
) -> None:
    hits = stored_once.json("sessions", "search", *words)["hits"]
    found = [hit["session"] for hit in hits]
    assert sorted(found) == sorted(expected)
    for hit in hits:
        assert hit.keys() == {
            "session",
            "source",
            "title",
            "message",
            "role",
            "timestamp",
            "snippet",
            "score",
        }
        assert "[" in hit["snippet"]
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_a_search_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "search", "disk")
    assert f"{DISK}  user" in shown.out
    assert "The [disk] is full. What can go?" in shown.out


def test_what_is_not_found_gets_a_command_that_works(stored_once: Machine) -> None:
    """As typed by a shell: quotes and dollar signs of the query do nothing there."""
    typed = "$(touch oops) 'a b'"
    shown = stored_once.ok("--home", str(stored_once.home), "sessions", "search", typed)
    assert "Nothing was found" in shown.out
    suggested = shown.lines[-1].strip()
    assert suggested.startswith(f"holdfast --home {stored_once.home} sessions search --part ")
    run = suggested.replace("holdfast", " ".join(COMMAND), 1)
    again = subprocess.run(
        ["sh", "-c", run],
        check=True,
        capture_output=True,
        env=stored_once.env(),
        cwd=stored_once.user,
        timeout=PATIENCE,
    )
    assert b"Nothing was found" in again.stdout
    assert not (stored_once.user / "oops").exists()


@pytest.mark.parametrize(
    ("query", "place"),
    [
        (['"never closed'], "at character 1"),
        (["disk OR"], "at character 6"),
        (["(disk"], "at character 1"),
        (["disk )"], "at character 6"),
        (["()"], "at character 1"),
        (["NOT disk"], "at character 1"),
        (["disk ->"], "at character 6"),
        (["--part", "x"], "too short"),
        ([" "], ""),
        (["x" * 5_000], "5,000 characters"),
    ],
)
def test_a_query_that_is_none(stored_once: Machine, query: list[str], place: str) -> None:
    result = stored_once.run("--json", "sessions", "search", *query)
    assert result.code == 2
    error = result.document["error"]
    assert error["kind"] == "query"
    assert place in error["message"]
    assert error["hint"]


# --- stats ------------------------------------------------------------------------------------


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
    assert "In the store now: 4 sessions" in shown.out
    assert "Ever used, also by sessions that are gone: 907 tokens, cost 0.01" in shown.out


def test_usage_stays_when_sessions_go(stored: Machine) -> None:
    before = stored.json("sessions", "stats")["sessions"]["usage"]
    assert before == {
        "tokens_in": 812,
        "tokens_out": 95,
        "tokens_cached": 700,
        "cost": pytest.approx(0.005),
        "by_day": before["by_day"],
        "by_source": before["by_source"],
        "by_model": before["by_model"],
    }
    sums = {"tokens_in": 0, "tokens_out": 30, "tokens_cached": 0, "cost": 0.0}
    assert before["by_source"][1] == {"source": "cron"} | sums
    assert before["by_model"][1] == {"model": None} | sums
    days = [share["day"] for share in before["by_day"]]
    assert len(days) == 2
    assert days == sorted(days, reverse=True)
    with closing(SqliteSessionStore(stored.home / "sessions.db")) as store:
        store.delete(DISK)
    after = stored.json("sessions", "stats")["sessions"]
    assert after["tokens"] == 30
    assert after["usage"] == before
    shown = stored.ok("sessions", "stats").out
    assert "In the store now: 3 sessions (2 open), 3 messages, 30 tokens, cost 0.00" in shown
    assert "Ever used, also by sessions that are gone: 907 tokens, cost 0.01" in shown


def test_a_store_that_used_nothing_says_nothing_of_usage(machine: Machine) -> None:
    with open_sessions(machine.home) as sessions:
        sessions.create(source="cli", id=CRON)
        sessions.append(CRON, Message(role="user", content="hello"))
    assert "Ever used" not in machine.ok("sessions", "stats").out
    usage = machine.json("sessions", "stats")["sessions"]["usage"]
    assert (usage["tokens_in"], usage["cost"], usage["by_day"]) == (0, 0, [])


def removed_sessions(document: Any) -> tuple[int, int]:
    """How many sessions a plan removes, and what they take of the database."""
    items = document["plan"]["items"]
    going = [i for i in items if i["kind"] == "session" and i["action"] == "remove"]
    return len(going), sum(item["bytes"] for item in going)


@pytest.mark.parametrize(
    ("settings", "command", "count"),
    [
        ("", "gc", 1),
        ("[sessions]\nretention_days = 20", "prune", 2),
        (
            "[sessions]\nretention_days = 20\n[sessions.source.cron]\nretention_days = 90",
            "prune",
            1,
        ),
        (
            "[sessions]\nretention_days = 90\n[sessions.source.cron]\nretention_days = 20",
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


# --- rename and pin ---------------------------------------------------------------------------


def test_rename_and_back(stored: Machine) -> None:
    document = stored.json("sessions", "rename", CRON, "  Inbox of today ")
    assert document["session"]["title"] == "Inbox of today"
    assert ids(stored, "--title", "inbox") == [CRON]
    assert "has no title now" in stored.ok("sessions", "rename", CRON, "").out
    assert stored.json("sessions", "show", CRON)["session"]["title"] is None


def test_a_title_that_is_no_text(stored: Machine) -> None:
    result = stored.run("sessions", "rename", DISK, b"caf\xe9")
    assert result.code == 2
    assert "no valid text" in result.err
    assert stored.json("sessions", "show", DISK)["session"]["title"] == "Disk clean-up"


def test_pin_and_off(stored: Machine) -> None:
    assert stored.json("sessions", "pin", DISK)["session"]["pinned"] is True
    assert ids(stored, "--pinned") == [CJK, DISK]
    assert "is no longer pinned" in stored.ok("sessions", "pin", DISK, "--off").out
    assert ids(stored, "--pinned") == [CJK]


# --- export -----------------------------------------------------------------------------------


def test_a_line_has_the_fields_that_are_promised(stored_once: Machine) -> None:
    sessions = [json.loads(text) for text in export(stored_once, "--all").splitlines()]
    assert [session["id"] for session in sessions] == [DISK, CRON, CJK, EMPTY], "by their start"
    disk = sessions[0]
    head = ["id", "source", "parent_id", "relation", "title", "cwd", "model", "started_at"]
    assert list(disk)[:10] == [*head, "ended_at", "end_reason"]
    assert disk["routing_key"] == "telegram:42"
    assert disk["chat"] == {"id": 42}, "fields of the host stand beside the known ones"
    assert [message["role"] for message in disk["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert disk["messages"][1]["tokens"] == {"in": 800, "out": 25, "cached": 700}
    assert sessions[2]["pinned"] is True
    assert sessions[3]["messages"] == []


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--all"], [DISK, CRON, CJK, EMPTY]),
        ([CJK, DISK], [DISK, CJK]),
        ([DISK, DISK], [DISK]),
        (["--source", "cli"], [CJK, EMPTY]),
        (["--ended", "--min-messages", "2"], [DISK]),
        ([DISK, CJK, "--pinned"], [CJK]),
        (["--title", "zzz"], []),
    ],
)
def test_what_is_exported(stored_once: Machine, args: list[str], expected: list[str]) -> None:
    lines = export(stored_once, *args).splitlines()
    assert [json.loads(text)["id"] for text in lines] == expected


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Say which sessions"),
        (["--all", DISK], "--all"),
        (["--all", "--source", "cli"], "--all"),
        (["--all", "--json"], "--output"),
        (["--all", "--format", "markdwn"], "Did you mean 'markdown'?"),
        (["--all", "--output", "."], "directory"),
        (["--all", "--output", "/dev/null"], "is no file"),
    ],
)
def test_an_export_that_makes_no_sense(stored_once: Machine, args: list[str], said: str) -> None:
    result = stored_once.run("sessions", "export", *args)
    assert result.code == 2
    assert said in result.words
    if "--json" not in args:
        assert result.out == ""


def test_a_file_is_private_and_whole(stored: Machine) -> None:
    target = stored.root / "sessions.jsonl"
    target.write_text("older")
    link = stored.root / "link.jsonl"
    link.symlink_to(target)
    document = stored.json("sessions", "export", "--all", "--output", str(link))
    assert document == {
        "sessions": 4,
        "messages": 7,
        "redacted": {},
        "stopped": False,
        "output": str(link),
    }
    assert target.read_text() == export(stored, "--all")
    assert target.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()
    assert sorted(path.name for path in stored.root.iterdir()) == [link.name, target.name, "user"]
    shown = stored.ok("sessions", "export", DISK, "-o", str(target))
    assert "Wrote 1 session with 4 messages to" in shown.words


def test_a_place_that_does_not_exist(stored_once: Machine) -> None:
    result = stored_once.run("sessions", "export", "--all", "--output", "/no/such/folder/x")
    assert result.code == 1
    assert "/no/such/folder/x" in result.err


def test_ctrl_c_leaves_the_older_export(machine: Machine) -> None:
    """The first asks it to stop between two sessions; half an export replaces nothing."""
    text = "a long day of work " * 20_000
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}", text) for n in range(60)))
    target = machine.root / "out.jsonl"
    target.write_text("older")
    process = subprocess.Popen(
        [*COMMAND, "sessions", "export", "--all", "--output", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env(),
    )
    while process.poll() is None and not list(machine.root.glob(".out.jsonl.*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:
        pytest.skip("it was done before it could be stopped")
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert target.read_text() == "older"
    assert list(machine.root.glob(".out.jsonl.*")) == []


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_a_reader_that_left_is_no_error(stored_once: Machine, form: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "sessions", "export", "--all", "--format", form],
            check=False,
            stdout=writer,
            stderr=subprocess.PIPE,
            env=stored_once.env(),
            timeout=PATIENCE,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_reader_that_stops_early(machine: Machine) -> None:
    text = "a long day of work " * 500
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}", text) for n in range(50)))
    process = subprocess.Popen(
        [*COMMAND, "sessions", "export", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == b"{"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 141


def test_markdown(stored_once: Machine) -> None:
    text = export(stored_once, DISK, "--format", "markdown")
    lines = text.splitlines()
    assert lines[0] == "# Disk clean-up"
    assert f"- **Session:** `{DISK}`" in lines
    headings = [each.split(" · ")[0] for each in lines if each.startswith("## ")]
    assert headings == ["## User", "## Assistant", "## Tool `shell`", "## Assistant"]
    assert "**Tool call** `shell`" in lines
    both = export(stored_once, DISK, CJK, "--format", "markdown")
    assert [each for each in both.splitlines() if each.startswith("# ")] == [
        "# Disk clean-up",
        "# 中文標題",
    ]


# --- redact -----------------------------------------------------------------------------------

# Put together here, so that no scanner takes this file for a leak.
_TOKEN = "gh" + "p_" + "a1B2c3D4e5F6" * 3
_PASSWORD = "hunter" + "2-Zq9!"
_SECRETS = {"github-token": _TOKEN, "password": _PASSWORD}


@pytest.fixture
def leaky(machine: Machine) -> Machine:
    said = [f"push with {_TOKEN} please", "pass" + f"word={_PASSWORD}", "nothing here"]
    take_in(machine, line("20260101_000000_abcdef", *said, title=f"about {_TOKEN}", note=_TOKEN))
    return machine


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_secrets_leave_only_when_they_may(leaky: Machine, form: str) -> None:
    plain = export(leaky, "--all", "--format", form)
    assert all(secret in plain for secret in _SECRETS.values())
    redacted = export(leaky, "--all", "--format", form, "--redact")
    for rule, secret in _SECRETS.items():
        assert secret not in redacted
        shown = redacted.replace("\\", "")
        assert f"[redacted:{rule}" in shown
    assert "nothing here" in redacted


def test_what_was_redacted_is_counted(leaky: Machine) -> None:
    target = str(leaky.root / "out.jsonl")
    document = leaky.json("sessions", "export", "--all", "--redact", "--output", target)
    assert document["redacted"] == {"github-token": 3, "password": 1}
    shown = leaky.ok("sessions", "export", "--all", "--redact", "--output", target)
    assert "Redacted: 3 github-token, 1 password." in shown.words
    assert all(secret not in Path(target).read_text() for secret in _SECRETS.values())


def test_a_redacted_export_can_be_imported(leaky: Machine, tmp_path: Path) -> None:
    redacted = export(leaky, "--all", "--redact")
    other = ["--home", str(tmp_path / "other")]
    assert leaky.run(*other, "sessions", "import", "-", stdin=redacted).code == 0
    assert leaky.ok(*other, "sessions", "export", "--all").out == redacted


# --- import -----------------------------------------------------------------------------------


def test_out_and_in_and_out_again(stored: Machine) -> None:
    odd = line("odd", "\x00 \ud800 \x1b[31m é 👍🏽", title="a\tb\nc", x={"7": [1.5, None, True]})
    take_in(stored, odd)
    first = export(stored, "--all")
    target = stored.root / "all.jsonl"
    target.write_text(first)
    other = ["--home", str(stored.root / "other")]
    document = stored.json(*other, "sessions", "import", str(target))
    assert document == {
        "imported": 5,
        "replaced": 0,
        "skipped": [],
        "refused": [],
        "notes": [],
        "messages": 8,
        "stopped": False,
        "replaced_kept_in": None,
    }
    assert stored.ok(*other, "sessions", "export", "--all").out == first
    assert stored.json(*other, "sessions", "search", "已滿")["hits"][0]["session"] == CJK
    database = stored.root / "other" / "sessions.db"
    assert database.stat().st_mode & 0o777 == 0o600
    assert database.parent.stat().st_mode & 0o777 == 0o700


def test_only_four_fields_are_required(machine: Machine) -> None:
    assert take_in(machine, line("20260101_000000_abcdef", "hello"))["imported"] == 1
    [session] = machine.json("sessions", "list")["sessions"]
    assert session["started_at"] == session["last_active_at"] == 1_700_000_000.0
    assert session["ended_at"] is None


def test_bad_lines_are_refused_and_the_rest_is_stored(machine: Machine) -> None:
    good = [line(f"20260101_000000_{n:06x}", "hello") for n in range(3)]
    no_source = json.dumps({"id": "x", "started_at": 1, "messages": []}) + "\n"
    text = (
        good[0]
        + "{oh no\n"
        + "\n"  # blank lines are no mistake, and count
        + good[1]
        + no_source
        + line("../escape")
        + line("x", tokens=3).replace('"messages": []', '"messages": [{"content": 1}]')
        + line("20260101_000000_000000", "the same id again")
        + good[2]
    )
    document = take_in(machine, text, code=1)
    assert document["imported"] == 3
    assert [each["line"] for each in document["refused"]] == [2, 5, 6, 7, 8]
    reasons = [each["reason"] for each in document["refused"]]
    assert reasons[0].startswith("not JSON: ")
    assert "at character 2" in reasons[0]
    assert "source" in reasons[1]
    assert "is not a session id" in reasons[2]
    assert reasons[3].startswith("message 1: ")
    assert "earlier line" in reasons[4]
    assert len(ids(machine)) == 3


def test_bad_lines_for_people(machine: Machine) -> None:
    bad = "".join(f"bad {number}\n" for number in range(30))
    result = machine.run("sessions", "import", "-", stdin=line("20260101_000000_abcdef", "x") + bad)
    assert result.code == 1
    assert "Stored 1 session with 1 message." in result.words
    assert "Refused 30 lines:" in result.words
    assert "line 2: not JSON" in result.words
    assert "… and 10 more." in result.words
    assert max(map(len, result.lines)) <= 80


def test_what_is_there_is_skipped_unless_replaced(stored: Machine) -> None:
    newer = line(DISK, "quite another text", source="signal")
    assert take_in(stored, newer)["skipped"] == [DISK]
    assert stored.json("sessions", "search", "another")["hits"] == []
    shown = stored.run("sessions", "import", "-", stdin=newer)
    assert shown.code == 0
    assert "1 session was there already; --replace takes the new ones." in shown.words
    old = export(stored, DISK)
    document = take_in(stored, newer, "--replace")
    assert (document["imported"], document["replaced"]) == (0, 1)
    kept = Path(document["replaced_kept_in"])
    assert kept.parent == stored.home / "archive"
    assert kept.read_text() == old, "nothing is lost silently, and it can be imported again"
    assert kept.stat().st_mode & 0o777 == 0o600
    [hit] = stored.json("sessions", "search", "another")["hits"]
    assert (hit["session"], hit["source"]) == (DISK, "signal")
    assert stored.json("sessions", "search", "checkpoints")["hits"] == []
    assert stored.json("sessions", "show", CJK)["session"]["parent_id"] == DISK


def test_a_session_in_use_is_not_replaced(stored: Machine) -> None:
    with open_sessions(stored.home) as sessions:
        held = sessions.create(source="cli")
        document = take_in(stored, line(held.id, "x"), "--replace", code=1)
        assert f"held open by process {os.getpid()}" in document["refused"][0]["reason"]


def test_an_id_that_differs_in_case_only(stored: Machine) -> None:
    document = take_in(stored, line(DISK.upper(), "x"), code=1)
    assert "in case only" in document["refused"][0]["reason"]


def test_a_parent_may_come_later(machine: Machine) -> None:
    child = line("child", parent_id="parent", relation="delegate")
    notes = take_in(machine, child)["notes"]
    assert "its parent parent is not in the store" in notes[0]
    shown = machine.run("sessions", "import", "-", stdin=child, cwd=machine.root)
    assert "1 session was there already" in shown.words
    take_in(machine, line("parent"))
    assert machine.json("sessions", "show", "child")["session"]["parent_id"] == "parent"


@pytest.mark.parametrize("name", ["nothing.jsonl", "."])
def test_a_file_that_cannot_be_read_makes_no_home(machine: Machine, name: str) -> None:
    result = machine.run("sessions", "import", name)
    assert result.code == 1
    assert name in result.err
    assert list(machine.user.iterdir()) == []


def test_a_file_of_another_kind(machine: Machine) -> None:
    result = machine.run("sessions", "import", "-", stdin="<html>\n<body>\n")
    assert result.code == 1
    assert "Refused 2 lines" in result.words


def test_an_empty_file_is_no_mistake(machine: Machine) -> None:
    assert take_in(machine, "")["imported"] == 0
    assert machine.json("sessions", "list")["total"] == 0


# --- Terminals --------------------------------------------------------------------------------

_WILD = "a\nb\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202ec"
_WILD_LINE = json.dumps(
    {
        "id": "20260101_000000_abcdef",
        "source": "cli" + _WILD,
        "title": _WILD,
        "cwd": _WILD,
        "model": _WILD,
        "started_at": 1_700_000_000,
        "ended_at": 1_700_000_001,
        "end_reason": _WILD,
        "messages": [
            {"role": _WILD, "content": f"disk {_WILD}", "tool_name": _WILD},
            {"role": "tool", "content": [{"type": _WILD}], "tool_calls": [{"name": _WILD}]},
            {"role": "user", "content": "tail"},
        ],
    }
)


@pytest.fixture
def wild(machine: Machine) -> Machine:
    assert take_in(machine, _WILD_LINE)["imported"] == 1
    return machine


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "show 2026",
        "search disk",
        "search --part disk",
        "stats",
        "pin 2026",
    ],
)
def test_nothing_that_was_said_steers_the_terminal(wild: Machine, command: str) -> None:
    result = wild.ok("sessions", *command.split())
    for character in "\x1b\x07\r\x9b":
        assert character not in result.out + result.err, result.out


def test_nor_does_what_was_exported_for_reading(wild: Machine) -> None:
    shown = export(wild, "--all", "--format", "markdown")
    assert not {"\x1b", "\x07", "\r"} & set(shown)
    assert shown.startswith("# a b")


def test_a_title_from_the_command_line_does_not_either(wild: Machine) -> None:
    result = wild.ok("sessions", "rename", "2026", _WILD)
    assert "\x1b" not in result.out
    assert len(result.lines) <= 2
    assert wild.json("sessions", "list")["sessions"][0]["title"] == _WILD


def test_names_stay_on_their_line(wild: Machine) -> None:
    take_in(wild, line("20260102_000000_abcdef", title="plain"))
    rows = wild.ok("sessions", "list", env={"COLUMNS": "120"}).lines
    assert sum(row.startswith("2026") for row in rows) == 2
    assert not any(row.startswith("b") for row in rows)


_SCREENS = [
    "list",
    f"show {DISK}",
    f"show {CJK}",
    "search disk",
    "search checkpoints OR 已滿 OR total_size",
    "search zzz",
    "stats",
    f"pin {CJK}",
]


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("command", _SCREENS)
def test_output_fits_the_terminal(stored_once: Machine, command: str, columns: int) -> None:
    words = ["sessions", *command.split()]
    with stored_once.terminal(*words, columns=columns, env={"PAGER": "cat"}) as terminal:
        result = terminal.end()
    assert result.code == 0
    suggested = "  holdfast "  # a copied line must work, so it is never folded
    for row in result.lines:
        assert cell_len(row) <= columns or row.startswith(suggested), row


@pytest.mark.parametrize("command", _SCREENS)
def test_no_colours_in_a_pipe_and_80_columns(stored_once: Machine, command: str) -> None:
    result = stored_once.ok("sessions", *command.split())
    assert not result.coloured
    assert max(map(cell_len, result.lines)) <= 80


@pytest.mark.parametrize("command", _SCREENS)
def test_a_terminal_that_knows_only_ascii(stored_once: Machine, command: str) -> None:
    result = stored_once.ok("sessions", *command.split(), env={"PYTHONIOENCODING": "ascii"})
    assert result.out.isascii()
    assert result.out.strip()


def test_a_long_conversation_is_paged(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", *(f"message {n}" for n in range(100))))
    pager = {"PAGER": "sed 's/^message 99$/through the pager/'"}
    with machine.terminal("sessions", "show", "2026", env=pager) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "through the pager" in result.out
    assert "through the pager" not in machine.ok("sessions", "show", "2026", env=pager).out


def test_json_on_a_terminal_is_plain(stored_once: Machine) -> None:
    with stored_once.terminal("--json", "sessions", "list") as terminal:
        result = terminal.end()
    assert not result.coloured
    assert result.document["total"] == 4
