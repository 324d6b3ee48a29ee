"""A git that outlives the process that started it still keeps others out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.errors import BusyError
from holdfast.stores import lock
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import alone, project_of
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import fsck

pytestmark = pytest.mark.usefixtures("bad_day")

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
WORK = """
import sys
from pathlib import Path
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
store = ShadowGitStore(Path(sys.argv[2]))
if sys.argv[1] == "take":
    store.take(Path(sys.argv[3]), reason="killed", now=2.0)
else:
    reclaim(store.layout, holder="test", thorough=True)
"""


def slow_git(place: Path, hold: Path) -> Path:
    """A git that says when it begins, and waits as long as `hold` is there."""
    folder = place / "slow"
    folder.mkdir()
    real, sleep = shutil.which("git"), shutil.which("sleep")
    script = folder / "git"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" != version ]; then\n  : > "{hold}.begun"\n'
        f'  while [ -e "{hold}" ]; do {sleep} 0.05; done\nfi\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    return folder


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, "it ended without git"
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("work", ["take", "reclaim"])
def test_what_a_killed_process_started_is_waited_for(tmp_path: Path, work: str) -> None:
    project, folder, hold = (
        tmp_path / "project",
        tmp_path / "home" / "checkpoints",
        tmp_path / "hold",
    )
    project.mkdir()
    (project / "file").write_text("one")
    store = ShadowGitStore(folder)
    store.take(project, reason="before", now=1.0)
    (project / "other").write_text("two")
    hold.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, work, str(folder), str(project)],
        cwd=ROOT,
        env={**os.environ, "PATH": str(slow_git(tmp_path, hold))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(tmp_path / "hold.begun", process)
    process.kill()
    process.wait()
    with pytest.raises(BusyError), alone(store.layout, holder="test", wait=0.0):
        pass
    if work == "take":
        mine = store.layout.private(project_of(project)) / "lock"
        with pytest.raises(BusyError), lock.exclusive(mine, holder="test", wait=0.0):
            pass
    hold.unlink()
    with alone(store.layout, holder="test", wait=PATIENCE):
        pass
    taking = store.take(project, reason="after", now=3.0)
    assert store.captured(store.get(taking.id or "").tree).files.keys() == {"file", "other"}
    reclaim(store.layout, holder="test", thorough=True)
    assert fsck(store.layout.store) == ""


def test_a_lock_is_free_at_once_though_a_child_still_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock.exclusive(path, holder="one", wait=0.0):
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=lock.held()
        )
    try:
        assert lock.held() == ()
        with (
            lock.exclusive(path, holder="two", wait=0.0),
            lock.shared(tmp_path / "other", wait=0.0, doing="x", place=tmp_path),
        ):
            assert len(lock.held()) == 2
    finally:
        child.communicate(b"\n")
