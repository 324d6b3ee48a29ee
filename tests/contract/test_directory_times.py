"""The names in a directory are read again only if its times leave a doubt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.checkpoint import TakeOutcome
from holdfast.stores.checkpoints import take, walk
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.value import replace
from tests.contract.checkpoint_bench import Bench, left_out
from tests.property.working_trees import settle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is mounted")


class Watched(Bench):
    """A project whose directories count as old a moment after they changed."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place)
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(walk, "YOUNG", 0)
        monkeypatch.setattr(take, "_UNSTAMPED", -1)

    def look(self, outcome: TakeOutcome = TakeOutcome.TAKEN) -> None:
        settle(self.project)
        taking = self.take()
        assert taking.outcome is outcome

    def read(self, outcome: TakeOutcome = TakeOutcome.UNCHANGED) -> set[str]:
        """The directories whose names the next look reads."""
        found: set[str] = set()
        listing = walk._list

        def noted(folder: bytes) -> object:
            found.add(os.path.relpath(os.fsdecode(folder), self.project))
            return listing(folder)

        with self.monkeypatch.context() as patch:
            patch.setattr(walk, "_list", noted)
            self.look(outcome)
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    bench = Watched(tmp_path, monkeypatch)
    for path in ("a.txt", "one/b.txt", "one/deep/c.txt", "two/d.txt"):
        bench.write(path)
    bench.look()
    return bench


def test_a_directory_that_did_not_change_is_not_read(bench: Watched) -> None:
    assert bench.read() == set()
    (bench.project / "one/b.txt").write_text("other\n")
    assert bench.read(TakeOutcome.TAKEN) == set()
    assert bench.content("one/b.txt") == b"other\n"


def _add(project: Path) -> None:
    (project / "one/deep/new").write_text("new\n")


def _remove(project: Path) -> None:
    (project / "one/deep/c.txt").unlink()


def _exchange(project: Path) -> None:
    """A file and a directory change places: the names are the same."""
    (project / "one/deep/c.txt").rename(project / "aside")
    (project / "one/deep/c.txt").mkdir()
    (project / "aside").rename(project / "one/deep/c.txt/c.txt")


def _close(project: Path) -> None:
    (project / "one/deep").chmod(0o700)


def _replace(project: Path) -> None:
    """Another directory with the same name."""
    (project / "one/deep").rename(project / "elsewhere")
    (project / "one/deep").mkdir()
    (project / "one/deep/c.txt").write_text("another\n")


@pytest.mark.parametrize("change", [_add, _remove, _exchange, _close, _replace])
def test_one_that_changed_is_read(bench: Watched, change: Callable[[Path], None]) -> None:
    change(bench.project)
    read = bench.read(TakeOutcome.TAKEN)
    assert "one/deep" in read
    assert "two" not in read
    there = {
        str(path.relative_to(bench.project))
        for path in bench.project.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    captured = bench.captured()
    assert set(captured.files) == there
    if change is _close:
        assert captured.directories["one/deep"].permissions == 0o700


def test_one_that_had_just_changed_is_read_again(
    bench: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    bench.write("one/new.txt")
    bench.taken()
    assert {"one", "one/deep"} <= bench.read()


def test_rules_are_read_whatever_the_times_say(bench: Watched) -> None:
    rules = bench.write("one/.gitignore", "")
    bench.write("one/x.tmp")
    bench.look()
    assert bench.read() == set()
    rules.write_text("*.tmp\n")
    assert bench.read(TakeOutcome.TAKEN) == {"one", "one/deep"}
    assert "one/x.tmp" not in bench.captured().files


def test_rules_that_could_not_be_read_are_tried_again(bench: Watched) -> None:
    """As those of another user, who may read them tomorrow: no time of the directory changes."""
    aside = bench.write("two/rules", "d.txt\n")
    (bench.project / "one/.gitignore").symlink_to(aside)
    bench.look()
    assert bench.read() == {"one"}


def test_a_worktree_is_noticed_when_what_it_names_appears(bench: Watched, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    bench.write("two/.git", f"gitdir: {repository}\n")
    bench.look(TakeOutcome.UNCHANGED)
    assert "two/d.txt" in bench.captured().files
    repository.mkdir()
    (repository / "commondir").touch()
    settle(bench.project)
    assert "two" in left_out(bench.take())
    assert "two/d.txt" not in bench.captured().files


def test_where_another_machine_may_change_files_all_are_read(bench: Watched) -> None:
    bench.monkeypatch.setattr(walk, "_LOCAL", (b"other",))
    assert bench.read() == {".", "one", "one/deep", "two"}


def test_hash_reads_everything(bench: Watched) -> None:
    how = replace(bench.store.how, hash_all=True)
    bench.store = ShadowGitStore(bench.folder, how)
    assert bench.read() == {".", "one", "one/deep", "two"}


def test_one_on_another_device_is_read(bench: Watched) -> None:
    other = bench.project / "two"
    real = os.lstat

    def elsewhere(path: object, **how: Any) -> os.stat_result:
        status = real(path, **how)  # type: ignore[arg-type]
        if path != os.fsencode(other):
            return status
        changed = (*status[:2], status.st_dev + 1, *status[3:])
        more = {name: getattr(status, name) for name in ("st_mtime_ns", "st_ctime_ns")}
        return os.stat_result(changed, more)

    with bench.monkeypatch.context() as patch:
        patch.setattr(os, "lstat", elsewhere)
        assert bench.read() == {"two"}


def test_the_listing_is_not_written_for_a_few_stamps(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("one/a.txt")
    bench.taken()
    listing = bench.private / "listing"
    before = listing.stat().st_ino
    bench.write("one/a.txt", "other\n")
    bench.taken()
    assert listing.stat().st_ino == before
    bench.write("one/b.txt")
    bench.taken()
    assert listing.stat().st_ino != before


@pytest.mark.parametrize(
    ("line", "local"),
    [
        (b"27 1 254:0 / / rw - ext4 /dev/vda rw", True),
        (b"27 1 254:0 /sub /a\\040b rw shared:1 - xfs /dev/vda rw", True),
        (b"27 1 254:0 / / rw - nfs4 server:/x rw", False),
        (b"27 1 54:0 / / rw - ext4 /dev/vda rw", False),
        (b"27 1 8:1 / /a/254:0 rw - ext4 /dev/vda rw", False),
        (b"", False),
    ],
)
def test_only_some_file_systems_are_local(line: bytes, local: bool) -> None:
    assert walk.is_local(line + b"\n", os.makedev(254, 0)) is local
