"""Which flushes a restore waits for: that of the whole disk if it has little to write, or those of
its own files. And those of its record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.homes.holdfast import HoldfastHome
from holdfast.stores import flush_disk
from holdfast.stores.checkpoints import restore_record, restore_run, working_tree
from holdfast.stores.checkpoints.default_excludes import TEMPORARY
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.checkpoints.restore_record import Restoration
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import NOW, restore, roll_back, take
from tests.trees import everything

WAITING = "MemTotal: 1 kB\nDirty: {dirty} kB\nWriteback: {writeback} kB\nWritebackTmp: 9999 kB\n"
on_linux = pytest.mark.skipif(
    not flush_disk.can_flush_disk(), reason="a whole disk cannot be flushed here"
)


@on_linux
@pytest.mark.parametrize(
    ("text", "quick"),
    [
        (WAITING.format(dirty=100, writeback=20), True),
        (WAITING.format(dirty=4096, writeback=0), True),
        (WAITING.format(dirty=4000, writeback=100), False),
        (WAITING.format(dirty=0, writeback=90_000), False),
        ("Dirty: 0 kB\n", False),
        ("Dirty: many kB\nWriteback: 0 kB\n", False),
        ("Dirty:\nWriteback:\n", False),
    ],
)
def test_a_disk_is_flushed_quickly_if_little_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, quick: bool
) -> None:
    (tmp_path / "meminfo").write_text(text)
    monkeypatch.setattr(flush_disk, "_MEMORY", str(tmp_path / "meminfo"))
    assert flush_disk.is_quick() is quick


def test_what_cannot_be_asked_is_not_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush_disk, "_MEMORY", str(tmp_path / "gone"))
    assert not flush_disk.is_quick()


@on_linux
@pytest.mark.parametrize("quick", [True, False])
def test_some_files_are_flushed_with_the_disk_only_if_that_is_quick(
    store: ShadowGitStore, project: Path, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    """Either way, everything has been flushed before the first of them gets its name."""
    names = [f"file-{number}" for number in range(restore_run.SOME + 1)]
    for name in names:
        (project / name).write_text("before\n")
    before, target = everything(project), take(store, project)
    for name in names:
        (project / name).write_text("after\n")
    flush, fsync = vars(working_tree)["flush_disk"], os.fsync
    written: list[list[str]] = []
    flushed: set[int] = set()

    def whole(fd: int) -> None:
        written.append([name for name in names if (project / name).read_text() == "before\n"])
        flush(fd)

    def single(fd: int) -> None:
        flushed.add(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(restore_run, "is_quick", lambda: quick)
    monkeypatch.setattr(working_tree, "flush_disk", whole)
    monkeypatch.setattr(os, "fsync", single)
    assert len(restore(store, target).written) == len(names)
    assert written == ([[], names] if quick else [])
    inodes = {(project / name).stat().st_ino for name in names}
    assert inodes & flushed == (set() if quick else inodes)
    assert everything(project) == before
    assert not [path for path in project.iterdir() if path.name.startswith(TEMPORARY.decode())]


def test_the_record_of_a_restore_is_durable_from_before_the_first_change_until_after_the_last(
    store: ShadowGitStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flushed as under way before anything changes, and as done before the restore returns: one
    that came back after a power cut would be carried out again."""
    (project / "README").write_text("before\n")
    target = take(store, project)
    (project / "README").write_text("after\n")
    safety = store.secure(target, now=NOW + 1)
    folder = store.layout.private(project_of(project))
    inode, fsync = folder.stat().st_ino, os.fsync
    durable: list[tuple[bool, bool, str]] = []

    def single(fd: int) -> None:
        fsync(fd)
        if os.fstat(fd).st_ino == inode:
            latest = restore_record.latest(folder)
            is_latest = latest is not None and latest.safety == safety
            is_under_way = restore_record.under_way(folder) is not None
            durable.append((is_under_way, is_latest, (project / "README").read_text()))

    monkeypatch.setattr(os, "fsync", single)
    store.restore(target, safety, now=NOW + 2)
    assert durable == [(True, False, "after\n"), (False, True, "before\n")]


def test_the_log_is_durable_before_the_first_change_by_one_flush(
    home: HoldfastHome, store: ShadowGitStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first line alone says nothing: it is flushed with the intent."""
    (project / "README").write_text("before\n")
    target = take(store, project)
    (project / "README").write_text("after\n")
    begin, fsync = restore_record.begin, os.fsync
    flushed: list[tuple[int, int]] = []
    durable: list[list[tuple[int, int]]] = []

    def single(fd: int) -> None:
        fsync(fd)
        flushed.append((os.fstat(fd).st_ino, os.fstat(fd).st_size))

    def noted(folder: Path, record: Restoration) -> None:
        (log,) = (path.stat() for path in (home.root / "operations").glob("*.jsonl"))
        durable.append([each for each in flushed if each[0] == log.st_ino])
        assert durable == [[(log.st_ino, log.st_size)]]
        begin(folder, record)

    monkeypatch.setattr(os, "fsync", single)
    monkeypatch.setattr(restore_record, "begin", noted)
    roll_back(home, store, target)
    assert durable
