# ruff: noqa: S608 - names of tables here
"""Parts of an FTS5 index that move from file to file: FTS5 itself finds them whole, and newest."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.homes.hermes.state_db import search_parts
from holdfast.homes.hermes.state_db.search_parts import Level, Part, PartList, decode, encode

WORDS = ["wombat", "quokka", "numbat", "bilby", "dunnart", "größe", "日本語", "x"]
TABLES = {
    "words": "CREATE VIRTUAL TABLE words USING fts5(content)",
    "pieces": "CREATE VIRTUAL TABLE pieces USING fts5(content, tokenize='trigram')",
}
numbers = st.integers(0, 2**40)
parts = st.builds(Part, numbers, numbers, numbers)
levels = st.builds(Level, numbers, st.lists(parts, max_size=4).map(tuple))
lists = st.builds(
    PartList, st.binary(min_size=4, max_size=4), numbers, st.lists(levels, max_size=6).map(tuple)
)


@given(lists)
def test_a_list_of_parts_is_read_as_it_was_written(some: PartList) -> None:
    assert decode(encode(some)) == some


@given(lists, st.data())
def test_a_list_that_is_cut_or_longer_is_not_understood(
    some: PartList, data: st.DataObject
) -> None:
    record = encode(some)
    cut = data.draw(st.integers(4, len(record) - 1))
    for other in (record[:cut], record + b"\x01", record[:4] + b"\xff\0\0\x01" + record[4:]):
        with pytest.raises(search_parts.UnknownIndexError):
            decode(other)


@given(lists, st.lists(parts, min_size=1, max_size=3))
def test_new_parts_come_last_and_what_is_being_merged_stays_as_it_is(
    some: PartList, coming: list[Part]
) -> None:
    after = some.with_newest(coming)
    assert after.parts == [*some.parts, *coming]
    assert not any(level.parts for level in after.levels[:4])
    if any(level.merging for level in some.levels[:4]):
        assert after.levels[5:] == some.levels  # each merge beside the level that it writes to


@contextlib.contextmanager
def index(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def said(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 30)))


def move_in(place: Path, coming: dict[int, str]) -> None:
    source = place / "source.db"
    source.unlink(missing_ok=True)
    with index(source) as db:
        db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO messages VALUES (?, ?)", coming.items())
        db.execute("COMMIT")
    for table, declared in TABLES.items():
        part = place / f"{table}.part"
        part.unlink(missing_ok=True)
        texts = "SELECT m.id, m.text FROM source.messages m ORDER BY m.id"
        assert search_parts.built(part, table, declared, texts, source)
        with index(place / "index.db") as db:
            db.execute("ATTACH ? AS part", (str(part),))
            db.execute("BEGIN IMMEDIATE")
            assert search_parts.moved_in(db, table, "part")
            db.execute("COMMIT")


def compare(db: sqlite3.Connection, model: dict[int, str]) -> None:
    for table in TABLES:
        db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
        assert dict(db.execute(f"SELECT rowid, content FROM {table}")) == model
        for word in WORDS[:7]:
            found = {n for (n,) in db.execute(f"SELECT rowid FROM {table} (?)", (f'"{word}"',))}
            assert found == {n for n, text in model.items() if word in text}, (table, word)


class Busy:
    """A connection that writes, forgets and merges all the time, as Hermes does."""

    def __init__(self, db: sqlite3.Connection, place: Path, seed: int) -> None:
        self._db, self._place, self._chance = db, place, random.Random(seed)
        self.model: dict[int, str] = {}
        self._gone: dict[int, str] = {}
        self._last = 0
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        for declared in TABLES.values():
            db.execute(declared)
        self._all(
            "INSERT INTO {0} ({0}, rank) VALUES ('automerge', ?)", self._chance.choice([0, 2, 4])
        )

    def step(self) -> None:
        self._chance.choice([self._say, self._say, self._forget, self._return, self._merge])()

    def _say(self) -> None:
        for _ in range(self._chance.choice([1, 3, 40])):
            self._last += 1
            self.model[self._last] = said(self._chance)
            self._all(
                "INSERT INTO {0} (rowid, content) VALUES (?, ?)", self._last, self.model[self._last]
            )

    def _forget(self) -> None:
        for number in self._chance.sample(sorted(self.model), len(self.model) // 3):
            self._gone[number] = self.model.pop(number)
            self._all("DELETE FROM {0} WHERE rowid = ?", number)

    def _return(self) -> None:
        """Some of what was forgotten, sometimes with other words."""
        chosen = self._chance.sample(sorted(self._gone), len(self._gone) // 2)
        back = {number: self._gone.pop(number) for number in chosen}
        if self._chance.random() < 0.5:
            back = {number: said(self._chance) for number in back}
        if back:
            move_in(self._place, back)
            self.model |= back

    def _merge(self) -> None:
        pages = self._chance.choice([-8, 2, 16])
        self._all("INSERT INTO {0} ({0}, rank) VALUES ('merge', ?)", pages)

    def _all(self, statement: str, *values: object) -> None:
        for table in TABLES:
            self._db.execute(statement.format(table), values)


@pytest.mark.parametrize("seed", range(6))
def test_an_index_into_which_parts_move_is_one_that_fts5_wrote_itself(
    tmp_path: Path, seed: int
) -> None:
    """What was written about the end of a message must not hide it when it is back."""
    with index(tmp_path / "index.db") as db:
        busy = Busy(db, tmp_path, seed)
        for _ in range(30):
            busy.step()
            compare(db, busy.model)
        for table in TABLES:
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        compare(db, busy.model)


def pages(db: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    names = ("data", "idx", "docsize", "content", "config")
    return [db.execute(f"SELECT * FROM words_{name}").fetchall() for name in names]


def test_a_large_index_is_moved_in_several_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(search_parts._SETTINGS, "hashsize", 2_000)
    chance = random.Random(1)
    model = {n: said(chance) for n in range(1, 900)}
    with index(tmp_path / "index.db") as db:
        for declared in TABLES.values():
            db.execute(declared)
        move_in(tmp_path, model)
        compare(db, model)


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE words_config SET v = 5 WHERE k = 'version'",
        "INSERT INTO words_config VALUES ('pgsz', 1000)",
        "UPDATE words_data SET block = x'00000000ff00000101' WHERE id = 10",
        "UPDATE words_data SET block = 'text' WHERE id = 10",
        "UPDATE words_data SET block = x'8080' WHERE id = 1",
        "DELETE FROM words_data WHERE id = 1",
        "ALTER TABLE words_docsize ADD COLUMN origin",
    ],
)
def test_an_index_that_is_not_understood_is_left_alone(tmp_path: Path, spoil: str) -> None:
    source = tmp_path / "source.db"
    with index(source) as db:
        db.execute("CREATE TABLE messages AS SELECT 1 AS id, 'wombat' AS text")
    part = tmp_path / "part"
    texts = "SELECT m.id, m.text FROM source.messages m"
    assert search_parts.built(part, "words", TABLES["words"], texts, source)
    with index(tmp_path / "index.db") as db:
        db.execute(TABLES["words"])
    with index(tmp_path / "index.db") as db:
        db.execute(spoil)
        before = pages(db)
        db.execute("ATTACH ? AS part", (str(part),))
        assert not search_parts.moved_in(db, "words", "part")
        db.execute("DETACH part")
        assert pages(db) == before


def test_an_index_of_very_many_parts_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_parts, "_MOST_PARTS", 1)
    with index(tmp_path / "index.db") as db:
        for declared in TABLES.values():
            db.execute(declared)
        move_in(tmp_path, {1: "wombat"})
        with pytest.raises(AssertionError):
            move_in(tmp_path, {2: "quokka"})
        compare(db, {1: "wombat"})


def test_what_cannot_be_built_leaves_no_file(tmp_path: Path) -> None:
    with index(tmp_path / "source.db") as db:
        db.execute("CREATE TABLE messages (id)")
    part = tmp_path / "part"
    texts = "SELECT m.id, m.unknown FROM source.messages m"
    assert not search_parts.built(part, "words", TABLES["words"], texts, tmp_path / "source.db")
    assert not part.exists()


def test_where_only_fts5_may_write_nothing_is_moved(tmp_path: Path) -> None:
    """As on systems whose SQLite protects the tables of an index."""
    with index(tmp_path / "part.db") as db, index(tmp_path / "index.db") as kept:
        for each in (db, kept):
            each.execute(TABLES["words"])
        db.execute("INSERT INTO words (rowid, content) VALUES (7, 'wombat')")
        kept.execute("ATTACH ? AS part", (str(tmp_path / "part.db"),))
        assert search_parts.moved_in(kept, "words", "part")
    with index(tmp_path / "index.db") as kept:
        kept.execute("ATTACH ? AS part", (str(tmp_path / "part.db"),))
        kept.set_authorizer(_only_by_fts5)
        assert not search_parts.moved_in(kept, "words", "part")


def _only_by_fts5(action: int, table: str | None, *_: object) -> int:
    writes = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_UPDATE)
    return sqlite3.SQLITE_DENY if writes and table == "words_data" else sqlite3.SQLITE_OK
