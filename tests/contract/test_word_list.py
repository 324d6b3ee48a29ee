"""The list of the words of the search index: a cache that saves a search for a part of a word from
reading the whole index, and that no search finds less by."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.model.figures import DiskRoom
from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.spine.carry_out import Silent
from holdfast.stores.sqlite import schema, search, search_index, space, word_list
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete, number_of
from holdfast.stores.sqlite.word_list import IndexWords
from tests.stored import put_rows_back
from tests.tally import injected, verified

WORDS = ("spielzeugmacher", "zebra", "Größe", "中文", "a1b2", "x" * 9_000)


@pytest.fixture(autouse=True)
def lists_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small stores would be read without asking the index, or keep no list."""
    monkeypatch.setattr(search, "_READ_FIRST", 0)
    monkeypatch.setattr(word_list, "_MANY", 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSessionStore]:
    with contextlib.closing(SqliteSessionStore(tmp_path / "sessions.db")) as store:
        say(store, "one", *WORDS)
        yield store


def say(store: SqliteSessionStore, name: str, *texts: str) -> None:
    """Store messages and index them."""
    if not store.count(SessionFilter(ids=(name,))):
        store.create(Session(id=name, source="cli", started_at=1.0, last_active_at=1.0))
    store.append(name, [Message(role="user", content=text) for text in texts], now=1.0)
    with store.database.write() as db:
        search_index.catch_up_some(db)


def found(store: SqliteSessionStore, part: str) -> list[str]:
    asked = Search(text=part, wanted=SessionFilter(), limit=100, substring=True)
    return sorted(str(hit.message.content) for hit in store.search(asked))


def kept(store: SqliteSessionStore) -> bytes | None:
    with store.database.read() as db:
        row = db.execute("SELECT words FROM word_list").fetchone()
        return None if row is None else row[0]


def removed(store: SqliteSessionStore, name: str) -> Path:
    """Take a session out; returns its copy."""
    with store.database.read() as db:
        number = number_of(db, name)
        copy = BundleFolder(store.database.path.parent / "trash").write(db, [number], 1, 1)
    with store.database.write() as db:
        delete(db, [number])
    return copy


def statements_of(store: SqliteSessionStore, part: str) -> Sequence[str]:
    said: list[str] = []
    store.database.connection().set_trace_callback(said.append)
    found(store, part)
    store.database.connection().set_trace_callback(None)
    return said


def test_only_the_first_search_reads_all_words_of_the_index(store: SqliteSessionStore) -> None:
    assert any("index_words" in each for each in statements_of(store, "zeug"))
    assert kept(store) is not None
    assert not any("index_words" in each for each in statements_of(store, "ebr"))


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("zeug", ["spielzeugmacher"]),
        ("EBRA", ["zebra"]),
        ("rosse", []),
        ("roß", ["Größe"]),
        ("中文", ["中文"]),
        ("1b", ["a1b2"]),
        ("xyx", []),
        ("xx", ["x" * 9_000]),
    ],
)
def test_the_second_search_finds_what_the_first_found(
    store: SqliteSessionStore, part: str, wanted: list[str]
) -> None:
    first = found(store, part)
    assert kept(store) is not None or part == "中文"  # which is two words, and no part of any
    assert first == found(store, part) == wanted


def test_messages_that_came_since_are_found(store: SqliteSessionStore) -> None:
    found(store, "zeug")
    before = kept(store)
    say(store, "two", "an ocelot")
    assert found(store, "celo") == ["an ocelot"]
    assert kept(store) == before


def test_a_list_that_is_far_behind_is_made_again(
    store: SqliteSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(store, "zeug")
    before = kept(store)
    monkeypatch.setattr(word_list, "_FEW_BEHIND", 1)
    say(store, "two", "an ocelot", "a marmot")
    assert found(store, "celo") == ["an ocelot"]
    assert kept(store) != before
    assert found(store, "armo") == ["a marmot"]


def test_what_came_back_is_found(store: SqliteSessionStore) -> None:
    say(store, "two", "an ocelot")
    copy = removed(store, "two")
    assert found(store, "celo") == []
    put_rows_back(store, copy, "two")
    assert found(store, "celo") == ["an ocelot"]


def test_what_came_back_with_wrong_totals_is_found(store: SqliteSessionStore) -> None:
    say(store, "two", "an ocelot")
    with store.database.write() as db:
        db.execute("UPDATE sessions SET message_count = 0, bytes = 0 WHERE id = 'two'")
    copy = removed(store, "two")
    found(store, "zeug")
    put_rows_back(store, copy, "two")
    assert found(store, "celo") == ["an ocelot"]


def test_what_a_repair_put_into_the_index_is_found(store: SqliteSessionStore) -> None:
    """The list was made while the index lacked a message."""
    say(store, "two", "an ocelot")
    path = store.database.path
    with store.database.write() as db:
        search_index.forget(db, [number_of(db, "two")])
    assert found(store, "celo") == []
    store.close()
    repair(path, stamp="1", progress=Silent())
    with contextlib.closing(SqliteSessionStore(path)) as again:
        assert found(again, "celo") == ["an ocelot"]


def test_what_came_back_while_a_list_was_made_is_found(store: SqliteSessionStore) -> None:
    say(store, "two", "an ocelot")
    copy = removed(store, "two")
    with store.database.read() as db:
        words = IndexWords(db)
        assert words.containing("zeug", 10, at_end=False)
    put_rows_back(store, copy, "two")
    words.keep(store.database)
    assert kept(store) is None
    assert found(store, "celo") == ["an ocelot"]


def test_what_a_process_that_knows_no_list_brings_back_is_found(
    store: SqliteSessionStore,
) -> None:
    """It had the store open when a newer Holdfast made the list: an undo as it was before."""
    say(store, "two", "an ocelot")
    say(store, "three", "later")
    copy = removed(store, "two")
    found(store, "zeug")
    with contextlib.closing(schema.prepared(sqlite3.connect(store.database.path))) as db, db:
        db.execute("ATTACH ? AS copy", (str(copy),))
        columns = "number, id, source, started_at, last_active_at, message_count, bytes"
        db.execute(f"INSERT INTO sessions ({columns}) SELECT {columns} FROM copy.sessions")  # noqa: S608
        db.execute("INSERT INTO messages SELECT * FROM copy.messages")
        db.execute(
            "INSERT INTO message_index (rowid, text) "
            "SELECT number, search_text(form, body, fields) FROM copy.messages"
        )
    assert found(store, "celo") == ["an ocelot"]


def test_a_damaged_list_finds_no_less(store: SqliteSessionStore) -> None:
    wanted = found(store, "zeug")
    whole = kept(store) or b""
    chance = random.Random(1)
    damaged = [b"", b"nonsense", zlib.compress(b"nonsense"), whole[: len(whole) // 2]]
    for _ in range(200):
        place = chance.randrange(len(whole))
        flipped = bytes([whole[place] ^ 1 << chance.randrange(8)])
        damaged.append(whole[:place] + flipped + whole[place + 1 :])
    for each in damaged:
        injected()
        with store.database.write() as db:
            db.execute("UPDATE word_list SET words = ?", (each,))
        assert found(store, "zeug") == wanted
        # Some bits of a packed text mean nothing.
        assert zlib.decompress(kept(store) or b"") == zlib.decompress(whole)
        verified()


def test_what_the_index_was_cleared_of_is_not_in_the_list(store: SqliteSessionStore) -> None:
    say(store, "two", "an ocelot")
    found(store, "zeug")
    assert b"ocelot" in zlib.decompress(kept(store) or b"")
    removed(store, "two")
    space.give_back(store.database)
    assert kept(store) is None
    found(store, "zeug")
    assert b"ocelot" not in zlib.decompress(kept(store) or b"")


def test_a_search_waits_for_nobody(store: SqliteSessionStore) -> None:
    with contextlib.closing(sqlite3.connect(store.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert found(store, "zeug") == ["spielzeugmacher"]
    assert kept(store) is None


def test_a_store_that_cannot_be_written_is_searched(
    store: SqliteSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.database, "_is_read_only", True)
    assert found(store, "zeug") == ["spielzeugmacher"]
    assert kept(store) is None


def test_nothing_is_kept_on_a_disk_that_is_nearly_full(
    store: SqliteSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_list, "disk_room", lambda _: DiskRoom(free=1_000_000, size=10**9))
    assert found(store, "zeug") == ["spielzeugmacher"]
    assert kept(store) is None


def test_nor_are_more_words_than_a_search_should_hold(
    store: SqliteSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_list, "_MOST_BYTES", 20)
    monkeypatch.setattr(word_list, "_AT_ONCE", 2)
    assert found(store, "zeug") == ["spielzeugmacher"]
    assert found(store, "ebr") == ["zebra"]
    assert kept(store) is None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_search_that_is_killed_while_it_keeps_a_list(
    store: SqliteSessionStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    commit = Database._commit

    def die(database: Database, connection: sqlite3.Connection) -> None:
        if connection.total_changes and moment == "before":
            os._exit(0)
        commit(database, connection)
        if connection.total_changes:
            os._exit(0)

    path = store.database.path
    store.close()
    injected()
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Database, "_commit", die)
        found(SqliteSessionStore(path), "zeug")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with contextlib.closing(SqliteSessionStore(path)) as again:
        assert (kept(again) is None) == (moment == "before")
        assert found(again, "zeug") == ["spielzeugmacher"]
        assert found(again, "ebr") == ["zebra"]
    verified()


def test_a_store_of_an_earlier_schema_has_no_list_yet(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with contextlib.closing(schema.prepared(sqlite3.connect(path, isolation_level=None))) as db:
        schema.migrate(db, to=4)
        db.execute(
            "INSERT INTO sessions (number, id, source, started_at, last_active_at, message_count,"
            " bytes) VALUES (1, 'old', 'cli', 1, 1, 1, 7)"
        )
        db.execute("INSERT INTO messages VALUES (1, 1, 'user', 1, 0, 'marmots', NULL)")
        search_index.catch_up_some(db)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        assert kept(store) is None
        assert found(store, "armo") == ["marmots"]
        assert kept(store) is not None
