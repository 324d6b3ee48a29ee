"""Restoring checkpoints: exact, only what differs, nothing that was not captured, and undoable."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import (
    CannotUndoError,
    StorageError,
    UnknownCheckpointError,
    UsageError,
)
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Capturing, Rollback, TakeOutcome
from holdfast.model.report import Result
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.undo import undo_latest
from holdfast.stores.checkpoints import restore_record
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import (
    LIMIT,
    NOW,
    restore,
    roll_back,
    take,
)
from tests.trees import everything

# --- Exact ----------------------------------------------------------------------------------------


def test_every_kind_of_change_is_taken_back(store: ShadowGitStore, project: Path) -> None:
    odd = project / os.fsdecode(b"bad\xff\nname")
    odd.write_bytes(b"\r\n\0")
    (project / ".gitattributes").write_text("* text=auto eol=crlf filter=lfs\n")
    (project / "link").symlink_to("README")
    (project / "empty/deep").mkdir(parents=True)
    (project / "README").chmod(0o4750)
    (project / "src").chmod(0o2750)
    before, target = everything(project), take(store, project)
    shutil.rmtree(project / "src")
    (project / "src").write_text("a file now")
    (project / "link").unlink()
    (project / "link").mkdir()
    (project / "empty/deep").rmdir()
    (project / "README").rename(project / "readme")
    odd.unlink()
    (project / "new/deep").mkdir(parents=True)
    (project / "new/deep/file").write_text("new")
    done = restore(store, target)
    assert everything(project) == before
    assert done.kept == ()
    assert set(done.deleted) == {"readme", "new/deep/file"}
    assert {"README", "src/main.py", "link", "empty/deep"} < set(done.written)


def test_only_what_differs_is_touched(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    (project / "src/main.py").write_text("two\n")
    untouched = [project / "README", project / "src/other.py"]
    before = [path.stat() for path in untouched]
    done = restore(store, target)
    assert done.written == ("src/main.py",)
    assert [path.stat() for path in untouched] == before


def test_many_files_in_many_directories_come_back(store: ShadowGitStore, project: Path) -> None:
    for number in range(300):
        folder = project / f"many {number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}").write_bytes(b"%d" % number * number)
        (folder / f"{number}").chmod(0o600 if number % 3 else 0o755)
    before, target = everything(project), take(store, project)
    for number in range(7):
        shutil.rmtree(project / f"many {number}")
    done = restore(store, target)
    assert everything(project) == before
    assert len(done.written) == 300
    for path in project.glob("many */*"):
        path.write_bytes(b"changed")
    assert len(restore(store, target).written) == 300
    assert everything(project) == before


def test_usual_permissions_that_differ_between_checkpoints_are_exact(
    store: ShadowGitStore, project: Path
) -> None:
    """A store that lost its checkpoints judges anew what is usual; the old one is still whole."""
    before, target = everything(project), take(store, project)
    folder = store.layout.private(project_of(project))
    for path in (project / "README", project / "src/main.py", project / "src/other.py"):
        path.chmod(0o600)
    refs = store.layout.store / "refs/holdfast"
    refs.rename(refs.with_name("aside"))
    (folder / "state.json").unlink()
    safety = take(store, project)
    for ref in refs.with_name("aside").glob("*/*"):
        ref.rename(refs / ref.parent.name / ref.name)
    done = store.restore(target, safety, now=NOW)
    assert everything(project) == before
    assert done.written == ("README", "src/main.py", "src/other.py")


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o555, 0o2750])
def test_the_permissions_of_the_project_itself_are_left_alone(
    store: ShadowGitStore, project: Path, mode: int
) -> None:
    """No checkpoint has them; but to work in a directory that is locked it must be opened."""
    before, target = everything(project), take(store, project)
    (project / "src").chmod(0o700)
    (project / "new").write_text("new")
    refs = store.layout.store / "refs/holdfast"
    refs.rename(refs.with_name("aside"))
    (store.layout.private(project_of(project)) / "state.json").unlink()
    safety = take(store, project)
    for ref in refs.with_name("aside").glob("*/*"):
        ref.rename(refs / ref.parent.name / ref.name)
    project.chmod(mode)
    assert store.preview(target).written == ("src",)
    assert store.restore(target, safety, now=NOW).written == ("src",)
    assert project.stat().st_mode & 0o7777 == mode
    assert everything(project) == before


def test_permissions_alone_are_set_in_place(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    number = (project / "README").stat().st_ino
    (project / "README").chmod(0o600)
    (project / "src").chmod(0o700)
    done = restore(store, target)
    assert (project / "README").stat().st_mode & 0o777 == 0o644
    assert (project / "src").stat().st_mode & 0o777 == 0o755
    assert (project / "README").stat().st_ino == number
    assert done.written == ("README", "src")


def test_a_preview_says_what_happens_and_touches_nothing(
    store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "src/main.py").write_text("two\n")
    (project / "README").unlink()
    (project / "new").write_text("new")
    before = everything(project)
    foreseen = store.preview(target)
    assert everything(project) == before
    assert foreseen.safety_checkpoint is None
    done = restore(store, target)
    assert (foreseen.written, foreseen.deleted) == (done.written, done.deleted)
    assert (done.written, done.deleted) == (("README", "src/main.py"), ("new",))


def test_a_project_that_was_deleted_comes_back(store: ShadowGitStore, project: Path) -> None:
    before, target = everything(project), take(store, project)
    shutil.rmtree(project)
    assert set(store.preview(target).written) == {"README", "src/main.py", "src/other.py"}
    assert not project.exists()
    restore(store, target)
    assert everything(project) == before


def test_nested_repositories_come_back_without_their_git(
    store: ShadowGitStore, project: Path
) -> None:
    nested = project / "vendor"
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    (nested / "file").write_text("nested")
    target = take(store, project)
    (nested / "file").write_text("changed")
    (nested / ".git/HEAD").write_text("ref: refs/heads/other\n")
    done = restore(store, target)
    assert done.written == ("vendor/file",)
    assert (nested / ".git/HEAD").read_text() == "ref: refs/heads/other\n"
    shutil.rmtree(nested)
    restore(store, target)
    assert (nested / "file").read_text() == "nested"
    assert not (nested / ".git").exists()


# --- What was not captured ------------------------------------------------------------------------


def test_what_stands_in_the_way_and_was_not_captured_is_kept_and_named(
    store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "README").write_bytes(b"x" * (LIMIT + 1))
    shutil.rmtree(project / "src")
    os.mkfifo(project / "src")
    done = restore(store, target)
    assert (project / "README").stat().st_size == LIMIT + 1
    assert (project / "src").is_fifo()
    reasons = {each.path: each.reason for each in done.kept}
    assert "too large" in reasons["README"]
    assert "src/main.py" in reasons
    assert done.written == ()


def test_what_the_rules_leave_out_survives(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    (project / "made/cache").mkdir(parents=True)
    (project / "made/cache/x.log").write_text("log")
    (project / "made/file").write_text("new")
    done = restore(store, target)
    assert (project / "made/cache/x.log").read_text() == "log"
    assert not (project / "made/file").exists()
    assert [each.path for each in done.kept] == ["made/cache"]


def test_what_the_checkpoint_could_not_capture_is_not_deleted(
    store: ShadowGitStore, project: Path
) -> None:
    """It was there at the time: that the checkpoint lacks it says nothing."""
    (project / "data").write_bytes(b"x" * (LIMIT + 1))
    target = take(store, project)
    (project / "data").write_bytes(b"small enough now")
    done = restore(store, target)
    assert (project / "data").read_bytes() == b"small enough now"
    assert [each.path for each in done.kept] == ["data"]
    assert "too large" in done.kept[0].reason


def test_what_was_ignored_at_the_time_is_not_deleted(store: ShadowGitStore, project: Path) -> None:
    (project / ".gitignore").write_text("private/\n")
    (project / "private").mkdir()
    (project / "private/notes").write_text("mine")
    target = take(store, project)
    (project / ".gitignore").unlink()
    done = restore(store, target)
    assert (project / "private/notes").read_text() == "mine"
    assert (project / ".gitignore").read_text() == "private/\n"
    assert [each.path for each in done.kept] == ["private/notes"]


def test_what_changed_after_the_safety_checkpoint_is_kept(
    store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "README").write_text("two\n")
    (project / "new").write_text("new\n")
    safety = store.secure(target, now=NOW + 1)
    (project / "README").write_text("three\n")
    (project / "new").write_text("newer\n")
    (project / "src/main.py").write_text("nobody asked\n")
    done = store.restore(target, safety, now=NOW + 2)
    assert {each.path for each in done.kept} == {"README", "new"}
    assert (project / "README").read_text() == "three\n"
    assert (project / "new").read_text() == "newer\n"
    assert (project / "src/main.py").read_text() == "nobody asked\n"


# --- Paths ----------------------------------------------------------------------------------------


def test_given_paths_are_restored_and_nothing_else(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    (project / "src/main.py").write_text("two\n")
    (project / "src/new.py").write_text("new\n")
    (project / "README").write_text("changed\n")
    done = restore(store, target, "src/main.py")
    assert (done.written, done.deleted) == (("src/main.py",), ())
    assert (project / "src/new.py").exists()
    done = restore(store, target, "src")
    assert (done.written, done.deleted) == ((), ("src/new.py",))
    assert (project / "README").read_text() == "changed\n"
    assert restore(store, target, str(project / "README")).written == ("README",)


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "src/../../outside", "no such file", ".git/config"]
)
def test_a_path_that_is_not_in_the_project_is_refused(
    store: ShadowGitStore, project: Path, path: str
) -> None:
    target = take(store, project)
    (project / ".git").mkdir()
    before = everything(project)
    with pytest.raises(UsageError):
        restore(store, target, path)
    assert everything(project) == before


def test_a_path_through_a_symlink_is_refused(
    store: ShadowGitStore, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    target = take(store, project)
    (project / "src").rename(outside)
    (project / "src").symlink_to(outside)
    (outside / "main.py").write_text("outside\n")
    with pytest.raises(UsageError, match="symlink"):
        restore(store, target, "src/main.py")
    restore(store, target)
    assert (outside / "main.py").read_text() == "outside\n"
    assert (project / "src/main.py").read_text() == "one\n"
    assert not (project / "src").is_symlink()


def test_a_symlink_that_is_made_meanwhile_leads_nowhere(
    store: ShadowGitStore, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    target = take(store, project)
    (project / "src/main.py").write_text("two\n")
    safety = store.secure(target, now=NOW + 1)
    (project / "src").rename(outside)
    (project / "src").symlink_to(outside)
    before = everything(outside)
    done = store.restore(target, safety, now=NOW + 2)
    assert everything(outside) == before
    assert [each.path for each in done.kept] == ["src/main.py"]


def test_a_working_directory_that_became_a_symlink_is_refused(
    store: ShadowGitStore, project: Path, tmp_path: Path
) -> None:
    target = take(store, project)
    (project / "README").unlink()
    safety = store.secure(target, now=NOW + 1)
    project.rename(tmp_path / "elsewhere")
    project.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="link"):
        store.restore(target, safety, now=NOW + 2)
    assert not (tmp_path / "elsewhere/README").exists()


# --- The safety checkpoint ------------------------------------------------------------------------


def test_the_safety_checkpoint_says_what_it_is_for(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    assert store.secure(target, now=NOW + 1) == target
    (project / "README").write_text("two\n")
    safety = store.get(store.secure(target, now=NOW + 2))
    assert safety.reason == f"before restoring {target[:8]}"


def test_both_ends_of_the_latest_restore_are_held(store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    (project / "README").write_text("two\n")
    folder = store.layout.private(project_of(project))
    assert restore_record.held(folder) == frozenset()
    safety = store.secure(target, now=NOW + 1)
    assert restore_record.held(folder) == {target}
    store.restore(target, safety, now=NOW + 2)
    assert restore_record.held(folder) == {target, safety}
    assert restore_record.under_way(folder) is None


def test_a_bound_of_one_checkpoint_takes_neither_end_of_a_rollback(
    home: HoldfastHome, root: Path, project: Path
) -> None:
    narrow = checkpoint_store(root, Capturing(max_snapshots=1))
    target = take(narrow, project)
    (project / "README").write_text("two\n")
    before = everything(project)
    roll_back(home, narrow, target)
    after = everything(project)
    for number in range(3):
        (project / "src/other.py").write_text(f"{number}\n")
        take(narrow, project)
    (project / "src/other.py").write_text("other\n")
    assert everything(project) == after
    undo_latest(home, clock=lambda: NOW)
    assert everything(project) == before


def test_a_restore_that_was_cut_short_is_finished_by_the_next_checkpoint(
    store: ShadowGitStore, project: Path
) -> None:
    before, target = everything(project), take(store, project)
    (project / "README").write_text("two\n")
    safety = store.secure(target, now=NOW + 1)
    folder = store.layout.private(project_of(project))
    cut = restore_record.Restoration(target=target, safety=safety, paths=None, started_at=NOW)
    restore_record.begin(folder, cut)
    taking = store.take(project, reason="next", now=NOW + 3)
    assert everything(project) == before
    assert taking.outcome is TakeOutcome.TAKEN
    assert restore_record.under_way(folder) is None


def test_a_target_is_held_although_another_restore_has_to_be_finished_first(
    store: ShadowGitStore, project: Path
) -> None:
    other = take(store, project)
    (project / "README").write_text("two\n")
    target = take(store, project)
    (project / "README").write_text("three\n")
    safety = store.secure(target, now=NOW + 1)
    folder = store.layout.private(project_of(project))
    cut = restore_record.Restoration(target=target, safety=safety, paths=None, started_at=NOW)
    restore_record.begin(folder, cut)
    store.secure(other, now=NOW + 2)
    assert restore_record.under_way(folder) is None
    assert (project / "README").read_text() == "two\n"
    assert restore_record.held(folder) == {other}


def test_a_restore_that_is_done_leaves_locked_directories_locked(
    store: ShadowGitStore, project: Path
) -> None:
    (project / "locked/in").mkdir(parents=True)
    (project / "locked/in/file").write_text("one\n")
    (project / "locked/in").chmod(0o555)
    (project / "locked").chmod(0o500)
    before, target = everything(project), take(store, project)
    shutil.rmtree(project / "locked")
    safety = store.secure(target, now=NOW + 1)
    for later in (2, 3):
        assert not store.restore(target, safety, now=NOW + later).kept
        assert everything(project) == before
    assert not store.restore(safety, target, now=NOW + 4, undoing=True).kept
    assert not (project / "locked").exists()


def test_a_directory_that_was_opened_for_a_file_is_closed_again(
    store: ShadowGitStore, project: Path
) -> None:
    """Nobody planned its permissions: the user made it after the safety checkpoint."""
    (project / "new").mkdir()
    (project / "new/file").write_text("one\n")
    target = take(store, project)
    shutil.rmtree(project / "new")
    safety = store.secure(target, now=NOW + 1)
    (project / "new").mkdir(mode=0o500)
    store.restore(target, safety, now=NOW + 2)
    assert (project / "new/file").read_text() == "one\n"
    assert (project / "new").stat().st_mode & 0o777 == 0o500


# --- As an operation ------------------------------------------------------------------------------


def test_undo_brings_back_what_was_there_before(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    first, target = everything(project), take(store, project)
    (project / "README").unlink()
    (project / "new").mkdir()
    (project / "new/file").write_text("new\n")
    before = everything(project)
    done = roll_back(home, store, target)
    assert everything(project) == first
    assert (done.written, done.deleted) == (("README",), ("new/file",))
    operation = home.log.read().operations[-1]
    assert (operation.rolled_back, operation.removed, operation.state.value) == (1, 0, "done")
    undone, report = undo_latest(home, clock=lambda: NOW)
    assert (undone.id, report.brought_back) == (operation.id, 1)
    assert everything(project) == before
    with pytest.raises(CannotUndoError):
        undo_latest(home, clock=lambda: NOW)


def test_undo_of_some_paths_leaves_the_others(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "README").write_text("two\n")
    (project / "src/main.py").write_text("two\n")
    roll_back(home, store, target, "README")
    (project / "src/main.py").write_text("three\n")
    undo_latest(home, clock=lambda: NOW)
    assert (project / "README").read_text() == "two\n"
    assert (project / "src/main.py").read_text() == "three\n"


def test_undo_keeps_what_was_changed_since_and_says_so(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "README").write_text("two\n")
    (project / "src/main.py").write_text("two\n")
    roll_back(home, store, target)
    (project / "README").write_text("my work since\n")
    _, report = undo_latest(home, clock=lambda: NOW)
    assert (project / "README").read_text() == "my work since\n"
    assert (project / "src/main.py").read_text() == "two\n"
    assert report.outcomes[0].result is Result.BROUGHT_BACK
    assert "README" in report.outcomes[0].reason


def test_undo_makes_a_directory_again_that_was_removed_since(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    (project / "a/b/c").mkdir(parents=True)
    for path, mode in (("a", 0o750), ("a/b", 0o2710), ("a/b/c", 0o755)):
        (project / path).chmod(mode)
    (project / "a/b/c/file").write_text("one\n")
    (project / "a/untouched").write_text("one\n")
    target = take(store, project)
    (project / "a/b/c/file").write_text("two\n")
    (project / "a/b/c/more").write_text("two\n")
    (project / "a/b/c").chmod(0o701)
    before = everything(project)
    done = roll_back(home, store, target)
    shutil.rmtree(project / "a")
    shown = store.preview_undo(done.safety_checkpoint or "", target, undoing=True)
    _, report = undo_latest(home, clock=lambda: NOW)
    assert shown.written == ("a/b/c", "a/b/c/file", "a/b/c/more")
    assert (shown.kept, report.outcomes[0].reason) == ((), "")
    # The restore had nothing to do with this one.
    assert before.pop("a/untouched")
    assert everything(project) == before


def test_undo_of_some_paths_gives_a_removed_parent_the_permissions_it_had(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    (project / "a").mkdir(mode=0o700)
    (project / "a/file").write_text("one\n")
    target = take(store, project)
    (project / "a").chmod(0o705)
    (project / "a/file").write_text("two\n")
    before = everything(project)
    roll_back(home, store, target, "a/file")
    shutil.rmtree(project / "a")
    undo_latest(home, clock=lambda: NOW)
    assert everything(project) == before


def test_undo_makes_a_directory_again_whose_permissions_it_brings_back(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    (project / "a/empty").mkdir(parents=True)
    target = take(store, project)
    (project / "a/empty").chmod(0o701)
    before = everything(project)
    roll_back(home, store, target)
    shutil.rmtree(project / "a")
    undo_latest(home, clock=lambda: NOW)
    assert everything(project) == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_undo_foresees_that_something_took_the_place_of_a_directory(
    home: HoldfastHome, store: ShadowGitStore, project: Path, tmp_path: Path, kind: str
) -> None:
    (project / "a/b").mkdir(parents=True)
    (project / "a/b/file").write_text("one\n")
    target = take(store, project)
    (project / "a/b/file").write_text("two\n")
    done = roll_back(home, store, target)
    elsewhere = tmp_path / "elsewhere"
    (project / "a").rename(elsewhere)
    if kind == "link":
        (project / "a").symlink_to(elsewhere)
    else:
        (project / "a").write_text("mine\n")
    before, outside = everything(project), everything(elsewhere)
    shown = store.preview_undo(done.safety_checkpoint or "", target, undoing=True)
    assert (shown.written, shown.deleted) == ((), ())
    assert [each.path for each in shown.kept] == ["a/b/file"]
    _, report = undo_latest(home, clock=lambda: NOW)
    assert "a/b/file" in report.outcomes[0].reason
    assert (everything(project), everything(elsewhere)) == (before, outside)


def test_undo_foresees_that_a_directory_has_permissions_of_somebody_else(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    (project / "a").mkdir(mode=0o701)
    done = roll_back(home, store, target)
    (project / "a").mkdir(mode=0o755)
    shown = store.preview_undo(done.safety_checkpoint or "", target, undoing=True)
    assert (shown.written, [each.path for each in shown.kept]) == ((), ["a"])
    _, report = undo_latest(home, clock=lambda: NOW)
    assert "a (ignored now, or created meanwhile" in report.outcomes[0].reason
    assert (project / "a").stat().st_mode & 0o777 == 0o755


def test_rollbacks_are_undone_one_after_the_other(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    states, ids = [], []
    for text in ("one", "two", "three"):
        (project / "README").write_text(text)
        states.append(everything(project))
        ids.append(take(store, project))
    roll_back(home, store, ids[1])
    roll_back(home, store, ids[0])
    undo_latest(home, clock=lambda: NOW)
    assert everything(project) == states[1]
    undo_latest(home, clock=lambda: NOW)
    assert everything(project) == states[2]


def test_a_rollback_is_no_trash(home: HoldfastHome, store: ShadowGitStore, project: Path) -> None:
    target = take(store, project)
    (project / "README").unlink()
    roll_back(home, store, target)
    view = home.log.read()
    assert view.trash == ()
    assert [entry.removal.item.target for entry in view.rolled_back] == [target]
    assert plan_empty(home, now=NOW, command="trash empty").removals == ()


def test_nothing_to_do_is_nothing_to_undo(
    home: HoldfastHome, store: ShadowGitStore, project: Path
) -> None:
    target = take(store, project)
    done = roll_back(home, store, target)
    assert done == Rollback(written=(), deleted=(), kept=(), safety_checkpoint=target)
    with pytest.raises(CannotUndoError):
        undo_latest(home, clock=lambda: NOW)


@pytest.mark.parametrize("bad", ["--all", "../../etc", "0" * 40, "", "zzzz"])
def test_an_id_that_is_none_is_refused(
    home: HoldfastHome, store: ShadowGitStore, project: Path, bad: str
) -> None:
    take(store, project)
    with pytest.raises(UnknownCheckpointError):
        roll_back(home, store, bad)
    assert home.log.read().operations == ()
