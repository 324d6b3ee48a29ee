"""Older repositories, one for each directory: moved aside, readable, cleared, pruned by age."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import UnknownCheckpointError
from holdfast.homes.checkpoints.open_store import checkpoint_store, checkpoint_writer
from holdfast.model.checkpoint import Checkpoint, ProjectState
from holdfast.model.report import Result
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.plans import plan_clear_legacy
from holdfast.spine.undo import undo_latest
from holdfast.stores.checkpoints import older_layout, projects
from holdfast.stores.checkpoints.older_layout import OLDER, StoreWithOlderLayout
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import DAY, Bench, backdate, file_bytes

HASH = "0123456789abcdef"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.store = StoreWithOlderLayout(made.folder)
    return made


def layout(bench: Bench) -> Layout:
    return bench.store.layout


def older_checkpoints(bench: Bench) -> list[Checkpoint]:
    found = [each.checkpoints() for each in older_layout.repositories(layout(bench))]
    return [each for part in found for each in part]


def an_older_repository(bench: Bench, name: str = HASH, commits: int = 2) -> Path:
    """A repository beside its working tree, as older versions made them."""
    workdir = bench.root / f"work of {name}"
    workdir.mkdir()
    folder = bench.folder / name
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_DIR": str(folder),
        "GIT_WORK_TREE": str(workdir),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    identity = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    folder.parent.mkdir(parents=True, exist_ok=True)

    def git(*arguments: str, when: int = 0) -> None:
        dates = {"GIT_AUTHOR_DATE": f"{when} +0000", "GIT_COMMITTER_DATE": f"{when} +0000"}
        subprocess.run(
            ["git", *arguments], check=True, capture_output=True, env=environ | identity | dates
        )

    git("init", "-q")
    (folder / "HERMES_WORKDIR").write_text(f"{workdir}\n")
    for number in range(commits):
        (workdir / "file.txt").write_text(f"version {number}\n")
        script = workdir / "bin" / "run"
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        git("add", "-A", when=0)
        git(
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            f"before turn {number}",
            when=1_700_000_000 + number,
        )
    return folder


def test_they_are_moved_aside_on_first_use(bench: Bench) -> None:
    old = an_older_repository(bench)
    bench.take(bench.project())
    assert not old.exists()
    (archive,) = older_layout.items(layout(bench))
    assert archive.id == "legacy-20231114-221321"
    assert archive.last_active_at == bench.now
    place = layout(bench).folder / archive.id
    assert archive.bytes == file_bytes(place) > 0
    assert [path.name for path in place.iterdir()] == [HASH]
    assert (place / HASH / "HEAD").is_file()
    # Once: what comes later has no other.
    bench.take(bench.project())
    assert len(older_layout.items(layout(bench))) == 1


def test_what_only_looks_like_one_stays(bench: Bench) -> None:
    bench.folder.mkdir(parents=True)
    for name, signs in (
        ("0" * 16, ("HEAD", "HERMES_WORKDIR")),
        ("g" * 16, ("HEAD", "objects", "HERMES_WORKDIR")),
        ("1" * 15, ("HEAD", "objects", "HERMES_WORKDIR")),
    ):
        (bench.folder / name).mkdir()
        for sign in signs:
            (bench.folder / name / sign).touch()
    target = bench.root / "elsewhere"
    for sign in ("HEAD", "objects", "HERMES_WORKDIR"):
        target.mkdir(exist_ok=True)
        (target / sign).touch()
    (bench.folder / ("2" * 16)).symlink_to(target)
    assert older_layout.set_aside(layout(bench), now=bench.now) is None
    assert len(list(bench.folder.iterdir())) == 4


def test_they_are_listed_before_and_after(bench: Bench) -> None:
    an_older_repository(bench)
    an_older_repository(bench, "f" * 16, commits=1)
    expected = {
        (HASH, f"{bench.root}/work of {HASH}"),
        ("f" * 16, f"{bench.root}/work of {'f' * 16}"),
    }
    before = older_layout.repositories(layout(bench))
    archive = older_layout.set_aside(layout(bench), now=bench.now)
    after = older_layout.repositories(layout(bench))
    for found, place in ((before, ""), (after, archive)):
        assert {(each.project, each.workdir) for each in found} == expected
        assert {each.archive for each in found} == {place}


def test_their_checkpoints_are_read_like_any_other(bench: Bench) -> None:
    an_older_repository(bench)
    an_older_repository(bench, "f" * 16, commits=0)
    older_layout.set_aside(layout(bench), now=bench.now)
    newest, oldest = older_checkpoints(bench)
    assert (newest.reason, oldest.reason) == ("before turn 1", "before turn 0")
    assert (newest.time, oldest.time) == (1_700_000_001.0, 1_700_000_000.0)
    assert (oldest.project, oldest.workdir) == (HASH, f"{bench.root}/work of {HASH}")
    store = StoreWithOlderLayout(bench.folder)
    found = store.get(oldest.id[:6])
    assert (found.reason, found.time) == (oldest.reason, oldest.time)
    captured = store.captured(found.tree)
    assert {
        path: (oct(entry.mode), store.blob(entry.oid)) for path, entry in captured.files.items()
    } == {
        "file.txt": ("0o100644", b"version 0\n"),
        "bin/run": ("0o100755", b"#!/bin/sh\n"),
    }
    assert store.list("/elsewhere") == []


@pytest.mark.parametrize("prefix", ["0000", "--all", "..", ""])
def test_what_is_none_of_their_ids_is_refused(bench: Bench, prefix: str) -> None:
    an_older_repository(bench)
    with pytest.raises(UnknownCheckpointError):
        StoreWithOlderLayout(bench.folder).get(prefix)


def test_one_that_is_damaged_costs_no_other(bench: Bench) -> None:
    old = an_older_repository(bench)
    an_older_repository(bench, "f" * 16)
    (old / "HEAD").write_bytes(b"\xff")
    assert len(older_checkpoints(bench)) == 2


@pytest.mark.parametrize("how", ["packed", "detached"])
def test_wherever_git_keeps_what_they_are_at(bench: Bench, how: str) -> None:
    old = an_older_repository(bench)
    run = ["git", "--git-dir", str(old)]
    if how == "packed":
        subprocess.run([*run, "gc", "--quiet"], check=True)
        assert not list(old.glob("refs/heads/*"))
    else:
        subprocess.run([*run, "update-ref", "--no-deref", "HEAD", "HEAD"], check=True)
        subprocess.run([*run, "checkout", "-q", "--detach"], check=True)
    assert len(older_checkpoints(bench)) == 2


def test_a_commit_that_is_damaged_costs_only_what_is_behind_it(bench: Bench) -> None:
    old = an_older_repository(bench, commits=3)
    newest, middle, _ = older_checkpoints(bench)
    path = old / "objects" / middle.id[:2] / middle.id[2:]
    path.chmod(0o600)
    path.write_bytes(b"x" * 20)
    assert older_checkpoints(bench) == [newest]


def test_they_are_cleared_on_request_and_come_back(bench: Bench) -> None:
    an_older_repository(bench)
    older_layout.set_aside(layout(bench), now=bench.now)
    before = file_bytes(bench.folder)
    upkeep = bench.home.checkpoint_upkeep
    plan = plan_clear_legacy(upkeep, now=bench.now, command="checkpoints clear-legacy")
    report = bench.apply(plan)
    assert (report.removed, report.bytes_in_trash) == (1, before)
    assert plan.bytes == before
    assert older_layout.items(layout(bench)) == []
    undo_latest(bench.home, clock=lambda: bench.now)
    assert file_bytes(bench.folder) == before
    assert len(older_checkpoints(bench)) == 2


def test_cleared_for_good_they_are_gone(bench: Bench) -> None:
    an_older_repository(bench)
    older_layout.set_aside(layout(bench), now=bench.now)
    upkeep = bench.home.checkpoint_upkeep
    plan = plan_clear_legacy(upkeep, now=bench.now, command="x", undoable=False)
    report = bench.apply(plan)
    assert report.bytes_freed == plan.bytes > 0
    assert not list((bench.root / "home" / "trash").glob("*/*"))


def test_archives_wait_for_the_user(bench: Bench) -> None:
    """Neither age nor the cap takes them, and none costs a checkpoint its place."""
    an_older_repository(bench)
    older_layout.set_aside(layout(bench), now=bench.now)
    ids = bench.takes(bench.project(), 3)
    bench.now += 300 * DAY
    inventory = bench.scan()
    assert inventory.total_bytes == file_bytes(bench.folder)
    assert inventory.bounded_bytes < inventory.total_bytes
    policy = CheckpointPolicy(max_bytes=inventory.bounded_bytes + 20_000)
    plan = bench.plan(policy)
    assert not plan.removals
    (short,) = plan.shortfalls
    assert any("stay until you clear them" in why for why in short.held_by)
    bench.prune(replace(policy, stale_after=7 * DAY))
    assert len(older_layout.items(layout(bench))) == 1
    asked = bench.plan(CheckpointPolicy(legacy=True))
    assert [each.kind for each in asked.removals] == ["legacy_checkpoints"]
    assert ids


def test_single_ones_go_by_the_newest_time_inside(bench: Bench) -> None:
    """Of any file, and of the newest commit: whichever is newer."""
    old = an_older_repository(bench)
    newest_commit = 1_700_000_001
    week = CheckpointPolicy(stale_after=7 * DAY)
    bench.now = newest_commit + 40 * DAY
    backdate(old, bench.now - 30 * DAY)
    os.utime(old / "objects", (bench.now - DAY, bench.now - DAY))
    assert not bench.plan(week).removals, "something in it was touched yesterday"
    backdate(old, newest_commit - 400 * DAY)
    bench.now = newest_commit + 3 * DAY
    assert not bench.plan(week).removals, "its newest commit is of three days ago"
    bench.now = newest_commit + 8 * DAY
    (item,) = bench.plan(week).removals
    assert item.reason == "untouched for more than 7 d: last used 8 d ago"
    assert bench.prune(week).removed == 1
    assert not old.exists()
    undo_latest(bench.home, clock=lambda: bench.now)
    assert len(older_checkpoints(bench)) == 2


def test_one_whose_directory_is_gone_goes_at_once(bench: Bench) -> None:
    old = an_older_repository(bench)
    kept = an_older_repository(bench, "f" * 16)
    bench.now += 300 * DAY  # stale as well; that it is an orphan is said first
    for each in (old, kept):
        backdate(each, bench.now - DAY)
    shutil.rmtree(bench.root / f"work of {HASH}")
    policy = CheckpointPolicy(stale_after=7 * DAY)
    (item,) = bench.plan(policy).removals
    assert (item.id, item.reason) == (HASH, f"its directory is gone: {bench.root}/work of {HASH}")
    assert not bench.plan(replace(policy, keep_orphans=True)).removals
    assert bench.prune(policy).removed == 1
    assert (old.exists(), kept.exists()) == (False, True)


def test_one_on_a_disk_that_may_come_back_is_not_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = an_older_repository(bench)
    disk = bench.root / "disk"
    disk.mkdir()
    fstab = bench.root / "fstab"
    fstab.write_text(f"# a disk\nUUID=1 {disk} ext4 noauto 0 0\n")
    monkeypatch.setattr(projects, "_FSTAB", fstab)
    for workdir, state in (
        (disk / "site", ProjectState.UNMOUNTED),
        ("/mnt/usb/site", ProjectState.UNMOUNTED),
        (bench.root / "gone" / "with everything", ProjectState.UNKNOWN),
        ("relative", ProjectState.UNKNOWN),
        (bench.root / "site", ProjectState.MISSING),
        (bench.root, ProjectState.LIVE),
    ):
        (old / "HERMES_WORKDIR").write_text(f"{workdir}\n")
        assert bench.scan().older[HASH].state is state, workdir
        assert bool(bench.plan(CheckpointPolicy()).removals) is (state is ProjectState.MISSING)


def test_one_that_is_written_after_the_plan_was_made_stays(bench: Bench) -> None:
    old = an_older_repository(bench)
    plan = bench.plan(CheckpointPolicy(legacy=True))
    (old / "refs" / "heads" / "master").write_text("0" * 40)
    assert [each.reason for each in bench.apply(plan).outcomes] == [
        "changed since the plan was made"
    ]
    assert old.is_dir()


def test_a_plan_that_names_something_else_touches_nothing(bench: Bench) -> None:
    an_older_repository(bench)
    older_layout.set_aside(layout(bench), now=bench.now)
    plan = plan_clear_legacy(bench.home.checkpoint_upkeep, now=bench.now, command="x")
    text = plan.to_json()
    for name in ("store", "../..", "legacy-x/../store"):
        text["items"][0]["id"] = name
        report = bench.apply(type(plan).from_json(text))
        assert [each.result for each in report.outcomes] == [Result.FAILED]


# --- The store that the composition opens ---------------------------------------------------------


def test_only_a_folder_with_an_older_layout_gets_the_store_that_knows_it(bench: Bench) -> None:
    root = bench.folder.parent
    for make in (checkpoint_writer, checkpoint_store):
        assert not isinstance(make(root), StoreWithOlderLayout), "there is no folder yet"
    bench.store.prepare()
    for make in (checkpoint_writer, checkpoint_store):
        assert not isinstance(make(root), StoreWithOlderLayout)
    assert not isinstance(checkpoint_writer(root), ShadowGitStore), "a take needs less"
    an_older_repository(bench)
    for make in (checkpoint_writer, checkpoint_store):
        assert isinstance(make(root), StoreWithOlderLayout)
    older_layout.set_aside(layout(bench), now=bench.now)
    assert isinstance(checkpoint_store(root), StoreWithOlderLayout)


def test_the_first_take_of_a_store_moves_them_and_later_ones_do_not_look(bench: Bench) -> None:
    an_older_repository(bench)
    bench.take(bench.project())
    late = an_older_repository(bench, "f" * 16)
    bench.take(bench.project())
    assert late.is_dir()
    bench.store = StoreWithOlderLayout(bench.folder)
    bench.take(bench.project())
    assert not late.exists()


@pytest.mark.parametrize("how", ["get", "ready"])
def test_one_is_listed_as_older_until_it_is_asked_for(bench: Bench, how: str) -> None:
    an_older_repository(bench, commits=2)
    workdir = bench.root / f"work of {HASH}"
    newest, oldest = bench.store.list(workdir)
    assert [each.reason for each in (newest, oldest)] == [
        f"before turn 1{OLDER}",
        f"before turn 0{OLDER}",
    ]
    store = bench.store
    found = store.get(oldest.id[:8]) if how == "get" else store.ready(oldest)
    assert found.id != oldest.id
    assert (found.reason, found.time, found.workdir) == ("before turn 0", oldest.time, str(workdir))
    assert {each.id for each in store.list(workdir)} == {newest.id, found.id}
    assert store.get(found.id) == found == store.ready(found)
    changed = store.changes(found.tree, store.look(workdir).tree)
    assert [each.path for each in changed] == ["file.txt"]


def test_an_id_that_neither_layout_has_is_unknown(bench: Bench) -> None:
    an_older_repository(bench)
    with pytest.raises(UnknownCheckpointError):
        bench.store.get("0" * 12)
    assert not layout(bench).exists(), "looking makes no store"
