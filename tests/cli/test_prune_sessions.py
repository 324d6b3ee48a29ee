"""`sessions prune` on stored sessions: what goes, what goes with it, what comes back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.plan import Plan
from holdfast.model.session import Message, SessionFilter
from holdfast.policy.rules import DAY
from holdfast.stores import plan_file, processes
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.cli.machine import Machine, age, entries, item_id, reasons, removals
from tests.cli.runner import COMMAND, PATIENCE
from tests.stored import (
    a_dead_holder,
    a_line,
    an_open_line,
    bring_in,
    check_whole,
    disk_bytes,
    opened,
    see,
)


def ago(days: float) -> float:
    return time.time() - days * DAY


def of(number: int) -> str:
    """An id as agents make them."""
    return f"20250101_000000_{number:06x}"


def sessions_of(document: Any, action: str = "remove") -> list[str]:
    """The sessions to which a plan does something, or nothing (`keep`)."""
    return sorted(
        item["id"]
        for item in document["plan"]["items"]
        if item["kind"] == "session" and item["action"] == action
    )


def give_files(machine: Machine, *numbers: int, days: float = 100) -> list[Path]:
    """A transcript and a request dump for each of these sessions."""
    made = []
    for number in numbers:
        body = json.dumps({"session_id": of(number), "text": "x" * 9_000})
        made += [
            machine.file(machine.sessions / f"session_{of(number)}.json", days, body),
            machine.file(
                machine.sessions / f"request_dump_{of(number)}_20250101_000000.json", days, "{}"
            ),
        ]
    return made


def listed(machine: Machine) -> set[str]:
    return {each["id"] for each in machine.json("sessions", "list", "--limit", "1000")["sessions"]}


# --- Which sessions -------------------------------------------------------------------------------


def _assorted() -> list[dict[str, Any]]:
    """Eight sessions that ended long ago, each special in one way."""
    return [
        a_line("s0", at=ago(100), messages=0),
        a_line("s1", at=ago(110), source="cron", messages=2),
        a_line("s2", at=ago(120), title="Disk Clean-up", cwd="/work/alpha"),
        a_line("s3", at=ago(130), end_reason="session_reset", cwd="/work/alpha/sub"),
        a_line("s4", at=ago(140), model="Sonnet-4", messages=30, tokens=1_000),
        a_line("s5", at=ago(150), source="telegram", cost=0.25, cwd="/work/alphabet"),
        a_line("s6", at=ago(160), source="cron", end_reason="limit", title="disk"),
        a_line("s7", at=ago(170), messages=30, tokens=10, model="sonnet-3", cost=0.01),
    ]


@pytest.fixture(scope="module")
def assorted(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Only ever looked at."""
    machine = Machine(root=tmp_path_factory.mktemp("assorted"))
    machine.home.mkdir(parents=True)
    young = a_line("young", at=ago(10), source="cron", title="disk", messages=30, tokens=1_000)
    pinned = a_line("pinned", at=ago(200), source="cron", title="disk", pinned=True)
    bring_in(machine.home, [*_assorted(), young, pinned], now=time.time())
    return machine


@pytest.mark.parametrize(
    ("flags", "going"),
    [
        ("", "01234567"),
        ("--source cron", "16"),
        ("--source cron --source telegram", "156"),
        ("--title DISK", "26"),
        ("--title DISK --source cron", "6"),
        ("--end-reason limit", "6"),
        ("--end-reason limit --end-reason session_reset", "36"),
        ("--cwd /work/alpha", "23"),
        ("--cwd /work/alpha/", "23"),
        ("--cwd /work/alpha/sub", "3"),
        ("--cwd /", "235"),
        ("--model sonnet", "47"),
        ("--model sonnet --max-tokens 300", "7"),
        ("--min-messages 6", "234567"),
        ("--max-messages 2", "01"),
        ("--min-messages 2 --max-messages 6", "12356"),
        ("--min-tokens 300", "47"),
        ("--min-tokens 301 --max-tokens 30000", "4"),
        ("--min-cost 0.3", "57"),
        ("--min-cost 0.31 --max-cost 1.5", "5"),
        ("--max-cost 0", "012346"),
        ("--newer-than 125d", "012"),
        ("--newer-than 20w", "0123"),
        ("--newer-than 165d --older-than 115d", "23456"),
        ("--older-than 145d", "567"),
        ("--older-than 145d --source cron --title i", "6"),
        ("--kind session --older-than 165d", "7"),
        ("--title nobody", ""),
    ],
)
def test_filters_pick_sessions(assorted: Machine, flags: str, going: str) -> None:
    document = assorted.json("sessions", "prune", *flags.split(), "--dry-run")
    assert sessions_of(document) == [f"s{number}" for number in going]


def test_a_window_of_dates_and_iso_times(assorted: Machine) -> None:
    def date(days: float) -> str:
        return datetime.fromtimestamp(ago(days), UTC).date().isoformat()

    def iso(days: float) -> str:
        return datetime.fromtimestamp(ago(days), UTC).isoformat()

    for newer, older in ((date(145), date(115)), (iso(145), iso(115)), (iso(145), "115d")):
        flags = ("--newer-than", newer, "--older-than", older)
        document = assorted.json("sessions", "prune", *flags, "-n", env={"TZ": "UTC"})
        assert sessions_of(document) == ["s2", "s3", "s4"]


def test_a_date_is_a_day_of_the_user(machine: Machine) -> None:
    """Midnight is where the user is: two hours before midnight in Greenwich."""
    last = datetime(2025, 5, 31, 23, 0, tzinfo=UTC).timestamp()
    bring_in(machine.home, [a_line("late", at=last)], now=time.time())
    flags = ("sessions", "prune", "--older-than", "2025-06-01", "-n")
    assert sessions_of(machine.json(*flags, env={"TZ": "UTC"})) == ["late"]
    assert sessions_of(machine.json(*flags, env={"TZ": "EAST-2"})) == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--newer-than 2d --older-than 2d", "leave no time in between"),
        ("--newer-than 2d --older-than 3d", "leave no time in between"),
        ("--newer-than 2025-06-01 --older-than 2025-05-01", "leave no time in between"),
        ("--newer-than 30d", "leave no time in between"),
        ("--older-than 2999-01-01", "is in the future"),
        ("--older-than soon", "neither a duration nor a date"),
        ("--newer-than 5x", "neither a duration nor a date"),
        ("--min-messages 3 --max-messages 2", "--min-messages 3 and --max-messages 2"),
        ("--min-tokens 3 --max-tokens 2", "--min-tokens 3 and --max-tokens 2"),
        ("--min-cost 0.3 --max-cost 0.2", "--min-cost 0.3 and --max-cost 0.2"),
        ("--min-messages -1", "-1"),
        ("--files-only --no-files", "--files-only and --no-files"),
    ],
)
def test_what_makes_no_sense_is_an_error(assorted: Machine, flags: str, said: str) -> None:
    before = entries(assorted.home / "sessions.db")
    result = assorted.run("sessions", "prune", *flags.split(), "--yes")
    assert result.code == 2
    assert said in result.words
    assert entries(assorted.home / "sessions.db") == before


def test_age_counts_from_the_last_activity(machine: Machine) -> None:
    """The retention is 90 days, from the latest of start, last message and end."""
    busy = a_line("busy", at=ago(1), started_at=ago(200))
    ended_late = a_line("ended-late", at=ago(300), ended_at=ago(2))
    empty = a_line("empty", at=ago(300), ended_at=ago(2), messages=0)
    old = a_line("old", at=ago(300), ended_at=ago(95))
    lines = [busy, ended_late, empty, old, a_line("89", at=ago(89))]
    bring_in(machine.home, lines, now=time.time())
    recent = machine.json("sessions", "list", "--newer-than", "3d")["sessions"]
    assert [each["id"] for each in recent] == ["busy", "empty", "ended-late"]
    assert recent[2]["last_active_at"] == recent[2]["ended_at"] == ended_late["ended_at"]
    gc = machine.json("sessions", "gc", "--empty-hours", "72", "--dry-run")
    assert sessions_of(gc) == []
    document = machine.json("sessions", "prune", "--yes")
    assert sessions_of(document) == ["old"]
    assert reasons(document)["old"] == "older than 90 d: last active 95 d ago"
    assert reasons(document)["ended-late"] == "active within 90 d"
    assert listed(machine) == {"busy", "ended-late", "empty", "89"}
    machine.ok("undo")
    assert "old" in listed(machine)


def test_the_retention_of_the_configuration(machine: Machine) -> None:
    machine.configure("[sessions]\nretention_days = 30\n[sessions.source.cron]\nkeep_last = 1\n")
    lines = [a_line(f"s{days}", at=ago(days)) for days in (20, 40)]
    lines += [a_line(f"c{days}", at=ago(days), source="cron") for days in (20, 400)]
    bring_in(machine.home, lines, now=time.time())
    assert sessions_of(machine.json("sessions", "prune", "--dry-run")) == ["c400", "s40"]


def test_open_and_pinned_sessions_stay(machine: Machine) -> None:
    lines = [
        an_open_line(of(1), at=ago(900)),
        a_line(of(2), at=ago(900), pinned=True),
        a_line(of(3), at=ago(900)),
    ]
    bring_in(machine.home, lines, now=time.time())
    kept = give_files(machine, 1, 2)
    give_files(machine, 3)
    flags = ("--older-than", "1s", "--now", "--yes")
    document = machine.json("sessions", "prune", *flags)
    assert reasons(document)[of(1)] == "in use: it has not ended"
    assert reasons(document)[of(2)] == "pinned"
    assert listed(machine) == {of(1), of(2)}
    assert machine.names() == {path.name for path in kept}


# --- With and without files -----------------------------------------------------------------------


@pytest.fixture
def three(machine: Machine) -> Machine:
    """Two old sessions and a young one, each with two files, and somebody's state."""
    lines = [a_line(of(n), at=ago(days)) for n, days in ((1, 200), (2, 100), (3, 10))]
    bring_in(machine.home, lines, now=time.time())
    give_files(machine, 1, 2, 3)
    machine.file(machine.sessions / "sessions.json", days=300)
    return machine


def _files_of(machine: Machine, *numbers: int) -> set[str]:
    return {name for name in machine.names() for number in numbers if of(number) in name}


def test_sessions_go_with_their_files(three: Machine) -> None:
    document = three.json("sessions", "prune", "--yes")
    assert sessions_of(document) == [of(1), of(2)]
    assert document["report"]["removed"] == 6
    assert listed(three) == {of(3)}
    assert three.names() == {"sessions.json", *_files_of(three, 3)}
    assert len(_files_of(three, 3)) == 2


def test_files_only_keeps_sessions_as_history(three: Machine) -> None:
    before = see(three.home)
    document = three.json("sessions", "prune", "--files-only", "--yes")
    assert sessions_of(document) == []
    assert document["report"]["removed"] == 4
    assert listed(three) == {of(1), of(2), of(3)}
    assert three.names() == {"sessions.json", *_files_of(three, 3)}
    after = see(three.home)
    assert (after.sessions, after.messages) == (before.sessions, before.messages)
    three.ok("undo")
    assert see(three.home) == before


def test_no_files_keeps_files(three: Machine) -> None:
    before = see(three.home)
    document = three.json("sessions", "prune", "--no-files", "--yes")
    assert document["report"]["removed"] == 2
    assert listed(three) == {of(3)}
    assert see(three.home).files == before.files
    three.ok("undo")
    assert see(three.home) == before


def test_a_file_of_a_dead_session_that_is_open_keeps_both(three: Machine) -> None:
    held = three.sessions / f"session_{of(1)}.json"
    with held.open("rb"):
        document = three.json("sessions", "prune", "--yes")
    assert "in use: its file" in reasons(document)[of(1)]
    assert sessions_of(document) == [of(2)]
    assert listed(three) == {of(1), of(3)}
    assert len(_files_of(three, 1)) == 2


def test_files_of_a_session_go_however_young_they_are(three: Machine) -> None:
    """Of a stored session its own age counts: a backup that touches every file saves none."""
    for path in three.sessions.iterdir():
        os.utime(path)
    three.ok("sessions", "prune", "--yes")
    assert three.names() == {"sessions.json", *_files_of(three, 3)}


def test_files_without_a_session_go_by_their_own_age(three: Machine) -> None:
    old, held = give_files(three, 7, days=100)[:1], give_files(three, 8, days=100)[0]
    young = give_files(three, 9, days=0.5)[0]
    with held.open("ab"):
        document = three.json("sessions", "prune", "--yes")
    assert item_id(old[0]) in removals(document)
    assert reasons(document)[item_id(held)].startswith("in use: open")
    assert reasons(document)[item_id(young)].startswith("in use: touched")
    assert not old[0].exists()
    assert held.exists()
    assert young.exists()
    assert (three.sessions / "sessions.json").read_text() == "mine"


def test_a_dump_of_a_b_is_no_dump_of_a(machine: Machine) -> None:
    """`a` goes with its own dump; that of `a_b`, which is young, stays with `a_b`."""
    lines = [a_line("a", at=ago(100)), a_line("a_b", at=ago(1))]
    bring_in(machine.home, lines, now=time.time())
    mine = machine.file(machine.sessions / "request_dump_a_20250101_000000.json")
    other = machine.file(machine.sessions / "request_dump_a_b_20250101_000000.json")
    document = machine.json("sessions", "delete", "a", "--yes")
    assert removals(document) == ["a", item_id(mine)]
    assert (mine.exists(), other.exists()) == (False, True)
    machine.ok("undo")
    assert removals(machine.json("sessions", "prune", "--yes")) == ["a", item_id(mine)]
    assert other.exists()


# --- As a machine sees it -------------------------------------------------------------------------


def test_the_document_of_a_prune(three: Machine) -> None:
    shown = three.json("sessions", "prune", "--dry-run")
    assert (shown["applied"], shown["report"]) == (False, None)
    done = three.json("sessions", "prune", "--yes")
    assert done["applied"] is True
    for document in (shown, done):
        plan = document["plan"]
        for item in plan["items"]:
            assert {"kind", "id", "action", "bytes", "reason"} <= item.keys()
            assert isinstance(item["bytes"], int)
            assert item["reason"]
        going = [item for item in plan["items"] if item["action"] == "remove"]
        assert plan["bytes"] == sum(item["bytes"] for item in going)
        assert {item["kind"] for item in going} == {"session", "transcript", "request_dump"}
    assert {item["id"]: item["action"] for item in shown["plan"]["items"]} == {
        item["id"]: item["action"] for item in done["plan"]["items"]
    }
    report = done["report"]
    assert report["removed"] == len(removals(done)) == 6
    assert (report["skipped"], report["failed"], report["operation"]) == (0, 0, "1")
    [space] = [item for item in done["plan"]["items"] if item["kind"] == "space"]
    assert space["action"] == "reclaim"
    [given_back] = [item for item in report["items"] if item["kind"] == "space"]
    assert given_back["result"] == "reclaimed"
    assert three.json("log")["operations"][0]["removed"] == 6


def _store_files(machine: Machine) -> list[Path]:
    return list(machine.home.glob("sessions.db*"))


@pytest.mark.parametrize("flags", [[], ["--no-files"], ["--files-only"]])
def test_bytes_freed_are_what_the_file_system_says(machine: Machine, flags: list[str]) -> None:
    lines = [a_line(of(n), at=ago(100), messages=20, size=3_000) for n in range(60)]
    bring_in(machine.home, [*lines, a_line("young", at=ago(1))], now=time.time())
    give_files(machine, *range(60))

    def used() -> int:
        return disk_bytes(*_store_files(machine), machine.sessions, machine.trash)

    before = used()
    report = machine.json("sessions", "prune", *flags, "--now", "--yes")["report"]
    assert report["bytes_in_trash"] == 0
    # Opening a store makes two small files beside it; they are no part of what a prune frees.
    assert abs(report["bytes_freed"] - (before - used())) <= 64 * 1024
    assert report["bytes_freed"] > (500_000 if flags == ["--files-only"] else 1_000_000)


def test_what_the_trash_holds_is_said_and_freed_later(three: Machine) -> None:
    report = three.json("sessions", "prune", "--yes")["report"]
    assert report["bytes_in_trash"] == disk_bytes(three.trash) > 0
    emptied = three.json("trash", "empty", "--yes")["report"]
    assert emptied["bytes_freed"] == report["bytes_in_trash"]
    assert disk_bytes(three.trash) == 0


# --- There and back -------------------------------------------------------------------------------


def _family(machine: Machine) -> None:
    """Three generations with routes, pins, titles, leases, tools, files and links."""
    lines = [
        a_line(of(1), at=ago(200), routing_key="telegram:1", title="one", tokens=7, cost=0.5),
        a_line(of(2), at=ago(150), parent_id=of(1), relation="branch", model="m"),
        a_line(of(3), at=ago(120), parent_id=of(2), relation="continuation", cwd="/work"),
        a_line(of(4), at=ago(110), parent_id=of(2), relation="delegate", messages=2),
        a_line(of(5), at=ago(5), parent_id=of(2), relation="branch", routing_key="telegram:5"),
        a_line(of(6), at=ago(300), pinned=True, parent_id=of(1), relation="branch"),
        an_open_line(of(7), at=ago(300), parent_id=of(3), relation="branch"),
        a_line(of(8), at=ago(300), messages=0, note={"of": ["the", "host"]}),
    ]
    bring_in(machine.home, lines, now=time.time())
    with opened(machine.home) as store:
        store.reopen(of(2), at=ago(100))
        store.hold(of(2), processes.this_process(), now=ago(100))
        store.release(of(2), processes.this_process())
        store.end(of(2), "done", at=ago(99))
    give_files(machine, 1, 2, 4, 6, 7)
    (machine.sessions / f"session_{of(1)}.json").chmod(0o400)
    link = machine.sessions / f"session_{of(2)}.json"
    link.unlink()
    link.symlink_to("../nowhere")
    age(link, 77.5)


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        ("prune", {1, 2, 3, 4, 8}),
        ("prune --files-only", set()),
        ("prune --no-files", {1, 2, 3, 4, 8}),
        ("gc", {4, 8}),
        (f"delete {of(2)} {of(6)}", {2, 4, 6}),
    ],
)
def test_undo_gives_everything_back(machine: Machine, command: str, gone: set[int]) -> None:
    _family(machine)
    before = see(machine.home)
    planned = machine.json("sessions", *command.split(), "--dry-run")
    done = machine.json("sessions", *command.split(), "--yes")
    assert sessions_of(planned) == sessions_of(done) == sorted(map(of, gone))
    after = see(machine.home)
    assert before.sessions.keys() - after.sessions.keys() == set(map(of, gone))
    for session in after.sessions.values():
        assert session.parent_id not in set(map(of, gone)), "a child has a parent that is gone"
    check_whole(machine.home)
    back = machine.json("undo")["report"]
    assert back["brought_back"] == done["report"]["removed"]
    assert see(machine.home) == before
    check_whole(machine.home)
    assert list(machine.trash.rglob("*")) == []
    assert sessions_of(machine.json("sessions", *command.split(), "-n")) == sorted(map(of, gone))


def test_what_a_host_used_stays_counted(three: Machine) -> None:
    """Totals by day, source and model do not change when sessions go, or come back."""
    bring_in(three.home, [a_line("dear", at=ago(100), tokens=50, cost=0.5)], now=time.time())
    before = three.json("sessions", "stats")["sessions"]["usage"]
    three.ok("sessions", "prune", "--now", "--yes")
    assert three.json("sessions", "stats")["sessions"]["usage"] == before
    assert before["tokens_in"] == 300
    assert "dear" not in listed(three)


# --- Never the living -----------------------------------------------------------------------------


def _add_message(store: SqliteSessionStore) -> None:
    store.reopen(of(1), at=time.time())
    store.append(of(1), [Message(role="user", content="zebra, one more")], now=time.time())
    store.end(of(1), "done", at=time.time())


_CHANGES: dict[str, Callable[[SqliteSessionStore], object]] = {
    "open": lambda store: store.reopen(of(1), at=time.time()),
    "message": _add_message,
    "title": lambda store: store.rename(of(1), "precious"),
    "pin": lambda store: store.pin(of(1), True),
}


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("flags", [[], ["--now"]])
def test_what_changes_between_plan_and_apply_stays_with_its_files(
    three: Machine, change: str, flags: list[str]
) -> None:
    plan = three.root / "plan.json"
    three.ok("sessions", "prune", *flags, "--plan-out", str(plan))
    with opened(three.home) as store:
        _CHANGES[change](store)
    before = see(three.home)
    report = three.json("apply", str(plan), "--yes")["report"]
    assert (report["removed"], report["skipped"], report["failed"]) == (3, 3, 0)
    skipped = {
        item["id"]: item["reason"] for item in report["items"] if item["result"] == "skipped"
    }
    assert skipped.pop(of(1)) == "changed since the plan was made"
    assert set(skipped.values()) == {"its session stays"}
    assert {name.removeprefix("sessions/") for name in skipped} == _files_of(three, 1)
    after = see(three.home)
    assert listed(three) == {of(1), of(3)}
    assert after.messages[of(1)] == before.messages[of(1)]
    assert len(_files_of(three, 1)) == 2
    check_whole(three.home)


def test_files_of_sessions_that_went_before_are_not_said_to_stay(three: Machine) -> None:
    plan = three.root / "plan.json"
    three.ok("sessions", "prune", "--plan-out", str(plan))
    three.ok("apply", str(plan), "--yes")
    report = three.json("apply", str(plan), "--yes", code=1)["report"]
    assert (report["removed"], report["failed"]) == (0, 0)
    reasons = {item["reason"] for item in report["items"] if item["result"] == "skipped"}
    assert reasons == {"already gone", "its session is already gone"}


def test_a_session_that_a_process_takes_up_again_stays(three: Machine) -> None:
    """It has ended, and is as the plan saw it, but somebody holds it."""
    plan = three.root / "plan.json"
    with opened(three.home) as store:
        store.reopen(of(1), at=ago(200))
        store.hold(of(1), a_dead_holder(), now=ago(200))
        store.end(of(1), "done", at=ago(199))
    three.ok("sessions", "prune", "--plan-out", str(plan))
    with opened(three.home) as store, store.database.write() as db:
        db.execute("UPDATE leases SET started = ?", (processes.this_process().started,))
    report = three.json("apply", str(plan), "--yes")["report"]
    [skipped] = [item for item in report["items"] if item["id"] == of(1)]
    assert (skipped["result"], skipped["reason"]) == ("skipped", "in use: a process holds it")
    assert len(_files_of(three, 1)) == 2


# --- Abandoned sessions ---------------------------------------------------------------------------


@pytest.fixture
def held(machine: Machine) -> Machine:
    """Open sessions: two of a dead process, one of them old; one just left; one of a living
    process; one that a living process gave back; one that nobody ever held."""
    days = {1: 3, 2: 200, 3: 0.2, 4: 200, 5: 200, 6: 200}
    lines = [an_open_line(of(n), at=ago(much), messages=1) for n, much in days.items()]
    bring_in(machine.home, lines, now=time.time())
    with opened(machine.home) as store:
        for number in (1, 2, 3):
            store.hold(of(number), a_dead_holder(), now=ago(days[number]))
        for number in (4, 5):
            store.hold(of(number), processes.this_process(), now=ago(days[number]))
        store.release(of(5), processes.this_process())
    give_files(machine, 1, 2, 4)
    return machine


def ends_of(document: Any) -> dict[str, str]:
    """What a dry run of maintenance would end, and why."""
    [plan] = [step["plan"] for step in document["steps"] if step["step"] == "end"]
    return {item["id"]: item["reason"] for item in plan["items"] if item["action"] == "end"}


@pytest.mark.parametrize(
    "command",
    ["prune", "prune --files-only", "prune --older-than 1h --now", "archive --older-than 1d"],
)
def test_a_session_without_an_end_is_no_business_of(held: Machine, command: str) -> None:
    before = see(held.home)
    document = held.json("sessions", *command.split(), "--yes")
    assert (sessions_of(document), sessions_of(document, "end")) == ([], [])
    assert set(sessions_of(document, "keep")) <= {of(n) for n in range(1, 7)}
    assert document["plan"]["bytes"] == 0
    assert see(held.home) == before


def test_a_plan_of_an_older_version_does_not_remove_one_either(held: Machine) -> None:
    """Such plans held open sessions as removals; now only who names one may delete it."""
    document = held.json("sessions", "prune", "--dry-run")
    for item in document["plan"]["items"]:
        item["action"] = "remove"
    saved = held.root / "plan.json"
    plan_file.save(Plan.from_json(document["plan"]), saved)
    before = see(held.home)
    report = held.json("apply", str(saved), "--yes", code=1)["report"]
    assert (report["removed"], report["failed"]) == (0, 0)
    assert see(held.home) == before


def test_who_names_one_that_was_left_can_delete_it(held: Machine) -> None:
    before = see(held.home)
    done = held.json("sessions", "delete", of(2), "--yes")
    assert sessions_of(done) == [of(2)]
    assert of(2) not in listed(held)
    for number in (3, 4, 5, 6):
        kept = held.json("sessions", "delete", of(number), "--yes", code=1)
        assert sessions_of(kept) == []
    held.ok("undo")
    assert see(held.home) == before


def test_maintenance_ends_what_was_left_and_undo_reopens_it_exactly(held: Machine) -> None:
    planned = held.json("maintain", "--dry-run")
    assert ends_of(planned) == {
        of(1): "abandoned: its process is gone, idle for 3 d",
        of(2): "abandoned: its process is gone, idle for 200 d",
    }
    before = see(held.home)
    done = held.json("maintain")
    assert (done["ended"], done["removed"]) == (2, 0)
    [step] = [each for each in done["steps"] if each["step"] == "end"]
    operation = step["reports"][0]["operation"]
    with opened(held.home) as store:
        for number in (1, 2):
            ended = store.get(of(number))
            assert ended.end_reason == "abandoned"
            assert ended.ended_at is not None
            assert ended.ended_at >= done["started_at"]
            assert ended.last_active_at == ended.ended_at, "retention begins here"
    assert "2 ended as abandoned" in held.ok("log").words
    assert "would reopen 2 sessions" in held.ok("undo", "--dry-run").words
    assert held.json("undo", operation)["report"]["brought_back"] == 2
    assert see(held.home) == before
    assert held.json("log")["operations"][1]["state"] == "undone"


@pytest.mark.parametrize("rules", ["", "auto_prune = true\nmax_count = 1\n", "auto_gc = true\n"])
def test_no_run_both_ends_a_session_and_removes_it(held: Machine, rules: str) -> None:
    """Whatever the rules and caps: the run that ends comes too late to remove."""
    held.configure(f"[sessions]\nempty_hours = 1\ntrivial_days = 1\n{rules}")
    done = held.json("maintain", "--force")
    assert (done["ended"], done["removed"]) == (2, 0)
    assert {of(1), of(2)} <= listed(held)
    if "max_count" not in rules:  # a cap asks for no age
        again = held.json("maintain", "--force")
        assert (again["ended"], again["removed"]) == (0, 0)
        assert {of(1), of(2)} <= listed(held)


def test_a_person_reads_that_sessions_end(held: Machine) -> None:
    shown = held.ok("maintain", "--dry-run")
    assert "The plan ends 2 abandoned sessions" in shown.words
    assert of(2) in shown.out
    done = held.ok("maintain")
    assert "2 ended as abandoned" in done.words
    assert "To reopen the sessions that were ended:" in done.words
    assert "Nothing to end." in held.ok("maintain", "--dry-run").words


def test_abandoned_hours_is_how_long_a_session_may_be_left(held: Machine) -> None:
    held.configure("[sessions]\nabandoned_hours = 96\n")
    assert ends_of(held.json("maintain", "--dry-run")).keys() == {of(2)}
    held.configure("[sessions]\nabandoned_hours = 1\n")
    assert ends_of(held.json("maintain", "--dry-run")).keys() == {of(1), of(2), of(3)}
    held.configure("[sessions]\nabandoned_hours = 0\n")
    before = see(held.home)
    assert "end" not in [step["step"] for step in held.json("maintain")["steps"]]
    assert see(held.home) == before


def test_an_abandoned_session_that_comes_back_is_not_ended(held: Machine) -> None:
    [plan] = [
        step["plan"]
        for step in held.json("maintain", "--dry-run")["steps"]
        if step["step"] == "end"
    ]
    saved = held.root / "plan.json"
    plan_file.save(Plan.from_json(plan), saved)
    with opened(held.home) as store:
        store.append(of(1), [Message(role="user", content="zebra: I am back")], now=time.time())
        store.hold(of(2), processes.this_process(), now=time.time())
    report = held.json("apply", str(saved), "--yes", code=1)["report"]
    assert {item["id"]: item["reason"] for item in report["items"]} == {
        of(1): "changed since the plan was made",
        of(2): "in use: a process holds it",
    }
    with opened(held.home) as store:
        assert not store.get(of(1)).ended
        assert not store.get(of(2)).ended


def test_undo_leaves_an_end_alone_that_somebody_else_gave(held: Machine) -> None:
    held.ok("maintain")
    with opened(held.home) as store:
        store.reopen(of(1), at=time.time())
        store.end(of(1), "done", at=time.time())
        store.rename(of(2), "worth going on")
    report = held.json("undo", "--yes", code=1)["report"]
    assert (report["brought_back"], report["failed"]) == (1, 1)
    with opened(held.home) as store:
        assert store.get(of(1)).end_reason == "done"
        assert not store.get(of(2)).ended


# --- Interrupted ----------------------------------------------------------------------------------


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def _stored(machine: Machine) -> int:
    with opened(machine.home) as store:
        return store.count(SessionFilter())


@pytest.fixture
def many(machine: Machine) -> Machine:
    lines = (a_line(f"s{n}", at=ago(100), messages=5, size=400) for n in range(1_500))
    bring_in(machine.home, lines, now=time.time())
    # So much stays that the others do not leave in one step, which could not be interrupted.
    young = a_line("young", at=ago(1), messages=6_000, size=400)
    bring_in(machine.home, [young], now=time.time())
    return machine


def test_an_interrupted_prune_says_so_and_the_next_one_finishes(many: Machine) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--json", "sessions", "prune", "--yes"],
        env=many.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for(lambda: any(many.trash.rglob("*.sessions.db")) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == "Stopping after the current batch. Press Ctrl-C again to end at once.\n"
    report = json.loads(out)["report"]
    assert report["stopped"] == "stopped by the user"
    gone = report["removed"]
    assert 0 < gone < 1_500
    assert _stored(many) == 1_501 - gone
    assert many.json("log")["operations"][0]["state"] == "stopped"
    check_whole(many.home)
    again = many.json("sessions", "prune", "--yes")["report"]
    assert again["removed"] == 1_500 - gone
    assert many.json("undo")["report"]["brought_back"] == 1_500 - gone
    assert many.json("undo", "--yes")["report"]["brought_back"] == gone
    check_whole(many.home)


@pytest.mark.deep  # crash/test_home_kill.py kills prunes in every run
def test_a_killed_prune_is_settled_by_the_next_run(many: Machine) -> None:
    # Some batches more, so that one is done and others are not.
    lines = (a_line(f"t{n}", at=ago(100), messages=5, size=400) for n in range(3_000))
    bring_in(many.home, lines, now=time.time())
    keep = shutil.copytree(many.home, many.root / "copy")
    process = subprocess.Popen(
        [*COMMAND, "sessions", "prune", "--yes"],
        env=many.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait_for(
        lambda: len(list(many.trash.rglob("*.sessions.db"))) > 1 or process.poll() is not None
    )
    process.kill()
    process.wait(PATIENCE)
    many.ok("sessions", "prune", "--title", "nobody", "--yes")
    operation = many.json("log")["operations"][-1]
    assert operation["state"] == "stopped"
    assert "interrupted" in operation["stopped"]
    assert operation["removed"] > 0
    many.ok("undo")
    assert see(many.home) == see(keep)
    check_whole(many.home)
