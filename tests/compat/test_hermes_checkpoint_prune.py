"""The checkpoints of Hermes are bounded, and what stays is still Hermes's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StorageError, UnknownCheckpointError
from holdfast.homes.checkpoints import movers
from holdfast.homes.checkpoints.keep_within_bounds import Bounder, Pace
from holdfast.homes.hermes import checkpoints_mover
from holdfast.homes.hermes.repository import rebuild
from holdfast.model.checkpoint import Capturing
from holdfast.model.report import Report, Result
from holdfast.policy.rules import CheckpointPolicy, Rules
from holdfast.services.plans import plan_drop
from holdfast.stores import lock
from holdfast.stores.git.object_files import object_files
from tests.compat.hermes_store import (
    DAY,
    HOUR,
    START,
    Home,
    git,
    project,
    recorded,
    somebody_in,
    write,
)

KEEP_TWO = CheckpointPolicy(max_count=2)
KEEP_TWO_FOR_GOOD = CheckpointPolicy(max_count=2, use_trash=False)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Path, Path]:
    return recorded(tmp_path)


def results(report: Report) -> list[Result]:
    return [each.result for each in report.outcomes]


def test_the_oldest_go_and_the_others_stay_what_they_are(made: tuple[Home, Path, Path]) -> None:
    home, site, tool = made
    before, facts, other = home.chain(site), home.facts(site), home.chain(tool)
    report = home.prune(KEEP_TWO)
    assert set(results(report)) == {Result.REMOVED}
    assert home.chain(site) == before[:2]
    assert home.facts(site) == facts[:2]
    assert home.chain(tool) == other[:2]
    home.fsck()
    home.undo()
    assert (home.chain(site), home.chain(tool)) == (before, other)
    assert not (home.git_dir / "shallow").exists()
    assert home.git("for-each-ref", "refs/holdfast-trash") == ""
    home.fsck()


def test_what_goes_from_the_middle_leaves_times_and_reasons_of_the_others(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    before, facts = home.chain(site), home.facts(site)
    home.store.pin(home.store.get(before[4]), True)
    report = home.prune(KEEP_TWO)
    assert any("new ids" in each.reason for each in report.outcomes)
    after = home.chain(site)
    assert len(after) == 2
    assert home.facts(site) == [facts[0], facts[4]]
    assert after[1] == before[4]  # older than every gap: as it was
    assert home.store.get(after[1]).pinned
    home.fsck()
    home.undo()
    assert home.chain(site) == before
    assert home.store.get(before[4]).pinned
    home.fsck()


def test_a_pin_follows_the_checkpoint_that_is_written_anew(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    before = home.chain(site)
    for place in (1, 3):
        home.store.pin(home.store.get(before[place]), True)
    home.prune(CheckpointPolicy(max_count=3))
    pinned = [each.reason for each in home.store.list(site) if each.pinned]
    assert pinned == ["before turn 4", "before turn 2"]
    home.prune(CheckpointPolicy(max_count=1))
    assert [each.reason for each in home.store.list(site)][1:] == pinned


@pytest.mark.parametrize("dangling", [True, False])
def test_pins_that_cannot_be_read_keep_the_whole_project(
    made: tuple[Home, Path, Path], dangling: bool, tmp_path: Path
) -> None:
    home, site, tool = made
    before = home.chain(site)
    home.store.pin(home.store.get(before[4]), True)
    [notes] = {*tmp_path.rglob(f"{project(site)}.json")} - {*home.git_dir.rglob("*.json")}
    good = notes.read_bytes()
    if dangling:
        notes.unlink()
        notes.symlink_to("/media/another/disk/notes.json")
    else:
        notes.write_bytes(b"{")
    home.prune(KEEP_TWO)
    assert home.chain(site) == before
    assert len(home.chain(tool)) == 2
    with pytest.raises(StorageError, match="so it was not changed"):
        home.store.pin(home.store.get(before[3]), True)
    notes.unlink()
    notes.write_bytes(good)
    home.prune(KEEP_TWO)
    assert home.store.get(home.chain(site)[1]).pinned
    home.fsck()


def test_beside_a_running_hermes_only_the_oldest_go(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    before = home.chain(site)
    home.store.pin(home.store.get(before[3]), True)
    with somebody_in(home):
        report = home.prune(KEEP_TWO)
    told = [each.reason for each in report.outcomes if each.result is Result.SKIPPED]
    assert told
    assert all("Hermes may be running (process " in reason for reason in told)
    assert home.chain(site) == before[:4]
    home.prune(KEEP_TWO)
    assert len(home.chain(site)) == 2
    home.fsck()


def test_a_project_whose_directory_is_gone_goes_whole_and_comes_back(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, tool = made
    before = home.chain(tool)
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    noted = json.loads(record.read_text())
    shutil.rmtree(tool)
    assert home.prune(CheckpointPolicy(keep_orphans=True)).operation is None
    home.prune(CheckpointPolicy())
    assert home.git("for-each-ref", f"refs/hermes/{project(tool)}") == ""
    assert not record.exists()
    assert len(home.chain(site)) == 6
    home.undo()
    assert home.chain(tool) == before
    assert json.loads(record.read_text()) == noted
    home.fsck()


def test_a_directory_that_is_gone_with_all_around_it_may_be_on_a_disk_that_is_away(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, _, tool = made
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps(data | {"workdir": str(tmp_path / "disk" / "tool")}))
    assert home.prune(CheckpointPolicy()).operation is None


def test_a_project_without_a_record_is_no_orphan(made: tuple[Home, Path, Path]) -> None:
    home, _, tool = made
    (home.git_dir / "projects" / f"{project(tool)}.json").unlink()
    assert home.prune(CheckpointPolicy()).operation is None
    assert len(home.chain(tool)) == 3


def test_a_stale_project_goes_and_one_that_was_used_since_the_plan_stays(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, tool = made
    home.now += 8 * DAY
    plan = home.plan(CheckpointPolicy(stale_after=7 * DAY))
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps(data | {"last_touch": home.now}))
    report = home.apply(plan)
    assert home.git("for-each-ref", f"refs/hermes/{project(site)}") == ""
    assert len(home.chain(tool)) == 3
    assert sorted({(each.result, each.reason) for each in report.outcomes}) == [
        (Result.REMOVED, ""),
        (Result.SKIPPED, "changed since the plan was made"),
    ]


def test_what_was_pinned_or_taken_since_the_plan_is_skipped(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    before = home.chain(site)
    plan = home.plan(KEEP_TWO)
    home.store.pin(home.store.get(before[5]), True)
    report = home.apply(plan)
    assert {each.id: each.result for each in report.outcomes}[before[5]] is Result.SKIPPED
    assert before[5] in home.chain(site)


def test_the_cap_takes_the_fewest_oldest_and_frees_the_bytes(tmp_path: Path) -> None:
    home, site, tool = recorded(tmp_path)
    _grow(home, site, checkpoints=6, size=40_000)
    home.age()
    total = home.home.checkpoint_upkeep.scan(home.now).total_bytes
    limit = total - 90_000
    policy = CheckpointPolicy(max_bytes=limit, use_trash=False)
    report = home.prune(policy)
    inventory = home.home.checkpoint_upkeep.scan(home.now)
    assert inventory.total_bytes <= limit
    assert report.count(Result.REMOVED)
    chain = home.chain(site)
    assert len(chain) > 2  # fewest: what fits stays
    assert len(home.chain(tool)) >= 1
    home.fsck()
    smallest = CheckpointPolicy(max_bytes=1, use_trash=False)
    home.prune(smallest)
    assert home.chain(site) == chain[:1]  # the newest of each stays, whatever the cap
    assert len(home.chain(tool)) == 1
    home.fsck()


def test_the_cap_is_reached_beside_a_running_hermes_too(made: tuple[Home, Path, Path]) -> None:
    """A large one lies between small ones; to drop it alone would move Hermes's reference."""
    home, site, _ = made
    _grow(home, site, checkpoints=3, size=60_000)
    before = home.chain(site)
    home.age()
    limit = home.home.checkpoint_upkeep.scan(home.now).total_bytes - 70_000
    with somebody_in(home):
        report = home.prune(CheckpointPolicy(max_bytes=limit, use_trash=False))
    assert set(results(report)) == {Result.REMOVED, Result.RECLAIMED}
    assert home.home.checkpoint_upkeep.scan(home.now).total_bytes <= limit
    left = home.chain(site)
    assert left == before[: len(left)]
    home.fsck()


def _grow(home: Home, workdir: Path, *, checkpoints: int, size: int) -> None:
    """More checkpoints in the way of Hermes, each with new content that does not compress."""
    ref = f"refs/hermes/{project(workdir)}"
    who = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    place = {"GIT_DIR": str(home.git_dir), "GIT_WORK_TREE": str(workdir)}
    place["GIT_INDEX_FILE"] = str(home.git_dir / "indexes" / project(workdir))
    for number in range(checkpoints):
        (workdir / "large").write_bytes(os.urandom(size))
        git("add", "-A", **place)
        made = git("write-tree", **place).strip()
        dates = {
            f"GIT_{each}_DATE": f"{int(home.now) + number - 3600} +0000"
            for each in ("AUTHOR", "COMMITTER")
        }
        commit = git(
            "commit-tree", made, "-p", ref, "-m", f"large {number}", **place, **who, **dates
        )
        git("update-ref", ref, commit.strip(), **place)


def test_when_the_trash_is_emptied_the_space_comes_back_and_the_rest_is_whole(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    _grow(home, site, checkpoints=4, size=40_000)
    chain = home.chain(site)
    home.prune(KEEP_TWO)
    home.now += 3 * DAY
    _grow(home, site, checkpoints=1, size=100)
    home.prune(KEEP_TWO)  # a second operation, above the first one's cut
    size = home.home.checkpoint_upkeep.scan(home.now).total_bytes
    home.now += 5 * DAY  # only the first one's trash is old enough
    home.age()
    home.prune(CheckpointPolicy())
    home.fsck()
    assert home.home.checkpoint_upkeep.scan(home.now).total_bytes < size - 60_000
    home.undo()  # of the second: what it removed is still there
    assert home.chain(site)[1:] == chain[:2]
    home.fsck()


def test_everything_can_be_cleared_and_brought_back(made: tuple[Home, Path, Path]) -> None:
    home, site, tool = made
    before = home.chain(site), home.chain(tool)
    home.apply(plan_drop(home.home.checkpoint_upkeep, None, now=home.now, command="clear"))
    assert home.git("for-each-ref", "refs/hermes") == ""
    assert list((home.git_dir / "projects").iterdir()) == []
    home.undo()
    assert (home.chain(site), home.chain(tool)) == before
    home.fsck()


def test_a_chain_that_two_worktrees_share_is_cut_for_one_alone(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, _, tool = made
    twin = tmp_path / "twin"
    shutil.copytree(tool, twin)
    before = home.chain(tool)
    home.git("update-ref", f"refs/hermes/{project(twin)}", before[0])
    record = {"workdir": str(twin), "created_at": 0, "last_touch": home.now}
    (home.git_dir / "projects" / f"{project(twin)}.json").write_text(json.dumps(record))
    with pytest.raises(UnknownCheckpointError, match="belongs to 2 directories"):
        home.store.get(before[2])
    mine = home.store_at(twin / "deeper").get(before[2])
    assert mine.workdir == str(twin)
    home.store.pin(home.store_at(tool).get(before[2]), True)
    plan = home.plan(KEEP_TWO)
    some = [each for each in plan.removals if each.source.endswith(project(tool))]
    home.apply(replace(plan, items=tuple(some)))
    assert home.chain(twin) == before
    assert len(home.chain(tool)) == 2
    home.fsck()


def test_keep_rules_drop_from_the_middle_and_undo_gives_the_old_ids_back(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    before = home.chain(site)
    home.prune(CheckpointPolicy(rules=Rules(keep_last=1, keep_within=0, keep_daily=2)))
    kept = len(home.chain(site))
    assert 1 <= kept < 6
    write(site, [("a.txt", "later\n")])
    home.undo()
    assert home.chain(site) == before


def test_a_second_run_finds_nothing_to_do(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    home.prune(KEEP_TWO_FOR_GOOD)
    assert home.prune(KEEP_TWO_FOR_GOOD).operation is None


def test_an_unknown_object_is_no_reason_to_remove_anything(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    newest = home.chain(site)[0]
    home.git("repack", "-ad", "-q")
    tree = home.git("rev-parse", f"{newest}^{{tree}}").strip()
    pack = next((home.git_dir / "objects" / "pack").glob("*.pack"))
    data = pack.read_bytes()
    for each in list(pack.parent.iterdir()):
        each.unlink()
    unpack = ["git", "--git-dir", str(home.git_dir), "unpack-objects", "-q"]
    subprocess.run(unpack, input=data, check=True)
    (home.git_dir / "objects" / tree[:2] / tree[2:]).unlink()
    home.age()
    before = object_files(home.git_dir / "objects").loose.keys()
    report = home.prune(KEEP_TWO_FOR_GOOD)
    assert report.count(Result.FAILED) == 1  # to give space back
    assert object_files(home.git_dir / "objects").loose.keys() == before


def test_hours_apart_or_in_one_second_the_order_is_that_of_the_chain(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    _grow(home, site, checkpoints=3, size=10)
    now = home.now
    home.now = now + HOUR
    ids = [
        each.id
        for each in home.home.checkpoint_upkeep.scan(home.now).checkpoints
        if each.source.endswith(project(site))
    ]
    times = [
        each.last_active_at
        for each in home.home.checkpoint_upkeep.scan(home.now).checkpoints
        if each.source.endswith(project(site))
    ]
    assert ids == home.chain(site)[::-1]
    assert times == sorted(set(times))


def test_what_is_taken_in_a_home_of_hermes_is_bounded_and_hermes_keeps_its_own(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    """A take of ours says nothing about the checkpoints that Hermes took."""
    home, site, tool = made
    before = home.chain(site), home.chain(tool)
    store = home.home.checkpoint_store(Capturing(max_snapshots=2))
    assert store is not None
    taken = []
    for number in range(4):
        (site / "a.txt").write_text(f"take {number}\n")
        taken.append(store.take(site, reason="ours", now=START + 13 * HOUR + number).id)
    folder = home.root / ".holdfast" / "checkpoints"
    Bounder(home.root, folder, 2, None).work(lambda: home.now, Pace(count_apart=0.0, share=0.0))
    while lock.is_held(folder / "bounding.lock"):  # the takes started one of their own
        time.sleep(0.05)
    assert [each.id for each in reversed(home.own.list(site))] == taken[2:]
    gone = [each.removal.item.id for each in home.home.log.read().trash]
    assert sorted(gone) == sorted(str(each) for each in taken[:2])
    assert (home.chain(site), home.chain(tool)) == before


def test_what_is_still_to_be_settled_makes_no_failure_of_what_went(
    made: tuple[Home, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The references have moved by then, and the next look settles the rest, as after a kill."""
    home, site, tool = made
    before = home.chain(site), home.chain(tool)
    records = sorted(each.name for each in (home.git_dir / "projects").iterdir())

    def full(*_: object) -> None:
        raise StorageError("Cannot write shallow: the disk is full.")

    clear = plan_drop(home.home.checkpoint_upkeep, None, now=home.now, command="clear")
    real, looks = rebuild.settle, list[object]()

    def after_the_look(*place: Any) -> None:
        looks.append(place)
        (real if len(looks) == 1 else full)(*place)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_mover, "settle", after_the_look)
        report = home.apply(clear)
    assert len(looks) > 1
    assert set(results(report)) == {Result.REMOVED}
    home.undo()
    assert (home.chain(site), home.chain(tool)) == before
    assert sorted(each.name for each in (home.git_dir / "projects").iterdir()) == records
    home.fsck()


def test_where_our_checkpoints_fail_those_of_hermes_are_reported_as_they_are(
    made: tuple[Home, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, site, tool = made
    store = home.home.checkpoint_store(Capturing())
    assert store is not None
    (site / "a.txt").write_text("a take of ours\n")
    ours = store.take(site, reason="ours", now=home.now).id
    before = home.chain(site), home.chain(tool)

    def refuse(*_: object) -> None:
        raise StorageError("Cannot write packed-refs: the disk is full.")

    clear = plan_drop(home.home.checkpoint_upkeep, None, now=home.now, command="clear")
    with monkeypatch.context() as patch:
        patch.setattr(movers.CheckpointMover, "drop", refuse)
        report = home.apply(clear)
    failed = {each.id for each in report.outcomes if each.result is Result.FAILED}
    assert failed == {ours}
    assert home.git("for-each-ref", "refs/hermes") == ""
    home.undo()
    assert (home.chain(site), home.chain(tool)) == before
