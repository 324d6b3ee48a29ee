"""Finding checkpoints, comparing what they hold, and the projects that they are of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.errors import (
    UnknownCheckpointError,
)
from holdfast.model.checkpoint import ChangeKind, ProjectState, TakeOutcome
from tests.contract.checkpoint_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_every_checkpoint_is_found_by_its_id(bench: Bench) -> None:
    for number in range(40):
        bench.write("a", str(number))
        bench.taken("a") if number else bench.taken()
    ids = [one.id for one in bench.store.list()]
    assert len(set(ids)) == 40
    assert all(bench.store.get(one).id == one for one in ids[:3])
    with pytest.raises(UnknownCheckpointError, match="No checkpoint has an id"):
        bench.store.get("0" * 40)


def test_changes_tell_every_kind(bench: Bench) -> None:
    bench.write("same")
    bench.write("edited", "1")
    bench.write("gone")
    bench.write("mode")
    bench.write("turned/file")
    bench.write("linked")
    (bench.project / "hollow").mkdir()
    old = bench.store.get(bench.taken())
    bench.write("edited", "2")
    (bench.project / "gone").unlink()
    bench.write("came")
    (bench.project / "mode").chmod(0o600)
    shutil.rmtree(bench.project / "turned")
    bench.write("turned")
    (bench.project / "linked").unlink()
    (bench.project / "linked").symlink_to("same")
    (bench.project / "hollow").rmdir()
    (bench.project / "bare").mkdir(mode=0o700)
    new = bench.store.get(bench.taken())
    found = {one.path: one for one in bench.store.changes(old.tree, new.tree)}
    assert {path: one.kind for path, one in found.items()} == {
        "bare": ChangeKind.ADDED,
        "came": ChangeKind.ADDED,
        "edited": ChangeKind.MODIFIED,
        "gone": ChangeKind.DELETED,
        "hollow": ChangeKind.DELETED,
        "linked": ChangeKind.TYPE,
        "mode": ChangeKind.MODIFIED,
        "turned": ChangeKind.ADDED,
        "turned/file": ChangeKind.DELETED,
    }
    mode = found["mode"]
    assert mode.old is not None
    assert mode.new is not None
    assert (mode.old.oid, mode.old.permissions, mode.new.permissions) == (
        mode.new.oid,
        0o644,
        0o600,
    )
    assert bench.store.changes(new.tree, new.tree) == []


def test_permissions_that_are_usual_in_one_and_not_in_the_other_are_told(bench: Bench) -> None:
    for name in ("a/one", "b/two", "c/three"):
        bench.write(name)
    first = bench.taken()
    for name in ("a", "b", "c/three"):
        (bench.project / name).chmod(0o700)
    for name in ("a/one", "b/two"):
        (bench.project / name).chmod(0o600)
    second = bench.taken_anew()
    old, new = (bench.store.get(each).tree for each in (first, second))
    told = {each.path: each.new.permissions for each in bench.store.changes(old, new) if each.new}
    assert told == {"a": 0o700, "a/one": 0o600, "b": 0o700, "b/two": 0o600, "c/three": 0o700}
    told = {each.path: each.new.permissions for each in bench.store.changes(new, old) if each.new}
    assert told == {"a": 0o755, "a/one": 0o644, "b": 0o755, "b/two": 0o644, "c/three": 0o644}


def test_a_look_is_compared_like_a_checkpoint_and_leaves_none(bench: Bench) -> None:
    bench.write("a", "1\n")
    taken = bench.store.get(bench.taken())
    bench.write("a", "2\n")
    os.mkfifo(bench.project / "pipe")
    sight = bench.store.look(bench.project)
    (change,) = bench.store.changes(taken.tree, sight.tree)
    assert (change.path, change.kind) == ("a", ChangeKind.MODIFIED)
    assert [one.path for one in sight.not_captured] == ["pipe"]
    assert len(bench.store.list()) == 1
    bench.taken()


def test_the_lines_of_very_many_files_are_not_counted(bench: Bench) -> None:
    for number in range(250):
        bench.write(f"{number}", "a\nb\n")
    taken = bench.store.get(bench.taken())
    assert (taken.files_changed, taken.insertions, taken.deletions) == (250, None, None)


# --- Projects -------------------------------------------------------------------------------------


def test_projects_are_live_or_missing(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    bench.write("a")
    bench.taken()
    bench.store.take(other, reason="r", now=500.0)
    shutil.rmtree(other)
    by_place = {one.workdir: one for one in bench.store.projects()}
    assert by_place[str(bench.project)].state is ProjectState.LIVE
    assert by_place[str(other)].state is ProjectState.MISSING
    assert by_place[str(bench.project)].checkpoints == 1


def test_a_project_without_its_record_is_known_from_its_checkpoints(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    for record in (bench.folder / "projects").iterdir():
        record.write_text("{")
    (project,) = bench.store.projects()
    assert (project.workdir, project.state) == (str(bench.project), ProjectState.LIVE)


def test_two_worktrees_share_their_content(bench: Bench, tmp_path: Path) -> None:
    for number in range(120):
        bench.write(f"f{number}", f"content {number}\n" * 20)
    bench.taken()
    before = bench.git("count-objects", "-v")
    shutil.copytree(bench.project, tmp_path / "copy")
    taken = bench.store.take(tmp_path / "copy", reason="r", now=2_000.0)
    assert taken.outcome is TakeOutcome.TAKEN
    assert len(bench.store.list()) == 2
    packs = [line for line in before.splitlines() if line.startswith("in-pack")]
    after = bench.git("count-objects", "-v").splitlines()
    grown = int(next(line for line in after if line.startswith("in-pack")).split()[1])
    assert grown - int(packs[0].split()[1]) <= 3
