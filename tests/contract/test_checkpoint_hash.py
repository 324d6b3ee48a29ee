"""Writes through a shared memory map: found by whoever reads every file."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.stores.checkpoints.read_file import TICK
from tests.contract.restore_bench import NOW, restore, take

SIZE = 4_096


def past_the_tick(path: Path) -> None:
    """Wait until the file is no longer one that changed just now: those are always read."""
    while time.time_ns() < path.stat().st_ctime_ns + 3 * TICK:
        time.sleep(0.01)


def test_reading_every_file_sees_a_write_through_a_memory_map(root: Path, project: Path) -> None:
    data = project / "data.db"
    data.write_bytes(b"a" * SIZE)
    store = checkpoint_store(root, Capturing(hash_all=True))
    with data.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as shared:
        shared[0:1] = b"a"  # the first write to a page sets the times; those after it need not
        os.utime(data, (1_000_000_000, 1_000_000_000))  # git reads a file again whose time is now
        past_the_tick(data)
        target = take(store, project)
        before = data.stat()
        shared[:SIZE] = b"b" * SIZE
        if data.stat() != before:
            pytest.skip("this system tells of the write at once")
        seen = store.captured(store.look(project).tree).files["data.db"]
        assert store.blob(seen.oid) == b"b" * SIZE
        assert store.preview(target).written == ("data.db",)
        assert store.take(project, reason="after", now=NOW).outcome is TakeOutcome.TAKEN
        assert restore(store, target).written == ("data.db",)
    assert data.read_bytes() == b"a" * SIZE


def test_what_did_not_change_is_no_new_checkpoint(root: Path, project: Path) -> None:
    store = checkpoint_store(root, Capturing(hash_all=True))
    first = take(store, project)
    again = store.take(project, reason="again", now=NOW)
    assert (again.outcome, again.id) == (TakeOutcome.UNCHANGED, first)
