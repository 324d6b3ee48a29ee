"""SQLite databases of a project: a restore changes all files of one, or none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import MAX_FILE_BYTES, Capturing
from holdfast.stores.checkpoints import restore_record, working_tree
from holdfast.stores.checkpoints.databases import APART, IN_USE
from holdfast.stores.checkpoints.restore import can_follow
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import NOW, restore, take
from tests.trees import everything

_NAME = "data/app.sqlite3"
_FILES = [_NAME, f"{_NAME}-shm", f"{_NAME}-wal"]
_AGENT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint = 0")
for text in sys.argv[2:]:
    db.execute("INSERT INTO notes VALUES (?)", (text,))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(root: Path) -> ShadowGitStore:
    """With room for the index of a log, which has 32 kB."""
    return checkpoint_store(root, Capturing(max_file_size=MAX_FILE_BYTES))


@pytest.fixture
def database(project: Path) -> Path:
    path = project / _NAME
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE notes (text)")
    return path


@contextmanager
def _at_work(database: Path, *texts: str) -> Iterator[None]:
    """A program that wrote these notes, has the database open, and is killed at the end: then the
    log stays beside the database."""
    with subprocess.Popen(
        [sys.executable, "-c", _AGENT, str(database), *texts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


def _notes(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [text for (text,) in db.execute("SELECT text FROM notes ORDER BY rowid")]


def test_an_open_database_is_left_alone_with_its_side_files(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    target = take(store, project)
    with _at_work(database, "live"):
        (project / "README").write_text("ours\n")
        before = everything(database.parent)
        foreseen = store.preview(target)
        done = restore(store, target)
        assert done.written == foreseen.written == ("README",)
        assert done.deleted == ()
        assert {each.path for each in done.kept} == set(_FILES[1:])
        assert everything(database.parent) == before
        assert all(each.reason.startswith(IN_USE) for each in done.kept)
    assert _notes(database) == ["live"]


def test_a_database_without_a_log_is_left_alone_while_it_is_open(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    """In the usual mode of SQLite, a program at rest has only the database itself."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    target = take(store, project)
    with _at_work(database, "live"):
        done = restore(store, target)
        assert [each.path for each in done.kept] == [_NAME]
        assert done.kept[0].reason.startswith(IN_USE)
    assert _notes(database) == ["live"]


def test_a_closed_database_is_restored_and_undone_with_its_log(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    with _at_work(database, "first"):
        pass
    target = take(store, project)
    with _at_work(database, "second", "third"):
        pass
    then = everything(project)
    safety = store.secure(target, now=NOW + 1)
    done = store.restore(target, safety, now=NOW + 2)
    assert f"{_NAME}-wal" in done.written
    undone = store.restore(safety, target, now=NOW + 3, undoing=True)
    assert not undone.kept
    assert everything(project) == then
    assert _notes(database) == ["first", "second", "third"]
    restore(store, target)
    assert _notes(database) == ["first"]


def test_an_undo_puts_no_old_log_beside_a_newer_database(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    target = take(store, project)
    with _at_work(database, "mid"):
        pass
    safety = store.secure(target, now=NOW + 1)
    store.restore(target, safety, now=NOW + 2)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.executemany("INSERT INTO notes VALUES (?)", [(f"new {n}",) for n in range(500)])
    before = everything(project)
    undone = store.restore(safety, target, now=NOW + 3, undoing=True)
    assert everything(project) == before
    assert {each.reason for each in undone.kept} == {APART}
    assert list(filter(can_follow, undone.kept))
    assert len(_notes(database)) == 500


def test_no_database_is_restored_beside_a_log_that_was_not_captured(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    """Many projects ignore the log and keep the database."""
    (project / ".gitignore").write_text("*-wal\n*-shm\n")
    target = take(store, project)
    with _at_work(database, "first"):
        pass
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with _at_work(database, "second"):
        pass
    before = everything(project)
    done = restore(store, target)
    assert everything(project) == before
    assert [(each.path, each.reason) for each in done.kept] == [(_NAME, APART)]
    assert _notes(database) == ["first", "second"]


@pytest.mark.parametrize("path", _FILES)
def test_no_file_of_a_database_is_restored_alone(
    store: ShadowGitStore, project: Path, database: Path, path: str
) -> None:
    with _at_work(database, "first"):
        pass
    target = take(store, project)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with _at_work(database, "second"):
        pass
    before = everything(project)
    done = restore(store, target, path)
    assert everything(project) == before
    assert [(each.path, each.reason) for each in done.kept] == [(path, APART)]


def test_a_log_that_appeared_after_the_preview_keeps_its_database(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    target = take(store, project)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("INSERT INTO notes VALUES ('first')")
    shown = store.preview(target)
    assert shown.written == (_NAME,)
    with _at_work(database, "second"):
        pass
    before = everything(project)
    safety = store.secure(target, now=NOW + 1)
    done = store.restore(target, safety, now=NOW + 2, shown=shown)
    assert everything(project) == before
    assert not done.written
    assert APART in {each.reason for each in done.kept}


def test_a_deleted_database_comes_back_whole(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    with _at_work(database, "first"):
        pass
    target = take(store, project)
    shutil.rmtree(database.parent)
    restore(store, target)
    assert _notes(database) == ["first"]


def test_files_that_only_have_such_names_are_restored_as_ever(
    store: ShadowGitStore, project: Path
) -> None:
    for name in ("my-journal", "notes", "notes-wal", "list.db", "list.db-journal"):
        (project / name).write_text("one\n")
    target = take(store, project)
    for name in ("my-journal", "notes-wal", "list.db"):
        (project / name).write_text("two\n")
    (project / "list.db-journal").unlink()
    done = restore(store, target)
    assert done.written == ("list.db", "list.db-journal", "my-journal", "notes-wal")
    assert not done.kept


def test_a_killed_restore_leaves_nothing_beside_a_database_that_was_opened_since(
    store: ShadowGitStore, project: Path, database: Path
) -> None:
    target = take(store, project)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("INSERT INTO notes VALUES ('first')")
    (project / "README").write_text("ours\n")
    safety = store.secure(target, now=NOW + 1)
    begun = restore_record.Restoration(target=target, safety=safety, paths=None, started_at=NOW + 2)
    restore_record.begin(store.layout.private(store.get(target).project), begun)
    staged = project / os.fsdecode(b"data/" + working_tree._temporary(_NAME.encode()))
    staged.write_bytes(b"SQLite format 3\0")  # killed before the rename
    with _at_work(database, "second"):
        done = store.restore(target, safety, now=NOW + 3)
        assert done.written == ("README",)
        assert not staged.exists()
    assert _notes(database) == ["first", "second"]
