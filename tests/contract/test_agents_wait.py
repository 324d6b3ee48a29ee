"""No transaction of ours keeps an agent waiting for long, however much goes at once."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.api.sessions import open_sessions
from tests.contract.maintained import DAY

#: What an agent may wait, in seconds of our processor time: other work on the machine is not ours.
LONGEST = 0.25


@pytest.mark.deep
def test_an_agent_that_writes_waits_at_most_a_quarter_of_a_second(tmp_path: Path) -> None:
    """A budget takes thousands of sessions while the owner of the database appends to another one.
    Each of its waits is measured with the processor time that passed in it."""
    root = tmp_path / "home"
    moment = time.time() - 100 * DAY
    with open_sessions(root, clock=lambda: moment) as store:
        for number in range(3_000):
            session = store.create(source="cli", id=f"s{number:05}")
            texts = [f"{number} {word} " * 40 for word in range(6)]
            store.append(session.id, *(holdfast.Message(role="user", content=t) for t in texts))
            store.end(session.id)
    (root / "config.toml").write_text("[guardian]\nmax_home_size_mb = 2\n")
    waits: list[float] = []
    done = threading.Event()

    def agent() -> None:
        with closing(sqlite3.connect(root / "sessions.db", timeout=60, isolation_level=None)) as db:
            while not done.is_set():
                began = time.process_time()
                db.execute("BEGIN IMMEDIATE")
                waits.append(time.process_time() - began)
                db.execute("ROLLBACK")
                time.sleep(0.01)

    thread = threading.Thread(target=agent)
    thread.start()
    try:
        with holdfast.open(root) as home:
            result = home.maintain(force=True)
    finally:
        done.set()
        thread.join()
    assert result.removed > 2_000
    assert len(waits) > 10
    assert max(waits) <= LONGEST, sorted(waits)[-5:]
