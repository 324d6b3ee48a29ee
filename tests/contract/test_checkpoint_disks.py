"""Projects whose disk is away: not deleted, not pruned for that, nothing made in their place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.model.checkpoint import ProjectState, TakeOutcome
from holdfast.policy.rules import CheckpointPolicy
from tests.checkpointing import Bench
from tests.small_disk import with_a_disk

AWAY = """
import os, shutil, subprocess, sys
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.model.checkpoint import TakeOutcome
from holdfast.policy.rules import CheckpointPolicy
from tests.checkpointing import Bench

disk, bench = Path(sys.argv[1]), Bench(Path(sys.argv[2]))
project = disk / "deep" / "project"
project.mkdir(parents=True)
target = bench.take(project)
copy = disk.with_name("copy")
shutil.copytree(disk, copy)

def state():
    [found] = bench.store.projects()
    return found.state.value

def nothing_goes():
    bench.now += 99 * 86_400
    assert not bench.plan(CheckpointPolicy(stale_after=1.0)).removals

def refused(why):
    taking = bench.store.take(project, reason="x", now=bench.now)
    assert taking.outcome is TakeOutcome.SKIPPED and why in taking.reason, taking
    try:
        bench.store.secure(target, now=bench.now)
    except StorageError as error:
        assert why in error.message and "ount" in error.hint, error
    else:
        raise AssertionError("something was restored in its place")

assert state() == "live"
subprocess.run(["umount", disk], check=True)
assert state() == "unmounted"
nothing_goes()
refused(f"the disk at {disk} is not mounted")
assert list(disk.iterdir()) == []
(disk / "deep").mkdir()
assert state() == "unmounted", "the folder above it proves nothing"
nothing_goes()

# Another disk at the same place, as sticks have it.
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)
(disk / "deep").mkdir()
assert state() == "unmounted"
nothing_goes()
refused(f"another disk is mounted at {disk}")

# It has the project, too: then it is that.
shutil.copytree(copy, disk, dirs_exist_ok=True)
assert state() == "live"
bench.take(project)
shutil.rmtree(project)
assert state() == "missing"
assert bench.plan(CheckpointPolicy()).removals
"""


def test_a_disk_that_is_not_mounted_takes_no_checkpoint_with_it(tmp_path: Path) -> None:
    with_a_disk(tmp_path, AWAY, str(tmp_path / "bench"), megabytes=1)


def test_a_project_that_is_gone_with_all_around_it_may_be_on_some_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    workdir = bench.project("disk/project")
    target = bench.take(workdir)
    shutil.rmtree(workdir.parent)
    assert [each.state for each in bench.store.projects()] == [ProjectState.UNKNOWN]
    assert not bench.plan(CheckpointPolicy(stale_after=60.0)).removals
    assert bench.store.take(workdir, reason="x", now=bench.now).outcome is TakeOutcome.SKIPPED
    with pytest.raises(StorageError, match="is gone as well"):
        bench.store.secure(target, now=bench.now)
    bench.now += 61
    assert bench.plan(CheckpointPolicy(stale_after=60.0)).removals, "it goes by age"
    workdir.parent.mkdir()
    assert [each.state for each in bench.store.projects()] == [ProjectState.MISSING]
    safety = bench.store.secure(target, now=bench.now)
    assert len(bench.store.restore(target, safety, now=bench.now).written) == 4
