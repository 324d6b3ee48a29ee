"""The bounds of checkpoints while agents work: real takes, real processes, the disk as it is."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Recorder
from holdfast.api.capture import open_recorder
from holdfast.errors import BusyError, CannotUndoError
from holdfast.homes.checkpoints.keep_within_bounds import Bounder, Pace
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.model.item import CHECKPOINT
from holdfast.model.operation import BY_ITSELF
from holdfast.model.plan import Plan
from holdfast.services.plans import plan_drop
from holdfast.services.rollback import rollback
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores import lock
from holdfast.stores.checkpoints import reclaim
from holdfast.stores.checkpoints.repository import Layout, used
from holdfast.stores.checkpoints.size_cap import most_on_disk, store_bytes
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.operation_log import FileOperationLog
from tests import tally
from tests.checkpointing import Bench, file_bytes, fsck

AGENT = Path(__file__).with_name("live_bounds.py")
MEGABYTE = 1_000_000
#: Nobody waits for anything to gather.
AT_ONCE = Pace(tick=0.01, bytes_apart=0.0, count_apart=0.0, share=0.0, retry=0.05)
PATIENCE = 120.0


class Sampled:
    """The most that a folder took, as often as it could be looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.most = 0
        self.looks = 0

    def look(self) -> int:
        size = 0
        for place, _, names in os.walk(self._folder):
            for name in names:
                try:
                    size += os.lstat(f"{place}/{name}").st_blocks * 512
                except FileNotFoundError:
                    continue
        self.most = max(self.most, size)
        self.looks += 1
        return size


@contextmanager
def sampled(folder: Path) -> Iterator[Sampled]:
    found, done = Sampled(folder), threading.Event()

    def sample() -> None:
        while not done.wait(0.002):
            found.look()

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def a_home(root: Path, *, megabytes: int = 0, snapshots: int = 0) -> Path:
    home = root / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f"[checkpoints]\nenabled = true\nmax_total_size_mb = {megabytes}\n"
        f"max_snapshots = {snapshots}\n"
    )
    return home


def a_project(root: Path, name: str = "site") -> Path:
    workdir = root / name
    workdir.mkdir()
    (workdir / "README").write_text(f"{name}\n")
    return workdir


def bounder(home: Path, *, megabytes: int = 0, snapshots: int = 0) -> Bounder:
    return Bounder(home, home / "checkpoints", snapshots, megabytes * MEGABYTE or None)


def settle(home: Path, *, megabytes: int = 0, snapshots: int = 0) -> None:
    """Wait until no worker is left and there is nothing to do for one."""
    mine = bounder(home, megabytes=megabytes, snapshots=snapshots)
    deadline = time.monotonic() + PATIENCE
    while lock.is_held(home / "checkpoints" / "bounding.lock") or mine.is_due():
        assert time.monotonic() < deadline, "the store is still above its bound"
        time.sleep(0.05)


def removed(home: Path) -> set[str]:
    """Every checkpoint that the log says was removed."""
    found = set()
    for path in (home / "operations").glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        items = {each["n"]: each["item"]["id"] for line in lines for each in line.get("intent", ())}
        for line in lines:
            for each in line.get("outcome", ()):
                if each["result"] == "removed":
                    found.add(items[each["n"]])
    return found


def shown(home: Path) -> list[str]:
    return [each.id for each in ShadowGitStore(home / "checkpoints").list()]


def changed(recorder: Recorder, workdir: Path, size: int, chance: random.Random) -> str | None:
    (workdir / "data.bin").write_bytes(chance.randbytes(size))
    recorder.new_turn()
    return recorder.before_change(workdir).id


def test_the_cap_holds_while_an_agent_works(tmp_path: Path) -> None:
    home, workdir = a_home(tmp_path, megabytes=2), a_project(tmp_path)
    recorder = open_recorder(home, workdirs=[workdir])
    chance = random.Random(7)
    folder = home / "checkpoints"
    with sampled(folder) as disk:
        taken = [changed(recorder, workdir, 300_000, chance) for _ in range(14)]
        settle(home, megabytes=2)
    assert all(taken)
    assert disk.most <= 2 * 2 * MEGABYTE, disk.looks
    assert file_bytes(folder) <= 2 * MEGABYTE
    # Nothing went without a receipt, and the newest stayed.
    listed = shown(home)
    assert listed[0] == taken[-1]
    assert set(taken) - set(listed) == removed(home) & set(taken)
    # Of those that go, no more than need be: one more would not have fitted.
    assert file_bytes(folder) + 300_000 > 2 * MEGABYTE
    assert fsck(folder / "store") == ""


@pytest.mark.deep
def test_agents_at_once_stay_below_twice_the_cap(tmp_path: Path) -> None:
    # Each take is far above the cap, so that no worker waits for more.
    _agents_at_once(tmp_path, agents=2, takes=4, size=450_000, megabytes=1)


@pytest.mark.deep
def test_many_agents_at_once_stay_below_twice_the_cap(tmp_path: Path) -> None:
    _agents_at_once(tmp_path, agents=5, takes=15, size=250_000, megabytes=3)


def _agents_at_once(root: Path, *, agents: int, takes: int, size: int, megabytes: int) -> None:
    home = a_home(root, megabytes=megabytes)
    places = [a_project(root, f"project {number}") for number in range(agents)]
    with sampled(home / "checkpoints") as disk:
        running = [
            subprocess.Popen(
                [sys.executable, str(AGENT), str(home), str(place), str(takes), str(size)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for place in places
        ]
        texts = [each.communicate()[0] for each in running]
        settle(home, megabytes=megabytes)
    assert [each.returncode for each in running] == [0] * agents
    assert disk.most <= 2 * megabytes * MEGABYTE, disk.looks
    said = [json.loads(line) for text in texts for line in text.splitlines()]
    taken = {ident for outcome, ident, _ in said if outcome == "taken"}
    assert len(taken) >= agents
    assert set(shown(home)) | removed(home) == taken
    assert fsck(home / "checkpoints" / "store") == ""


def test_a_killed_worker_costs_nothing_and_is_started_again(tmp_path: Path) -> None:
    _kill_workers(tmp_path, times=3)


@pytest.mark.deep
def test_workers_killed_all_the_time(tmp_path: Path) -> None:
    _kill_workers(tmp_path, times=60)


def _kill_workers(root: Path, times: int) -> None:
    home, workdir = a_home(root, megabytes=2, snapshots=4), a_project(root)
    store = ShadowGitStore(home / "checkpoints", Capturing(max_snapshots=4, max_bytes=2 * MEGABYTE))
    chance = random.Random(times)
    asked = json.dumps([str(home), str(home / "checkpoints"), 4, 2 * MEGABYTE])
    module = "holdfast.homes.checkpoints.keep_within_bounds"
    code = f"import sys; from {module} import worker; worker(sys.argv[1])"
    taken: set[str] = set()
    with sampled(home / "checkpoints") as disk:
        for number in range(times):
            for _ in range(3):
                (workdir / "data.bin").write_bytes(chance.randbytes(250_000))
                done = store.take(workdir, reason="turn", now=time.time())
                taken |= {done.id} if done.outcome is TakeOutcome.TAKEN and done.id else set()
            killed = subprocess.Popen([sys.executable, "-c", code, asked])
            time.sleep(chance.uniform(0.1, 1.2))
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            tally.injected()
            if number % 4 == 3:  # one that is left alone, so that takes have room again
                bounder(home, megabytes=2, snapshots=4).work(time.time, AT_ONCE)
        bounder(home, megabytes=2, snapshots=4).work(time.time, AT_ONCE)
    assert disk.most <= 2 * 2 * MEGABYTE, disk.looks
    assert file_bytes(home / "checkpoints") <= 2 * MEGABYTE
    assert len(shown(home)) <= 4
    assert set(shown(home)) | removed(home) >= taken
    assert fsck(home / "checkpoints" / "store") == ""
    assert all(
        each.finished_at is not None
        for each in FileOperationLog(home / "operations", home / "trash").read().operations
    )
    tally.verified()


def test_rotation_is_in_the_log_and_can_be_undone(tmp_path: Path) -> None:
    home, workdir = a_home(tmp_path, snapshots=3), a_project(tmp_path)
    recorder = open_recorder(home, workdirs=[workdir])
    chance = random.Random(3)
    taken = []
    for _ in range(5):
        taken.append(changed(recorder, workdir, 1_000, chance))
        assert len(recorder.store.list(workdir)) <= 3
    bounder(home, snapshots=3).work(time.time, AT_ONCE)
    settle(home, snapshots=3)
    assert removed(home) == set(taken[:2])
    opened = HoldfastHome(home, clock=time.time)
    operations = opened.log.read().operations
    assert {each.command for each in operations} == {BY_ITSELF}
    for each in reversed(operations):
        undo(opened, each.id, clock=time.time)
    assert [each.id for each in reversed(recorder.store.list(workdir))] == taken
    # The next take brings the number down again.
    changed(recorder, workdir, 1_000, chance)
    assert len(recorder.store.list(workdir)) == 3


def test_undo_takes_back_what_somebody_did_and_not_what_the_bounds_did(tmp_path: Path) -> None:
    """A restore takes a checkpoint, which may make the oldest go: a later operation."""
    home, workdir = a_home(tmp_path, snapshots=3), a_project(tmp_path)
    recorder = open_recorder(home, workdirs=[workdir])
    chance = random.Random(8)
    taken = [changed(recorder, workdir, 1_000, chance) for _ in range(3)]
    (workdir / "data.bin").write_bytes(b"mine")
    opened = HoldfastHome(home, clock=time.time)
    rollback(opened, recorder.store, str(taken[-1]), command="restore", clock=time.time)
    bounder(home, snapshots=3).work(time.time, AT_ONCE)
    settle(home, snapshots=3)
    assert opened.log.read().operations[-1].command == BY_ITSELF
    target, _ = undo_latest(opened, clock=time.time)
    assert target.command == "restore"
    assert (workdir / "data.bin").read_bytes() == b"mine"
    # It comes back by its number only, and the message says which that is.
    own = opened.log.read().operations[-2]
    with pytest.raises(CannotUndoError) as refused:
        undo_latest(opened, clock=time.time)
    assert f"home.undo('{own.id}')" in (refused.value.hint or "")
    target, _ = undo(opened, own.id, clock=time.time)
    assert target.command == BY_ITSELF


def test_what_cannot_fit_is_refused_with_a_reason(tmp_path: Path) -> None:
    home, workdir = a_home(tmp_path, megabytes=1), a_project(tmp_path)
    recorder = open_recorder(home, workdirs=[workdir])
    chance = random.Random(4)
    first = changed(recorder, workdir, 500_000, chance)
    (workdir / "large.bin").write_bytes(chance.randbytes(3_000_000))
    recorder.new_turn()
    with sampled(home / "checkpoints") as disk:
        refused = recorder.before_change(workdir)
    assert refused.outcome is TakeOutcome.SKIPPED
    assert "max_total_size_mb" in refused.reason
    assert disk.most <= 2 * MEGABYTE
    assert shown(home) == [first]
    # It is smaller again: nothing stands in the way of the next one.
    (workdir / "large.bin").unlink()
    assert changed(recorder, workdir, 400_000, chance)


def test_a_store_that_cannot_get_below_its_cap_is_left_alone(tmp_path: Path) -> None:
    """The newest of each project stays: to try again after every take would help nobody."""
    home = a_home(tmp_path, megabytes=1)
    chance = random.Random(5)
    for name in ("one", "two", "three"):
        workdir = a_project(tmp_path, name)
        assert changed(open_recorder(home, workdirs=[workdir]), workdir, 400_000, chance)
    mine = bounder(home, megabytes=1)
    mine.work(time.time, AT_ONCE)
    settle(home, megabytes=1)
    assert store_bytes(Layout(folder=home / "checkpoints")) > MEGABYTE
    assert len(shown(home)) == 3
    assert not mine.is_due()


def test_a_run_that_found_the_home_busy_is_tried_again(tmp_path: Path) -> None:
    """How far such a run got says nothing about how far the next one gets."""
    home, workdir = a_home(tmp_path, megabytes=1), a_project(tmp_path)
    layout = Layout(folder=home / "checkpoints")
    store = ShadowGitStore(layout.folder, Capturing(max_bytes=MEGABYTE))
    chance = random.Random(7)
    for _ in range(3):
        (workdir / "data.bin").write_bytes(chance.randbytes(400_000))
        store.take(workdir, reason="turn", now=time.time())
    mine = bounder(home, megabytes=1)
    with HoldfastHome(home, clock=time.time).log.writing("prune"), pytest.raises(BusyError):
        mine.run(time.time)
    mine.work(time.time, AT_ONCE)
    assert store_bytes(layout) <= MEGABYTE


def test_a_git_that_outlives_its_worker_keeps_no_other_worker_away(tmp_path: Path) -> None:
    home, workdir = a_home(tmp_path, megabytes=1), a_project(tmp_path)
    changed(open_recorder(home, workdirs=[workdir]), workdir, 1_000, random.Random(8))
    with bounder(home, megabytes=1).room_made():
        assert lock.is_held(home / "checkpoints" / "bounding.lock")
        assert lock.held() == ()


def test_a_take_inside_a_run_that_has_the_home_waits_for_nobody(tmp_path: Path) -> None:
    """A restore has the home's lock and takes a safety checkpoint: room cannot be made then."""
    home, workdir = a_home(tmp_path, megabytes=1), a_project(tmp_path)
    mine = bounder(home, megabytes=1)
    recorder = open_recorder(home, workdirs=[workdir])
    for _ in range(3):
        changed(recorder, workdir, 300_000, random.Random(6))
    settle(home, megabytes=1)
    layout = Layout(folder=home / "checkpoints")
    began = len(FileOperationLog(home / "operations", home / "trash").read().operations)
    with HoldfastHome(home, clock=time.time).log.writing("restore"), mine.room_made():
        pass
    with used(layout), mine.room_made():
        pass
    assert len(FileOperationLog(home / "operations", home / "trash").read().operations) == began


@pytest.mark.parametrize(("large", "share"), [(False, 0.75), (True, 1.0), (True, 0.3)])
def test_making_a_store_smaller_needs_no_second_copy_of_it(
    tmp_path: Path, large: bool, share: float
) -> None:
    """Many small packs; one that holds everything; one of a time when the cap was higher."""
    bench = Bench(tmp_path)
    workdir = bench.project()
    ids = bench.takes(workdir, 12, size=200_000)
    if large:
        bench.home.checkpoint_upkeep.pack()
    before = file_bytes(bench.folder)
    limit = int(before * share)
    bench.apply(drop_only(bench, ids[:6] if share > 0.5 else ids[:-1]))
    left = bench.ids()
    with sampled(bench.folder) as disk:
        reclaim.reclaim(bench.store.layout, holder="test", limit=limit)
    assert disk.most <= most_on_disk(max(limit, before * 3 // 4))
    assert file_bytes(bench.folder) <= limit
    assert bench.ids() == left == ids[-len(left) :]
    assert fsck(bench.folder / "store") == ""


def drop_only(bench: Bench, ids: Sequence[str]) -> Plan:
    """Without giving the space back."""
    plan = plan_drop(
        bench.home.checkpoint_upkeep, ids, now=bench.now, command="drop", undoable=False
    )
    return replace(plan, items=tuple(each for each in plan.items if each.kind == CHECKPOINT))


def test_a_private_index_costs_no_checkpoint_its_place(tmp_path: Path) -> None:
    """It is behind: what the first checkpoint had is in it until it is brought up to date."""
    bench = Bench(tmp_path)
    workdir = bench.project()
    ids = bench.takes(workdir, 3, size=300_000)
    bench.apply(drop_only(bench, ids[:1]))
    limit = 800_000
    reclaim.reclaim(bench.store.layout, holder="test", limit=limit)
    assert file_bytes(bench.folder) <= limit
    assert bench.ids() == ids[1:]
    # The next look wakes it and finds what changed.
    assert bench.store.take(workdir, reason="same", now=bench.now).id == ids[-1]
    assert bench.take(workdir)
