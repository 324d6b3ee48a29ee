"""Checkpoints that Hermes took come into Holdfast's own store; and older layouts are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.homes.hermes.checkpoints_import import import_checkpoints
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Imported, ImportState
from holdfast.model.item import LEGACY
from holdfast.model.report import Result
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.plans import plan_clear_legacy
from holdfast.services.rollback import rollback
from holdfast.spine.carry_out import Silent
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import backdate
from tests.compat.hermes_store import (
    DAY,
    START,
    Home,
    git,
    project,
    recorded,
    rewritten_by_hermes,
    somebody_in,
    tree,
)

IDENTITY = {f"GIT_{a}_{b}": "x" for a in ("AUTHOR", "COMMITTER") for b in ("NAME", "EMAIL")}


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Path, Path]:
    return recorded(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> ShadowGitStore:
    return ShadowGitStore(tmp_path / "holdfast" / "checkpoints")


def bring(
    home: Home, store: ShadowGitStore, workdir: Path | None = None, *, dry_run: bool = False
) -> list[Imported]:
    return list(
        import_checkpoints(
            home.root,
            store,
            workdir=workdir,
            now=home.now,
            dry_run=dry_run,
            progress=Silent(),
        )
    )


def states(done: list[Imported]) -> list[str]:
    return [each.state.value for each in done]


def an_older_repository(home: Home, workdir: Path, folder: str = "") -> list[str]:
    """As versions before the shared store made them: one repository for each directory."""
    workdir.mkdir()
    place = home.folder / folder / project(workdir)
    place.parent.mkdir(exist_ok=True)
    environment = {"GIT_DIR": str(place), "GIT_WORK_TREE": str(workdir), **IDENTITY}
    git("init", "-q", "--template=", **environment)
    (place / "HERMES_WORKDIR").write_text(f"{workdir}\n")
    ids = []
    for number in range(2):
        (workdir / "old.txt").write_text(f"{number}\n")
        dates = {f"GIT_{who}_DATE": f"{START + number} +0000" for who in ("AUTHOR", "COMMITTER")}
        git("add", "-A", **environment)
        git("commit", "-q", "-m", f"old turn {number}", **environment, **dates)
        ids.append(git("rev-parse", "HEAD", **environment).strip())
    return ids


def test_times_and_reasons_come_along_and_a_second_run_adds_nothing(
    made: tuple[Home, Path, Path], store: ShadowGitStore
) -> None:
    home, site, _ = made
    before = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    assert states(bring(home, store, dry_run=True)) == ["imported"] * 9
    assert not store.layout.exists()
    done = bring(home, store)
    assert states(done) == ["imported"] * 9
    there = [(each.time, each.reason) for each in store.list(site)]
    assert there == [(each.time, each.reason) for each in home.store.list(site)]
    again = bring(home, store)
    assert states(again) == ["known"] * 9
    assert [each.id for each in again] == [each.id for each in done]
    assert len(store.list()) == 9
    assert not list((store.layout.store / "objects").glob("??/*"))  # packs, and few of them
    after = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    assert after == before  # nothing of Hermes is changed


def test_new_ones_are_added_and_new_ids_of_known_ones_are_not(
    made: tuple[Home, Path, Path], store: ShadowGitStore
) -> None:
    home, _, tool = made
    bring(home, store, tool)
    rewritten_by_hermes(home, tool)
    assert states(bring(home, store, tool)) == ["known"] * 3
    tip = home.chain(tool)[0]
    made_tree = home.git("rev-parse", f"{home.chain(tool)[2]}^{{tree}}").strip()
    place = ["--git-dir", str(home.git_dir), "commit-tree", made_tree]
    new = git(*place, "-p", tip, "-m", "later", **IDENTITY)
    home.git("update-ref", f"refs/hermes/{project(tool)}", new.strip())
    assert states(bring(home, store, tool)).count("imported") == 1
    assert len(store.list(tool)) == 4


def test_an_imported_checkpoint_is_restored_exactly(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, site, _ = made
    own = HoldfastHome(tmp_path / "holdfast", clock=lambda: home.now)
    store = ShadowGitStore(own.root / "checkpoints")
    (site / "a.txt").chmod(0o600)
    done = bring(home, store, site)
    rollback(own, store, done[0].id, command="restore", clock=lambda: home.now)
    after = tree(site)
    assert after["a.txt"] == ("file", 0o600, b"0\n")
    assert after["win.bat"][2] == b"echo one\r\n"
    assert "nested/inner.txt" in after
    assert "c/d.txt" not in after


def test_what_was_imported_is_not_stale_on_the_same_day(
    made: tuple[Home, Path, Path], store: ShadowGitStore
) -> None:
    home, *_ = made
    home.now += 300 * DAY
    bring(home, store)
    assert all(each.last_touch == home.now for each in store.projects())


def test_older_layouts_are_listed_restored_and_imported(
    made: tuple[Home, Path, Path], store: ShadowGitStore, tmp_path: Path
) -> None:
    home, *_ = made
    ids = an_older_repository(home, tmp_path / "older")
    moved = an_older_repository(home, tmp_path / "moved", "legacy-20260101-000000")
    found = {each.id: each for each in home.store.list()}
    assert found[ids[0]].reason == "old turn 0 (older layout)"
    assert (found[ids[1]].files_changed, found[ids[1]].insertions) == (1, 1)
    assert set(moved) <= found.keys()
    assert sorted(home.store.captured(found[ids[0]].tree).files) == ["old.txt"]
    ready = home.store.ready(home.store_at(tmp_path / "older").get(ids[0]))
    rollback(home.home, home.store, ready.id, command="restore", clock=lambda: home.now)
    assert (tmp_path / "older" / "old.txt").read_text() == "0\n"
    assert states(bring(home, store, tmp_path / "older")) == ["imported"] * 2
    assert [each.reason for each in store.list(tmp_path / "older")] == ["old turn 1", "old turn 0"]


def test_older_layouts_go_by_age_and_on_request_and_come_back(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, *_ = made
    an_older_repository(home, tmp_path / "older")
    backdate(home.folder / project(tmp_path / "older"), START)
    home.now = START + 3 * DAY
    assert home.prune(CheckpointPolicy(stale_after=7 * DAY)).operation is None
    home.now = START + 8 * DAY
    place = home.folder / project(tmp_path / "older")
    policy = CheckpointPolicy(stale_after=7.9 * DAY)
    report = home.prune(policy)
    assert report.count(Result.REMOVED) == 1
    assert not place.exists()
    home.undo()
    assert place.is_dir()
    plan = plan_clear_legacy(home.home.checkpoint_upkeep, now=home.now, command="clear-legacy")
    home.apply(plan)
    assert not place.exists()
    home.undo()
    assert place.is_dir()


def test_an_older_repository_whose_directory_is_gone_goes_at_once(
    made: tuple[Home, Path, Path], tmp_path: Path
) -> None:
    home, *_ = made
    an_older_repository(home, tmp_path / "older")
    place = home.folder / project(tmp_path / "older")
    shutil.rmtree(tmp_path / "older")
    home.now = time.time()
    [item] = [
        each
        for each in home.plan(CheckpointPolicy(stale_after=7 * DAY)).removals
        if each.kind == LEGACY
    ]
    assert item.reason == f"its directory is gone: {tmp_path / 'older'}"
    home.prune(CheckpointPolicy(keep_orphans=True))
    assert place.is_dir()
    home.prune(CheckpointPolicy())
    assert not place.exists()


def test_an_older_repository_that_is_in_use_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", START + 30 * DAY)
    home.folder.mkdir(parents=True)
    an_older_repository(home, tmp_path / "older")
    place = home.folder / project(tmp_path / "older")
    backdate(place, START)
    plan = home.plan(CheckpointPolicy(stale_after=7 * DAY))
    (place / "index.lock").touch()  # an older Hermes begins a checkpoint
    assert [each.reason for each in home.apply(plan).outcomes] == [
        "changed since the plan was made"
    ]
    backdate(place, START)
    plan = home.plan(CheckpointPolicy(stale_after=7 * DAY))
    with somebody_in(home):
        [outcome] = home.apply(plan).outcomes
    assert "may be running" in outcome.reason
    assert place.is_dir()
    home.prune(CheckpointPolicy(stale_after=7 * DAY))
    assert not place.exists()


def test_a_project_that_cannot_be_looked_at_is_skipped_and_named(
    made: tuple[Home, Path, Path], store: ShadowGitStore
) -> None:
    home, _, tool = made
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    record.write_text(json.dumps({"workdir": "/", "created_at": 0, "last_touch": 0}))
    done = bring(home, store)
    skipped = [each for each in done if each.state is ImportState.SKIPPED]
    assert len(skipped) == 3
    assert all(each.why for each in skipped)
    assert len(store.list()) == 6


def holdfast(place: Path, *arguments: str) -> Any:
    """The command in a process of its own; its JSON document."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOLDFAST_", "HERMES_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "--json", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=place,
        env=environment | {"HOME": str(place)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_commands_work_on_a_home_of_hermes(tmp_path: Path) -> None:
    home, site, tool = recorded(tmp_path)
    home.root.rename(tmp_path / ".hermes")
    flag = ("--home", str(tmp_path / ".hermes"))
    listed = holdfast(tmp_path, *flag, "checkpoints", "list", str(site))["checkpoints"]
    assert listed[0]["reason"] == "before turn 5"
    imported = holdfast(tmp_path, "checkpoints", "import", str(tool))
    assert (imported["imported"], imported["applied"]) == (3, True)
    assert holdfast(tmp_path, "checkpoints", "import")["known"] == 3
    (site / "a.txt").write_text("mine\n")
    ident = listed[-1]["id"][:10]
    done = holdfast(tmp_path, *flag, "checkpoints", "restore", ident, "--yes")
    assert "a.txt" in done["written"]
    assert (site / "a.txt").read_text() == "0\n"
    holdfast(tmp_path, *flag, "undo", "--yes")
    assert (site / "a.txt").read_text() == "mine\n"
