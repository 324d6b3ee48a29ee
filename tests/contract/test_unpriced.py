"""Tokens that came without a cost are counted apart, wherever sessions go."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.archive import session_from_json
from holdfast.model.checkup import Severity
from holdfast.model.session import Message, Session, SessionFilter, SessionOrder, Tokens
from holdfast.policy.prices import Price, Prices
from holdfast.spine.carry_out import Silent
from holdfast.stores.sessions import content
from holdfast.stores.sqlite import bundle, checkup, schema
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.schema import prepared
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.builders import moment
from tests.stored import put_rows_back, remove_rows, usage_of

NOW = moment("2026-03-25T12:00")
PAGE = 4096
TOLD = Message(role="assistant", content="a", tokens=Tokens(input=10, output=2), cost=0.5)
FREE = replace(TOLD, cost=0.0)
#: Long enough that its fields are packed.
UNTOLD = Message(
    role="assistant",
    content="b",
    tokens=Tokens(input=100, output=20, cached=3),
    tool_calls=[{"arguments": "x" * 2_000}],
)
A_COUNT = Message(role="user", content="c", tokens=7)
DARK = Tokens(input=107, output=20, cached=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSessionStore]:
    with contextlib.closing(SqliteSessionStore(path)) as opened:
        yield opened


def a_session(name: str = "a", **fields: Any) -> Session:
    made = Session(id=name, source="cli", model="m", started_at=NOW, last_active_at=NOW)
    return replace(made, **fields)


def add(store: SqliteSessionStore, name: str, *messages: Message, **fields: Any) -> Session:
    store.create(a_session(name, **fields))
    return store.append(name, messages, now=NOW).after


def is_sound(path: Path) -> bool:
    return all(each.severity is Severity.OK for each in checkup.check(path, Silent()))


def test_what_came_without_a_cost_is_counted_apart(store: SqliteSessionStore, path: Path) -> None:
    add(store, "a", TOLD, UNTOLD)
    after = store.append("a", [A_COUNT, FREE], now=NOW).after
    assert after.unpriced == DARK
    assert store.get("a") == after
    assert (after.cost, after.tokens.input) == (0.5, 127)
    [entry] = store.usage_entries()
    assert (entry.usage.unpriced, entry.usage.cost) == (DARK, 0.5)
    assert usage_of(store).ever.usage.unpriced == DARK
    assert is_sound(path)


def test_a_cost_of_nothing_was_told(store: SqliteSessionStore) -> None:
    assert add(store, "a", FREE).unpriced == Tokens()


def test_the_ledger_of_one_day(store: SqliteSessionStore) -> None:
    add(store, "a", TOLD, replace(UNTOLD, timestamp=NOW - 86_400))
    assert [entry.day for entry in store.usage_entries()] == ["2026-03-24", "2026-03-25"]
    [today] = store.usage_entries(on=NOW)
    assert (today.day, today.source, today.model) == ("2026-03-25", "cli", "m")
    assert today.usage.unpriced == Tokens()
    assert store.usage_entries(on=1e300) == []


def test_an_archived_line_keeps_them_and_an_older_one_says_it_by_its_cost() -> None:
    session = a_session(tokens=DARK, cost=0.5, unpriced=Tokens(input=7))
    document = session.to_json()
    assert session_from_json(document) == session
    older = {key: value for key, value in document.items() if not key.startswith("unpriced")}
    assert session_from_json(older).unpriced == Tokens()
    assert session_from_json(older | {"cost": 0.0}).unpriced == DARK


# --- Sorting ----------------------------------------------------------------------------------


def sorted_by_cost(store: SqliteSessionStore, prices: Prices | None, **page: int) -> list[str]:
    found = store.find(SessionFilter(), order_by=SessionOrder.COST, prices=prices, **page)
    return [session.id for session in found]


def test_sorted_by_cost_prices_count_and_what_is_unknown_does_not(
    store: SqliteSessionStore,
) -> None:
    add(store, "told", TOLD)
    add(store, "dark", UNTOLD, model="other")
    add(store, "priced", UNTOLD)
    add(store, "nothing")
    add(store, "both", TOLD, UNTOLD)
    assert sorted_by_cost(store, None) == ["both", "told", "nothing", "priced", "dark"]
    prices = Prices(by_model={"m": Price(input=10_000, output=0, cached=0)})
    assert sorted_by_cost(store, prices) == ["both", "priced", "told", "nothing", "dark"]
    assert sorted_by_cost(store, prices, limit=2, offset=1) == ["priced", "told"]
    # Other prices, another order, on the same connection.
    other = Prices(by_model={"other": Price(input=10_000, output=0)})
    assert sorted_by_cost(store, other)[0] == "dark"


def test_the_open_ones_are_found_among_many_that_ended(store: SqliteSessionStore) -> None:
    for number in range(30):
        add(store, f"s{number}", TOLD)
        if number % 7:
            store.end(f"s{number}", "done", at=NOW)
    opened = SessionFilter(ended=False)
    assert {session.id for session in store.find(opened)} == {"s0", "s7", "s14", "s21", "s28"}
    assert store.count(opened) == store.weigh(opened).count == 5
    assert store.count(replace(opened, min_messages=2)) == 0
    with store.database.read() as db:
        steps = db.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM sessions s INDEXED BY sessions_open "
            "WHERE s.ended_at IS NULL AND s.message_count >= 1 ORDER BY s.last_active_at"
        ).fetchall()
    assert "sessions_open" in steps[0][3]


# --- A store of an earlier version --------------------------------------------------------------


def make_schema_2(path: Path, sessions: Sequence[tuple[str, Sequence[Message]]]) -> None:
    """A store of schema 2. Its ledger knows of what is there, and of two sessions that are gone:
    one that told a cost on another day, and one that did not on a day of its own."""
    with contextlib.closing(prepared(sqlite3.connect(path, isolation_level=None))) as db:
        schema.migrate(db, to=2)
        db.execute("BEGIN")
        for number, (name, messages) in enumerate(sessions, start=1):
            used = [message.usage for message in messages]
            encoded = [content.encode(message) for message in messages]
            sums = (
                sum(each.input for each in used),
                sum(each.output for each in used),
                sum(each.cached for each in used),
                sum(message.cost or 0.0 for message in messages),
            )
            db.execute(
                """
                INSERT INTO sessions (number, id, source, model, started_at, last_active_at,
                    message_count, tool_call_count, tokens_in, tokens_out, tokens_cached, cost,
                    bytes)
                VALUES (?, ?, 'cli', 'm', ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    number,
                    name,
                    NOW,
                    NOW,
                    len(messages),
                    sum(message.tool_call_count for message in messages),
                    *sums,
                    sum(row.size for row in encoded),
                ),
            )
            db.execute(
                """
                INSERT INTO ledger VALUES ('2026-03-25', 'cli', 'm', ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET tokens_in = tokens_in + excluded.tokens_in,
                    tokens_out = tokens_out + excluded.tokens_out,
                    tokens_cached = tokens_cached + excluded.tokens_cached,
                    cost = cost + excluded.cost
                """,
                sums,
            )
            db.executemany(
                "INSERT INTO messages (session, role, timestamp, form, body, fields) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (number, message.role, NOW, row.form, row.body, row.fields)
                    for message, row in zip(messages, encoded, strict=True)
                ],
            )
        db.execute("INSERT INTO ledger VALUES ('2026-03-01', 'cli', 'm', 5, 6, 7, 1.5)")
        db.execute("INSERT INTO ledger VALUES ('2026-03-02', 'cli', 'm', 5, 6, 7, 0.0)")
        db.execute("COMMIT")


OLD = (("told", [TOLD]), ("dark", [UNTOLD, A_COUNT]), ("both", [TOLD, UNTOLD, FREE]))


def dark_days(store: SqliteSessionStore) -> dict[str | None, Tokens]:
    return {entry.day: entry.usage.unpriced for entry in store.usage_entries()}


def test_an_older_store_says_it_by_its_sums(path: Path) -> None:
    make_schema_2(path, [*OLD, ("free", [FREE])])
    assert is_sound(path)  # of a store that does not know them, they are not asked
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert store.get("told").unpriced == Tokens()
        assert store.get("dark").unpriced == DARK
        assert store.get("both").unpriced == Tokens(), "a cost was told"
        assert store.get("free").unpriced == FREE.usage, "none was, as far as its sums say"
        assert dark_days(store) == {
            "2026-03-01": Tokens(),
            "2026-03-02": Tokens(input=5, output=6, cached=7),
            "2026-03-25": DARK.plus(FREE.usage),
        }
    assert is_sound(path), "what is nearly right is no damage"


def test_what_an_older_store_gets_from_now_on_is_counted(path: Path) -> None:
    make_schema_2(path, OLD)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert store.append("both", [UNTOLD, TOLD], now=NOW).after.unpriced == UNTOLD.usage
        assert add(store, "new", A_COUNT).unpriced == Tokens(input=7)
        assert dark_days(store)["2026-03-25"] == DARK.plus(UNTOLD.usage).plus(Tokens(input=7))
    assert is_sound(path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET unpriced_in = 0 WHERE id = 'new'")
    assert not is_sound(path), "what was counted can be wrong"


def test_what_is_taken_off_an_older_ledger_leaves_no_nonsense(path: Path) -> None:
    """Of each session that is replaced, its messages say more than the ledger was told of it."""
    make_schema_2(path, [*OLD, ("free", [FREE])])
    with contextlib.closing(SqliteSessionStore(path)) as store:
        for name in ("both", "free", "dark", "told"):
            with SqliteImport(store) as importing, importing.transaction():
                importing.replace(a_session(name), [], now=NOW)
            for entry in store.usage_entries():
                used, dark = entry.usage.tokens, entry.usage.unpriced
                assert 0 <= dark.input <= used.input
                assert 0 <= dark.output <= used.output
                assert 0 <= dark.cached <= used.cached
        assert set(dark_days(store)) == {"2026-03-01", "2026-03-02"}
    assert is_sound(path)


@pytest.mark.parametrize("done", [0, 4, 10])
def test_a_kill_in_the_middle_leaves_the_older_store(
    path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    make_schema_2(path, OLD)
    before = path.read_bytes()
    statements = [*schema.statements(3)]

    def killed(_: int) -> Iterator[str]:
        yield from statements[:done]
        raise KeyboardInterrupt

    monkeypatch.setattr(schema, "statements", killed)
    with pytest.raises(KeyboardInterrupt):
        SqliteSessionStore(path)
    monkeypatch.undo()
    assert path.read_bytes()[:PAGE] == before[:PAGE]
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert store.get("dark").unpriced == DARK


def test_a_damaged_older_store_is_made_anew_with_them(path: Path) -> None:
    make_schema_2(path, [(f"{name}{n}", said) for n in range(30) for name, said in OLD])
    with contextlib.closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions_by_source'"
        [page] = db.execute(query).fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = b"\xa5" * PAGE
    path.write_bytes(data)
    assert repair(path, stamp="now", progress=Silent()).losses == ()
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert store.get("dark7").unpriced == DARK
        assert dark_days(store)["2026-03-02"] == Tokens(input=5, output=6, cached=7)
        assert dark_days(store)["2026-03-25"].input == 30 * (DARK.input + UNTOLD.usage.input)
    assert is_sound(path)


# --- Undo copies --------------------------------------------------------------------------------


def copied(store: SqliteSessionStore, folder: Path, *ids: str) -> Path:
    with store.database.read() as db:
        numbers = [
            db.execute("SELECT number FROM sessions WHERE id = ?", (name,)).fetchone()[0]
            for name in ids
        ]
        return BundleFolder(folder).write(db, numbers, 1, len(ids))


def without_counts(path: Path) -> None:
    """Make a bundle as an earlier version wrote it."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for column in bundle.LATER_COLUMNS:
            db.execute(f"ALTER TABLE sessions DROP COLUMN {column}")


@pytest.mark.parametrize("older", [False, True])
def test_they_come_back_from_the_trash(
    store: SqliteSessionStore, path: Path, tmp_path: Path, older: bool
) -> None:
    add(store, "a", TOLD, UNTOLD)
    add(store, "b", UNTOLD, A_COUNT)
    before = [store.get("a"), store.get("b")]
    copy = copied(store, tmp_path / "trash", "a", "b")
    if older:
        without_counts(copy)
    remove_rows(store, "a")
    remove_rows(store, "b")
    put_rows_back(store, copy, "a", "b")
    assert [store.get("a"), store.get("b")] == before
    assert is_sound(path)


def test_what_is_left_of_an_older_copy_can_still_be_brought_back(
    store: SqliteSessionStore, path: Path, tmp_path: Path
) -> None:
    add(store, "a", TOLD, UNTOLD)
    add(store, "b", UNTOLD, A_COUNT)
    before = store.get("b")
    copy = copied(store, tmp_path / "trash", "a", "b")
    without_counts(copy)
    smaller = BundleFolder(tmp_path / "trash").without(copy, {"a"})
    assert smaller is not None
    remove_rows(store, "b")
    put_rows_back(store, smaller, "b")
    assert store.get("b") == before
    assert is_sound(path)
