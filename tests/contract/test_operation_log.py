"""The operation log: durable, readable beside a writer, honest about what it cannot read."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from holdfast.errors import BusyError
from holdfast.model.operation import (
    BY_ITSELF,
    INTERRUPTED,
    OperationAction,
    OperationState,
    Removal,
)
from holdfast.model.plan import Action, PlanItem
from holdfast.model.plan_words import did
from holdfast.model.report import Outcome, Result
from holdfast.stores.operation_log import PATIENCE, FileOperationLog


@pytest.fixture
def log(tmp_path: Path) -> FileOperationLog:
    return FileOperationLog(tmp_path / "operations", tmp_path / "trash", lock_wait=0.0)


def removal(operation: str, number: int, name: str = "a") -> Removal:
    item = PlanItem(
        kind="transcript",
        id=f"sessions/{name}",
        source="cli",
        bytes=10,
        last_active_at=1.0,
        version="f.1.2.3",
        action=Action.REMOVE,
        reason="old",
        undoable=True,
    )
    return Removal(operation=operation, number=number, item=item)


def outcome(of: Removal, result: Result = Result.REMOVED, in_trash: int = 0) -> Outcome:
    return Outcome(kind=of.item.kind, id=of.item.id, result=result, bytes_in_trash=in_trash)


def remove_two(log: FileOperationLog) -> list[Removal]:
    with (
        log.writing("prune") as writer,
        writer.begin(action=OperationAction.REMOVE, command="prune", at=5.0) as journal,
    ):
        batch = [removal(journal.operation, 0), removal(journal.operation, 1, "b\udcff\n")]
        journal.intend(batch)
        journal.record(batch, [outcome(batch[0], in_trash=10), outcome(batch[1], Result.SKIPPED)])
        journal.finish(at=6.0)
    return batch


def undo_first(log: FileOperationLog, batch: list[Removal]) -> None:
    with (
        log.writing("undo") as writer,
        writer.begin(action=OperationAction.UNDO, command="undo 1", at=7.0, undoes="1") as journal,
    ):
        journal.intend(batch[:1])
        journal.record(batch[:1], [outcome(batch[0], Result.BROUGHT_BACK)])
        journal.finish(at=8.0)


def test_reading_an_absent_log_creates_nothing(log: FileOperationLog, tmp_path: Path) -> None:
    assert log.read().operations == ()
    assert list(tmp_path.iterdir()) == []


def test_an_operation_is_read_back(log: FileOperationLog) -> None:
    batch = remove_two(log)
    view = log.read()
    [operation] = view.operations
    assert (operation.id, operation.command, operation.state) == (
        "1",
        "prune",
        OperationState.DONE,
    )
    assert (operation.removed, operation.skipped, operation.in_trash) == (1, 1, 1)
    assert [entry.removal for entry in view.trash] == batch[:1]


def test_what_was_brought_back_leaves_the_trash(log: FileOperationLog) -> None:
    undo_first(log, remove_two(log))
    view = log.read()
    assert view.trash == ()
    assert view.operations[0].state is OperationState.UNDONE
    assert view.operations[0].undone_by == ("2",)
    assert (view.operations[1].undoes, view.operations[1].brought_back) == ("1", 1)


def test_a_torn_last_line_was_never_written(log: FileOperationLog, tmp_path: Path) -> None:
    remove_two(log)
    path = tmp_path / "operations/1.jsonl"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        view = log.read()
        assert view.problems == ()
        assert len(view.operations) <= 1
        if view.operations:
            assert view.operations[0].state is OperationState.UNFINISHED


def test_a_torn_header_does_not_use_up_a_number(log: FileOperationLog, tmp_path: Path) -> None:
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations/1.jsonl").write_text('{"format"')
    remove_two(log)
    assert [operation.id for operation in log.read().operations] == ["1"]


def test_a_damaged_journal_is_named_and_the_others_stay(
    log: FileOperationLog, tmp_path: Path
) -> None:
    remove_two(log)
    remove_two(log)
    path = tmp_path / "operations/1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[2:]))
    view = log.read()
    assert [operation.id for operation in view.operations] == ["2"]
    [problem] = view.problems
    assert "1.jsonl:2" in problem.reason
    remove_two(log)
    assert [operation.id for operation in log.read().operations] == ["2", "3"]


def test_a_finished_journal_that_changed_is_read_again(
    log: FileOperationLog, tmp_path: Path
) -> None:
    batch = remove_two(log)
    assert [entry.removal for entry in log.read().trash] == batch[:1]
    undo_first(FileOperationLog(tmp_path / "operations", tmp_path / "trash"), batch)
    assert log.read().operations[0].undone_by == ("2",), "what somebody else did is seen"
    path = tmp_path / "operations/1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"prune"', b'"prone"'))  # of the same size
    assert log.read().operations[0].command == "prone"


def test_trash_without_a_journal_keeps_its_number(log: FileOperationLog, tmp_path: Path) -> None:
    """A new operation must not move its files over undo copies whose journal was lost."""
    (tmp_path / "trash/7").mkdir(parents=True)
    remove_two(log)
    assert [operation.id for operation in log.read().operations] == ["8"]


def test_one_writer_at_a_time(log: FileOperationLog) -> None:
    with log.writing("sessions prune"):
        with pytest.raises(BusyError, match="holdfast sessions prune"), log.writing("undo"):
            pass
        assert log.read().operations == ()  # readers do not wait
    with log.writing("undo"):
        pass


def test_a_command_waits_longer_for_the_worker_that_nobody_asked_for(
    log: FileOperationLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a restore on a busy machine is refused because of a checkpoint taken before it."""
    with contextlib.ExitStack() as worker:
        worker.enter_context(log.writing(BY_ITSELF))
        # It ends while the command waits, which is past the usual time by then.
        monkeypatch.setattr(time, "sleep", lambda _: worker.close())
        with log.writing("checkpoints restore"):
            pass


def test_a_command_does_not_wait_for_the_worker_for_ever(
    log: FileOperationLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PATIENCE, BY_ITSELF, 0.0)
    with (
        log.writing(BY_ITSELF),
        pytest.raises(BusyError, match="its bounds"),
        log.writing("checkpoints restore"),
    ):
        pass


def test_who_takes_turns_with_the_worker_is_no_reason_to_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that waited long for the worker meets another restore, which came just before."""
    log = FileOperationLog(tmp_path / "operations", tmp_path / "trash", lock_wait=5.0)
    now = 0.0
    with contextlib.ExitStack() as worker, contextlib.ExitStack() as other:
        worker.enter_context(log.writing(BY_ITSELF))

        def pass_time(_: float) -> None:
            nonlocal now
            now += 1.0
            if now == 10.0:
                worker.close()
                other.enter_context(log.writing("checkpoints restore"))
            if now == 12.0:
                other.close()

        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(time, "sleep", pass_time)
        with log.writing("checkpoints restore"):
            assert now == 12.0


def test_a_command_says_that_it_waits_for_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = FileOperationLog(tmp_path / "operations", tmp_path / "trash", lock_wait=5.0)
    now = 0.0
    with contextlib.ExitStack() as worker:
        worker.enter_context(log.writing(BY_ITSELF))

        def pass_time(_: float) -> None:
            nonlocal now
            now += 1.0
            if now == 20.0:
                worker.close()

        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(time, "sleep", pass_time)
        with log.writing("checkpoints restore"):
            pass
    [said] = caplog.messages
    assert BY_ITSELF in said
    assert "up to 60 seconds" in said


def test_an_unfinished_operation_is_offered_for_settling(log: FileOperationLog) -> None:
    with (
        log.writing("prune") as writer,
        writer.begin(action=OperationAction.REMOVE, command="prune", at=5.0) as journal,
    ):
        batch = [removal("1", 0), removal("1", 1, "b")]
        journal.intend(batch)
        journal.record(batch[:1], [outcome(batch[0])])
    with log.writing("next") as writer:
        [unfinished] = writer.unfinished()
        assert list(unfinished.pending) == batch[1:]
        with unfinished.resume() as journal:
            journal.record(batch[1:], [outcome(batch[1], Result.SKIPPED)])
            journal.finish(at=9.0, stopped=INTERRUPTED)
    [operation] = log.read().operations
    assert did(operation) == "1 removed, 1 skipped; interrupted, settled since"
    assert (operation.removed, operation.skipped, operation.state) == (
        1,
        1,
        OperationState.STOPPED,
    )


def finished(log: FileOperationLog, *, at: float, undoes: str | None = None) -> str:
    """One operation without items, which ended at a time."""
    action = OperationAction.REMOVE if undoes is None else OperationAction.UNDO
    with (
        log.writing("x") as writer,
        writer.begin(action=action, command="x", at=at, undoes=undoes) as journal,
    ):
        journal.finish(at=at)
        return journal.operation


def test_old_operations_are_forgotten_with_what_explains_them(log: FileOperationLog) -> None:
    for at, undoes in ((1, None), (2, None), (3, "2"), (50, "1"), (4, None), (99, None)):
        finished(log, at=float(at), undoes=undoes)
    with log.writing("x") as writer:
        assert writer.forget(before=10.0) == 0  # the young fourth undoes the first
    with log.writing("x") as writer:
        assert writer.forget(before=60.0) == 5
    assert [operation.id for operation in log.read().operations] == ["6"]
    assert not log.read().problems
    assert finished(log, at=100.0) == "7"
    with log.writing("x") as writer:
        assert writer.forget(before=1000.0) == 1  # never the last: it keeps the count


def test_what_can_be_undone_is_not_forgotten(log: FileOperationLog) -> None:
    finished(log, at=1.0)
    remove_two(log)
    finished(log, at=3.0)
    finished(log, at=4.0)
    with log.writing("x") as writer:
        assert writer.forget(before=100.0) == 1
    assert [entry.removal.operation for entry in log.read().trash] == ["2"]
