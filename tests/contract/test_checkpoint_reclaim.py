"""Giving space back while the disk is full, and while others read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event, Thread

import pytest

from holdfast.errors import BusyError
from holdfast.homes.checkpoints.keep_within_bounds import Bounder, Pace
from holdfast.homes.checkpoints.open_store import Bounds
from holdfast.stores import lock
from holdfast.stores.checkpoints import join_packs, repository, size_cap
from holdfast.stores.checkpoints.checkpoint_commit import all_refs
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import alone, project_of, used
from holdfast.stores.git.pack_writer import join
from tests.checkpointing import Bench, contents, fsck
from tests.small_disk import with_a_disk

PATIENCE = 30.0
FULL = """
import json, sys
from dataclasses import replace
from pathlib import Path
from holdfast.errors import HoldfastError
from holdfast.policy.rules import CheckpointPolicy
from holdfast.stores.checkpoints.reclaim import reclaim
from tests.checkpointing import Bench, contents, fsck

disk = Path(sys.argv[1])
bench = Bench(disk / "bench")
workdir = bench.project("p", files=5)
ids = [bench.take(workdir, size=60_000) for _ in range(40)]
held = {each.id: contents(bench.store, each) for each in bench.store.list()}

def whole():
    left = bench.store.list()
    return fsck(bench.folder / "store") == "" and bench.home.checkpoint_upkeep.verify().ok and all(
        contents(bench.store, each) == held[each.id] for each in left
    )

ballast = (disk / "ballast").open("wb")
try:
    while True:
        ballast.write(b"x" * 100_000)
        ballast.flush()
except OSError:
    pass
said = []
for number in (1, 2):
    try:
        said.append(reclaim(bench.store.layout, holder="test", thorough=True).note)
    except HoldfastError as error:
        said.append(error.message)
full = whole()
ballast.truncate(0)
policy = CheckpointPolicy(max_count=5, use_trash=False, trash_age=0.0)
report = bench.prune(policy)
reclaim(bench.store.layout, holder="test", thorough=True)
print(json.dumps([said, full, whole(), len(bench.ids()), report.bytes_freed]))
"""


def test_a_full_disk_costs_a_reclaim_and_nothing_else(tmp_path: Path) -> None:
    said, full, whole, left, freed = json.loads(with_a_disk(tmp_path, FULL, megabytes=40))
    assert all("too little room" in each for each in said), said
    assert full
    assert whole
    assert left == 5
    assert freed > 1_500_000


def in_a_thread(attempt: Callable[[], AbstractContextManager[None]]) -> str:
    """What another thread gets: locks are those of a thread."""

    def tried() -> str:
        try:
            with attempt():
                return "has it"
        except BusyError as error:
            return error.message

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(tried).result()


def test_nobody_removes_anything_while_somebody_reads(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(bench.project())
    layout = bench.store.layout
    for holding in (bench.store.reading, lambda: used(layout)):
        with holding():
            assert "using" in in_a_thread(lambda: alone(layout, holder="prune", wait=0.0))
            assert in_a_thread(lambda: used(layout)) == "has it"
    assert in_a_thread(lambda: alone(layout, holder="prune", wait=0.0)) == "has it"


def test_who_wants_the_store_alone_gets_it_before_those_who_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.take(bench.project())
    layout = bench.store.layout
    with ThreadPoolExecutor(1) as pool:
        with used(layout):
            first = pool.submit(in_a_thread, lambda: alone(layout, holder="prune"))
            monkeypatch.setattr("holdfast.stores.checkpoints.repository._WAIT", 0.0)
            until = time.monotonic() + PATIENCE
            while in_a_thread(lambda: used(layout)) == "has it":
                assert time.monotonic() < until, "those who share it keep coming in"
            with used(layout):
                assert not first.done(), "whoever has it already has it, and is waited for"
        assert first.result() == "has it"
    assert in_a_thread(lambda: used(layout)) == "has it"


def test_readers_never_miss_what_is_there_while_space_is_given_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    workdir = bench.project()
    wanted = set(bench.takes(workdir, 8))
    ended, found = Event(), list[set[str]]()

    def read() -> None:
        while not ended.is_set():
            with bench.store.reading():
                listed = bench.store.list(workdir)
                held = [contents(bench.store, each) for each in listed]
                bench.store.changes(listed[0].tree, bench.store.look(workdir).tree)
            found.append({each.id for each in listed} if all(held) else set())

    reader = Thread(target=read)
    reader.start()
    try:
        for _ in range(5):
            (workdir / "new").write_bytes(b"seen by a look, and held by nothing")
            reclaim(bench.store.layout, holder="test", thorough=True)
            (workdir / "new").unlink()
            bench.store.look(workdir)
    finally:
        ended.set()
        reader.join()
    assert found
    assert all(each == wanted for each in found)
    assert fsck(bench.folder / "store") == ""


# --- Between two of them --------------------------------------------------------------------------


def test_the_number_of_packs_stays_bounded_between_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    workdir = bench.project()
    monkeypatch.setattr(join_packs, "MOST_PACKS", 6)
    counts = []
    for _ in range(25):
        bench.take(workdir, size=100)
        counts.append(len(list(bench.objects.glob("pack/*.pack"))))
    assert max(counts) <= 6
    assert not list(bench.objects.glob("??/*"))
    assert len(bench.ids()) == 25
    assert not fsck(bench.folder / "store")


class Asked(Bounds):
    """A worker that is asked and does not get to it."""

    def later(self) -> None:
        pass


def test_packs_are_left_to_the_worker_unless_it_does_not_get_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, max_snapshots=3)
    bench.store.bounding = Asked(tmp_path / "home", bench.folder, 3, None)
    workdir = bench.project()
    monkeypatch.setattr(join_packs, "MOST_PACKS", 6)
    counts = []
    for _ in range(25):
        bench.take(workdir, size=100)
        counts.append(len(list(bench.objects.glob("pack/*.pack"))))
    assert 6 < max(counts) <= 12
    assert not fsck(bench.folder / "store")


def test_the_worker_that_waits_joins_packs_while_a_checkpoint_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, max_snapshots=5)
    workdir = bench.project()
    bench.takes(workdir, 12, size=100)
    monkeypatch.setattr(join_packs, "MOST_PACKS", 6)
    size_cap.note_bounded(bench.store.layout, limit=0, at=bench.now, took=0.0)

    def joined(*given: object) -> Callable[[], None]:
        remove = join(*given)  # type: ignore[arg-type]
        bench.takes(workdir, 1, size=100)
        return remove

    monkeypatch.setattr(join_packs, "join", joined)
    times = iter([bench.now, bench.now + 1_000])
    mine = Bounder(tmp_path / "home", bench.folder, 5, None)
    mine._wait(lambda: next(times), Pace(tick=0.0))
    assert len(list(bench.objects.glob("pack/*.pack"))) == 2
    assert len(bench.ids()) == 5
    assert not fsck(bench.folder / "store")


def test_no_pack_goes_if_the_one_they_were_joined_to_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.takes(bench.project(), 3, size=100)
    before = set(bench.objects.glob("pack/*.pack"))
    remove = join(bench.store.layout.packs)
    (made,) = set(bench.objects.glob("pack/*.pack")) - before
    made.unlink()
    remove()
    assert set(bench.objects.glob("pack/*.pack")) == before


def test_a_pack_that_is_damaged_or_has_differences_is_left_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    workdir = bench.project()
    bench.takes(workdir, 3)
    reclaim(bench.store.layout, holder="test", thorough=True)  # git's, with differences
    (made,) = bench.objects.glob("pack/*.pack")
    bench.takes(workdir, 3, size=200)
    damaged = next(path for path in bench.objects.glob("pack/*.pack") if path != made)
    content = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(content[:40] + b"?" + content[41:])
    join(bench.store.layout.packs)()
    left = set(bench.objects.glob("pack/*.pack"))
    assert len(left) == 3
    assert {made, damaged} < left
    damaged.write_bytes(content)
    join(bench.store.layout.packs)()
    assert not fsck(bench.folder / "store")
    assert len(bench.ids()) == 6


@pytest.mark.parametrize("half", [".pack", ".idx"])
def test_half_a_pack_of_a_killed_process_is_cleared(tmp_path: Path, half: str) -> None:
    bench = Bench(tmp_path)
    bench.takes(bench.project(), 2)
    path = bench.objects / "pack" / f"pack-{'1' * 40}{half}"
    path.write_bytes(b"x" * 100_000)
    assert reclaim(bench.store.layout, holder="test").freed >= 100_000
    assert not path.exists()
    assert len(bench.ids()) == 2


# --- References in git's list ---------------------------------------------------------------------


def listed_projects(bench: Bench) -> set[str]:
    lines = (bench.folder / "store" / "packed-refs").read_text().splitlines()
    return {line.split("/")[2] for line in lines if " refs/holdfast/" in line}


def test_the_first_to_rotate_takes_its_project_out_of_the_list(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=3)
    one, other = bench.project("one"), bench.project("other")
    ids = bench.takes(one, 3)
    others = bench.takes(other, 3)
    reclaim(bench.store.layout, holder="test", thorough=True)
    assert listed_projects(bench) == {project_of(one.resolve()), project_of(other.resolve())}
    newest = bench.take(one)
    assert listed_projects(bench) == {project_of(other.resolve())}
    assert (bench.ids(one), bench.ids(other)) == ([*ids[1:], newest], others)
    hidden = [ref.checkpoint for ref in all_refs(bench.store.layout) if ref.rotated]
    assert hidden == ids[:1]
    assert not fsck(bench.folder / "store")


def test_while_another_process_has_the_list_nothing_is_rotated(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=2)
    workdir = bench.project()
    ids = bench.takes(workdir, 2)
    reclaim(bench.store.layout, holder="test", thorough=True)
    lock = bench.folder / "store" / "packed-refs.lock"
    lock.touch()
    ids.append(bench.take(workdir))
    assert bench.ids(workdir) == ids
    assert lock.exists()
    lock.unlink()
    ids.append(bench.take(workdir))
    assert bench.ids(workdir) == ids[-2:]


def test_the_folder_of_a_project_that_rests_is_completed_under_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes at once would write over each other, and the git of one finds an empty file."""
    bench = Bench(tmp_path)
    workdir = bench.project("p", files=5)
    bench.take(workdir)
    reclaim(bench.store.layout, holder="test", thorough=True)
    private = bench.store.layout.private(project_of(workdir))
    assert not (private / "HEAD").exists()
    written: list[str] = []
    write = repository._write

    def watched(path: Path, data: bytes, *, durable: bool) -> None:
        assert lock.is_held(private / "lock")
        written.append(path.name)
        write(path, data, durable=durable)

    monkeypatch.setattr(repository, "_write", watched)
    assert bench.store.preview(bench.ids()[0]) is not None
    assert written[:4] == ["HEAD", "commondir", "gitdir", "locked"]
