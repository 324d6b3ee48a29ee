"""Law 4 without power, for the session store: what a call acknowledged is in the flushed log."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import BudgetExceededError, StorageError
from holdfast.model.session import TAKEN_BACK, Message, Session, Tokens
from holdfast.policy.budgets import Budgets
from holdfast.stores import processes
from holdfast.stores.sqlite import log_flush, space
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete
from tests import tally

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
NOW = 1_800_000_000.0


@dataclass
class Disk:
    """The log as it was when it was last flushed. SQLite flushes the database for itself, and
    nothing here writes enough to reach it."""

    store: SqliteSessionStore
    flushed: bytes = b""
    failing: list[OSError] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.store.database.path.with_name("sessions.db-wal")

    def flush(self, fd: int) -> None:
        if self.failing:
            raise self.failing.pop()
        self.flushed = Path(f"/proc/self/fd/{fd}").read_bytes()

    def lose_power(self, to: Path) -> sqlite3.Connection:
        """What a machine finds that starts again now."""
        tally.injected()
        assert self.flushed == self.log.read_bytes(), "the call returned before the flush"
        to.mkdir()
        (to / "sessions.db").write_bytes(self.store.database.path.read_bytes())
        (to / "sessions.db-wal").write_bytes(self.flushed)
        return sqlite3.connect(to / "sessions.db")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    store = SqliteSessionStore(tmp_path / "sessions.db")
    store.create(Session(id="a", source="cli", started_at=NOW, last_active_at=NOW))
    made = Disk(store)
    monkeypatch.setattr(log_flush, "_flush", made.flush)
    yield made
    store.close()


def test_what_was_acknowledged_survives_the_power(disk: Disk, tmp_path: Path) -> None:
    store, me = disk.store, processes.this_process()
    said = [Message("user", "one", tokens=3), Message("user", "two")]

    def remove() -> None:
        with store.database.write() as db:
            delete(db, [1])

    steps: tuple[tuple[Callable[[], object], str, object], ...] = (
        (lambda: store.append("a", said, now=NOW), "SELECT count(*) FROM messages", 2),
        (lambda: store.rename("a", "b"), "SELECT title FROM sessions", "b"),
        (lambda: store.hold("a", me, now=NOW), "SELECT count(*) FROM leases", 1),
        (
            lambda: store.replace("a", [], after=1, mark=TAKEN_BACK, now=NOW),
            "SELECT message_count FROM sessions",
            1,
        ),
        (lambda: store.end("a", "done", at=NOW), "SELECT end_reason FROM sessions", "done"),
        (remove, "SELECT count(*) FROM messages", 0),
        (lambda: store.database.script("PRAGMA user_version"), "SELECT 7", 7),
        (lambda: space.renew_index(store.database), "SELECT count(*) FROM sessions", 0),
    )
    for number, (work, query, wanted) in enumerate(steps):
        work()
        left = disk.lose_power(tmp_path / str(number))
        assert left.execute(query).fetchone() == (wanted,)
        left.close()
    tally.verified()


def test_a_reply_takes_its_call_with_it_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a call is on the disk when it returns, and so is the end of a session."""
    monkeypatch.setattr(log_flush, "_SECONDS", 600.0)  # what is flushed here is not its work
    with open_sessions(tmp_path / "home") as sessions:
        store = sessions._store
        assert isinstance(store, SqliteSessionStore)
        guard = sessions.guard(sessions.create(source="cli"), budgets=Budgets(tokens=8))
        disk = Disk(store)
        monkeypatch.setattr(log_flush, "_flush", disk.flush)
        for number in range(2):
            with guard.call() as call:
                assert disk.flushed != disk.log.read_bytes()
                call.append(Message("assistant", "zebra", tokens=3))
            left = disk.lose_power(tmp_path / str(number))
            found = """
                SELECT iterations, message_count, tokens_out, (SELECT count(*) FROM reservations)
                FROM sessions JOIN guarded ON session = number
            """
            assert left.execute(found).fetchone() == (number + 1, number + 1, 3 * number + 3, 0)
            left.close()
        with pytest.raises(BudgetExceededError), guard.call(tokens=Tokens(input=3)):
            pytest.fail("6 and 3 are more than 8")
        left = disk.lose_power(tmp_path / "ended")
        ended = "SELECT end_reason FROM sessions"
        assert left.execute(ended).fetchone() == ("budget: tokens",)
        left.close()
    tally.verified()


def test_that_a_call_began_is_on_the_disk_in_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_sessions(tmp_path / "home") as sessions:
        store = sessions._store
        assert isinstance(store, SqliteSessionStore)
        guard = sessions.guard(sessions.create(source="cli"))
        disk, flushed = Disk(store), threading.Event()

        def flush(fd: int) -> None:
            disk.flush(fd)
            flushed.set()

        monkeypatch.setattr(log_flush, "_flush", flush)
        for number in (1, 2):  # the thread is there already for the second one
            flushed.clear()
            with guard.call():
                assert flushed.wait(60)
                left = disk.lose_power(tmp_path / str(number))
                assert left.execute("SELECT iterations FROM guarded").fetchone() == (number,)
                left.close()
    tally.verified()


def test_what_nobody_waited_for_is_flushed_when_it_is_old_enough(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before, because most calls are over by then and flushed what they began. Later requests
    do not put it off."""
    looks, flushed = threading.Semaphore(0), threading.Event()
    clock = [0.0]

    def monotonic() -> float:
        looks.release()
        return clock[0]

    def flush(fd: int) -> None:
        disk.flush(fd)
        flushed.set()

    monkeypatch.setattr(log_flush, "monotonic", monotonic)
    monkeypatch.setattr(log_flush, "_flush", flush)
    for at, title in ((0.0, "zebra"), (0.004, "gnu")):
        clock[0] = at
        with disk.store.database.write(flushed=False) as db:
            db.execute("UPDATE sessions SET title = ?", (title,))
        for _ in range(4):  # one by the request itself, the others by the thread
            assert looks.acquire(timeout=60)
        assert not flushed.is_set()
    clock[0] = 0.006  # the second one is young
    assert flushed.wait(60)
    assert b"gnu" in disk.flushed


def test_closing_a_store_flushes_what_nobody_waited_for(disk: Disk) -> None:
    with disk.store.database.write(flushed=False) as db:
        db.execute("UPDATE sessions SET title = 'zebra'")
    log = disk.log.read_bytes()
    disk.store.database.close()
    assert disk.flushed == log
    assert "holdfast-flush" not in [each.name for each in threading.enumerate()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_flushes_what_it_wrote_itself(disk: Disk, tmp_path: Path) -> None:
    with disk.store.database.write(flushed=False) as db:
        db.execute("UPDATE sessions SET title = 'zebra'")
    child = os.fork()
    if not child:
        try:
            disk.flushed = b""
            with disk.store.database.write(flushed=False) as db:
                db.execute("UPDATE sessions SET title = 'gnu'")
            disk.store.database.close()
            os._exit(0 if b"gnu" in disk.flushed else 1)
        except BaseException:  # noqa: BLE001 - a child must not run the tests of its parent
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_new_store_survives_the_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bytes] = []
    monkeypatch.setattr(
        log_flush, "_flush", lambda fd: flushed.append(Path(f"/proc/self/fd/{fd}").read_bytes())
    )
    store = SqliteSessionStore(tmp_path / "sessions.db")
    assert flushed[-1:] == [(tmp_path / "sessions.db-wal").read_bytes()]
    store.close()


def test_a_flush_that_fails_is_an_error_and_the_next_call_works(disk: Disk, tmp_path: Path) -> None:
    disk.failing.append(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError, match="may be lost if the power fails"):
        disk.store.append("a", [Message("user", "one")], now=NOW)
    disk.store.append("a", [Message("user", "two")], now=NOW)
    left = disk.lose_power(tmp_path / "left")
    assert left.execute("SELECT count(*) FROM messages").fetchone() == (2,)
    left.close()
