"""Many processes at once on one store, some of them killed in the middle of it."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.model.session import Session
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import tally

ROOT = Path(__file__).parents[2]
WRITERS = 8
WAL_BOUND = 64 * 1024 * 1024


def start(database: Path, session: str, name: str, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.writer", str(database), session, name, str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def collect(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """The acknowledged messages; a line that the kill tore is no acknowledgement."""
    out, err = process.communicate()
    return [line[:-1] for line in out.splitlines(keepends=True) if line.endswith("\n")], err


def run_writers(database: Path, seconds: float, kills: int) -> tuple[list[str], list[str]]:
    """Eight writers on two sessions; `kills` of them are killed and replaced on the way."""
    chance = random.Random(1)
    acknowledged: list[str] = []
    errors: list[str] = []
    running = [start(database, f"s{n % 2}", f"w{n}", seconds) for n in range(WRITERS)]
    for kill in range(kills):
        time.sleep(seconds / (kills + 1))
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        tally.injected()
        acknowledged += collect(victim)[0]
        running.append(start(database, f"s{kill % 2}", f"k{kill}", seconds / (kills + 1)))
    for process in running:
        lines, err = collect(process)
        acknowledged += lines
        errors += [err] if err or process.returncode else []
    return acknowledged, errors


def check_store(store: SqliteSessionStore, acknowledged: list[str]) -> None:
    stored: Counter[str] = Counter()
    for session in ("s0", "s1"):
        names = [str(m.content).split(" ")[0] for m in store.messages(session)]
        stored.update(names)
        totals = store.get(session)
        assert totals.message_count == len(names) == totals.tokens.input
    assert set(acknowledged) <= stored.keys(), "an acknowledged message is lost"
    assert max(stored.values()) == 1, "a message was stored twice"
    with store.database.write() as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
    tally.verified()


def hammer(tmp_path: Path, seconds: float, kills: int, fewest: int) -> None:
    database = tmp_path / "sessions.db"
    store = SqliteSessionStore(database)
    for name in ("s0", "s1"):
        store.create(Session(id=name, source="cli", started_at=0.0, last_active_at=0.0))
    acknowledged, errors = run_writers(database, seconds, kills)
    assert errors == []
    assert len(acknowledged) >= fewest
    check_store(store, acknowledged)
    assert (tmp_path / "sessions.db-wal").stat().st_size < WAL_BOUND
    store.close()


def test_eight_writers_with_kills(tmp_path: Path) -> None:
    hammer(tmp_path, seconds=5, kills=6, fewest=100)


@pytest.mark.deep
def test_eight_writers_with_kills_for_a_minute(tmp_path: Path) -> None:
    hammer(tmp_path, seconds=60, kills=60, fewest=2_000)
