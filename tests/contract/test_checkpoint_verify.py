"""Verify names what is damaged and what that costs; everything else stays usable."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.checkpoint import Checkpoint
from holdfast.model.checkup import Damage, Verification
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.plans import plan_drop
from holdfast.stores.checkpoints.repository import project_of
from tests.checkpointing import Bench, contents

pytestmark = pytest.mark.usefixtures("bad_day")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def verified(bench: Bench) -> Verification:
    return bench.home.checkpoint_upkeep.verify()


def only(found: Verification, kind: str) -> Damage:
    (damage,) = (each for each in found.problems if each.kind == kind)
    return damage


def overwrite(path: Path, place: int, data: bytes) -> None:
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def object_file(bench: Bench, oid: str) -> Path:
    return bench.objects / oid[:2] / oid[2:]


def blob_of(bench: Bench, checkpoint: Checkpoint, path: str = "changing.bin") -> str:
    return bench.store.captured(checkpoint.tree).files[path].oid


def by_id(bench: Bench) -> dict[str, Checkpoint]:
    return {each.id: each for each in bench.store.list()}


def test_no_store_has_no_damage(bench: Bench) -> None:
    assert verified(bench) == Verification(checkpoints=0)
    assert not bench.folder.exists()


def test_a_whole_store_is_whole(bench: Bench) -> None:
    bench.takes(bench.project("p", files=120), 3)
    bench.takes(bench.project("q"), 2)
    bench.prune(CheckpointPolicy(max_count=1))  # some in the trash
    found = verified(bench)
    assert (found.ok, found.checkpoints, found.problems) == (True, 2, ())
    assert found.to_json() == {"ok": True, "checkpoints": 2, "problems": []}


def test_what_git_thinks_of_a_name_is_no_damage(bench: Bench) -> None:
    project = bench.project("p")
    (project / ".gitattributes").write_text(f"*.txt {'a' * 2_100}\n")
    for folder in ("modules", "link", "url"):
        (project / folder).mkdir()
    (project / "modules" / ".gitmodules").mkdir()
    (project / "modules" / ".gitmodules" / "file").write_text("a file\n")
    (project / "link" / ".gitmodules").symlink_to("elsewhere")
    text = '[submodule "../x"]\n\tpath = x\n\turl = -u./foo\n'
    (project / "url" / ".gitmodules").write_text(text)
    bench.takes(project, 1)
    assert verified(bench).problems == ()


def _flip(path: Path) -> None:
    overwrite(path, 20, b"\xff\xff\xff\xff")


def _empty(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"")


def _remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [_flip, _empty, _remove])
def test_a_damaged_file_costs_the_checkpoints_that_have_it(
    bench: Bench, harm: Callable[[Path], None]
) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 4)
    bench.unpack()
    known = by_id(bench)
    oid = blob_of(bench, known[ids[1]])
    harm(object_file(bench, oid))
    found = verified(bench)
    assert not found.ok
    damage = only(found, "object")
    assert (damage.name, damage.checkpoints) == (oid, (ids[1],))
    for other in (ids[0], ids[2], ids[3]):
        assert contents(bench.store, known[other])
    assert bench.take(workdir)


@pytest.mark.parametrize("harm", [_flip, _empty, _remove])
def test_a_damaged_folder_costs_all_that_share_it(
    bench: Bench, harm: Callable[[Path], None]
) -> None:
    workdir = bench.project()
    bench.write(workdir / "shared" / "file", 50)
    ids = bench.takes(workdir, 2)
    (workdir / "shared" / "file").unlink()
    ids += bench.takes(workdir, 2)
    known = by_id(bench)
    listed = subprocess.run(
        ["git", "--git-dir", bench.folder / "store", "rev-parse", f"{ids[0]}:files/shared"],
        check=True,
        capture_output=True,
        text=True,
    )
    oid = listed.stdout.strip()
    bench.unpack()
    harm(object_file(bench, oid))
    damage = only(verified(bench), "object")
    assert (damage.name, damage.checkpoints) == (oid, tuple(sorted(ids[:2])))
    for other in ids[2:]:
        assert contents(bench.store, known[other])


@pytest.mark.parametrize("harm", [_flip, _empty, _remove])
def test_a_damaged_commit_costs_itself(bench: Bench, harm: Callable[[Path], None]) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 3)
    bench.unpack()
    harm(object_file(bench, ids[1]))
    found = verified(bench)
    assert not found.ok
    assert {one for each in found.problems for one in each.checkpoints} == {ids[1]}
    assert bench.ids(workdir) == [ids[0], ids[2]]
    assert bench.store.get(ids[2]).id == ids[2]
    assert bench.take(workdir)


def test_what_is_damaged_can_be_dropped_and_space_reclaimed(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 3)
    bench.unpack()
    _flip(object_file(bench, ids[1]))
    assert any(ids[1] == problem.path for problem in bench.scan().problems)
    upkeep = bench.home.checkpoint_upkeep
    report = bench.apply(plan_drop(upkeep, [ids[1]], now=bench.now, command="drop", undoable=False))
    assert (report.removed, report.failed) == (1, 0)
    assert verified(bench).ok
    assert bench.ids() == [ids[0], ids[2]]


def test_a_damaged_pack_is_named(bench: Bench) -> None:
    workdir = bench.project("p", files=150)
    ids = bench.takes(workdir, 2)
    pack = max(bench.objects.glob("pack/*.pack"), key=lambda path: path.stat().st_size)
    overwrite(pack, pack.stat().st_size // 2, b"\xff" * 20)
    found = verified(bench)
    assert only(found, "pack").name == pack.name
    costs = {one for each in found.problems for one in each.checkpoints}
    assert costs
    assert costs <= set(ids)
    other = bench.project("q")
    assert bench.take(other) in bench.ids(other)


def test_a_pack_that_lost_its_end_is_named(bench: Bench) -> None:
    workdir, other = bench.project("p", files=150), bench.project("q")
    (other / "f0.txt").chmod(0o600)  # so that it has a record of modes of its own
    ids, fine = bench.takes(workdir, 2), bench.takes(other, 2)
    pack = max(bench.objects.glob("pack/*.pack"), key=lambda path: path.stat().st_size)
    torn = pack.with_name("torn")
    torn.write_bytes(pack.read_bytes()[:1000])
    torn.replace(pack)  # this process has the old one open, and would die if that got shorter
    found = verified(bench)
    assert pack.name in {each.name for each in found.problems}
    assert {one for each in found.problems for one in each.checkpoints} == set(ids)
    known = by_id(bench)
    assert all(contents(bench.store, known[each]) for each in fine)


@pytest.mark.parametrize("text", ["garbage\n", "", f"{'1' * 40}\n"])
def test_a_damaged_reference_is_named(bench: Bench, text: str) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 3)
    folder = bench.folder / "store" / "refs" / "holdfast" / project_of(workdir.resolve())
    first = min(folder.iterdir())
    first.write_text(text)
    found = verified(bench)
    assert not found.ok
    assert any(each.name.endswith(first.name) or each.kind == "object" for each in found.problems)
    assert bench.ids(workdir) == ids[1:]
    assert bench.take(workdir)


def test_a_damaged_list_of_references_is_named(bench: Bench) -> None:
    bench.takes(bench.project(), 2)
    bench.home.checkpoint_upkeep.pack()
    (bench.folder / "store" / "packed-refs").write_bytes(b"xx yy\nzz")
    found = verified(bench)
    assert not found.ok
    assert only(found, "ref").name == "packed-refs"


@pytest.mark.parametrize("harm", [_flip, _empty])
def test_a_damaged_index_is_harmless_and_made_anew(
    bench: Bench, harm: Callable[[Path], None]
) -> None:
    workdir = bench.project()
    bench.takes(workdir, 2)
    index = bench.folder / "store" / "worktrees" / project_of(workdir.resolve()) / "index"
    harm(index)
    found = verified(bench)
    assert found.ok
    assert only(found, "index").harmless
    bench.take(workdir)
    bench.write(workdir / "another", 10)
    bench.take(workdir)
    assert "another" in bench.store.captured(bench.store.list()[0].tree).files
    assert verified(bench).ok


def test_a_record_of_modes_that_is_none_is_named(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 2)
    store = bench.folder / "store"

    def git(*arguments: str, data: bytes = b"") -> str:
        command = ["git", "--git-dir", str(store), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, input=data)
        return done.stdout.decode().strip()

    blob = git("hash-object", "-w", "--stdin", data=b"not what we write")
    files = git("rev-parse", f"{ids[1]}:files")
    lines = f"100644 blob {blob}\tbeside\n040000 tree {files}\tfiles\n"
    tree = git("mktree", data=lines.encode())
    message = git("log", "-1", "--format=%B", ids[1])
    commit = git(
        "-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, data=message.encode()
    )
    ref = git("for-each-ref", "--format=%(refname)", f"--points-at={ids[1]}")
    git("update-ref", ref, commit)
    damage = only(verified(bench), "object")
    assert (damage.name, damage.checkpoints) == (commit, (commit,))


def test_a_damaged_record_of_a_project_is_named(bench: Bench) -> None:
    workdir = bench.project()
    ids = bench.takes(workdir, 2)
    path = bench.folder / "projects" / f"{project_of(workdir.resolve())}.json"
    path.write_bytes(b"{")
    assert only(verified(bench), "record").name == f"projects/{path.name}"
    assert bench.ids(workdir) == ids


def test_a_store_that_lost_everything_says_so(bench: Bench) -> None:
    bench.takes(bench.project(), 1)
    shutil.rmtree(bench.objects)
    found = verified(bench)
    assert not found.ok
    assert found.problems
