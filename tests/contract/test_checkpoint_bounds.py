"""Checkpoints within their bounds: by real stores, as the file system says."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.homes.checkpoints import movers as checkpoint_movers
from holdfast.homes.maintenance import maintain
from holdfast.model.checkpoint import ProjectState
from holdfast.model.checkpoint_inventory import index_root, root_of
from holdfast.model.item import CHECKPOINT, SPACE
from holdfast.model.maintenance import MaintenanceResult, Step
from holdfast.model.operation import Removal
from holdfast.model.plan import Action
from holdfast.model.report import Report, Result
from holdfast.policy.rules import CheckpointPolicy, Rules
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.services.plans import plan_drop
from holdfast.services.rollback import rollback
from holdfast.spine.carry_out import Silent
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.keeper import Keeper
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores.checkpoints import join_packs, pack_objects, restore_record
from holdfast.stores.checkpoints.checkpoint_commit import (
    ROTATED,
    Ref,
    all_refs,
    change,
    project_refs,
)
from holdfast.stores.checkpoints.join_packs import join_if_many
from holdfast.stores.checkpoints.projects import held_by_run, read_record, write_record
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import Layout, project_of, used
from holdfast.stores.checkpoints.restore_record import Restoration
from tests.checkpointing import DAY, Bench, contents, facts, file_bytes, fsck

NOW = CheckpointPolicy(use_trash=False)
#: For a checkpoint to be taken; one that waits for the store for longer is left to itself.
LONG_ENOUGH = 2.0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "a place with 'quotes'")


def test_the_way_back_from_the_last_run_outlives_the_bound(bench: Bench) -> None:
    """A worker may come before a take has hidden what it pushes out."""
    workdir = bench.project()
    before = bench.take(workdir)
    with held_by_run(bench.store.layout, bench.store.get(before), "s1"):
        bench.takes(workdir, 2)
    bench.prune(CheckpointPolicy(max_count=2))
    assert bench.ids()[0] == before
    assert len(bench.ids()) == 2


def pin(bench: Bench, workdir: Path, checkpoint: str) -> None:
    record = read_record(bench.store.layout, project_of(workdir.resolve()))
    assert record is not None
    write_record(bench.store.layout, replace(record, pins=record.pins | {checkpoint}))


def reclaimed(report: Report) -> int:
    (outcome,) = (each for each in report.outcomes if each.kind == SPACE)
    assert outcome.result is Result.RECLAIMED
    return outcome.bytes_freed


# --- Sizes ----------------------------------------------------------------------------------------


@pytest.mark.deep
def test_sizes_are_those_that_a_reclaim_frees(bench: Bench) -> None:
    """Every set of checkpoints of a small store: what the plan says is what goes from the disk."""
    ids = bench.takes(bench.project(), 4)
    bench.unpack()  # in a pack some bytes of a block are nobody's
    pristine = bench.root / "pristine"
    shutil.copytree(bench.folder, pristine, symlinks=True)
    for count in range(1, 5):
        for chosen in itertools.combinations(ids, count):
            shutil.rmtree(bench.folder)
            shutil.copytree(pristine, bench.folder, symlinks=True)
            upkeep = bench.home.checkpoint_upkeep
            plan = plan_drop(upkeep, chosen, now=bench.now, command="drop", undoable=False)
            garbage = bench.scan().space[0].bytes
            before = file_bytes(bench.objects)
            bench.apply(plan)
            assert before - file_bytes(bench.objects) == plan.bytes + garbage, chosen
            assert fsck(bench.folder / "store") == ""


def test_sizes_agree_with_git(bench: Bench) -> None:
    one, other = bench.project("one", files=40), bench.project("two", files=3)
    shutil.copytree(one, other, dirs_exist_ok=True)
    bench.takes(one, 5)
    bench.takes(other, 5)
    store = bench.folder / "store"
    # In one pack, as git counts no whole blocks.
    subprocess.run(["git", "--git-dir", store, "repack", "-adq"], check=True)
    inventory = bench.scan()
    what_if = inventory.weights.what_if()
    for project in inventory.projects:
        what_if.drop(index_root(project))  # git does not look at them here
    refs = all_refs(bench.store.layout)
    reached = {
        ref: _git(store, "rev-list", "--objects", "--no-object-names", ref.path) for ref in refs
    }
    listed = "--batch-check=%(objectname) %(objectsize:disk)"
    said = _git(store, "cat-file", "--batch-all-objects", listed)
    sizes = {line.split()[0]: int(line.split()[1]) for line in said}
    for ref in refs:
        others = set().union(*(found for each, found in reached.items() if each != ref))
        in_index = 28  # bytes in the pack's index
        own = sum(sizes[oid] + in_index for oid in reached[ref] - others)
        assert what_if.alone(root_of(ref.checkpoint)) == own


def _git(store: Path, *arguments: str) -> set[str]:
    command = ["git", "--git-dir", str(store), *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(said.stdout.splitlines())


def test_a_project_that_shares_everything_costs_next_to_nothing(bench: Bench) -> None:
    one = bench.project("one", files=50)
    bench.take(one)
    before = bench.scan().weights.held
    shutil.copytree(one, bench.root / "two")
    assert bench.store.take(bench.root / "two", reason="copy", now=bench.now).id
    assert bench.scan().weights.held - before < 10_000


# --- Rotation -------------------------------------------------------------------------------------


def test_a_checkpoint_too_many_hides_the_oldest(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=3)
    workdir = bench.project()
    first = bench.take(workdir)
    known = facts(bench.store.list())
    ids = [first, *bench.takes(workdir, 4)]
    assert bench.ids(workdir) == ids[-3:]
    hidden = [ref.checkpoint for ref in all_refs(bench.store.layout) if ref.operation == ROTATED]
    assert hidden == ids[:2]
    assert not set(facts(bench.store.list())) & set(known)
    # What is hidden goes to the trash with the next prune, and with a receipt.
    report = bench.prune(CheckpointPolicy(max_count=3))
    assert sorted(each.id for each in report.outcomes if each.kind == CHECKPOINT) == sorted(ids[:2])
    undo_latest(bench.home, clock=lambda: bench.now)
    assert bench.ids(workdir) == ids


def test_what_somebody_keeps_is_not_rotated_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=2)
    workdir = bench.project()
    first = bench.take(workdir)
    pin(bench, workdir, first)
    ids = bench.takes(workdir, 4)
    assert bench.ids(workdir) == [first, ids[-1]]


def test_whoever_takes_one_after_the_other_does_not_keep_a_prune_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between every look at the references and their change, another checkpoint moves the oldest;
    unless nobody else may use the store."""
    bench = Bench(tmp_path, max_snapshots=8)
    workdir = bench.project()
    bench.takes(workdir, 8)
    made = bench.plan(CheckpointPolicy(max_count=1))
    takers: list[threading.Thread] = []

    def late(layout: Layout, **refs: Sequence[Ref]) -> None:
        takers.append(threading.Thread(target=bench.take, args=(workdir,)))
        takers[-1].start()
        takers[-1].join(LONG_ENOUGH)
        change(layout, **refs)

    monkeypatch.setattr(checkpoint_movers, "change", late)
    report = bench.apply(made)
    for taker in takers:
        taker.join()
    assert report.failed == 0
    assert len(takers) > 1
    assert fsck(bench.folder / "store") == ""


def test_rotation_reads_references_that_git_packed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=3)
    workdir, other = bench.project("p"), bench.project("q")
    for place in (workdir, other):
        bench.takes(place, 3)
    reclaim(bench.store.layout, holder="test")
    refs = project_refs(bench.store.layout, project_of(workdir.resolve()))
    assert [ref.checkpoint for ref in refs] == bench.ids(workdir)
    newest = bench.take(workdir)
    assert bench.ids(workdir)[-1] == newest
    assert (len(bench.ids(workdir)), len(bench.ids(other))) == (3, 3)


# --- Prune ----------------------------------------------------------------------------------------


def test_nothing_of_a_kept_checkpoint_ever_changes(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 6)
    before = {each.id: contents(bench.store, each) for each in bench.store.list()}
    known = facts(bench.store.list())
    bench.prune(replace(NOW, rules=Rules(keep_last=2)))
    left = bench.store.list()
    assert [each.id for each in left] == [ids[5], ids[4]]
    assert facts(left) == {each: known[each] for each in ids[4:]}
    assert {each.id: contents(bench.store, each) for each in left} == {
        each: before[each] for each in ids[4:]
    }
    assert fsck(bench.folder / "store") == ""
    # And the next checkpoint builds on what is left.
    assert bench.take(workdir) == bench.ids()[-1]


def test_dropping_is_undone_whole(bench: Bench) -> None:
    workdir = bench.project()
    bench.takes(workdir, 5)
    known = facts(bench.store.list())
    report = bench.prune(CheckpointPolicy(max_count=2))
    assert (report.removed, len(bench.ids())) == (3, 2)
    assert report.bytes_in_trash > 0
    reclaim(bench.store.layout, holder="test")  # what is in the trash is held
    undo_latest(bench.home, clock=lambda: bench.now)
    assert facts(bench.store.list()) == known
    assert [each.time for each in bench.store.list()] == sorted(
        (time for time, _, _ in known.values()), reverse=True
    )
    for checkpoint in bench.store.list():
        assert contents(bench.store, checkpoint)
    assert not [ref for ref in all_refs(bench.store.layout) if ref.operation]


def test_a_whole_project_comes_back_with_its_pins(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 3)
    pin(bench, workdir, ids[0])
    upkeep = bench.home.checkpoint_upkeep
    bench.apply(plan_drop(upkeep, None, now=bench.now, command="checkpoints clear"))
    reclaim(bench.store.layout, holder="test")
    assert bench.ids() == []
    undo_latest(bench.home, clock=lambda: bench.now)
    assert bench.ids(workdir) == ids
    assert [each.id for each in bench.store.list() if each.pinned] == [ids[0]]
    assert bench.store.take(workdir, reason="again", now=bench.now + 9).id == ids[2]


def test_emptying_the_trash_gives_the_bytes_back(bench: Bench) -> None:
    workdir = bench.project()
    bench.takes(workdir, 5, size=50_000)
    report = bench.prune(CheckpointPolicy(max_count=1))
    assert report.bytes_in_trash >= 150_000
    report = bench.apply(plan_empty(bench.home, now=bench.now, command="trash empty"))
    assert reclaimed(report) >= 150_000
    assert not [ref for ref in all_refs(bench.store.layout) if ref.operation]
    assert len(bench.ids()) == 1


def test_old_trash_goes_with_the_next_prune(bench: Bench) -> None:
    bench.takes(bench.project(), 4, size=50_000)
    bench.prune(CheckpointPolicy(max_count=1))
    bench.now += 8 * DAY
    report = bench.prune(CheckpointPolicy())
    assert report.removed == 3
    assert reclaimed(report) >= 100_000


def test_projects_that_are_gone_go_and_others_stay(bench: Bench) -> None:
    here, gone = bench.project("here"), bench.project("gone")
    bench.takes(here, 2)
    bench.takes(gone, 2, size=50_000)
    shutil.rmtree(gone)
    assert {each.state for each in bench.store.projects()} == {
        ProjectState.LIVE,
        ProjectState.MISSING,
    }
    assert not bench.prune(replace(NOW, keep_orphans=True)).removed
    report = bench.prune(NOW)
    assert report.removed == 2
    assert reclaimed(report) >= 100_000
    assert len(bench.ids()) == len(bench.ids(here)) == 2
    assert {path.stem for path in (bench.folder / "projects").iterdir()} == {
        project_of(here.resolve())
    }
    assert {path.name for path in (bench.folder / "store" / "worktrees").iterdir()} == {
        project_of(here.resolve())
    }


def test_projects_that_nobody_touched_go(bench: Bench) -> None:
    old, young = bench.project("old"), bench.project("young")
    bench.takes(old, 2)
    bench.now += 8 * DAY
    bench.takes(young, 2)
    bench.prune(replace(NOW, stale_after=7 * DAY))
    assert len(bench.ids()) == len(bench.ids(young)) == 2


def test_what_was_pinned_since_the_plan_was_made_stays(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 3)
    plan = bench.plan(replace(NOW, max_count=1))
    pin(bench, workdir, ids[0])
    report = bench.apply(plan)
    assert [each.reason for each in report.outcomes if each.result is Result.SKIPPED] == [
        "changed since the plan was made"
    ]
    assert bench.ids() == [ids[0], ids[2]]


def test_what_went_since_the_plan_was_made_is_skipped(bench: Bench) -> None:
    ids = bench.takes(bench.project(), 3)
    plan = bench.plan(replace(NOW, max_count=1))
    bench.prune(replace(NOW, max_count=2))
    report = bench.apply(plan)
    skipped = {each.id: each.reason for each in report.outcomes if each.result is Result.SKIPPED}
    assert skipped == {ids[0]: "already gone"}
    assert bench.ids() == [ids[2]]


def test_a_dry_run_changes_nothing(bench: Bench) -> None:
    bench.takes(bench.project(), 3)
    before = sorted(str(path) for path in bench.folder.rglob("*"))
    assert bench.plan(replace(NOW, max_count=1, max_bytes=0)).removals
    assert sorted(str(path) for path in bench.folder.rglob("*")) == before


# --- The bound on bytes ---------------------------------------------------------------------------


def over_by(bench: Bench, much: int) -> CheckpointPolicy:
    inventory = bench.scan()
    needed = inventory.total_bytes - inventory.space[0].bytes
    return replace(NOW, max_bytes=needed - much)


def test_the_fewest_oldest_go_until_the_rest_fits(bench: Bench) -> None:
    one, two = bench.project("one"), bench.project("two")
    first = [bench.take(place, size=10) for place in (one, two)]
    ids = [bench.take(place, size=40_000) for _ in range(4) for place in (one, two)]
    policy = over_by(bench, 80_000)
    assert policy.max_bytes is not None
    plan = bench.plan(policy)
    gone = {item.id for item in plan.removals}
    assert gone - set(first) == set(ids[:2])
    held = bench.scan()
    bench.apply(plan)
    assert file_bytes(bench.folder) <= policy.max_bytes
    assert sorted(bench.ids()) == sorted({*first, *ids} - gone)
    # One of those that went would have been too much.
    beside = held.total_bytes - held.weights.held - held.space[0].bytes
    for spared in gone:
        what_if = held.weights.what_if()
        for each in gone - {spared}:
            what_if.drop(root_of(each))
        assert what_if.held + beside > policy.max_bytes


def test_the_newest_of_each_project_stays_whatever_the_bound(bench: Bench) -> None:
    one, two = bench.project("one"), bench.project("two")
    ids = [bench.take(place, size=40_000) for _ in range(3) for place in (one, two)]
    reports, plan = bound_checkpoints(
        bench.home,
        replace(NOW, max_bytes=10_000),
        command="test",
        clock=lambda: bench.now,
        progress=Silent(),
    )
    assert sum(report.removed for report in reports) == 4
    assert sorted(bench.ids()) == sorted(ids[-2:])
    (short,) = plan.shortfalls
    assert short.remaining > 80_000
    assert short.held_by["newest of its project"] >= 80_000


@pytest.mark.deep
def test_a_store_that_fits_once_it_is_packed_loses_nothing(bench: Bench) -> None:
    workdir = bench.project("p", files=60)
    ids = [bench.take(workdir, size=10) for _ in range(60)]
    loose = bench.scan().total_bytes
    limit = loose // 2  # every object takes a block of its own
    report = bench.prune(replace(NOW, max_bytes=limit))
    assert report.removed == 0
    assert bench.ids() == ids
    assert bench.scan().total_bytes <= limit


def test_trash_is_the_first_to_go(bench: Bench) -> None:
    workdir = bench.project()
    bench.take(workdir, size=10)
    ids = bench.takes(workdir, 4, size=40_000)
    bench.prune(CheckpointPolicy(max_count=3))
    report = bench.prune(over_by(bench, 30_000), changing=False)  # as it is, not packed first
    gone = [each for each in report.outcomes if each.kind != SPACE]
    assert [(each.kind, each.id.rpartition("/")[2]) for each in gone] == [("trash", ids[0])]
    assert bench.ids() == ids[1:]


# --- Reclaim --------------------------------------------------------------------------------------


def test_a_reclaim_packs_what_is_held_and_drops_the_rest(bench: Bench) -> None:
    workdir = bench.project("p", files=10)
    for number in range(35):
        bench.write(workdir / f"n{number}", 500)
        bench.take(workdir, size=2_000)
    before = {each.id: contents(bench.store, each) for each in bench.store.list()}
    bench.prune(replace(NOW, max_count=30))
    measured = bench.scan()
    assert measured.space[0].bytes < 10_000
    assert len(list(bench.objects.glob("pack/*.pack"))) <= 2
    assert not list(bench.objects.glob("pack/*.keep"))
    assert sum(1 for _ in bench.objects.glob("??/*")) < 10
    assert fsck(bench.folder / "store") == ""
    for checkpoint in bench.store.list():
        assert contents(bench.store, checkpoint) == before[checkpoint.id]


def _tmp_pack(bench: Bench) -> Path:
    return bench.objects / "pack" / "tmp_pack_aBcDeF"


def _tmp_object(bench: Bench) -> Path:
    return bench.objects / "17" / "tmp_obj_aBcDeF"


def _lock(bench: Bench) -> Path:
    return bench.folder / "store" / "packed-refs.lock"


def _crash(bench: Bench) -> Path:
    return bench.folder / "store" / "fast_import_crash_4711"


def _mark(bench: Bench) -> Path:
    return bench.objects / "pack" / f"pack-{'0' * 40}.keep"


@pytest.mark.parametrize("left", [_tmp_pack, _tmp_object, _lock, _crash])
def test_what_killed_processes_left_is_cleared(bench: Bench, left: Callable[[Bench], Path]) -> None:
    workdir = bench.project()
    bench.takes(workdir, 2)
    path = left(bench)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * 100_000)
    assert reclaim(bench.store.layout, holder="test").freed >= 100_000
    assert not path.exists()
    bench.take(workdir)


def test_a_mark_that_a_killed_reclaim_left_holds_nothing(bench: Bench) -> None:
    workdir = bench.project("p", files=1)
    for number in range(120):
        bench.write(workdir / f"n{number}", 1_000)
    bench.takes(workdir, 3)
    pack = max(bench.objects.glob("pack/*.pack"), key=lambda path: path.stat().st_size)
    pack.with_suffix(".keep").write_bytes(b"Holdfast is packing\n")
    foreign = bench.objects / "pack" / f"pack-{'0' * 40}.keep"
    foreign.write_bytes(b"somebody else\n")
    upkeep = bench.home.checkpoint_upkeep
    bench.apply(plan_drop(upkeep, None, now=bench.now, command="clear", undoable=False))
    assert not list(bench.objects.glob("pack/*.pack"))
    assert foreign.exists()


def test_without_room_for_a_pack_only_single_objects_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = bench.project("p", files=10)
    ids = [bench.take(workdir, size=1_000) for _ in range(80)]
    bench.unpack()
    # More than any disk has free.
    monkeypatch.setattr(pack_objects, "_MARGIN", 2**62)
    report = bench.prune(replace(NOW, max_count=70))
    (outcome,) = (each for each in report.outcomes if each.kind == SPACE)
    assert "too little room" in outcome.reason
    assert outcome.bytes_freed >= 100_000
    assert not list(bench.objects.glob("pack/*.pack"))
    assert bench.ids() == ids[10:]
    assert fsck(bench.folder / "store") == ""


def test_many_single_objects_are_put_into_a_pack(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = bench.project()
    monkeypatch.setattr(join_packs, "MOST_LOOSE", 0)
    ids = bench.takes(workdir, 60)
    loose = sum(1 for _ in bench.objects.glob("??/*"))
    assert loose < 200  # of 300: whenever there is one in the folder that is looked at
    assert bench.ids() == ids
    assert fsck(bench.folder / "store") == ""


def test_nothing_is_packed_while_the_store_is_in_use(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.takes(bench.project(), 20)
    monkeypatch.setattr(join_packs, "MOST_PACKS", -1)
    with used(bench.store.layout):
        assert not join_if_many(bench.store.layout)
    assert join_if_many(bench.store.layout)


def test_space_is_offered_only_when_it_is_worth_it(bench: Bench) -> None:
    bench.takes(bench.project(), 2)
    assert not bench.plan(CheckpointPolicy()).steps
    plan = bench.plan(replace(NOW, max_count=1))
    assert [item.action for item in plan.steps] == [Action.REMOVE, Action.RECLAIM]


# --- After a kill ---------------------------------------------------------------------------------


def removals(bench: Bench, *, undoable: bool) -> list[Removal]:
    """What a run has announced when it is killed."""
    upkeep = bench.home.checkpoint_upkeep
    plan = plan_drop(upkeep, None, now=bench.now, command="x", undoable=undoable)
    return [
        Removal(operation="3", number=number, item=item)
        for number, item in enumerate(plan.removals)
    ]


@pytest.mark.parametrize("undoable", [True, False])
def test_what_was_not_reached_is_untouched(bench: Bench, undoable: bool) -> None:
    ids = bench.takes(bench.project(), 3)
    outcomes = bench.home.doer(CHECKPOINT).settle(removals(bench, undoable=undoable))
    assert {each.result for each in outcomes} == {Result.SKIPPED}
    assert bench.ids() == ids


@pytest.mark.parametrize("undoable", [True, False])
def test_what_had_gone_has_gone(bench: Bench, undoable: bool) -> None:
    bench.takes(bench.project(), 3)
    announced = removals(bench, undoable=undoable)
    keeper = bench.home.doer(CHECKPOINT)
    done = keeper.do(announced)
    assert {each.result for each in done} == {Result.REMOVED}
    assert keeper.settle(announced) == done
    assert keeper.do(announced)[0].result is (Result.REMOVED if undoable else Result.SKIPPED)


def test_bringing_back_and_discarding_can_be_repeated(bench: Bench) -> None:
    ids = bench.takes(bench.project(), 3)
    announced = removals(bench, undoable=True)
    keeper = bench.home.doer(CHECKPOINT)
    assert isinstance(keeper, Keeper)
    keeper.do(announced)
    for _ in range(2):
        assert {each.result for each in keeper.undo(announced)} == {Result.BROUGHT_BACK}
        assert bench.ids() == ids
    keeper.do(announced)
    for _ in range(2):
        assert {each.result for each in keeper.discard(announced)} == {Result.REMOVED}
    assert {each.result for each in keeper.undo(announced)} == {Result.DAMAGED}


def test_a_lock_that_a_killed_git_left_is_no_obstacle(bench: Bench) -> None:
    bench.takes(bench.project(), 3)
    bench.home.checkpoint_upkeep.pack()  # so that dropping one changes the list
    (bench.folder / "store" / "packed-refs.lock").touch()
    assert bench.prune(replace(NOW, max_count=1)).removed == 2


def test_a_restore_that_was_cut_short_keeps_its_checkpoints(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 4)
    folder = bench.store.layout.private(project_of(workdir.resolve()))
    cut = Restoration(target=ids[0], safety=ids[2], paths=None, started_at=bench.now)
    restore_record.begin(folder, cut)
    plan = bench.plan(replace(NOW, max_count=1))
    assert [item.id for item in plan.removals] == [ids[1]]
    named = plan_drop(bench.home.checkpoint_upkeep, None, now=bench.now, command="x")
    assert {item.id for item in named.removals} == {ids[1], ids[3]}
    # Also one that began after the plan was made.
    restore_record.begin(folder, replace(cut, target=ids[1]))
    report = bench.apply(plan)
    assert [each.reason for each in report.outcomes if each.kind == CHECKPOINT] == [
        "in use: a restore between it and another one was cut short"
    ]


def test_what_undo_of_the_latest_rollback_needs_stays(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 4)
    rollback(bench.home, bench.store, ids[0], command="restore", clock=lambda: bench.now)
    bench.now += 5
    bench.write(workdir / "another", 10)
    newest = bench.store.take(workdir, reason="later", now=bench.now).id
    bench.prune(CheckpointPolicy(max_count=1))
    assert bench.ids() == [ids[0], ids[3], newest]
    (operation, *_) = (each for each in bench.home.log.read().operations if each.rolled_back)
    assert undo(bench.home, operation.id, clock=lambda: bench.now)[1].failed == 0


# --- Maintenance ----------------------------------------------------------------------------------


def maintained(bench: Bench, config: str = "") -> MaintenanceResult:
    (bench.root / "home" / "config.toml").write_text(config, encoding="utf-8")
    return maintain(bench.root / "home", clock=lambda: bench.now, force=True)


def test_maintenance_prunes_checkpoints_unless_told_not_to(bench: Bench) -> None:
    bench.takes(bench.project("old"), 3)
    bench.now += 8 * DAY
    young = bench.takes(bench.project("young"), 3)
    result = maintained(bench, "[checkpoints]\nauto_prune = false\n")
    assert (result.ok, result.removed) == (True, 0)
    result = maintained(bench, "[checkpoints]\nmax_snapshots = 2\n")
    assert result.ok
    (step,) = (each for each in result.steps if each.step is Step.CHECKPOINTS)
    assert step.removed == 4
    assert bench.ids() == young[1:]
    # What is in the trash expires also where nothing is pruned.
    bench.now += 8 * DAY
    result = maintained(bench, "[checkpoints]\nauto_prune = false\n")
    assert (result.removed, bench.ids()) == (4, young[1:])
    assert result.bytes_freed > 0
    assert not [ref for ref in all_refs(bench.store.layout) if ref.operation]


def test_maintenance_says_what_it_could_not_reach(bench: Bench) -> None:
    bench.take(bench.project(), size=2_000_000)
    result = maintained(bench, "[checkpoints]\nmax_total_size_mb = 1\n")
    (short,) = result.shortfalls
    assert (short.cap, short.limit) == ("max_total_size of checkpoints", 1_000_000)


def test_a_home_without_checkpoints_has_no_such_step(bench: Bench) -> None:
    (bench.root / "home").mkdir()
    assert Step.CHECKPOINTS not in [each.step for each in maintained(bench).steps]
    assert not bench.folder.exists()
