"""git compares the times of files before the take has its locks: what that may be used for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.homes.checkpoints import open_store as homes
from holdfast.model.checkpoint import TakeOutcome
from holdfast.stores.checkpoints import look_state, restore_record
from holdfast.stores.checkpoints.early_look import EarlyLook, begin_look
from holdfast.stores.checkpoints.private_index import PrivateIndex
from holdfast.stores.checkpoints.restore_record import Restoration
from holdfast.stores.checkpoints.writer import CheckpointWriter
from holdfast.stores.git.program import Git
from holdfast.stores.git.quick_process import QuickProcess
from holdfast.value import replace
from tests.contract.checkpoint_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    for name in "abc":
        bench.write(name)
    bench.taken()
    return bench


def begun(bench: Bench) -> EarlyLook:
    early = begin_look(bench.folder, bench.project)
    assert early is not None
    return early


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[QuickProcess]:
    """The looks that were started under the lock."""
    found: list[QuickProcess] = []
    start = PrivateIndex.start_look

    def noted(index: PrivateIndex) -> QuickProcess:
        found.append(start(index))
        return found[-1]

    monkeypatch.setattr(PrivateIndex, "start_look", noted)
    return found


def _as_it_is(_: Bench) -> None:
    """Nothing happens in between."""


def _take_another(bench: Bench) -> None:
    bench.write("b", "by the one before\n")
    bench.taken()


def _replace_index(bench: Bench) -> None:
    index = bench.private / "index"
    index.with_name("new").write_bytes(index.read_bytes())
    index.with_name("new").rename(index)


def _rest(bench: Bench) -> None:
    (bench.private / "index").unlink()


@pytest.mark.parametrize(
    ("between", "again"),
    [(_as_it_is, 0), (_take_another, 0), (_replace_index, 1), (_rest, 1)],
)
def test_it_counts_if_the_index_is_still_the_same(
    bench: Bench,
    started: list[QuickProcess],
    between: Callable[[Bench], None],
    again: int,
) -> None:
    bench.write("a", "changed before\n")
    early = begun(bench)
    between(bench)
    before = len(started)
    writer = CheckpointWriter(bench.folder, bench.store.how, early=early)
    writer.take(bench.project, reason="quick", now=2_000.0)
    assert len(started) - before == again
    assert bench.content("a") == b"changed before\n"
    if between is _take_another:
        assert bench.content("b") == b"by the one before\n"
    assert bench.take().outcome is TakeOutcome.UNCHANGED


def test_one_that_failed_is_made_again(bench: Bench, started: list[QuickProcess]) -> None:
    """As when maintenance was at work: the index itself is not at fault, and is not rebuilt."""
    index = (bench.private / "index").stat().st_ino
    bench.write("a", "changed\n")
    head = bench.private / "HEAD"
    text = head.read_bytes()
    head.unlink()
    early = begun(bench)
    assert early._process is not None
    early._process._wait()  # it has ended, with an error
    head.write_bytes(text)
    writer = CheckpointWriter(bench.folder, bench.store.how, early=early)
    writer.take(bench.project, reason="quick", now=2_000.0)
    assert len(started) == 1
    assert bench.content("a") == b"changed\n"
    assert (bench.private / "index").stat().st_ino == index


def test_nobody_is_left_behind(bench: Bench, tmp_path: Path) -> None:
    """Neither by a take that is refused, nor by one that looks at known paths."""
    for workdir, paths in ((tmp_path / "gone", None), (bench.project, ["a"])):
        early = begun(bench)
        process = early._process
        assert process is not None
        writer = CheckpointWriter(bench.folder, bench.store.how, early=early)
        writer.take(workdir, reason="quick", now=2_000.0, paths=paths)
        with pytest.raises(ChildProcessError):
            os.waitpid(process._id, 0)


def test_without_an_index_there_is_none(bench: Bench, tmp_path: Path) -> None:
    assert begin_look(tmp_path / "elsewhere", bench.project) is None
    assert begin_look(bench.folder, tmp_path) is None


def test_a_whole_take_begins_early_and_one_of_paths_does_not(
    bench: Bench, started: list[QuickProcess]
) -> None:
    root = bench.folder.parent
    for looking_at, count in ((bench.project, 0), (None, 1)):
        bench.write("a", f"{count}\n")
        writer = homes.checkpoint_writer(root, bench.store.how, looking_at=looking_at)
        writer.take(bench.project, reason="quick", now=2_000.0)
        assert len(started) == count


def test_damage_is_still_told(bench: Bench) -> None:
    """A failure under the lock is one of the index: it is built again."""
    (bench.private / "index").write_bytes(b"DIRC torn")
    early = begun(bench)
    writer = CheckpointWriter(bench.folder, bench.store.how, early=early)
    bench.write("a", "changed\n")
    writer.take(bench.project, reason="quick", now=2_000.0)
    assert bench.content("a") == b"changed\n"
    assert bench.take().outcome is TakeOutcome.UNCHANGED


def test_it_does_not_count_after_a_restore_that_the_take_finishes(bench: Bench) -> None:
    """git may have compared before the restore went on: it would miss what that wrote."""
    target = bench.store.list(bench.project)[0].id
    bench.write("a", "later\n")
    safety = bench.store.secure(target, now=1_500.0)
    cut = Restoration(target=target, safety=safety, paths=None, started_at=1_500.0)
    restore_record.begin(bench.private, cut)
    # As if all of this were long ago: the index has the file, and nothing is read for its age.
    state = look_state.read_state(bench.private)
    PrivateIndex(
        git=Git(store=bench.store.layout.store, folder=bench.private, work_tree=bench.project),
        folder=bench.private,
    ).rebuild(state.tree)
    look_state.write_state(bench.private, replace(state, ahead=frozenset(), young={}))
    early = begun(bench)
    assert early._process is not None
    early._process._wait()  # it has compared what the restore is about to replace
    writer = CheckpointWriter(bench.folder, bench.store.how, early=early)
    writer.take(bench.project, reason="quick", now=2_000.0)
    assert (bench.project / "a").read_bytes() == b"text\n"
    assert bench.content("a") == b"text\n"


def test_a_restore_begins_with_the_look_for_its_safety_checkpoint(
    bench: Bench, started: list[QuickProcess]
) -> None:
    target = bench.store.list(bench.project)[0].id
    bench.write("a", "later\n")
    bench.store.secure(target, now=1_500.0)
    assert not started
    assert bench.content("a") == b"later\n"


def test_so_it_does_after_another_restore_that_it_finishes(
    bench: Bench, started: list[QuickProcess]
) -> None:
    target = bench.store.list(bench.project)[0].id
    bench.write("a", "later\n")
    safety = bench.store.secure(target, now=1_500.0)
    cut = Restoration(target=target, safety=safety, paths=None, started_at=1_500.0)
    restore_record.begin(bench.private, cut)
    bench.store.secure(safety, now=1_600.0)
    assert not started
    assert bench.content("a") == b"text\n"
