"""A restore of many files builds new directories beside their places, and names each when it is
whole: nobody's file is replaced, and what it does not hold is never lost."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.stores.checkpoints import restore_plan, restore_run, working_tree
from holdfast.stores.checkpoints.default_excludes import TEMPORARY
from holdfast.stores.checkpoints.restore_run import UNCAPTURED
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.flush_disk import can_flush_disk
from tests.contract.restore_bench import NOW, restore, take
from tests.trees import Everything, everything

pytestmark = pytest.mark.skipif(not can_flush_disk(), reason="many files are flushed one by one")
FLUSH = "flush_disk"


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_run, "MANY", 0)


@pytest.fixture
def gone(store: ShadowGitStore, project: Path) -> tuple[str, Everything]:
    """A checkpoint of directories that are gone by now, and what was in the project."""
    for folder in ("new/in/deep", "new/empty", "new/locked", "other"):
        (project / folder).mkdir(parents=True)
    (project / "new/file").write_bytes(b"a file")
    (project / "new/nothing").write_bytes(b"")
    (project / "new/in/deep/program").write_bytes(b"runs")
    (project / "new/in/deep/program").chmod(0o4751)
    (project / os.fsdecode(b"new/odd\xff\nname")).write_bytes(b"odd")
    (project / "new/link").symlink_to("/nowhere")
    (project / "new/locked/secret").write_bytes(b"x")
    (project / "new/locked/secret").chmod(0o400)
    (project / "new/locked").chmod(0o500)
    (project / "new/in").chmod(0o770)
    (project / "other/file").write_bytes(b"other")
    before, target = everything(project), take(store, project)
    (project / "new/locked").chmod(0o700)
    shutil.rmtree(project / "new")
    shutil.rmtree(project / "other")
    return target, before


def at_the_first_flush(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something when everything is written and nothing has its name."""
    flush, left = vars(working_tree)[FLUSH], [act]

    def flush_disk(fd: int) -> None:
        if left:
            left.pop()()
        flush(fd)

    monkeypatch.setattr(working_tree, FLUSH, flush_disk)


def temporary(project: Path) -> list[Path]:
    return [path for path in project.rglob("*") if path.name.startswith(TEMPORARY.decode())]


def test_everything_in_a_new_directory_comes_back_exactly(
    store: ShadowGitStore, project: Path, gone: tuple[str, Everything]
) -> None:
    target, before = gone
    umask = os.umask(0o077)
    try:
        done = restore(store, target)
    finally:
        os.umask(umask)
    assert everything(project) == before
    assert not done.kept
    assert {"new/in/deep/program", "new/link", "new/empty"} < set(done.written)


def test_one_rename_names_all_files_of_a_directory(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    seen: list[set[str]] = []
    at_the_first_flush(monkeypatch, lambda: seen.append({path.name for path in project.iterdir()}))
    named: list[bytes] = []
    rename = working_tree._rename

    def noted(old: bytes, new: bytes, fd: int, flag: int) -> bool:
        named.append(new)
        return rename(old, new, fd, flag)

    monkeypatch.setattr(working_tree, "_rename", noted)
    restore(store, target)
    assert everything(project) == before
    assert sorted(named) == [b"new", b"other"]
    assert not seen[0] & {"new", "other"}, "a name before the content is on the disk"


def test_a_directory_that_somebody_makes_meanwhile_keeps_what_is_in_it(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone

    def make() -> None:
        (project / "new").mkdir()
        (project / "new/file").write_bytes(b"of somebody else")
        (project / "new/more").write_bytes(b"more")

    at_the_first_flush(monkeypatch, make)
    done = restore(store, target)
    now = everything(project)
    assert (project / "new/file").read_bytes() == b"of somebody else"
    assert (project / "new/more").read_bytes() == b"more"
    told = {each.path: each.reason for each in done.kept}
    assert told["new/file"] == UNCAPTURED
    assert "new/file" not in done.written
    for path in before.keys() - {"new", "new/file"}:
        assert now[path] == before[path], path
    assert not temporary(project)


@pytest.mark.parametrize("kind", ["file", "link", "empty directory"])
def test_whatever_takes_the_name_meanwhile_stays(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    target, before = gone
    place = project / "new"
    made: list[int] = []

    def make() -> None:
        if kind == "file":
            place.write_bytes(b"mine")
        elif kind == "link":
            place.symlink_to("/nowhere")
        else:
            place.mkdir(mode=0o711)
        made.append(place.lstat().st_ino)

    at_the_first_flush(monkeypatch, make)
    done = restore(store, target)
    assert not temporary(project)
    assert everything(project)["other/file"] == before["other/file"]
    if kind == "empty directory":
        assert place.stat().st_ino == made[0], "replaced"
        assert {path: now for path, now in everything(project).items() if path != "new"} == {
            path: was for path, was in before.items() if path != "new"
        }
        return
    assert place.is_symlink() == (kind == "link")
    assert {"new", "new/file"} <= {each.path for each in done.kept}


def test_without_such_a_rename_files_are_named_one_by_one(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    monkeypatch.setattr(working_tree, "_renameat2", lambda: None)
    assert not restore(store, target).kept
    assert everything(project) == before


def test_very_deep_directories_are_made_in_their_places(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    monkeypatch.setattr(working_tree.WorkingTree, "make_aside", None)
    monkeypatch.setattr(restore_plan, "_DEEPEST", -1)
    assert not restore(store, target).kept
    assert everything(project) == before


def test_too_little_room_for_all_at_once_means_one_after_the_other(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    create, full = working_tree.WorkingTree.create, [True]

    def fill(*given: object) -> None:
        create(*given)  # type: ignore[arg-type]
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(working_tree.WorkingTree, "create", fill)
    assert not restore(store, target).kept
    assert everything(project) == before


def test_what_cannot_be_made_is_named_and_the_rest_comes_back(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    create = working_tree.WorkingTree.create

    def refuse(*given: object) -> None:
        if given[1] == b"in/deep/program":
            raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ))
        create(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(working_tree.WorkingTree, "create", refuse)
    done = restore(store, target)
    assert [each.path for each in done.kept] == ["new/in/deep/program"]
    assert everything(project).keys() == before.keys() - {"new/in/deep/program"}


def test_an_error_in_the_middle_leaves_nothing_behind(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone

    def stop() -> None:
        raise KeyboardInterrupt

    at_the_first_flush(monkeypatch, stop)
    safety = store.secure(target, now=NOW + 1)
    with contextlib.suppress(KeyboardInterrupt):
        store.restore(target, safety, now=NOW + 2)
    assert not temporary(project)
    store.restore(target, safety, now=NOW + 3)
    assert everything(project) == before


def test_a_directory_on_another_disk_is_flushed_by_itself(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flush of the project's disk would not reach it."""
    target, before = gone
    monkeypatch.setattr(working_tree.WorkingTree, "is_on_its_disk", lambda *_: False)
    monkeypatch.setattr(working_tree.WorkingTree, "make_aside", None)
    assert not restore(store, target).kept
    assert everything(project) == before


def test_no_file_is_set_user_id_before_it_has_its_owner(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, before = gone
    real, special = os.open, []

    def noted(
        path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        special.append(mode & ~0o777)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", noted)
    restore(store, target)
    assert not any(special)
    assert everything(project) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_gives_everything_in_it_to_the_owner_of_the_project(
    store: ShadowGitStore,
    project: Path,
    gone: tuple[str, Everything],
) -> None:
    target, before = gone
    os.chown(project, 1234, 4321)
    restore(store, target)
    assert everything(project) == before
    made = [path for path in project.rglob("*") if str(path.relative_to(project)).startswith("new")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(1234, 4321)}
