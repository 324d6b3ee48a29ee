"""The calls that change a home from Python: dry, done, in the log, and undone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import HoldfastError, Message, SessionFilter
from holdfast.errors import CannotUndoError, NotAHomeError, UnknownSessionError, UsageError
from holdfast.homes.registry import open_home
from tests.compat import hermes_sessions as hermes
from tests.contract.maintained import DAY, ids
from tests.stored import a_line, bring_in, see

Call = Callable[..., holdfast.Run]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three old sessions with a file each, and one with nothing in it."""
    root, past = tmp_path / "home", time.time() - 200 * DAY
    (root / "sessions").mkdir(parents=True)
    lines = [a_line(f"old-{number:04}", at=past) for number in range(3)]
    empty = a_line("empty", at=past, messages=0, source="cron")
    bring_in(root, [*lines, empty], now=time.time())
    for number in range(3):
        path = root / "sessions" / f"old-{number:04}.jsonl"
        path.write_text('{"role": "user"}\n')
        os.utime(path, (past, past))
    return root


CALLS: dict[str, tuple[Call, dict[str, Any], set[str]]] = {
    "delete": (holdfast.delete_sessions, {"ids": ["old-0001", "old-0002"]}, {"empty", "old-0000"}),
    "delete one": (
        holdfast.delete_sessions,
        {"ids": "old-0001"},
        {"empty", "old-0000", "old-0002"},
    ),
    "gc": (holdfast.garbage_collect, {}, {"old-0000", "old-0001", "old-0002"}),
    "gc of a source": (
        holdfast.garbage_collect,
        {"source": "cli", "trivial_max": 9},
        {"empty"},
    ),
    "prune": (holdfast.prune_sessions, {}, set()),
    "prune a source": (
        holdfast.prune_sessions,
        {"older_than_days": 10, "source": ["cron"]},
        {"old-0000", "old-0001", "old-0002"},
    ),
    "prune files": (
        holdfast.prune_sessions,
        {"files": "only"},
        {"empty", "old-0000", "old-0001", "old-0002"},
    ),
    "archive": (holdfast.archive_sessions, {"ids": "old-0001"}, {"empty", "old-0000", "old-0002"}),
    "archive a filter": (
        holdfast.archive_sessions,
        {"ids": SessionFilter(sources=("cli",))},
        {"empty"},
    ),
}


@pytest.mark.parametrize(("call", "given", "left"), CALLS.values(), ids=CALLS)
def test_a_call_shows_does_logs_and_is_undone(
    root: Path, call: Call, given: dict[str, Any], left: set[str]
) -> None:
    before = see(root)
    dry = call(root, dry_run=True, **given)
    assert not dry.applied
    assert dry.operation is None
    assert dry.plan.removals
    assert see(root) == before
    assert not open_home(root, clock=time.time).log.read().operations

    run = call(root, **given)
    assert run.report is not None
    assert not run.report.failed
    assert [each.id for each in run.plan.removals] == [each.id for each in dry.plan.removals]
    assert run.report.removed == len(run.plan.removals)
    assert ids(root) == left
    (logged,) = open_home(root, clock=time.time).log.read().operations
    assert (logged.id, logged.command) == (run.operation, call.__name__)

    assert holdfast.undo(root, run.operation).failed == 0
    after = see(root)
    assert after.sessions == before.sessions
    assert after.files == before.files


def test_archived_sessions_come_back(root: Path) -> None:
    before = see(root)
    holdfast.archive_sessions(root, ["old-0000", "old-0001"])
    report = holdfast.restore_sessions(root, "old-0000")
    assert report.brought_back == 1
    assert ids(root) == {"empty", "old-0000", "old-0002"}
    holdfast.restore_sessions(root, ["old-0001"])
    assert see(root).sessions == before.sessions


def test_what_lives_stays_and_the_plan_says_why(root: Path) -> None:
    with holdfast.open_sessions(root) as store:
        store.create(source="cli", id="living")
        run = holdfast.delete_sessions(root, "living")
        assert run.operation is None
        (kept,) = (item for item in run.plan.kept if item.id == "living")
        assert "in use" in kept.reason
    assert "living" in ids(root)


def test_checkpoints_are_bounded_and_come_back(root: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    recorder = holdfast.open_checkpoints(root, enabled=True, user_home=tmp_path / "nobody")
    for turn in range(4):
        (project / "file.txt").write_text(str(turn))
        recorder.store.take(project, reason="test", now=time.time() - 100 + turn)
    before = recorder.store.list(project)
    assert len(holdfast.prune_checkpoints(root, max_snapshots=1, dry_run=True).plan.removals) == 3
    assert recorder.store.list(project) == before
    run = holdfast.prune_checkpoints(root, max_snapshots=1)
    assert [each.id for each in recorder.store.list(project)] == [before[0].id]
    assert holdfast.undo(root, run.operation).failed == 0
    assert recorder.store.list(project) == before


def test_a_hermes_home_obeys_too(tmp_path: Path) -> None:
    root, now = hermes.recorded(tmp_path), hermes.NOW
    before = hermes.session_ids(root)
    run = holdfast.delete_sessions(root, "20260101_101010_aaaaaa", clock=lambda: now)
    assert before - hermes.session_ids(root) == {"20260101_101010_aaaaaa"}
    holdfast.undo(root, run.operation, clock=lambda: now)
    assert hermes.session_ids(root) == before
    run = holdfast.prune_sessions(root, files="only", older_than_days=90, clock=lambda: now)
    assert run.report is not None
    assert run.report.removed
    assert hermes.session_ids(root) == before


# --- Undo -----------------------------------------------------------------------------------------


def test_a_run_that_did_nothing_undoes_nothing(root: Path) -> None:
    """Somebody else removed something just before: that is not ours to bring back."""
    theirs = holdfast.delete_sessions(root, "old-0001")
    mine = holdfast.prune_sessions(root, older_than_days=9_999)
    assert mine.operation is None
    report = holdfast.undo(root, mine.operation)
    assert (report.operation, report.outcomes) == (None, ())
    assert "old-0001" not in ids(root)
    operation, report = holdfast.undo_latest(root)
    assert operation.id == theirs.operation
    assert "old-0001" in ids(root)


def test_undo_names_what_it_cannot_undo(root: Path) -> None:
    with pytest.raises(UsageError, match="no operation"):
        holdfast.undo(root, "7")
    with pytest.raises(CannotUndoError, match="nothing to undo"):
        holdfast.undo_latest(root)


# --- Homes ----------------------------------------------------------------------------------------


def test_a_home_may_be_named_from_the_users_home(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    assert holdfast.delete_sessions(f"~/{root.name}", "old-0001").applied
    assert holdfast.delete_sessions(Path("~") / root.name, "old-0002").applied
    assert holdfast.delete_sessions(open_home(root, clock=time.time), "old-0000").applied
    assert ids(root) == {"empty"}


def test_nothing_is_made_where_there_is_no_home(tmp_path: Path) -> None:
    for call in (holdfast.garbage_collect, holdfast.prune_sessions, holdfast.prune_checkpoints):
        with pytest.raises(NotAHomeError):
            call(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_session_is_named(root: Path) -> None:
    with pytest.raises(UnknownSessionError, match="old-9"):
        holdfast.delete_sessions(root, ["old-9999"])
    assert len(ids(root)) == 4


def test_nothing_stays_open_behind_a_call(root: Path) -> None:
    holdfast.delete_sessions(root, "old-0001")
    held = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in held if path.is_relative_to(root)]


def test_a_message_after_a_call_is_stored(root: Path) -> None:
    """A host has its store open all the while."""
    with holdfast.open_sessions(root) as store:
        session = store.create(source="cli")
        holdfast.prune_sessions(root)
        store.append(session.id, Message(role="user", content="still here"))
        assert len(list(store.messages(session.id))) == 1


def test_errors_are_ours(root: Path) -> None:
    (root / "config.toml").write_text("[sessions]\nretention = 1\n")
    with pytest.raises(HoldfastError, match="unknown key"):
        holdfast.prune_sessions(root)
