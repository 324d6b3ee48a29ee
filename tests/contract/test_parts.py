"""Movers of parts: what leaves comes back exactly, and nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.errors import BusyError, FullDiskError, StorageError
from holdfast.model.part import (
    FilePart,
    FolderPart,
    LinePart,
    Part,
    RefPart,
    Rows,
    RowsPart,
    Slot,
    part_from_json,
    part_to_json,
)
from holdfast.parts import movers, rows, trees
from holdfast.ports.formats import PartMover
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN
from holdfast.stores.sqlite import foreign
from holdfast.stores.sqlite.database import sqlite_errors

OLD = 1_700_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A part of session `a` with a sibling of session `b`, and how to change it."""

    part: Part
    sibling: Part
    change: Callable[[], object]
    look: Callable[[], object]


# --- Samples --------------------------------------------------------------------------------------


def _file(home: Path) -> Sample:
    for name in "ab":
        (home / f"{name}.jsonl").write_text(f"{name} was here\n")
        (home / f"{name}.jsonl").chmod(0o640)
        os.utime(home / f"{name}.jsonl", (OLD, OLD))
    return Sample(
        part=FilePart(path=home / "a.jsonl"),
        sibling=FilePart(path=home / "b.jsonl"),
        change=lambda: _append(home / "a.jsonl", "more\n"),
        look=lambda: everything_below(home),
    )


def _folder(home: Path) -> Sample:
    for name in "ab":
        inner = home / name / "deep" / "er"
        inner.mkdir(parents=True)
        (inner / "f").write_bytes(b"\0\1")
        (inner / "again").hardlink_to(inner / "f")
        (inner / "link").symlink_to("../nowhere")
        (home / name / "empty").mkdir()
        for each in (inner / "f", inner, inner.parent, home / name / "empty", home / name):
            os.utime(each, (OLD, OLD))
        if os.geteuid() == 0:
            give_away(home / name)
    return Sample(
        part=FolderPart(path=home / "a"),
        sibling=FolderPart(path=home / "b"),
        change=lambda: _append(home / "a" / "deep" / "new", "x"),
        look=lambda: everything_below(home),
    )


SCHEMA = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE session (id TEXT PRIMARY KEY, title TEXT, parent TEXT REFERENCES session(id)
                          ON DELETE SET NULL, shout TEXT AS (upper(title)) STORED);
    CREATE TABLE message (number INTEGER PRIMARY KEY, session TEXT REFERENCES session(id)
                          ON DELETE CASCADE, body BLOB);
    CREATE TABLE part (message INTEGER REFERENCES message ON DELETE CASCADE, place INTEGER,
                       text TEXT, PRIMARY KEY (message, place)) WITHOUT ROWID;
    CREATE TABLE queue (id INTEGER PRIMARY KEY, session TEXT, what TEXT);
    CREATE TABLE revision (session TEXT PRIMARY KEY, number INTEGER);
    CREATE TRIGGER queued AFTER INSERT ON queue BEGIN
        INSERT OR REPLACE INTO revision VALUES (new.session, 1);
    END;
    CREATE TRIGGER unqueued AFTER DELETE ON queue BEGIN
        INSERT OR REPLACE INTO revision
        VALUES (old.session,
                coalesce((SELECT number + 1 FROM revision WHERE session = old.session), 1));
    END;
    CREATE VIRTUAL TABLE words USING fts5(text, session UNINDEXED);
"""


def _rows(home: Path) -> Sample:
    store = home / "agent.db"
    with closing(sqlite3.connect(store)) as db:
        db.executescript(SCHEMA)
        for name in "ab":
            db.execute("INSERT INTO session (id, title) VALUES (?, 'T')", (name,))
            for count in range(2):
                message = db.execute(
                    "INSERT INTO message (session, body) VALUES (?, ?)",
                    (name, b"\xff\0" + name.encode()),
                ).lastrowid
                db.execute("INSERT INTO part VALUES (?, ?, NULL)", (message, count))
            db.execute("INSERT INTO queue (session, what) VALUES (?, 'go')", (name,))
            db.execute("UPDATE revision SET number = 7 WHERE session = ?", (name,))
            db.execute("INSERT INTO words (text, session) VALUES ('hello', ?)", (name,))
        db.execute("INSERT INTO session (id, title, parent) VALUES ('child', 'C', 'a')")
        db.commit()

    def rows(name: str) -> RowsPart:
        return RowsPart(
            store=store,
            rows=(
                Rows(table="session", column="id", value=name),
                Rows(table="queue", column="session", value=name),
                Rows(table="revision", column="session", value=name),
                Rows(table="words", column="session", value=name),
                Rows(table="no_such_table", column="session", value=name),
            ),
        )

    return Sample(
        part=rows("a"),
        sibling=rows("b"),
        change=lambda: _sql(store, "UPDATE session SET title = 'longer' WHERE id = 'a'"),
        look=lambda: tables_of(store),
    )


def _lines(home: Path) -> Sample:
    path = home / "history.jsonl"
    path.write_bytes(
        b'{"s": "a", "t": "one"}\nnot json \xff\n{"s":"b"}\n'
        b'{"s": "a", "t": "\xe2\x80\xa8"}\n{"s":"c"}'
    )
    os.utime(path, (OLD, OLD))
    path.chmod(0o644)
    return Sample(
        part=LinePart(path=path, key="s", value="a", lines=True),
        sibling=LinePart(path=path, key="s", value="b", lines=True),
        change=lambda: path.write_bytes(path.read_bytes().replace(b"one", b"two")),
        look=lambda: everything_below(home),
    )


def _entry(home: Path) -> Sample:
    path = home / "state.json"
    document = {"v": 1.50, "open": {"a": {"x": 1}, "b": None, "c": [1]}, "ü": "é"}
    path.write_text(json.dumps(document, indent=4, ensure_ascii=False) + "\n")
    os.utime(path, (OLD, OLD))
    return Sample(
        part=LinePart(path=path, at=("open",), value="a"),
        sibling=LinePart(path=path, at=("open",), value="b"),
        change=lambda: path.write_text(path.read_text().replace('"x": 1', '"x": 2')),
        look=lambda: everything_below(home),
    )


def _refs(home: Path) -> Sample:
    repository = home / "repo.git"
    _git("init", "-q", "--bare", str(repository))
    tree = _git("--git-dir", str(repository), "mktree", said="")
    for name in "ab":
        for count in "12":
            commit = _git("--git-dir", str(repository), "commit-tree", "-m", f"{name}{count}", tree)
            _git("--git-dir", str(repository), "update-ref", f"refs/agent/{name}/{count}", commit)
    return Sample(
        part=RefPart(repository=repository, prefix="refs/agent/a/"),
        sibling=RefPart(repository=repository, prefix="refs/agent/b/"),
        change=lambda: _git("--git-dir", str(repository), "update-ref", "-d", "refs/agent/a/2"),
        look=lambda: _git("--git-dir", str(repository), "for-each-ref"),
    )


SAMPLES = {
    "file": _file,
    "folder": _folder,
    "rows": _rows,
    "lines": _lines,
    "entry": _entry,
    "refs": _refs,
}


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Sample:
    home = tmp_path / "home"
    home.mkdir()
    return SAMPLES[request.param](home)


def everything_below(root: Path) -> dict[str, object]:
    """Bytes, modes, owners, times, links: all but the times of folders that something left."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        time = 0 if path.is_dir() and path.parent == root else status.st_mtime_ns
        names = 1 if path.is_dir() else status.st_nlink
        owner = status.st_uid, status.st_gid
        found[str(path.relative_to(root))] = (status.st_mode, owner, names, time, content)
    return found


def give_away(root: Path) -> None:
    """To another user, with everything below."""
    for path in (root, *root.rglob("*")):
        os.chown(path, 1000, 1000, follow_symlinks=False)


def tables_of(store: Path) -> dict[str, list[object]]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        names = [
            (name, bool(wr))
            for name, kind, wr in db.execute(
                "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'"
            )
            if kind != "shadow" and name not in ("sqlite_schema", "sqlite_sequence")
        ]
        return {
            name: db.execute(
                f'SELECT {"" if wr else "rowid, "}* FROM "{name}" ORDER BY 1, 2'  # noqa: S608
            ).fetchall()
            for name, wr in sorted(names)
        }


# --- Together -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One mover, with slots in a trash."""

    mover: PartMover
    slots: list[Slot]

    @classmethod
    def of(cls, folder: Path, *parts: Part) -> Bench:
        folder.mkdir(parents=True, exist_ok=True)
        mover = movers()[type(parts[0])]
        slots = [
            Slot(number=number, index=0, part=part, stamp="", folder=folder)
            for number, part in enumerate(parts)
        ]
        seen = mover.look(slots)
        return cls(
            mover=mover,
            slots=[
                replace(slot, stamp=sight.stamp) for slot, sight in zip(slots, seen, strict=True)
            ],
        )

    def leave(self) -> list[str | None]:
        self.mover.copy(self.slots)
        return list(self.mover.drop(self.slots))

    def back(self) -> list[str | None]:
        return list(self.mover.put_back(self.slots))


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    return tmp_path / "home.trash" / "7" / "units-0"


def test_what_left_comes_back_as_it_was(sample: Sample, trash: Path) -> None:
    before = sample.look()
    bench = Bench.of(trash, sample.part, sample.sibling)
    assert bench.leave() == [None, None]
    assert [each.here for each in bench.mover.look(bench.slots)] == [False, False]
    assert [each.copied for each in bench.mover.look(bench.slots)] == [True, True]
    assert bench.back() == [None, None]
    bench.mover.discard(bench.slots)
    assert sample.look() == before
    assert list(trash.iterdir()) == []


def test_a_sibling_stays_as_it_was(sample: Sample, trash: Path) -> None:
    sibling = Bench.of(trash, sample.sibling)
    bench = Bench.of(trash, sample.part)
    assert bench.leave() == [None]
    [seen] = sibling.mover.look(sibling.slots)
    assert seen.here
    assert seen.stamp == sibling.slots[0].stamp


def test_what_changed_stays(sample: Sample, trash: Path) -> None:
    bench = Bench.of(trash, sample.part)
    sample.change()
    changed = sample.look()
    assert bench.leave() == [CHANGED]
    bench.mover.discard(bench.slots)
    assert sample.look() == changed


def test_what_changed_after_it_was_copied_stays(sample: Sample, trash: Path) -> None:
    bench = Bench.of(trash, sample.part)
    bench.mover.copy(bench.slots)
    sample.change()
    assert list(bench.mover.drop(bench.slots)) == [CHANGED]


def test_every_step_can_be_repeated(sample: Sample, trash: Path) -> None:
    before = sample.look()
    bench = Bench.of(trash, sample.part)
    bench.mover.copy(bench.slots)
    assert bench.leave() == [None]
    assert list(bench.mover.drop(bench.slots)) == [None]
    assert bench.back() == [None]
    assert bench.back() == [None]
    bench.mover.discard(bench.slots)
    bench.mover.discard(bench.slots)
    assert sample.look() == before


def test_one_of_a_batch_comes_back_alone(sample: Sample, trash: Path) -> None:
    bench = Bench.of(trash, sample.part, sample.sibling)
    bench.leave()
    first, second = bench.slots
    assert list(bench.mover.put_back([first])) == [None]
    bench.mover.discard([first])
    seen = bench.mover.look(bench.slots)
    assert [each.here for each in seen] == [True, False]
    assert [each.copied for each in seen] == [False, True]
    assert list(bench.mover.put_back([second])) == [None]


def test_without_a_copy_nothing_comes_back(sample: Sample, trash: Path) -> None:
    bench = Bench.of(trash, sample.part)
    bench.leave()
    bench.mover.discard(bench.slots)
    assert bench.back() == [COPY_MISSING]


def test_a_part_survives_json(sample: Sample) -> None:
    assert part_from_json(json.loads(json.dumps(part_to_json(sample.part)))) == sample.part


# --- Files and folders ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_another_file_system_is_copied_and_compared(
    kind: str, tmp_path: Path, trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename across the border fails, as it does in a container's overlay."""
    home = tmp_path / "home"
    home.mkdir()
    sample = SAMPLES[kind](home)
    before = sample.look()
    with other_file_system(monkeypatch, trash):
        bench = Bench.of(trash, sample.part)
        assert bench.leave() == [None]
        assert not any(path.name.startswith(".holdfast") for path in home.iterdir())
        assert bench.back() == [None]
        bench.mover.discard(bench.slots)
    assert sample.look() == before


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("returns", [True, False])
def test_killed_while_the_original_is_set_aside(
    kind: str, tmp_path: Path, trash: Path, monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    sample = SAMPLES[kind](home)
    before = sample.look()
    bench = Bench.of(trash, sample.part)
    with other_file_system(monkeypatch, trash), monkeypatch.context() as patch:
        patch.setattr(trees, "in_use", _killed)
        with pytest.raises(KeyboardInterrupt):
            bench.leave()
    [seen] = bench.mover.look(bench.slots)
    assert seen.here
    assert seen.stamp == bench.slots[0].stamp
    if returns:
        assert bench.back() == [None]
        bench.mover.discard(bench.slots)
        assert sample.look() == before
    else:
        assert list(bench.mover.drop(bench.slots)) == [None]
        assert [path.name for path in home.iterdir()] == [sample.sibling.place.name]


def test_a_file_that_somebody_has_open_stays(tmp_path: Path, trash: Path) -> None:
    sample = _file_in(tmp_path)
    bench = Bench.of(trash, sample.part)
    with sample.part.place.open("a"):
        [why] = bench.leave()
    assert why == f"{sample.part.place.name} is open in another process"
    assert sample.part.place.exists()


def test_nothing_is_overwritten(tmp_path: Path, trash: Path) -> None:
    sample = _file_in(tmp_path)
    bench = Bench.of(trash, sample.part)
    bench.leave()
    sample.part.place.write_text("new")
    assert bench.back() == [PLACE_TAKEN]
    assert sample.part.place.read_text() == "new"
    assert bench.mover.look(bench.slots)[0].copied


def test_a_changed_copy_is_told(tmp_path: Path, trash: Path) -> None:
    sample = _file_in(tmp_path)
    bench = Bench.of(trash, sample.part)
    bench.leave()
    bench.slots[0].copy.write_text("other")
    assert bench.mover.look(bench.slots)[0].spoiled


def test_what_is_gone_is_said_to_be(tmp_path: Path, trash: Path) -> None:
    sample = _file_in(tmp_path)
    bench = Bench.of(trash, sample.part)
    sample.part.place.unlink()
    assert bench.leave() == [ALREADY_GONE]


# --- Rows -----------------------------------------------------------------------------------------


def test_rows_that_refer_travel_and_others_are_detached(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    Bench.of(trash, sample.part).leave()
    found = tables_of(store)
    assert {row[1] for row in found["session"]} == {"b", "child"}  # type: ignore[index]
    assert [row[3] for row in found["session"] if row[1] == "child"] == [None]  # type: ignore[index]
    assert {row[2] for row in found["message"]} == {"b"}  # type: ignore[index]
    assert len(found["part"]) == 2
    assert [row[1] for row in found["revision"]] == ["b"]  # type: ignore[index]


def test_a_number_that_was_given_again_refuses_the_return(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    bench = Bench.of(trash, sample.part, sample.sibling)
    bench.leave()
    _sql(store, "INSERT INTO message (number, session, body) VALUES (1, 'child', x'00')")
    before = tables_of(store)
    first, second = bench.back()
    assert first is not None
    assert "message" in first
    assert second is None
    assert [row for row in tables_of(store)["message"] if row[2] == "child"] == [  # type: ignore[index]
        row
        for row in before["message"]
        if row[2] == "child"  # type: ignore[index]
    ]


def test_a_place_that_was_given_again_is_left_to_its_new_row(tmp_path: Path, trash: Path) -> None:
    """SQLite gives the number of a row that is gone to the next one. Where the number is not the
    key, as in a table of sessions with ids of their own, both rows can be there."""
    sample = _rows_in(tmp_path)
    store = sample.part.place
    bench = Bench.of(trash, sample.part, sample.sibling)
    before = {row[1:] for row in tables_of(store)["session"]}  # type: ignore[index]
    bench.leave()
    _sql(store, "INSERT INTO session (rowid, id, title) VALUES (1, 'new', 'N')")
    assert bench.back() == [None, None]
    found = tables_of(store)["session"]
    assert {row[1:] for row in found} == before | {("new", "N", None, "N")}  # type: ignore[index]
    assert [row[0] for row in found if row[1] == "new"] == [1]  # type: ignore[index]
    assert [row[0] for row in found if row[1] == "b"] == [2]  # type: ignore[index]
    assert bench.back() == [None, None]
    assert tables_of(store)["session"] == found


def test_numbers_that_tie_two_tables_are_given_anew_together(tmp_path: Path, trash: Path) -> None:
    """A search index and the list of its rows, as OpenClaw has them."""
    store = tmp_path / "home.db"
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("CREATE TABLE listed (id INTEGER PRIMARY KEY, session TEXT)")
        db.execute("CREATE VIRTUAL TABLE words USING fts5(text, session UNINDEXED)")
        for number, session in enumerate("aabb", 1):
            db.execute("INSERT INTO listed VALUES (?, ?)", (number, session))
            values = (number, f"said {number}", session)
            db.execute("INSERT INTO words (rowid, text, session) VALUES (?, ?, ?)", values)
    tables = ("listed", "words")
    parts = [
        RowsPart(
            store=store,
            rows=tuple(Rows(table=each, column="session", value=name) for each in tables),
            numbered=tables,
        )
        for name in "ab"
    ]
    bench = Bench.of(trash, *parts)
    assert bench.leave() == [None, None]
    _sql(store, "INSERT INTO listed VALUES (1, 'c')")
    _sql(store, "INSERT INTO words (rowid, text, session) VALUES (1, 'said anew', 'c')")
    for _ in range(2):  # the second time after a kill: all of it is back
        assert bench.back() == [None, None]
        found = tables_of(store)
        assert {row[1:] for row in found["words"]} == {  # type: ignore[index]
            ("said anew", "c"),
            *((f"said {number}", name) for number, name in enumerate("aabb", 1)),
        }
        ids = {row[0]: row[2] for row in found["listed"]}  # type: ignore[index]
        assert ids == {row[0]: row[2] for row in found["words"]}  # type: ignore[index]
        assert {number for number, name in ids.items() if name == "b"} == {3, 4}
    assert all(part_from_json(part_to_json(each)) == each for each in parts)


def test_a_unique_value_of_another_row_is_not_replaced(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    _sql(store, "CREATE UNIQUE INDEX one_title ON session (title, parent)")
    _sql(store, "UPDATE session SET title = 'mine', parent = 'b' WHERE id = 'a'")
    bench = Bench.of(trash, sample.part)
    assert bench.leave() == [None]
    _sql(store, "INSERT INTO session (id, title, parent) VALUES ('z', 'mine', 'b')")
    before = tables_of(store)
    [why] = bench.back()
    assert why is not None
    assert tables_of(store) == before


def test_a_trigger_that_takes_more_is_refused(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    _sql(
        store,
        "CREATE TRIGGER greedy AFTER DELETE ON session BEGIN DELETE FROM queue; END",
    )
    before = tables_of(store)
    [why] = Bench.of(trash, sample.part).leave()
    assert why == "a trigger of its database removes rows that no copy holds"
    assert tables_of(store) == before


def test_a_row_that_another_session_needs_stays(tmp_path: Path, trash: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    store = home / "x.db"
    _sql(store, "CREATE TABLE s (id TEXT PRIMARY KEY, parent TEXT REFERENCES s ON DELETE CASCADE)")
    _sql(store, "INSERT INTO s VALUES ('a', NULL), ('b', 'a')")
    parts = [
        RowsPart(store=store, rows=(Rows(table="s", column="id", value=name),)) for name in "ab"
    ]
    assert Bench.of(trash, parts[0]).leave() == ["another session refers to its rows"]
    before = tables_of(store)
    both = Bench.of(trash.with_name("both"), *parts)
    assert both.leave() == [None, None]
    assert both.back() == [None, None]
    assert tables_of(store) == before


def test_a_new_column_does_not_keep_rows_away(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    bench = Bench.of(trash, sample.part)
    bench.leave()
    _sql(store, "ALTER TABLE session ADD COLUMN colour TEXT DEFAULT 'red'")
    assert bench.back() == [None]
    _sql(store, "ALTER TABLE message RENAME COLUMN body TO text")
    other = Bench.of(trash.with_name("other"), sample.sibling)
    other.leave()
    _sql(store, "ALTER TABLE message RENAME COLUMN text TO body")
    [why] = other.back()
    assert why is not None
    assert "message" in why


def test_a_busy_database_is_told(
    tmp_path: Path, trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.parts.rows._WAIT", 0.05)
    sample = _rows_in(tmp_path)
    bench = Bench.of(trash, sample.part)
    with closing(sqlite3.connect(sample.part.place, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            bench.leave()
        db.execute("ROLLBACK")


def test_looking_leaves_the_write_ahead_log_alone(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO session (id, title) VALUES ('late', 'L')")
        db.commit()
        copy = tmp_path / "copy"
        copy.mkdir()
        for path in store.parent.glob("agent.db*"):
            shutil.copy2(path, copy / path.name)
    log = (copy / "agent.db-wal").read_bytes()
    assert log
    late = RowsPart(
        store=copy / "agent.db", rows=(Rows(table="session", column="id", value="late"),)
    )
    bench = Bench.of(trash, late)
    bench.mover.copy(bench.slots)
    assert bench.mover.look(bench.slots)[0].here
    assert (copy / "agent.db-wal").read_bytes() == log


def test_looking_leaves_nothing_beside_a_database(tmp_path: Path, trash: Path) -> None:
    sample = _rows_in(tmp_path)
    store = sample.part.place
    _sql(store, "PRAGMA journal_mode = WAL")
    before = everything_below(store.parent)
    assert before.keys() == {store.name}
    bench = Bench.of(trash, sample.part)
    bench.mover.copy(bench.slots)
    with foreign.reading(store) as db, pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM session")
    assert foreign.rows(store, "SELECT count(*) FROM session") != [(0,)]
    assert everything_below(store.parent) == before


def test_nobody_waits_twice_for_a_locked_database(
    tmp_path: Path, trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE", 0.01)
    sample = _rows_in(tmp_path)
    store = sample.part.place
    assert foreign.patience(store) > 0
    with closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError, match=f"{store} is locked"):
            foreign.rows(store, "SELECT 1 FROM session")
        assert foreign.patience(store) == 0
        [seen] = movers()[RowsPart].look(Bench.of(trash, sample.part).slots)
        assert seen.here is None


def test_a_column_that_is_not_there_is_no_text(tmp_path: Path, trash: Path) -> None:
    """SQLite takes a missing column in quotes for a text: every row would match."""
    sample = _rows_in(tmp_path)
    part = RowsPart(
        store=sample.part.place, rows=(Rows(table="session", column="nothing", value="nothing"),)
    )
    bench = Bench.of(trash, part)
    assert bench.mover.look(bench.slots)[0].here is None


# --- Lines ----------------------------------------------------------------------------------------


def test_lines_that_came_meanwhile_stay(tmp_path: Path, trash: Path) -> None:
    sample = _lines_in(tmp_path)
    path = sample.part.place
    last = LinePart(path=path, key="s", value="c", lines=True)
    bench = Bench.of(trash, sample.part, last)
    bench.leave()
    _append(path, '{"s": "late"}\n')
    assert bench.back() == [None, None]
    lines = path.read_bytes().split(b"\n")
    assert sorted(lines) == sorted(
        [
            b'{"s": "a", "t": "one"}',
            b"not json \xff",
            b'{"s":"b"}',
            b'{"s": "a", "t": "\xe2\x80\xa8"}',
            b'{"s":"c"}',
            b'{"s": "late"}',
            b"",
        ]
    )
    assert lines[0] == b'{"s": "a", "t": "one"}'


def test_lines_appended_while_the_file_is_replaced_follow(
    tmp_path: Path, trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = _lines_in(tmp_path)
    path = sample.part.place
    _append(path, "\n")
    bench = Bench.of(trash, sample.part)
    bench.mover.copy(bench.slots)
    rename = Path.rename

    def late(self: Path, target: Path) -> Path:
        if target == path:
            _append(path, '{"s": "late"}\n')
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    assert list(bench.mover.drop(bench.slots)) == [None]
    assert path.read_bytes() == b'not json \xff\n{"s":"b"}\n{"s":"c"}\n{"s": "late"}\n'


def test_a_style_that_cannot_be_reproduced_is_left_alone(tmp_path: Path, trash: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"a":1,   "b": 2}')
    bench = Bench.of(trash, LinePart(path=path, value="a"))
    assert bench.mover.look(bench.slots)[0].here is None
    path.write_text('{"a": 1, "a": 1}')
    assert bench.mover.look(bench.slots)[0].here is None


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_entry_of_a_list_returns_in_its_style(
    tmp_path: Path, trash: Path, indent: int | str | None, end: str
) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"id": "a", "n": [1]}], indent=indent) + end)
    before = path.read_bytes()
    bench = Bench.of(trash, LinePart(path=path, key="id", value="a"))
    assert bench.leave() == [None]
    assert json.loads(path.read_text()) == []
    assert bench.back() == [None]
    assert path.read_bytes() == before


def test_a_link_to_a_shared_file_stays_a_link(tmp_path: Path, trash: Path) -> None:
    sample = _lines_in(tmp_path)
    link = tmp_path / "home" / "linked.jsonl"
    link.symlink_to(sample.part.place.name)
    bench = Bench.of(trash, LinePart(path=link, key="s", value="a", lines=True))
    assert bench.leave() == [None]
    assert link.is_symlink()
    assert b'"one"' not in sample.part.place.read_bytes()


# --- Small things ---------------------------------------------------------------------------------


def _file_in(tmp_path: Path) -> Sample:
    (tmp_path / "home").mkdir()
    return _file(tmp_path / "home")


def _rows_in(tmp_path: Path) -> Sample:
    (tmp_path / "home").mkdir()
    return _rows(tmp_path / "home")


def _lines_in(tmp_path: Path) -> Sample:
    (tmp_path / "home").mkdir()
    return _lines(tmp_path / "home")


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _sql(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute(statement)


def _git(*words: str, said: str = "") -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "x@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    done = subprocess.run(
        ["git", *words], input=said, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def other_file_system(monkeypatch: pytest.MonkeyPatch, trash: Path) -> Iterator[None]:
    """Let every name below the trash lie on another file system."""
    rename, link = Path.rename, os.link

    def crossing(one: object, other: object) -> bool:
        return len({str(each).startswith(str(trash)) for each in (one, other)}) > 1

    def no_rename(self: Path, target: Path) -> Path:
        if crossing(self, target):
            raise OSError(18, "Invalid cross-device link")
        return rename(self, target)

    def no_link(source: Path, target: Path, **how: object) -> None:
        if crossing(source, target):
            raise OSError(18, "Invalid cross-device link")
        link(source, target, **how)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", no_rename)
        patch.setattr(os, "link", no_link)
        yield


@pytest.mark.parametrize(
    ("code", "free", "full"),
    [
        (sqlite3.SQLITE_IOERR_WRITE, 0, True),
        (sqlite3.SQLITE_CANTOPEN, 0, True),
        (sqlite3.SQLITE_FULL, 1_000_000, True),
        (sqlite3.SQLITE_IOERR_WRITE, 1_000_000, False),
    ],
)
def test_a_full_disk_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, free: int, full: bool
) -> None:
    """SQLite calls it an I/O error when a write fails outside of its own pages."""
    fields = list(os.statvfs(tmp_path))
    fields[0], fields[1], fields[4] = 4096, 4096, free
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    for errors in (rows._database_errors, sqlite_errors):
        if code == sqlite3.SQLITE_CANTOPEN and errors is sqlite_errors:
            continue  # a file that is not there has nothing to do with room
        with pytest.raises(StorageError) as told, errors(tmp_path / "agent.db"):
            raise error
        assert isinstance(told.value, FullDiskError) is full
        assert bool(told.value.hint) is full


def test_what_sqlite_rolled_back_by_itself_hides_no_error() -> None:
    def write(db: sqlite3.Connection) -> None:
        with rows._transaction(db, "BEGIN"):
            db.execute("ROLLBACK")  # as on a full disk
            raise OSError("full")

    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as db,
        pytest.raises(OSError, match="full"),
    ):
        write(db)
