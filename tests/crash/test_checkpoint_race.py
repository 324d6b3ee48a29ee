"""Law 4 under load: processes take, restore, drop and reclaim at once, and are killed at random."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.operation import OperationState
from holdfast.spine.settle import settle_if_needed
from holdfast.stores.checkpoints.reclaim import reclaim
from tests import tally
from tests.checkpointing import contents, fsck, on_disk
from tests.crash.checkpoint_worker import MAX_SNAPSHOTS, SHARED, make_shared, state, store_of

ROOT = Path(__file__).parents[2]
Role = tuple[str, str]
ROLES: Sequence[Role] = (
    ("take", "1"),
    ("take", "2"),
    ("take", "3"),
    ("prune", "4"),
    ("space", "5"),
)
ALL: Sequence[Role] = (*ROLES, ("read", "6"), ("share", "7"), ("share", "8"))
PATIENCE = 60.0


def start(root: Path, role: str, seed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.checkpoint_worker", role, str(root), seed],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def race(root: Path, seconds: float, *, kills: bool, roles: Sequence[Role] = ROLES) -> int:
    """How many were killed. None may end by itself: then it found something that must not be."""
    make_shared(root)
    chance = random.Random(7)
    running = {role: start(root, *role) for role in roles}
    end = time.monotonic() + seconds
    killed = 0
    try:
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.2, 0.8))
            for role, process in running.items():
                assert process.poll() is None, f"{role} ended: {process.communicate()[1]}"
            if kills:
                role = chance.choice(roles)
                stop(running[role])
                running[role] = start(root, *role)
                killed += 1
                tally.injected()
    finally:
        for process in running.values():
            stop(process)
    return killed


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def check(root: Path) -> int:
    """Everything that is left is whole; says how much that is."""
    home = HoldfastHome(root / "home", clock=time.time)
    settle_if_needed(home, clock=time.time)
    store = store_of(root, max_snapshots=0)
    reclaim(store.layout, holder="test", thorough=True)
    found = home.checkpoint_upkeep.verify()
    assert found.ok, found.problems
    assert fsck(root / "home" / "checkpoints" / "store") == ""
    left = store.list()
    for checkpoint in left:
        held = {path: data for path, (_, data) in contents(store, checkpoint).items()}
        if checkpoint.reason.isdigit():
            assert held == state(int(checkpoint.reason)), checkpoint
    assert any(held_by(root / SHARED) == state(number) for number in (11, 22, 33))
    for workdir in (root / name for name in ("project-1", "project-2", "project-3", SHARED)):
        if not workdir.exists():
            continue
        store.take(workdir, reason="at the end", now=time.time())
        for checkpoint in store.list(workdir):
            safety = store.secure(checkpoint.id, now=time.time())
            store.restore(checkpoint.id, safety, now=time.time())
            assert on_disk(workdir) == contents(store, checkpoint), checkpoint
    # What is in the trash by the log is in the store, too.
    view = home.log.read()
    assert not view.problems
    assert all(each.state is not OperationState.UNFINISHED for each in view.operations)
    assert all(problem.reason == "" for problem in home.checkpoint_upkeep.scan(0).problems)
    tally.verified(len(left))
    return len(left)


def held_by(workdir: Path) -> Mapping[str, bytes]:
    return {name: data for name, (_, data) in on_disk(workdir).items()}


def test_no_checkpoint_is_lost_while_others_drop_and_reclaim(tmp_path: Path) -> None:
    race(tmp_path, seconds=4, kills=False)
    assert check(tmp_path) >= 6


def test_no_checkpoint_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    assert race(tmp_path, seconds=6, kills=True) > 5
    assert check(tmp_path) >= 6


@pytest.mark.deep
def test_a_directory_that_several_restore_is_one_of_its_checkpoints(tmp_path: Path) -> None:
    roles = (("share", "1"), ("share", "2"), ("space", "3"), ("read", "4"))
    race(tmp_path, seconds=4, kills=True, roles=roles)
    assert check(tmp_path) >= 3


@pytest.mark.deep
@pytest.mark.parametrize("kills", [True, False])
def test_no_checkpoint_is_lost_in_a_minute(tmp_path: Path, kills: bool) -> None:
    killed = race(tmp_path, seconds=60, kills=kills, roles=ALL)
    assert killed > 50 or not kills
    assert check(tmp_path) >= 6
    bounded_again(tmp_path)


def bounded_again(root: Path) -> None:
    """A take that is killed before it rotates, or an undo, leaves a project above its limit. The
    next take brings it back."""
    store = store_of(root)
    for workdir in root.glob("project-*"):
        (workdir / "last").write_text("changed")
        store.take(workdir, reason="rotates", now=time.time())
        assert len(store.list(workdir)) <= MAX_SNAPSHOTS
