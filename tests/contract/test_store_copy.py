"""A store is copied whole, between SQLite and PostgreSQL, and goes on after a kill."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.api.store import copy_store
from holdfast.errors import ConfigError, DamageError, UsageError
from holdfast.model.session import Message, Relation, Search, Session, SessionFilter
from holdfast.stores import store_copy
from holdfast.stores.postgres import store_copy as postgres_copy
from holdfast.stores.postgres.sessions import PostgresSessionStore
from holdfast.stores.sqlite import store_copy as sqlite_copy
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import postgres, tally
from tests.stored import a_dead_holder

NOW = 1_800_000_000.0
#: What a message may hold: large, structured, empty, and what is no text to SQL.
CONTENTS: list[Any] = [
    "hello",
    "x" * 5_000,
    {"a": [1, "\0"]},
    None,
    "",
    "nul\0",
    "\ud83d half",
    "日本語",
]


def a_store(path: Path, sessions: int = 4) -> Path:
    with closing(SqliteSessionStore(path)) as store:
        for number in range(sessions):
            name = f"2026010{number + 1}_000000_aaaaaa"
            parent = f"2026010{number}_000000_aaaaaa" if number % 2 else None
            store.create(
                Session(
                    id=name,
                    source="cli",
                    title=f"No. {number} ü",
                    model="m",
                    started_at=NOW,
                    last_active_at=NOW,
                    parent_id=parent,
                    relation=Relation.BRANCH if parent else None,
                )
            )
            messages = [Message("user", each, tokens=7, cost=0.25) for each in CONTENTS]
            store.append(name, messages, now=NOW + number)
            if number % 3 == 0:
                store.end(name, "done", at=NOW + 9)
            else:
                store.hold(name, a_dead_holder(), now=NOW)
            store.pin(name, number == 1)
        store.route("chat/1", "20260102_000000_aaaaaa")
    return path


def everything(store: Any) -> list[Any]:
    found = sorted(store.find(SessionFilter()), key=lambda each: each.id)
    said = [[*store.messages(each.id)] for each in found]
    return [found, said, store.usage_entries(), store.routed("chat/1")]


def of_file(path: Path) -> list[Any]:
    with closing(SqliteSessionStore(path, create=False)) as store:
        return everything(store)


def of_database(url: str) -> list[Any]:
    with closing(PostgresSessionStore(url)) as store:
        return everything(store)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_there_and_back(tmp_path: Path) -> None:
    first, url = a_store(tmp_path / "sessions.db"), postgres.a_database()
    before = digest(first)
    there = copy_store(first, url)
    assert (there.sessions, there.messages, there.moved) == (4, 4 * len(CONTENTS), 4)
    assert there.complete
    assert digest(first) == before  # only read
    assert of_database(url) == of_file(first)
    back = copy_store(url, tmp_path / "back.db")
    assert back.checksum == there.checksum
    assert of_file(tmp_path / "back.db") == of_file(first)
    assert _rows(tmp_path / "back.db") == _rows(first)
    # Both go on: the next message has a number of its own, and is found.
    with closing(PostgresSessionStore(url)) as store:
        store.create(Session(id="new", source="cli", started_at=NOW, last_active_at=NOW))
        added = store.append("new", [Message("user", "zebra")], now=NOW)
        assert added.numbers[0] > 4 * len(CONTENTS)
        assert len(store.search(Search(text="zebra"))) == 1
        assert len(store.search(Search(text="hello"))) == 4
    with closing(SqliteSessionStore(tmp_path / "back.db", create=False)) as store:
        assert len(store.search(Search(text="hello"))) == 4


def _rows(path: Path) -> list[Any]:
    with closing(SqliteSessionStore(path, create=False)) as store, store.database.read() as db:
        names = ("sessions", "messages", "leases", "routes", "ledger", "guarded")
        return [db.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in names]  # noqa: S608


@pytest.mark.parametrize("kills", [3, pytest.param(6, marks=pytest.mark.deep)])
@pytest.mark.parametrize("to", ["postgres", "sqlite"])
def test_a_killed_copy_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, kills: int
) -> None:
    monkeypatch.setattr(store_copy, "_MOST_SESSIONS", 1)
    source = a_store(tmp_path / "sessions.db", sessions=8)
    target = postgres.a_database() if to == "postgres" else str(tmp_path / "copy.db")
    kind = postgres_copy.PostgresTarget if to == "postgres" else sqlite_copy.SqliteTarget
    steps = ["put", "put_beside", "finish", "messages", "beside", "drop"]
    for number in range(kills):
        child = os.fork()
        if child == 0:  # pragma: no cover - it is killed
            try:
                _die_in(kind, steps[number % len(steps)], after=2 if number == 0 else 0)
                copy_store(source, target)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        tally.injected()
    done = copy_store(source, target)
    assert done.complete
    assert done.moved < 8
    found = of_database(target) if to == "postgres" else of_file(Path(target))
    assert found == of_file(source)
    tally.verified()


def _die_in(kind: Any, step: str, after: int) -> None:
    real, calls = getattr(kind, step), 0

    def dying(self: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *args)

    setattr(kind, step, dying)


def test_what_was_written_meanwhile_is_copied_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, url = a_store(tmp_path / "sessions.db"), postgres.a_database()
    real = store_copy._compare

    def compare(*args: Any) -> Any:
        with closing(SqliteSessionStore(source)) as store:
            store.append("20260102_000000_aaaaaa", [Message("user", "late")], now=NOW + 99)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store_copy, "_compare", compare)
        assert not copy_store(source, url).complete
    again = copy_store(source, url)
    assert (again.complete, again.moved) == (True, 1)
    assert of_database(url) == of_file(source)


def test_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, url = a_store(tmp_path / "sessions.db"), postgres.a_database()

    real = postgres_copy.PostgresTarget.messages

    def wrong(self: Any, *args: Any) -> Iterator[Any]:
        for row in real(self, *args):
            yield (*row[:5], b"other", *row[6:]) if row[1] == 3 else row

    with monkeypatch.context() as patch:
        patch.setattr(postgres_copy.PostgresTarget, "messages", wrong)
        with pytest.raises(DamageError, match="differs from"):
            copy_store(source, url)
    assert copy_store(source, url).complete


def test_a_store_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    source, other = a_store(tmp_path / "sessions.db"), a_store(tmp_path / "other.db", sessions=2)
    before = of_file(other)
    with pytest.raises(UsageError, match="not empty"):
        copy_store(source, other)
    assert of_file(other) == before
    with pytest.raises(UsageError, match="onto itself"):
        copy_store(source, source)
    with pytest.raises(UsageError, match="no session store"):
        copy_store(tmp_path / "nothing.db", postgres.a_database())


def test_what_is_no_store_is_named_and_left_alone(tmp_path: Path) -> None:
    first = a_store(tmp_path / "sessions.db", 2)
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_text("root:x:0:0:root:/root:/bin/bash\n" * 100)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE notes (id)")
    for each in (text, other):
        with pytest.raises(UsageError, match="is not a session store"):
            copy_store(each, tmp_path / "back.db")
    with pytest.raises(UsageError, match="There is no folder"):
        copy_store(first, tmp_path / "mistyped" / "back.db")
    assert {each.name.partition("-")[0] for each in tmp_path.iterdir()} == {
        *("other.db", "sessions.db", "text")
    }


@pytest.mark.parametrize(
    "where",
    [
        "host=127.0.0.1 password=SEKRET dbname=holdfast",
        "dbname = holdfast password = 'SEKRET'",
        "application_name=x password=SEKRET",
        "PASSWORD=SEKRET",
        "postgresql:/me:SEKRET@host/x",
        "Postgresql://me:SEKRET@host/x",
    ],
)
def test_what_may_hold_a_password_is_neither_a_file_nor_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    first = a_store(tmp_path / "sessions.db", 2)
    for ends in ((first, where), (where, first)):
        with pytest.raises((UsageError, ConfigError)) as refused:
            copy_store(*ends)
        assert "SEKRET" not in refused.value.message + (refused.value.hint or "")
    assert {each.name.partition("-")[0] for each in tmp_path.iterdir()} == {"sessions.db"}
