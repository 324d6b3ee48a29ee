"""What a keeper promises, shown on loose session files: re-check, exact undo, nothing replaced."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.homes.registry import open_home
from holdfast.homes.sessions import file_mover as session_file_mover
from holdfast.homes.sessions.file_mover import SessionFileMover
from holdfast.homes.sessions.folder import Life
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.rules import DAY
from holdfast.ports.home import Home
from holdfast.spine.apply import apply
from holdfast.spine.keeper import Keeper
from holdfast.stores import open_files
from holdfast.stores.trash_paths import TrashFolder

pytestmark = pytest.mark.usefixtures("bad_day")

leases = pytest.mark.skipif(sys.platform != "linux", reason="leases and /proc are Linux's")
_FDS = Path("/proc/self/fd")

NOW = 1_800_000_000.0
OLD = NOW - 100 * DAY
NAME = "session_20260325_112518_6995d1.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    write(tmp_path, NAME, "hello")
    return tmp_path


@pytest.fixture(params=[0, 64], ids=["listed", "looked at"])
def keeper(root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    """Of many files the names in the trash are read once, of few each is looked at."""
    monkeypatch.setattr(session_file_mover, "_FEW", request.param)
    return Keeper(SessionFileMover(root, TrashFolder(root / "trash"), lambda: NOW, Life(idle=DAY)))


def write(root: Path, name: str, text: str, mtime: float = OLD) -> Path:
    path = root / "sessions" / name
    path.write_text(text)
    os.utime(path, (mtime, mtime))
    return path


def home_at(root: Path) -> Home:
    return open_home(root, clock=lambda: NOW, idle=DAY)


def removal(root: Path, name: str = NAME, *, undoable: bool = True) -> Removal:
    """As a plan would have it: judged on what a scan sees now."""
    item = next(i for i in home_at(root).scan(NOW).items if i.id == f"sessions/{name}")
    return Removal(
        operation="1",
        number=0,
        item=PlanItem(
            kind=item.kind,
            id=item.id,
            source=item.source,
            bytes=item.bytes,
            last_active_at=item.last_active_at,
            version=item.version,
            action=Action.REMOVE,
            reason="test",
            undoable=undoable,
        ),
    )


def only(outcomes: object) -> Outcome:
    assert isinstance(outcomes, list)
    [outcome] = outcomes
    assert isinstance(outcome, Outcome)
    return outcome


def test_many_files_are_announced_and_recorded_together(root: Path) -> None:
    for number in range(1_500):
        write(root, f"session_20260325_112518_{number:06x}.json", "x")
    home = home_at(root)
    plan = plan_all(home.scan(NOW).items, str(root), NOW, command="x", reason="y", undoable=True)
    assert apply(plan, home, clock=lambda: NOW).removed == 1_501
    lines = [json.loads(line) for line in (root / "operations/1.jsonl").read_bytes().splitlines()]
    sizes = [len(each.get("intent") or each.get("outcome") or ()) for each in lines]
    assert sizes == [0, 1_501, 1_501, 0]


def test_remove_moves_to_the_trash_and_back(root: Path, keeper: Keeper) -> None:
    original = root / "sessions" / NAME
    original.chmod(0o640)
    before = original.stat()
    taken = removal(root)
    outcome = only(keeper.do([taken]))
    assert outcome.result is Result.REMOVED
    assert outcome.bytes_freed == 0
    assert outcome.bytes_in_trash == before.st_blocks * 512
    assert not original.exists()
    assert (root / "trash/1" / f"0-{NAME}").read_text() == "hello"
    assert only(keeper.undo([taken])).result is Result.BROUGHT_BACK
    after = original.stat()
    assert original.read_text() == "hello"
    assert (after.st_mode, after.st_mtime_ns, after.st_ino) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert not (root / "trash/1").exists()


def test_final_removal_frees_what_the_file_system_says(root: Path, keeper: Keeper) -> None:
    blocks = (root / "sessions" / NAME).stat().st_blocks
    outcome = only(keeper.do([removal(root, undoable=False)]))
    assert (outcome.result, outcome.bytes_freed) == (Result.REMOVED, blocks * 512)
    assert not list(root.glob("**/*.json"))


def test_a_hard_linked_file_frees_nothing(root: Path, keeper: Keeper) -> None:
    os.link(root / "sessions" / NAME, root / "elsewhere.json")
    outcome = only(keeper.do([removal(root, undoable=False)]))
    assert (outcome.result, outcome.bytes_freed) == (Result.REMOVED, 0)
    assert (root / "elsewhere.json").read_text() == "hello"


def rewrite(root: Path) -> None:
    write(root, NAME, "more")


def same_size_rewrite(root: Path) -> None:
    write(root, NAME, "HELLO", OLD + 1)


def replace_by_new_file(root: Path) -> None:
    other = write(root, "other", "hello")
    other.rename(root / "sessions" / NAME)


def replace_by_directory(root: Path) -> None:
    (root / "sessions" / NAME).unlink()
    (root / "sessions" / NAME).mkdir()


def replace_by_link(root: Path) -> None:
    (root / "sessions" / NAME).unlink()
    (root / "sessions" / NAME).symlink_to("/etc/hostname")


def touch(root: Path) -> None:
    os.utime(root / "sessions" / NAME, (NOW - 60, NOW - 60))


def delete(root: Path) -> None:
    (root / "sessions" / NAME).unlink()


@pytest.mark.parametrize(
    "change",
    [
        rewrite,
        same_size_rewrite,
        replace_by_new_file,
        replace_by_directory,
        replace_by_link,
        touch,
        delete,
    ],
)
def test_what_changed_since_the_plan_is_skipped(
    root: Path, keeper: Keeper, change: Callable[[Path], None]
) -> None:
    taken = removal(root)
    change(root)
    there = sorted(path.name for path in (root / "sessions").iterdir())
    outcome = only(keeper.do([taken]))
    assert outcome.result is Result.SKIPPED
    assert outcome.reason
    assert sorted(path.name for path in (root / "sessions").iterdir()) == there


@pytest.mark.parametrize("mode", ["rb", "ab"])
def test_a_file_that_another_process_has_open_is_skipped(
    root: Path, keeper: Keeper, mode: str
) -> None:
    taken = removal(root)
    path = root / "sessions" / NAME
    code = f"import sys; f = open({str(path)!r}, {mode!r}); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        outcome = only(keeper.do([taken]))
        assert (outcome.result, outcome.reason) == (Result.SKIPPED, "open in another process")
        assert path.read_text() == "hello"
        holder.communicate()
    assert only(keeper.do([taken])).result is Result.REMOVED


@leases
def test_a_writer_that_appends_between_check_and_rename_is_noticed(
    root: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment before the rename is the worst one to open a file. The writer has to wait
    for a moment; then the file is back in its place, and takes what is written."""
    taken = removal(root)
    path, rename = root / "sessions" / NAME, os.rename
    code = f"open({str(path)!r}, 'a').write(' and one more message')"
    writers = []

    def late(src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        writers.append(subprocess.Popen([sys.executable, "-c", code]))
        _await_opening(path)
        rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", late)
    outcome = only(keeper.do([taken]))
    assert (outcome.result, outcome.reason) == (Result.SKIPPED, "open in another process")
    [writer] = writers
    assert writer.wait() == 0
    assert path.read_text() == "hello and one more message"
    assert not (root / "trash/1").exists()


def _await_opening(path: Path) -> None:
    """Until somebody waits for a file that is under our lease."""
    [held] = [int(each.name) for each in _FDS.iterdir() if each.resolve() == path.resolve()]
    while fcntl.fcntl(held, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
        pass


def test_a_file_that_was_replaced_and_is_open_no_more_is_noticed_all_the_same(
    root: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held is one file, and moved another that took its name meanwhile."""
    taken = removal(root)
    path, rename = root / "sessions" / NAME, os.rename

    def late(src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        write(root, "new", "hallo")
        rename(root / "sessions/new", path)
        rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", late)
    outcome = only(keeper.do([taken]))
    assert (outcome.result, outcome.reason) == (Result.SKIPPED, "changed since the plan was made")
    assert path.read_text() == "hallo"


def test_without_leases_the_list_of_open_files_is_asked_before_and_after(
    root: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [None, "open in process 7"]
    monkeypatch.setattr(open_files, "_take_lease", lambda _: False)
    monkeypatch.setattr(open_files, "_listed", lambda _: answers.pop(0))
    outcome = only(keeper.do([removal(root)]))
    assert (outcome.result, outcome.reason, answers) == (Result.SKIPPED, "open in process 7", [])
    assert (root / "sessions" / NAME).read_text() == "hello"


@leases
def test_no_descriptor_is_left_open(root: Path, keeper: Keeper) -> None:
    before = len([*_FDS.iterdir()])
    assert only(keeper.do([removal(root)])).result is Result.REMOVED
    assert len([*_FDS.iterdir()]) == before


def test_a_link_goes_and_its_target_never(root: Path, keeper: Keeper) -> None:
    outside = root / "precious.json"
    outside.write_text("precious")
    name = "session_20260325_112518_aaaaaa.json"
    link = root / "sessions" / name
    link.symlink_to(outside)
    os.utime(link, (OLD, OLD), follow_symlinks=False)
    taken = removal(root, name)
    assert only(keeper.do([taken])).result is Result.REMOVED
    assert not link.is_symlink()
    assert outside.read_text() == "precious"
    assert only(keeper.undo([taken])).result is Result.BROUGHT_BACK
    assert link.readlink() == outside


def test_undo_never_replaces_what_took_the_place(root: Path, keeper: Keeper) -> None:
    taken = removal(root)
    keeper.do([taken])
    write(root, NAME, "newer")
    outcome = only(keeper.undo([taken]))
    assert outcome.result is Result.FAILED
    assert (root / "sessions" / NAME).read_text() == "newer"
    (root / "sessions" / NAME).unlink()
    assert only(keeper.undo([taken])).result is Result.BROUGHT_BACK
    assert (root / "sessions" / NAME).read_text() == "hello"


def test_a_changed_trash_copy_is_damage_and_stays(root: Path, keeper: Keeper) -> None:
    taken = removal(root)
    keeper.do([taken])
    copy = root / "trash/1" / f"0-{NAME}"
    copy.write_text("hel")
    outcome = only(keeper.undo([taken]))
    assert outcome.result is Result.DAMAGED
    assert str(copy) in outcome.reason
    assert copy.read_text() == "hel"
    copy.unlink()
    assert only(keeper.undo([taken])).result is Result.DAMAGED


@pytest.mark.parametrize(
    "item_id",
    ["sessions/sessions.json", "../outside.json", "sessions/../config.toml", "/etc/passwd", ""],
)
def test_an_id_that_is_no_session_file_is_refused(root: Path, keeper: Keeper, item_id: str) -> None:
    from dataclasses import replace

    good = removal(root)
    bad = replace(good, item=replace(good.item, id=item_id))
    for step in (keeper.do, keeper.settle, keeper.discard, keeper.undo):
        assert only(step([bad])).result is Result.FAILED
    assert (root / "sessions" / NAME).exists()


def test_sessions_replaced_by_a_link_is_not_followed(root: Path, keeper: Keeper) -> None:
    taken = removal(root)
    (root / "sessions").rename(root / "moved")
    (root / "sessions").symlink_to(root / "moved")
    assert only(keeper.do([taken])).result is Result.FAILED
    assert (root / "moved" / NAME).read_text() == "hello"


def test_one_failure_does_not_cost_the_others(root: Path, keeper: Keeper) -> None:
    from dataclasses import replace

    good = removal(root)
    bad = replace(good, number=1, item=replace(good.item, id="sessions/nonsense"))
    assert [o.result for o in keeper.do([bad, good])] == [Result.FAILED, Result.REMOVED]


def test_a_copy_of_a_killed_run_is_never_replaced(root: Path, keeper: Keeper) -> None:
    wanted = removal(root)
    assert keeper.do([wanted])[0].result is Result.REMOVED
    write(root, NAME, "a new one")
    again = removal(root)
    assert again.copy_name == wanted.copy_name
    keeper.do([again])
    assert (root / "trash" / "1" / wanted.copy_name).read_text() == "hello"
    assert (root / "sessions" / NAME).read_text() == "a new one"
