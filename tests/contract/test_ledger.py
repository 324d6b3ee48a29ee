"""What was used stays counted, once, whatever leaves the store or comes back."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SessionEndedError, UnknownSessionError
from holdfast.model.checkup import Repair, Severity
from holdfast.model.session import Message, Session, SessionFilter, Tokens
from holdfast.model.usage import CostTotals, Usage
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.session_import import import_sessions
from holdfast.spine.carry_out import Silent
from holdfast.stores.sessions import content
from holdfast.stores.sqlite import checkup, schema
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.schema import pattern, prepared
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.builders import moment
from tests.session_stores import BOTH, kind_of, opened_for
from tests.stored import remove_rows, usage_of

NOW = moment("2026-03-25T12:00")
DAY = 86_400
PAGE = 4096
#: Rows of the ledger: tokens in, out, cached, and cost, by day, source and model.
Rows = dict[tuple[str, str, str], tuple[int, int, int, float]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "sessions.db"


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    tmp_path.chmod(0o700)
    yield from opened_for(request, tmp_path)


def a_session(name: str = "a", **fields: Any) -> Session:
    made = Session(id=name, source="cli", model="m", started_at=NOW, last_active_at=NOW)
    return replace(made, **fields)


def answered(**fields: Any) -> Message:
    made = Message(
        role="assistant",
        content="words " * 90,
        tokens=Tokens(input=10, output=2, cached=3),
        cost=0.5,
    )
    return replace(made, **fields)


def rows(store: SessionStore) -> Rows:
    if not isinstance(store, SqliteSessionStore):
        return {
            (each.day or "", each.source, each.model or ""): (
                *astuple(each.usage.tokens),
                each.usage.cost,
            )
            for each in store.usage_entries()
        }
    with store.database.read() as db:
        return {
            (day, source, model): tuple(used)
            for day, source, model, *used in db.execute(
                "SELECT day, source, model, tokens_in, tokens_out, tokens_cached, cost FROM ledger"
            )
        }


def usage_at(path: Path) -> CostTotals:
    with contextlib.closing(SqliteSessionStore(path, create=False)) as store:
        return usage_of(store)


def bring(
    store: SessionStore,
    *lines: dict[str, Any],
    replacing: bool = False,
    count_usage: bool = True,
) -> None:
    stream = io.BytesIO("\n".join(json.dumps(line) for line in lines).encode())
    importing = kind_of(store).importing(store, count_usage=count_usage)
    report = import_sessions(importing, stream, replace=replacing, now=NOW)
    assert report.refused == ()


def a_line(name: str, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    base = {"id": name, "source": "cli", "started_at": NOW - 9 * DAY, "messages": list(messages)}
    return base | fields


def used(tokens: int, days_ago: float = 0, cost: float | None = None) -> dict[str, Any]:
    """A message of a user that a model read."""
    return {"role": "user", "tokens": tokens, "cost": cost, "timestamp": NOW - days_ago * DAY}


# --- appending --------------------------------------------------------------------------------


def test_usage_is_kept_by_day_source_and_model(store: SessionStore) -> None:
    store.create(a_session("a"))
    store.create(a_session("b", source="cron", model=None))
    store.append("a", [answered(), answered(timestamp=NOW - DAY), answered()], now=NOW)
    store.append("a", [answered()], now=NOW + 1)
    store.append("b", [Message(role="user", content="x", tokens=7)], now=NOW)
    assert rows(store) == {
        ("2026-03-24", "cli", "m"): (10, 2, 3, 0.5),
        ("2026-03-25", "cli", "m"): (30, 6, 9, 1.5),
        ("2026-03-25", "cron", ""): (7, 0, 0, 0.0),
    }


def test_messages_that_used_nothing_leave_the_ledger_alone(store: SessionStore) -> None:
    store.create(a_session())
    store.append("a", [Message(role="user", content="x"), answered(tokens=0, cost=0)], now=NOW)
    assert rows(store) == {}
    assert usage_of(store).ever.usage == Usage()


def test_a_known_cost_counts_without_tokens(store: SessionStore) -> None:
    store.create(a_session())
    store.append("a", [answered(tokens=None), answered(cost=None)], now=NOW)
    assert rows(store) == {("2026-03-25", "cli", "m"): (10, 2, 3, 0.5)}


@pytest.mark.parametrize(
    ("timestamp", "day"),
    [
        (moment("2026-03-25T00:00"), "2026-03-25"),
        (moment("2026-03-25T00:00") - 0.0001, "2026-03-24"),
        (-0.5, "1969-12-31"),
        (-62_135_596_800.0, "0001-01-01"),
        (-62_135_596_801.0, ""),
        (253_402_300_799.5, "9999-12-31"),
        (253_402_300_800.0, ""),
        (1e18, ""),
        (-1e18, ""),
    ],
)
def test_every_time_has_a_place(path: Path, timestamp: float, day: str) -> None:
    """The same whether a message brings it, or a store that had no ledger yet."""
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.create(a_session())
        store.append("a", [answered(timestamp=timestamp)], now=NOW)
        assert rows(store) == {(day, "cli", "m"): (10, 2, 3, 0.5)}
        assert [share.name for share in usage_of(store).by_day] == [day or None]
    older = path.with_name("older.db")
    make_schema_1(older, a_session(started_at=timestamp), [answered()])
    with contextlib.closing(SqliteSessionStore(older)) as store:
        assert rows(store) == {(day, "cli", "m"): (10, 2, 3, 0.5)}


def test_what_is_not_stored_is_not_counted(store: SessionStore) -> None:
    store.create(a_session())
    with pytest.raises(UnknownSessionError), store.transaction():
        _append_to_two(store, "a", "nobody")
    store.end("a", "done", at=NOW)
    with pytest.raises(SessionEndedError):
        store.append("a", [answered()], now=NOW)
    assert rows(store) == {}


def _append_to_two(store: SessionStore, *names: str) -> None:
    for name in names:
        store.append(name, [answered()], now=NOW)


def test_what_leaves_the_store_stays_counted(store: SessionStore) -> None:
    for name in ("a", "b"):
        store.create(a_session(name))
        store.append(name, [answered()], now=NOW)
    before = rows(store)
    kind_of(store).remove(store, "a")
    assert rows(store) == before
    stats = store.statistics(now=NOW, ages=[("all", float("inf"))])
    assert (stats.tokens, stats.cost) == (12, 0.5)
    assert usage_of(store).ever.usage == Usage(
        tokens=Tokens(input=20, output=4, cached=6), cost=1.0
    )


def test_every_day_with_usage_is_told(store: SessionStore) -> None:
    store.create(a_session())
    for day in range(40):
        store.append("a", [answered(timestamp=NOW - 2 * day * DAY)], now=NOW)
    usage = usage_of(store)
    assert [usage.by_day[0].name, usage.by_day[1].name] == ["2026-03-25", "2026-03-23"]
    assert len(usage.by_day) == 40
    assert usage.ever.usage.tokens.input == 400


def test_shares_begin_with_what_used_most(store: SessionStore) -> None:
    for name, source, model, times in (("a", "x", "m", 1), ("b", "y", None, 3), ("c", "z", "n", 2)):
        store.create(a_session(name, source=source, model=model))
        store.append(name, [answered()] * times, now=NOW)
    usage = usage_of(store)
    assert [share.name for share in usage.by_source] == ["y", "z", "x"]
    assert [share.name for share in usage.by_model] == [None, "n", "m"]
    assert usage.by_source[0].cost.usage == Usage(
        tokens=Tokens(input=30, output=6, cached=9), cost=1.5
    )


# --- importing --------------------------------------------------------------------------------


def test_an_import_counts_once(store: SessionStore) -> None:
    line = a_line("a", used(5, days_ago=2), used(6))
    bring(store, line)
    bring(store, line)
    assert rows(store) == {
        ("2026-03-23", "cli", ""): (5, 0, 0, 0.0),
        ("2026-03-25", "cli", ""): (6, 0, 0, 0.0),
    }


def test_a_refused_line_counts_nothing(store: SessionStore) -> None:
    line = a_line("a", used(5), {"role": "user", "tokens": "many"})
    stream = io.BytesIO(json.dumps(line).encode())
    assert import_sessions(kind_of(store).importing(store), stream, replace=False, now=NOW).refused
    assert rows(store) == {}


def test_what_is_replaced_is_taken_off(store: SessionStore) -> None:
    bring(store, a_line("a", used(5, days_ago=2, cost=0.1), used(6)), a_line("b", used(1)))
    bring(store, a_line("a", used(7, days_ago=1), source="cron", model="m"), replacing=True)
    assert rows(store) == {
        ("2026-03-24", "cron", "m"): (7, 0, 0, 0.0),
        ("2026-03-25", "cli", ""): (1, 0, 0, 0.0),
    }


def test_replacing_a_session_by_itself_changes_nothing(store: SessionStore) -> None:
    line = a_line("a", *(used(n, days_ago=n % 5, cost=0.1 * n) for n in range(40)))
    bring(store, line, a_line("b", used(3, cost=0.7)))
    before = rows(store)
    bring(store, line, replacing=True)
    assert rows(store) == {key: pytest.approx(row) for key, row in before.items()}


def test_what_comes_back_is_not_counted_again(store: SessionStore) -> None:
    line = a_line("a", used(5, cost=0.1))
    bring(store, line)
    before = rows(store)
    kind_of(store).remove(store, "a")
    bring(store, line, count_usage=False)
    assert store.get("a").tokens.input == 5
    assert rows(store) == before
    bring(store, a_line("a", used(6)), replacing=True, count_usage=False)
    assert rows(store) == before


# --- a store that had no ledger ---------------------------------------------------------------


def make_schema_1(path: Path, session: Session, messages: list[Message], count: int = 1) -> None:
    """A store of schema 1 with sessions that all say the same."""
    encoded = [(message, content.encode(message)) for message in messages]
    tokens = [message.usage for message in messages]
    with contextlib.closing(prepared(sqlite3.connect(path, isolation_level=None))) as db:
        schema.migrate(db, to=1)
        db.execute("BEGIN")
        for number in range(1, count + 1):
            db.execute(
                """
                INSERT INTO sessions (number, id, source, model, started_at, last_active_at,
                    message_count, tokens_in, tokens_out, tokens_cached, cost, bytes)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    number,
                    session.id if count == 1 else f"{session.id}{number}",
                    session.source,
                    session.model,
                    session.started_at,
                    session.last_active_at,
                    len(messages),
                    sum(each.input for each in tokens),
                    sum(each.output for each in tokens),
                    sum(each.cached for each in tokens),
                    sum(message.cost or 0.0 for message in messages),
                    sum(row.size for _, row in encoded),
                ),
            )
            db.executemany(
                """
                INSERT INTO messages (session, role, timestamp, form, body, fields)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
                [
                    (number, each.role, each.timestamp or NOW, row.form, row.body, row.fields)
                    for each, row in encoded
                ],
            )
        db.execute("COMMIT")


def everything(path: Path) -> list[tuple[Any, ...]]:
    tables = ("sessions", "messages", "routes", "leases")
    with contextlib.closing(sqlite3.connect(path)) as db:
        return [row for table in tables for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608


def test_an_older_store_gets_a_ledger(path: Path) -> None:
    began = a_session(started_at=NOW - 5 * DAY)
    make_schema_1(path, began, [answered(), answered(timestamp=NOW - DAY)], count=3)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        # Nobody knows the days of totals, so all of it is on the day on which the session began.
        assert rows(store) == {("2026-03-20", "cli", "m"): (60, 12, 18, 3.0)}
        store.append("a1", [answered()], now=NOW)
        assert rows(store)["2026-03-25", "cli", "m"] == (10, 2, 3, 0.5)
        remove_rows(store, "a2")
        assert usage_of(store).ever.usage.cost == 3.5
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.LATEST,)


def test_migrating_changes_no_row_that_was_there(path: Path) -> None:
    make_schema_1(path, a_session(), [answered()], count=20)
    before = everything(path)
    SqliteSessionStore(path).close()
    after = everything(path)
    # What is new stands behind what was there.
    assert [new[: len(old)] for old, new in zip(before, after, strict=True)] == before
    assert [
        each for each in checkup.check(path, Silent()) if each.severity is not Severity.OK
    ] == []


def test_an_older_empty_store_gets_an_empty_ledger(path: Path) -> None:
    make_schema_1(path, a_session(), [])
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert rows(store) == {}


def test_replacing_a_session_from_before_the_ledger(path: Path) -> None:
    """It is taken off from where it was booked, and what came later from its own days."""
    make_schema_1(path, a_session(started_at=NOW - 9 * DAY), [answered(), answered()])
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.append("a", [answered(timestamp=NOW - DAY)], now=NOW)
        bring(store, a_line("a", used(7)), replacing=True)
        assert rows(store) == {("2026-03-25", "cli", ""): (7, 0, 0, 0.0)}


# --- doctor -----------------------------------------------------------------------------------


@pytest.fixture
def filled(path: Path) -> Path:
    """Sessions on several days, and the usage of one that is gone."""
    with contextlib.closing(SqliteSessionStore(path)) as store, store.transaction():
        for number in range(30):
            store.create(a_session(f"s{number}", source=("cli", "cron")[number % 2]))
            store.append(
                f"s{number}",
                [answered(content="x" * 250, timestamp=NOW - day * DAY) for day in range(8)],
                now=NOW,
            )
        store.create(a_session("gone", source="telegram"))
        store.append("gone", [answered()] * 5, now=NOW)
        remove_rows(store, "gone")
    return path


def mend(path: Path) -> Repair:
    return repair(path, stamp="now", progress=Silent())


def is_sound(path: Path) -> bool:
    return all(each.severity is Severity.OK for each in checkup.check(path, Silent()))


def destroy(path: Path, page: int) -> None:
    """Pages are numbered from 1."""
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = b"\xa5" * PAGE
    path.write_bytes(data)


def root_page(path: Path, name: str) -> int:
    with contextlib.closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        return int(db.execute(query, (name,)).fetchone()[0])


def test_a_store_made_anew_keeps_its_ledger(filled: Path) -> None:
    before = usage_at(filled)
    destroy(filled, root_page(filled, "sessions_by_source"))
    result = mend(filled)
    assert (result.losses, len(result.steps)) == ((), 2)
    assert usage_at(filled) == before
    assert is_sound(filled)


def test_a_damaged_ledger_is_counted_from_what_is_left_and_said(filled: Path) -> None:
    before = usage_at(filled)
    destroy(filled, root_page(filled, "ledger"))
    assert not is_sound(filled)
    result = mend(filled)
    [loss] = result.losses
    assert loss.describe().startswith("an unknown number of usage totals: all-time usage counts")
    assert any("usage" in step for step in result.steps)
    after = usage_at(filled)
    assert [share.name for share in after.by_source] == ["cli", "cron"]
    assert after.by_source == before.by_source[:2]
    assert after.by_day[1:] == before.by_day[1:]
    assert is_sound(filled)


def test_rows_of_a_damaged_ledger_that_can_be_read_stay(path: Path) -> None:
    """They know of sessions that are gone; rows that are lost are made from those that are not."""
    with contextlib.closing(SqliteSessionStore(path)) as store, store.transaction():
        store.create(a_session("stays"))
        store.create(a_session("goes", source="x"))
        for day in range(600):
            at = NOW - day * DAY
            store.append("stays", [answered(content=None, timestamp=at)], now=NOW)
            store.append("goes", [answered(content=None, timestamp=at)], now=NOW)
        remove_rows(store, "goes")
    with contextlib.closing(SqliteSessionStore(path)) as store:
        before = rows(store)
    data = path.read_bytes()
    leaf = data.index(b"2025-08-01") // PAGE + 1
    assert leaf != root_page(path, "ledger")
    destroy(path, leaf)
    mend(path)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        after = rows(store)
    assert {key: row for key, row in before.items() if key[1] == "cli"}.items() <= after.items()
    gone = before.keys() - after.keys()
    assert 0 < len(gone) < 200
    assert {source for _, source, _ in gone} == {"x"}
    assert is_sound(path)


def test_an_older_store_is_mended_into_one_with_a_ledger(path: Path) -> None:
    make_schema_1(path, a_session(), [answered(), answered(timestamp=NOW - DAY)], count=50)
    assert is_sound(path)
    destroy(path, root_page(path, "sessions_by_source"))
    assert not is_sound(path)
    result = mend(path)
    assert result.losses == ()
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert rows(store) == {
            ("2026-03-24", "cli", "m"): (500, 100, 150, 25.0),
            ("2026-03-25", "cli", "m"): (500, 100, 150, 25.0),
        }


def test_an_older_store_is_mended_in_place(path: Path) -> None:
    make_schema_1(path, a_session(), [answered()], count=5)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET message_count = 9 WHERE number = 1")
    assert any("recounted" in step for step in mend(path).steps)
    assert is_sound(path)
    assert usage_at(path).ever.usage.cost == 2.5


def test_an_older_store_that_lost_a_part_is_damaged(path: Path) -> None:
    make_schema_1(path, a_session(), [answered()])
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE leases")
    [store, *_] = checkup.check(path, Silent())
    assert store.message == "parts of it are missing: table leases"


def test_tables_of_a_migrated_store_begin_where_those_of_a_new_one_do(path: Path) -> None:
    """What putting back a lost first page relies on."""
    make_schema_1(path, a_session(), [answered()] * 20, count=100)
    SqliteSessionStore(path).close()
    query = "SELECT name, rootpage, sql FROM sqlite_schema"
    with contextlib.closing(sqlite3.connect(path)) as db, contextlib.closing(pattern()) as new:
        assert db.execute(query).fetchall() == new.execute(query).fetchall()


@pytest.mark.parametrize("migrated", [True, False])
def test_a_lost_list_of_tables_costs_no_message(path: Path, migrated: bool) -> None:
    """It goes on behind its first page: at the end of what there was when the last table came."""
    if migrated:
        make_schema_1(path, a_session(), [answered(content="x" * 250)] * 20, count=100)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        if not migrated:
            store.create(a_session("a1"))
            store.append("a1", [answered(content="x" * 250)] * 2_000, now=NOW)
        before = usage_of(store)
        sessions = store.find(SessionFilter())
    saved = Path(shutil.copy(path, path.with_name("saved")))
    data = path.read_bytes()
    texts = (b"CREATE TABLE sessions (", b"CREATE TABLE ledger (")
    below = {data.index(text, PAGE) // PAGE + 1 for text in texts}
    for pages in ({1}, {1, *below}):
        shutil.copy(saved, path)
        for page in pages:
            destroy(path, page)
        result = mend(path)
        assert result.losses == ()
        assert is_sound(path)
        with contextlib.closing(SqliteSessionStore(path)) as store:
            assert store.find(SessionFilter()) == sessions
            assert sum(1 for each in sessions for _ in store.messages(each.id)) == 2_000
            assert usage_of(store) == before
