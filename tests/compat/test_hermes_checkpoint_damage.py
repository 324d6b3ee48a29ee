"""Bad days of Hermes's checkpoint store: damage is named, and stores of tomorrow are left alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import BusyError, SchemaError
from holdfast.homes.hermes.checkpoints_import import import_checkpoints
from holdfast.homes.hermes.repository import chains
from holdfast.homes.hermes.repository.chains import read_cuts, write_cuts
from holdfast.homes.hermes.repository.locks import GitLock
from holdfast.homes.hermes.repository.reclaim import reclaim
from holdfast.model.checkpoint import ImportState
from holdfast.model.report import Result
from holdfast.policy.rules import CheckpointPolicy
from holdfast.spine.carry_out import Silent
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.compat.hermes_store import Home, project, recorded

pytestmark = pytest.mark.usefixtures("bad_day")

KEEP_TWO = CheckpointPolicy(max_count=2)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Path, Path]:
    return recorded(tmp_path)


def unpacked(home: Home) -> None:
    """Every object in a file of its own, to be damaged."""
    packs = home.git_dir / "objects" / "pack"
    found = [pack.read_bytes() for pack in packs.glob("*.pack")]
    for each in list(packs.iterdir()):
        each.unlink()
    unpack = ["git", "--git-dir", str(home.git_dir), "unpack-objects", "-q"]
    for data in found:
        subprocess.run(unpack, input=data, check=True)


def loose(home: Home, name: str) -> Path:
    return home.git_dir / "objects" / name[:2] / name[2:]


# --- Damage ---------------------------------------------------------------------------------------


def test_a_damaged_commit_is_named_and_the_newer_ones_can_still_be_used(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, tool = made
    chain = home.chain(site)
    unpacked(home)
    broken = loose(home, chain[3])
    broken.chmod(0o644)
    broken.write_bytes(b"no object at all")
    found = home.home.checkpoint_upkeep.verify()
    assert not found.ok
    assert chain[3] in {each.name for each in found.problems}
    assert [each.id for each in home.store.list(site)] == chain[:3]
    assert len(home.store.list(tool)) == 3
    ready = home.store.ready(home.store.get(chain[2]))
    assert home.store.preview(ready.id).written


def test_a_chain_that_leads_to_a_checkpoint_that_is_gone_is_ended_there(
    made: tuple[Home, Path, Path],
) -> None:
    """Two Hermes that collect garbage at once leave that; git would not even pack such a store."""
    home, site, tool = made
    chain = home.chain(site)
    unpacked(home)
    loose(home, chain[3]).unlink()
    with pytest.raises(subprocess.CalledProcessError):
        home.git("log", chain[0])
    assert [each.name for each in home.home.checkpoint_upkeep.verify().problems] == [chain[3]]
    home.age()
    assert home.home.checkpoint_upkeep.pack() > 0
    assert home.chain(site) == chain[:3]
    assert len(home.chain(tool)) == 3
    home.fsck()
    assert home.home.checkpoint_upkeep.verify().ok


def test_a_damaged_reference_is_named_and_the_other_project_can_still_be_used(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, tool = made
    home.git("pack-refs", "--all")
    (home.git_dir / "refs" / "hermes").mkdir(parents=True, exist_ok=True)
    (home.git_dir / "refs" / "hermes" / project(site)).write_text("this is no id\n")
    found = home.home.checkpoint_upkeep.verify()
    assert not found.ok
    assert any(project(site) in each.name + each.reason for each in found.problems)
    assert len(home.store.list(tool)) == 3
    report = home.prune(KEEP_TWO)
    assert len(home.store.list(tool)) == 2
    assert report.count(Result.REMOVED) == 1


def test_damaged_records_and_indexes_cost_no_checkpoint(made: tuple[Home, Path, Path]) -> None:
    home, site, tool = made
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    for text in ("", "{", "[]", "null", '{"workdir": 7}', '{"workdir": "", "last_touch": "x"}'):
        record.write_text(text)
        for index in (home.git_dir / "indexes").iterdir():
            index.write_bytes(b"DIRC garbage")
        found = home.home.checkpoint_upkeep.verify()
        assert [each.name for each in found.problems] == [f"projects/{project(tool)}.json"]
        assert found.ok  # Hermes writes it anew
        assert len(home.store.list(site)) == 6
        assert home.prune(CheckpointPolicy()).operation is None  # nobody knows that it is gone
        assert {each.workdir for each in home.store.projects()} >= {str(site)}


def test_one_damaged_checkpoint_is_left_out_of_an_import_and_the_others_come(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, site, _ = made
    unpacked(home)
    blob = home.git("rev-parse", f"{home.chain(site)[4]}:b.txt").strip()
    loose(home, blob).unlink()
    own = ShadowGitStore(tmp_path / "own" / "checkpoints")
    done = import_checkpoints(
        home.root, own, workdir=site, now=home.now, dry_run=False, progress=Silent()
    )
    skipped = [each for each in done if each.state is ImportState.SKIPPED]
    assert [each.origin for each in skipped] == [home.chain(site)[4]]
    assert blob in skipped[0].why
    assert len(own.list(site)) == 5


# --- Locks that a killed process left -------------------------------------------------------------


def test_our_own_lock_of_a_killed_run_goes_at_once_and_one_of_git_is_respected(
    made: tuple[Home, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, site, _ = made
    monkeypatch.setattr(chains, "_TRIES", 2)
    cut = home.chain(site)[2]
    path = home.git_dir / "shallow"
    lock = GitLock(path)
    with lock.holding(b"killed here\n", 0o644) as held:
        assert held
        write_cuts(home.git_dir, [cut])  # another run, after the kill
        assert read_cuts(home.git_dir) == {cut}
    assert not path.with_name("shallow.lock").exists()
    assert not list(home.git_dir.glob("holdfast-*"))
    path.with_name("shallow.lock").touch()
    with pytest.raises(BusyError, match="git has locked"):
        write_cuts(home.git_dir, [])
    assert read_cuts(home.git_dir) == {cut}


def test_locks_that_a_slow_git_of_hermes_left_are_removed_when_they_are_old(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, tool = made
    old = [
        home.git_dir / "indexes" / f"{project(site)}.lock",
        home.git_dir / "refs" / "hermes" / f"{project(site)}.lock",
        home.git_dir / "packed-refs.lock",
    ]
    for each in old:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.touch()
    home.age()
    young = home.git_dir / "indexes" / f"{project(tool)}.lock"
    young.touch()
    reclaim(home.layout, now=home.now, holder="test")
    assert [each for each in old if each.exists()] == []
    assert young.exists()


# --- A layout that nobody knows yet ---------------------------------------------------------------


def a_new_folder(home: Home) -> None:
    (home.git_dir / "manifests").mkdir()


def a_version(home: Home) -> None:
    (home.git_dir / "VERSION").write_text("3\n")


def another_store(home: Home) -> None:
    (home.folder / "store-v3").mkdir()


def other_references(home: Home) -> None:
    tip = home.git("for-each-ref", "--format=%(objectname)", "refs/hermes").split()[0]
    home.git("update-ref", "refs/hermes/v3/0123456789abcdef", tip)


def packed_references(home: Home) -> None:
    other_references(home)
    home.git("pack-refs", "--all")


def a_newer_git(home: Home) -> None:
    with (home.git_dir / "config").open("a") as config:
        config.write("[extensions]\n\tnoop = true\n")


def a_versioned_record(home: Home) -> None:
    record = next((home.git_dir / "projects").glob("*.json"))
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": 3}))


NEWER = [
    a_new_folder,
    a_version,
    another_store,
    other_references,
    packed_references,
    a_newer_git,
    a_versioned_record,
]


@pytest.mark.parametrize("change", NEWER)
def test_a_layout_that_we_do_not_know_is_read_and_never_changed(
    made: tuple[Home, Path, Path], change: Callable[[Home], None]
) -> None:
    home, site, _ = made
    change(home)
    before = {path: path.read_bytes() for path in home.folder.rglob("*") if path.is_file()}
    assert len(home.store.list(site)) == 6
    inventory = home.home.checkpoint_upkeep.scan(home.now)
    told = [each.reason for each in inventory.problems]
    assert any(reason.endswith("it can be read, but is never changed") for reason in told)
    with pytest.raises(SchemaError, match="is not changed: "):
        home.prune(KEEP_TWO)
    assert home.home.log.read().operations == ()
    with pytest.raises(SchemaError):
        home.store.pin(home.store.get(home.chain(site)[5]), True)
    with pytest.raises(SchemaError):
        reclaim(home.layout, now=home.now, holder="test")
    after = {path: path.read_bytes() for path in home.folder.rglob("*") if path.is_file()}
    assert after == before


def test_it_is_restored_from_and_imported_all_the_same(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, site, tool = made
    other_references(home)
    target = home.store.ready(home.store.get(home.chain(site)[5]))
    assert home.store.preview(target.id).deleted
    own = ShadowGitStore(tmp_path / "own" / "checkpoints")
    done = import_checkpoints(
        home.root, own, workdir=tool, now=home.now, dry_run=False, progress=Silent()
    )
    assert {each.state for each in done} == {ImportState.IMPORTED}


def test_what_git_and_desktops_leave_is_no_new_layout(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    for name in (".DS_Store", "gc.log", "gc.pid.lock", "HEAD.lock", "packed-refs.new"):
        (home.git_dir / name).touch()
    (home.git_dir / "gc.pid.lock").unlink()
    (home.folder / ".last_prune").write_text("1\n")
    assert home.prune(KEEP_TWO).count(Result.REMOVED)
