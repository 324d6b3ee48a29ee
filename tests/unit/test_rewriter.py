"""A file of another program: changed in one step, changed back exactly, and left alone when
somebody else changed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.homes.edits import Rewriter
from holdfast.model.item import SETTING
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.model.rewrite import Rewrite, rewrite

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
