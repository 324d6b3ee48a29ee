"""A disk with no room left, as far as the system says: what still goes, and what is refused."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import FullDiskError, StorageError
from holdfast.homes.archive import packed_folder
from holdfast.homes.home import Home
from holdfast.model.figures import DiskRoom
from holdfast.model.operation import OperationState, Removal
from holdfast.parts.unit_record import BatchRecord
from holdfast.spine import carry_out
from holdfast.stores import journal
from holdfast.stores.files import make_private_dir, write_all
from holdfast.stores.sqlite import foreign
from holdfast.stores.sqlite.bundle import BundleFolder
from tests.contract.agent_homes import make_claude
from tests.contract.maintained import DAY, a_home, bundles_of, ids


def test_the_first_batch_is_small_so_that_it_makes_room_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a thousand sessions may not fit where that of one does."""
    home = a_home(tmp_path / ".holdfast", sessions=10)
    announced: list[int] = []
    intend = journal.FileJournal.intend

    def counted(mine: journal.FileJournal, batch: Sequence[Removal]) -> None:
        announced.append(len(batch))
        intend(mine, batch)

    monkeypatch.setattr(Home, "disk_room", lambda _: DiskRoom(free=0, size=1))
    monkeypatch.setattr(journal.FileJournal, "intend", counted)
    with holdfast.open(home) as opened:
        opened.plan_prune(older_than="1d", use_trash=False).apply()
    assert announced[:4] == [1, 2, 4, 3]
    assert ids(home) == set()


def test_a_database_without_a_log_is_read_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite makes files to read one with a log. Where it cannot, that is not called damage."""
    path = tmp_path / "state.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (7)")
        db.commit()
    monkeypatch.setattr(foreign, "is_disk_full", lambda _: True)
    assert foreign.rows(path, "SELECT x FROM t") == [(7,)]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    with pytest.raises(FullDiskError, match="The disk is full, so"), foreign.reading(path):
        raise failure


@pytest.mark.parametrize("failing", [1, 2])
def test_a_session_that_did_not_fit_leaves_nothing_in_the_trash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Neither when its record cannot be written, nor when its copies are there already."""
    root = tmp_path / ".claude"
    make_claude(root)
    write = BatchRecord.write
    written: list[object] = []

    def full(record: BatchRecord) -> None:
        written.append(record)
        if len(written) == failing:
            make_private_dir(record.folder)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(record)

    with holdfast.open(root, clock=lambda: time.time() + 400 * DAY) as home:
        before = {each.id for each in home.list_sessions().sessions}
        with monkeypatch.context() as patched:
            patched.setattr(BatchRecord, "write", full)
            report = home.plan_prune(older_than="1d").apply().report
        assert report.failed
        assert not report.removed
        assert {each.id for each in home.list_sessions().sessions} == before
    assert not list((root / ".holdfast" / "trash").rglob("units-*"))


@pytest.mark.parametrize("failing", [1, 2])
def test_a_log_that_does_not_fit_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Half an announcement would take the last room, and say nothing. The first one is the whole
    log: without it the operation never began."""
    home = a_home(tmp_path / ".holdfast", sessions=4)
    written: list[object] = []

    def full(fd: int, line: bytes) -> None:
        if line.startswith(b'{"intent"'):
            written.append(line)
            if len(written) == failing:
                os.write(fd, line[: len(line) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(fd, line)

    monkeypatch.setattr(Home, "disk_room", lambda _: DiskRoom(free=0, size=1))
    with holdfast.open(home) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(journal, "write_all", full)
            plan = opened.plan_prune(older_than="1d", use_trash=False)
            with pytest.raises(StorageError, match="No space left"):
                plan.apply()
        logs = list((home / "operations").glob("*.jsonl"))
        if failing == 1:
            assert logs == []
        else:
            assert logs[0].read_bytes().endswith(b"}\n")
            [operation] = opened.log.read().operations
            assert operation.state is OperationState.STOPPED  # nothing is left to settle
        assert len(ids(home)) == 5 - failing
        opened.plan_prune(older_than="1d", use_trash=False).apply()
    assert ids(home) == set()


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("use_trash", [True, False])
def test_an_operation_whose_results_do_not_fit_ends_settled_where_nothing_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, use_trash: bool
) -> None:
    """What was announced is given back: on a full disk it takes the last room. If something left,
    the announcement stays for the next run, which settles it."""
    root = tmp_path / ".claude"
    make_claude(root)
    written: list[object] = []

    def full(fd: int, line: bytes) -> None:
        if line.startswith(b'{"outcome"'):
            written.append(line)
            if len(written) == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(fd, line)

    def no_room(_: BatchRecord) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(carry_out, "_HARDLY_ANY", 2**60)  # batches of one, two, four
    with holdfast.open(root, clock=lambda: time.time() + 400 * DAY) as home:
        before = {each.id for each in home.list_sessions().sessions}
        with monkeypatch.context() as patched:
            patched.setattr(journal, "write_all", full)
            if use_trash:
                patched.setattr(BatchRecord, "write", no_room)
            with pytest.raises(StorageError, match="No space left"):
                home.plan_prune(older_than="1d", use_trash=use_trash).apply()
        operations = home.log.read().operations
        if not use_trash:
            assert operations[0].state is OperationState.UNFINISHED
        elif failing == 1:
            assert not operations
        else:
            assert operations[0].state is OperationState.STOPPED
        if use_trash:
            assert {each.id for each in home.list_sessions().sessions} == before
        home.plan_prune(older_than="1d", use_trash=False).apply()
        states = {each.state for each in home.log.read().operations}
        assert OperationState.UNFINISHED not in states
        assert len(home.list_sessions().sessions) < len(before)


def test_an_undo_of_archiving_that_does_not_fit_leaves_nothing_in_the_trash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was unpacked for it would lie there, and nothing would empty it. What fits comes back
    all the same."""
    root = tmp_path / ".claude"
    make_claude(root)
    unpacked: list[object] = []

    def full(nodes: object) -> None:
        unpacked.append(nodes)
        if len(unpacked) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with holdfast.open(root, clock=lambda: time.time() + 400 * DAY) as home:
        before = {each.id for each in home.list_sessions().sessions}
        whole = [each for each in before if not each.startswith("agent-")]
        operation = home.plan_archive(whole).apply().report.operation
        with monkeypatch.context() as patched:
            patched.setattr(packed_folder, "_finish", full)
            undone = home.undo(operation).report
        assert undone.brought_back
        assert undone.failed == 1
        assert not list((root / ".holdfast" / "trash").rglob("*"))
        assert home.undo(operation).report.brought_back == 1
        assert {each.id for each in home.list_sessions().sessions} == before
    assert not bundles_of(root / ".holdfast" / "archive")


def test_a_copy_that_an_undo_could_not_discard_is_in_the_trash_until_that_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several sessions are in one file, and a smaller one takes room. When all of them go, it needs
    none, even before there is room for the log."""
    home = a_home(tmp_path / ".holdfast", sessions=4)

    def full(*_: object, **__: object) -> None:
        raise FullDiskError("The disk is full.")

    with holdfast.open(home) as opened:
        before = opened.delete(["old-0003"]).report.operation
        operation = opened.plan_prune(older_than="1d").apply().report.operation
        assert before
        assert operation
        with monkeypatch.context() as patched:
            patched.setattr(carry_out, "_HARDLY_ANY", 2**60)  # batches of one, then two
            patched.setattr(BundleFolder, "_make", full)
            undone = opened.undo(operation).report
            assert undone.brought_back == 3
            assert ids(home) == {"old-0000", "old-0001", "old-0002"}
            assert len(opened.trash.list()) == 4
            assert opened.log.get(operation).state is OperationState.PARTLY_UNDONE
            patched.setattr(Home, "disk_room", lambda _: DiskRoom(free=0, size=1))
            emptied = opened.trash.plan_empty(operation).apply().report
        assert emptied.removed == 3
        assert emptied.bytes_freed
        assert {each.name for each in (home / "trash").iterdir()} == {before}
        assert ids(home) == {"old-0000", "old-0001", "old-0002"}
        # Nothing is left of it to undo: the next plain undo takes the operation before it.
        assert opened.log.get(operation).state is OperationState.UNDONE
        assert opened.plan_undo().operation.id == before


def test_a_copy_that_an_undo_could_not_discard_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_home(tmp_path / ".holdfast", sessions=3)

    def full(*_: object, **__: object) -> None:
        raise FullDiskError("The disk is full.")

    with holdfast.open(home) as opened:
        operation = opened.plan_prune(older_than="1d").apply().report.operation
        with monkeypatch.context() as patched:
            patched.setattr(carry_out, "_HARDLY_ANY", 2**60)  # batches of one, then two
            patched.setattr(BundleFolder, "_make", full)
            opened.undo(operation)
        assert opened.undo(operation).report.brought_back == 3
        assert not list((home / "trash").rglob("*"))
        assert opened.log.get("1").state is OperationState.UNDONE
