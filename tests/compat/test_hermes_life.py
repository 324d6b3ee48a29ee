"""Whether sessions of Hermes live: any one sign protects, and so does a sign that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.config.reader import load
from holdfast.homes.maintenance import maintain_opened
from holdfast.model.item import SESSION
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY
from tests.compat.hermes_sessions import (
    ABANDONED,
    NOW,
    check,
    database,
    deleted,
    opened,
    prune_plan,
    pruned,
    recorded,
    seen,
    session_ids,
    undone,
)

FIRST = "20260101_101010_aaaaaa"
ROUTED, OPEN = "20260108_000000_routed", "20260502_000000_open00"
_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT 1 FROM sessions").fetchone()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recorded(tmp_path)


def lives(root: Path, now: float = NOW) -> dict[str, str | None]:
    items = opened(root, now).scan(now).items
    return {item.id: item.alive for item in items if item.kind == SESSION}


def register(root: Path, session: str, process: int, started: float | None) -> None:
    folder = root / "runtime"
    folder.mkdir(exist_ok=True)
    entry = {"session_id": session, "pid": process, "process_start_time": started}
    (folder / "active_sessions.json").write_text(json.dumps({"entries": [entry]}))


@contextmanager
def held_open(root: Path) -> Iterator[int]:
    """Another process that has the database open."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(root / "state.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate()


def gone_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_session_without_an_end_lives_while_it_was_active_of_late(root: Path) -> None:
    assert "has not ended" in (lives(root)[OPEN] or "")
    items = {item.id: item for item in opened(root, NOW + 2 * DAY).scan(NOW + 2 * DAY).items}
    assert items[OPEN].alive == "it has not ended"
    assert items[OPEN].abandoned == "Hermes is not running, idle for 2 d"


def test_a_session_that_a_running_process_holds_is_alive(root: Path) -> None:
    me = psutil.Process()
    register(root, FIRST, me.pid, me.create_time())
    assert lives(root)[FIRST] == "Hermes holds it open"
    pruned(root)
    assert FIRST in session_ids(root)


def test_a_process_that_is_gone_holds_nothing(root: Path) -> None:
    register(root, FIRST, gone_process(), psutil.Process().create_time())
    assert lives(root)[FIRST] is None


def test_a_start_by_a_clock_that_was_set_since_proves_nothing(root: Path) -> None:
    """The registry has seconds since 1970: they move when somebody sets the clock."""
    register(root, FIRST, os.getpid(), psutil.Process().create_time() - 1000)
    assert lives(root)[FIRST] == "Hermes holds it open"


@pytest.mark.parametrize(
    ("process", "started"),
    [(0, 1.0), (-1, 1.0), (True, 1.0), (None, 1.0), pytest.param(os.getpid(), None, id="itself")],
)
def test_what_cannot_be_proved_protects(root: Path, process: int, started: float | None) -> None:
    register(root, FIRST, process, started)
    assert lives(root)[FIRST] is not None


@pytest.mark.parametrize("text", ["{", "[1]", '{"entries": 3}', '{"entries": [{"pid": 1}]}'])
def test_a_registry_that_cannot_be_read_protects_everything(root: Path, text: str) -> None:
    (root / "runtime").mkdir()
    (root / "runtime" / "active_sessions.json").write_text(text)
    assert all("active_sessions.json" in (why or "") for why in lives(root).values())
    before = session_ids(root)
    pruned(root)
    assert session_ids(root) == before


def test_a_fifo_in_the_place_of_the_registry_keeps_nobody_waiting(root: Path) -> None:
    (root / "runtime").mkdir()
    os.mkfifo(root / "runtime" / "active_sessions.json")
    assert all(why is not None for why in lives(root).values())


def test_the_current_session_of_a_chat_stays_though_nobody_runs(root: Path) -> None:
    assert lives(root, NOW + 300 * DAY)[ROUTED] == "a chat is using it"


def test_a_running_gateway_protects_what_it_routes_to_though_it_has_ended(root: Path) -> None:
    with database(root) as db:
        db.execute("UPDATE sessions SET ended_at = ? WHERE id = ?", (NOW - 99 * DAY, ROUTED))
    assert lives(root)[ROUTED] is None
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    record = {"pid": os.getpid(), "kind": "hermes-gateway", "start_time": ticks}
    (root / "gateway.pid").write_text(json.dumps(record))
    assert lives(root)[ROUTED] == "the gateway routes to it"
    (root / "gateway.pid").write_text(json.dumps({**record, "start_time": ticks - 500}))
    assert lives(root)[ROUTED] is None
    (root / "gateway.pid").write_text("nonsense")
    assert lives(root)[ROUTED] == "the gateway routes to it"


def test_a_session_that_is_being_compressed_or_waits_for_a_delegate_is_alive(root: Path) -> None:
    with database(root) as db:
        db.execute("UPDATE compression_locks SET expires_at = ?", (NOW + 10,))
        db.execute(
            """
            INSERT INTO async_delegations (delegation_id, origin_session, state, dispatched_at,
                                           updated_at, owner_pid)
            VALUES ('d', ?, 'running', 1, 1, ?)
            """,
            (FIRST, os.getpid()),
        )
    found = lives(root)
    assert found["20260104_000000_parent"] == "it is being compressed"
    assert found[FIRST] == "one of its delegates is at work"


def left(root: Path) -> str | None:
    """The proof that nobody goes on with the session that was abandoned."""
    items = opened(root).scan(NOW).items
    [item] = [item for item in items if item.id == ABANDONED]
    assert item.alive is not None
    return item.abandoned


def test_an_abandoned_session_is_left_only_while_nobody_has_the_database_open(root: Path) -> None:
    with held_open(root):
        assert lives(root)[ABANDONED] == "it has not ended, and Hermes may be running"
        assert left(root) is None
        assert deleted(root, ABANDONED).operation is None
    assert left(root) is not None
    deleted(root, ABANDONED)
    assert ABANDONED not in session_ids(root), "who names it may"


def test_prune_never_takes_a_session_without_an_end(root: Path) -> None:
    before = seen(root)
    assert left(root) is not None
    pruned(root, days=0.1, now=NOW + 900 * DAY)
    assert session_ids(root) >= {ABANDONED, OPEN, ROUTED}
    undone(root, now=NOW + 900 * DAY)
    assert seen(root) == before


def config(root: Path, text: str) -> None:
    (root / ".holdfast").mkdir(exist_ok=True)
    (root / ".holdfast" / "config.toml").write_text(text)


@pytest.mark.parametrize("environ", [{}, {"HOLDFAST_SESSIONS_ABANDONED_HOURS": "24"}])
@pytest.mark.parametrize("text", ["", "[sessions]\nauto_prune = true\nretention_days = 0.1\n"])
def test_maintenance_ends_nothing_unless_the_home_asks_for_it(
    root: Path, text: str, environ: dict[str, str]
) -> None:
    """A chat of a gateway that is down is not dead; a variable holds for all homes."""
    config(root, text)
    settings = load(root / ".holdfast" / "config.toml", environ)
    result = maintain_opened(opened(root), settings, clock=lambda: NOW)
    assert (result.ok, result.ended) == (True, 0)
    with database(root) as db:
        [ended] = db.execute("SELECT ended_at FROM sessions WHERE id = ?", (ABANDONED,)).fetchone()
    assert ended is None


def test_a_home_that_asks_for_it_has_its_sessions_ended_and_reopened_exactly(root: Path) -> None:
    config(root, "[sessions]\nabandoned_hours = 24\n")
    before = seen(root)
    settings = load(root / ".holdfast" / "config.toml", {})
    result = maintain_opened(opened(root), settings, clock=lambda: NOW)
    assert (result.ok, result.ended, result.removed) == (True, 1, 0)
    with database(root) as db:
        [ended, reason] = db.execute(
            "SELECT ended_at, end_reason FROM sessions WHERE id = ?", (ABANDONED,)
        ).fetchone()
    assert (ended, reason) == (NOW, "abandoned")
    check(root)
    items = {item.id: item for item in opened(root).scan(NOW).items}
    assert (items[ABANDONED].alive, items[ABANDONED].last_active_at) == (None, NOW)
    assert ABANDONED not in {item.id for item in prune_plan(root).removals}
    assert undone(root).brought_back == 1
    assert seen(root) == before


def test_the_end_of_a_session_is_its_last_activity(root: Path) -> None:
    with database(root) as db:
        db.execute("UPDATE sessions SET ended_at = ? WHERE id = ?", (NOW - 2 * DAY, FIRST))
    assert FIRST not in {item.id for item in prune_plan(root).removals}
    store = opened(root).session_store()
    assert store is not None
    assert store.get(FIRST).last_active_at == NOW - 2 * DAY
    recent = store.find(SessionFilter(active_after=NOW - 3 * DAY, ids=(FIRST,)))
    assert [each.id for each in recent] == [FIRST]
    assert not store.find(SessionFilter(active_before=NOW - 3 * DAY, ids=(FIRST,)))
