"""A file of another program: changed in one step, changed back exactly, and left alone when
somebody else changed it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.homes.edits import Rewriter
from holdfast.model.item import SETTING
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.model.rewrite import Rewrite, rewrite

ROOT = Path(__file__).parents[2]
_GONE = 2**31 - 1  # no system has as many processes
OLD, NEW = b'{"a": 1, "z": 2}\n', b'{"a": 1, "ours": [], "z": 2}\n'


def removal(change: Rewrite) -> Removal:
    item = PlanItem(
        kind=SETTING,
        id=change.path,
        source="codex",
        bytes=0,
        last_active_at=0.0,
        version=change.before,
        action=Action.REWRITE,
        reason="connected",
        undoable=True,
        target=change.target(),
    )
    return Removal(operation="1", number=0, item=PlanItem.from_json(item.to_json()))


@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD, NEW), (NEW, OLD), (None, NEW), (OLD, None), (b"\xff\x00", b"\xff\x01\x00")],
)
def test_there_and_back_is_exact(old: bytes | None, new: bytes | None, tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    path = folder / "settings.json"
    if old is not None:
        folder.mkdir(parents=True)
        path.write_bytes(old)
        path.chmod(0o640)
    made = (str(tmp_path / "one"), str(folder)) if old is None else ()
    change = rewrite(str(path), old, new, folders=made)
    mine = [removal(change)]
    assert [each.result for each in Rewriter().do(mine)] == [Result.CHANGED]
    assert (path.read_bytes() if path.exists() else None) == new
    assert [each.result for each in Rewriter().settle(mine)] == [Result.CHANGED]
    for _ in range(2):  # an undo that was killed is done again
        assert [each.result for each in Rewriter().undo(mine)] == [Result.BROUGHT_BACK]
        assert (path.read_bytes() if path.exists() else None) == old
    assert (tmp_path / "one").exists() == (old is not None)
    if old is not None and new is not None:
        assert path.stat().st_mode & 0o777 == 0o640
    assert [each.result for each in Rewriter().settle(mine)] == [Result.SKIPPED]


def test_a_file_with_a_second_name_keeps_both(tmp_path: Path) -> None:
    """A dotfiles folder may hold its files by hard links: a new file would part the two."""
    path, dotfile = tmp_path / "settings.json", tmp_path / "dotfiles.json"
    path.write_bytes(OLD)
    dotfile.hardlink_to(path)
    change = removal(rewrite(str(path), OLD, NEW))
    [outcome] = Rewriter().do([change])
    assert (outcome.result, "hard link" in outcome.reason) == (Result.FAILED, True)
    assert path.samefile(dotfile)
    dotfile.unlink()
    assert [each.result for each in Rewriter().do([change])] == [Result.CHANGED]
    dotfile.hardlink_to(path)
    [outcome] = Rewriter().undo([change])
    assert (outcome.result, "hard link" in outcome.reason) == (Result.FAILED, True)
    assert path.samefile(dotfile)
    assert path.read_bytes() == NEW


def test_what_somebody_changed_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    change = removal(rewrite(str(path), OLD, NEW))
    path.write_bytes(b"theirs")
    assert [each.result for each in Rewriter().do([change])] == [Result.SKIPPED]
    assert [each.result for each in Rewriter().undo([change])] == [Result.FAILED]
    assert [each.result for each in Rewriter().settle([change])] == [Result.SKIPPED]
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_the_log_holds_our_bytes_and_nothing_else() -> None:
    change = rewrite("x", b'{"token": "secret", "z": 2}', b'{"token": "secret", "ours": 1, "z": 2}')
    assert "secret" not in change.target()
    assert change.applied(b'{"token": "secret", "z": 2}').endswith(b'"ours": 1, "z": 2}')


def test_a_folder_that_cannot_be_written_costs_itself_only(tmp_path: Path) -> None:
    missing = rewrite(str(tmp_path / "none" / "a"), None, NEW)
    path = tmp_path / "b"
    path.write_bytes(OLD)
    both = [removal(missing), removal(rewrite(str(path), OLD, NEW))]
    assert [each.result for each in Rewriter().do(both)] == [Result.FAILED, Result.CHANGED]


#: Is killed with everything written, and nothing in its place yet.
_KILLED = """
import os, signal, sys
from holdfast.homes.edits import Rewriter
from tests.unit.test_rewriter import NEW, OLD, removal
from holdfast.model.rewrite import rewrite

os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
Rewriter().do([removal(rewrite(sys.argv[1], OLD, NEW))])
"""


def leftovers(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()} - {path.name}


@pytest.mark.parametrize("then", ["do", "settle", "undo"])
def test_what_a_killed_run_left_goes_with_the_next(then: str, tmp_path: Path) -> None:
    """Also through a link, whose file is elsewhere."""
    (tmp_path / "dotfiles").mkdir()
    path, link = tmp_path / "dotfiles" / "settings.json", tmp_path / "settings.json"
    path.write_bytes(OLD)
    path.chmod(0o640)
    link.symlink_to(path)
    done = subprocess.run([sys.executable, "-c", _KILLED, str(link)], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    [left] = leftovers(path)
    assert left.startswith(".settings.json.holdfast-")
    assert (path.parent / left).stat().st_mode & 0o777 == 0o640
    theirs = path.with_name(".settings.json.4194303.tmp")
    theirs.write_bytes(b"a temporary file of the agent")
    getattr(Rewriter(), then)([removal(rewrite(str(link), OLD, NEW))])
    assert leftovers(path) == {theirs.name}
    assert link.is_symlink()


def test_the_content_is_private_until_all_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(OLD)
    path.chmod(0o644)
    modes: list[int] = []

    def writing(fd: int, data: bytes) -> None:
        modes.append(os.fstat(fd).st_mode & 0o777)
        os.write(fd, data)

    monkeypatch.setattr("holdfast.homes.edits.write_all", writing)
    assert [e.result for e in Rewriter().do([removal(rewrite(str(path), OLD, NEW))])] == ["changed"]
    assert (modes, path.stat().st_mode & 0o777) == ([0o600], 0o644)


def test_a_temporary_file_in_use_stays(tmp_path: Path) -> None:
    """One is of a living process, one is locked by a process that this one cannot see."""
    path = tmp_path / "settings.json"
    path.write_bytes(OLD)
    alive = path.with_name(f".settings.json.holdfast-{os.getppid()}-1.tmp")
    locked = path.with_name(f".settings.json.holdfast-{_GONE}-1.tmp")
    mine = path.with_name(f".settings.json.holdfast-{os.getpid()}-1.tmp")  # of a process before us
    for each in (alive, locked, mine):
        each.write_bytes(OLD)
    change = removal(rewrite(str(path), OLD, NEW))
    with locked.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        Rewriter().settle([change])
        assert leftovers(path) == {alive.name, locked.name}
    Rewriter().settle([change])
    assert leftovers(path) == {alive.name}
