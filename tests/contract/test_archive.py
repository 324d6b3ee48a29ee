"""A session goes into the archive whole and comes back whole; nothing goes that is not there."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    CannotUndoError,
    DamageError,
    HoldfastError,
    StorageError,
    UnknownSessionError,
    UsageError,
)
from holdfast.homes.archive import bundles as archive_bundles
from holdfast.homes.archive.movers import ArchiveMover
from holdfast.homes.archive.session_files import SessionFolder
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import ArchiveOptions
from holdfast.homes.sessions import mover as session_mover
from holdfast.model.archive import ArchivedSession
from holdfast.model.item import ARCHIVED
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, Plan
from holdfast.model.report import Report, Result, unseen
from holdfast.model.session import Hit, Json, Message, Search, Session, SessionFilter, SessionOrder
from holdfast.model.stored_session import Found
from holdfast.policy.decision import plan_item
from holdfast.policy.plan_by_name import plan_all
from holdfast.spine.apply import apply
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores import processes
from holdfast.stores.archive import archive as archive_store
from holdfast.stores.archive.bundle import SourceFile
from holdfast.stores.archive.catalogue import NAME as CATALOGUE
from holdfast.stores.blobs.ownership import MEMORY, OWNER
from holdfast.stores.sqlite import moves, space
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.archiving import (
    IDS,
    NOW,
    STAMPED,
    a_stored_session,
    archive,
    archived,
    bring,
    carried_out,
    check_store,
    clock,
    everything,
    files,
    fill,
    folder_of,
    found,
    opened,
    planned,
    store_of,
    with_files,
)
from tests.stored import remove_rows, usage_of

ANY = SessionFilter()


@pytest.fixture
def home(tmp_path: Path) -> HoldfastHome:
    made = opened(tmp_path)
    fill(made)
    return made


def outcomes(report: Report) -> list[tuple[str, str, str]]:
    return [(each.id, each.result.value, each.reason) for each in report.outcomes]


def lines(home: HoldfastHome) -> list[dict[str, object]]:
    text = (home.root / "archive" / CATALOGUE).read_text()
    return [json.loads(line) for line in text.splitlines()]


# --- Out and back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
@pytest.mark.parametrize("ids", [("middle",), ("root",), ("leaf", "middle", "root")], ids="+".join)
@pytest.mark.parametrize("way", ["undo", "restore"])
def test_archived_and_back_is_identity(
    tmp_path: Path, codec: str, ids: tuple[str, ...], way: str
) -> None:
    home = opened(tmp_path, ArchiveOptions(codec=codec))
    fill(home)
    before, usage = everything(home), usage_of(store_of(home))
    report = archive(home, *ids)
    assert (report.removed, report.failed, report.skipped) == (len(ids), 0, 0)
    assert everything(home).keys() == found(home) == before.keys() - set(ids)
    suffix = ".tar.zst" if codec == "zstd" else ".tar.gz"
    assert archived(home) == sorted(f"{each}{suffix}" for each in ids)
    if way == "undo":
        undo_latest(home, clock=clock)
    else:
        assert bring(home).brought_back == len(ids)
    assert everything(home) == before
    assert found(home) == before.keys()
    assert usage_of(store_of(home)) == usage
    assert archived(home) == []
    assert [path.name for path in (tmp_path / "archive").iterdir()] == [CATALOGUE]
    check_store(home)


def test_its_files_go_with_it_and_come_back_as_they_were(home: HoldfastHome) -> None:
    a_stored_session(home)
    with_files(home, STAMPED)
    with_files(home, "20260325_112518_6995d1f")  # not a file of this session
    before = files(home)
    report = archive(home, STAMPED)
    assert report.removed == 4
    assert len(files(home)) == 3
    undo_latest(home, clock=clock)
    assert files(home) == before
    archive(home, STAMPED)
    assert bring(home, STAMPED).brought_back == 1
    assert files(home) == before


OTHER = "20260326_112518_6995d2"


@pytest.fixture
def two_with_files(tmp_path: Path) -> HoldfastHome:
    made = opened(tmp_path)
    for name in (STAMPED, OTHER):
        a_stored_session(made, name)
        with_files(made, name)
    return made


class Killed(BaseException):
    """Nobody handles it: as after a kill, the operation stays open."""


class Progress:
    """Stops, or kills, after the first step."""

    def __init__(self, *, kills: bool = False) -> None:
        self._kills = kills
        self.labels: list[str] = []

    def step(self, label: str, done: int, total: int | None) -> None:
        self.labels.append(label)
        if self._kills:
            raise Killed

    def stop_requested(self) -> bool:
        return bool(self.labels)


def files_of(home: HoldfastHome, session_id: str) -> list[str]:
    return [name for name in files(home) if session_id in name]


def test_a_stop_comes_between_whole_sessions(
    two_with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.spine.carry_out.BATCH", 1)
    home, watched = two_with_files, Progress()
    before = files(home)
    report = apply(planned(home, STAMPED, OTHER), home, clock=clock, progress=watched)
    assert report.stopped
    assert set(watched.labels) == {"archiving"}
    [left] = everything(home)
    [gone] = {STAMPED, OTHER} - {left}
    assert (len(files_of(home, left)), files_of(home, gone)) == (3, [])
    assert archive(home, left).removed == 4
    assert files(home) == {}
    assert bring(home).brought_back == 2
    assert files(home) == before


def test_files_follow_their_session_after_a_kill(two_with_files: HoldfastHome) -> None:
    home, before = two_with_files, files(two_with_files)
    with pytest.raises(Killed):
        apply(planned(home, STAMPED, OTHER), home, clock=clock, progress=Progress(kills=True))
    assert (list(everything(home)), files(home)) == ([], before)
    settle_if_needed(home, clock=clock)
    assert files(home) == {}
    [operation] = home.log.read().operations
    assert (operation.archived, operation.archived_files) == (2, 6)
    undo_latest(home, clock=clock)
    assert files(home) == before


@pytest.mark.parametrize("step", ["copy", "drop"])
def test_files_stay_after_a_kill_with_a_session_that_had_not_left(
    two_with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    home, before = two_with_files, files(two_with_files)
    plan = planned(home, STAMPED)

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveMover, step, dies)
        with pytest.raises(Killed):
            apply(plan, home, clock=clock)
    if step == "copy":
        remove_rows(store_of(home), STAMPED)  # by its agent: no bundle has the files
    settle_if_needed(home, clock=clock)
    assert files(home) == before


def test_files_wait_for_a_session_that_cannot_be_inspected(
    two_with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, before = two_with_files, files(two_with_files)
    removed = ArchiveMover.drop

    def dies(mover: ArchiveMover, batch: Sequence[Removal]) -> None:
        removed(mover, batch)
        raise Killed

    plan = planned(home, STAMPED, OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(ArchiveMover, "drop", dies)
        with pytest.raises(Killed):
            apply(plan, home, clock=clock)
    with monkeypatch.context() as patch:
        patch.setattr(ArchiveMover, "look", lambda _, batch: [unseen("locked")] * len(batch))
        settle_if_needed(home, clock=clock)
    assert files(home) == before
    assert home.log.read().operations[0].finished_at is None
    settle_if_needed(home, clock=clock)
    assert files(home) == {}
    assert bring(home).brought_back == 2
    assert files(home) == before


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_bundle_is_a_plain_tar(tmp_path: Path, codec: str) -> None:
    home = opened(tmp_path / "home", ArchiveOptions(codec=codec))
    (tmp_path / "home").mkdir()
    a_stored_session(home)
    with_files(home, STAMPED)
    before = files(home)
    archive(home, STAMPED)
    [bundle] = archived(home)
    out = tmp_path / "out"
    out.mkdir()
    if codec == "zstd" and shutil.which("zstd") is None:
        pytest.skip("tar has no zstd here")
    subprocess.run(["tar", "-xf", home.root / "archive" / bundle, "-C", out], check=True)
    assert {path.name for path in out.iterdir()} == {"beside.json", "session.jsonl", "files"}
    unpacked = {
        path.name: (
            str(path.readlink()) if path.is_symlink() else path.read_bytes(),
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
        )
        for path in (out / "files").iterdir()
    }
    assert unpacked == before
    line = json.loads((out / "session.jsonl").read_text())
    assert (line["id"], len(line["messages"])) == (STAMPED, 4)


def test_what_is_there_is_never_replaced_by_what_comes_back(home: HoldfastHome) -> None:
    a_stored_session(home)
    with_files(home, STAMPED)
    archive(home, STAMPED)
    newer = home.root / "sessions" / f"{STAMPED}.jsonl"
    newer.write_text("newer")
    [outcome] = bring(home).outcomes
    assert outcome.result is Result.FAILED
    assert f"sessions/{STAMPED}.jsonl differs from the archived file" in outcome.reason
    assert newer.read_text() == "newer"
    assert STAMPED not in everything(home)
    assert archived(home) == [f"{STAMPED}.tar.zst"]
    newer.unlink()
    assert bring(home).brought_back == 1


def test_what_is_there_already_was_not_brought_back(home: HoldfastHome) -> None:
    """A bundle that came from elsewhere may be all that another machine has of it."""
    with_files(home, IDS[0])
    contents = [*(home.root / "sessions").iterdir()]
    archive(home, IDS[0])
    [bundle] = home.root.rglob(f"{IDS[0]}.tar.*")
    kept = bundle.read_bytes()
    assert bring(home, IDS[0]).brought_back == 1
    bundle.write_bytes(kept)
    [outcome] = bring(home, IDS[0]).outcomes
    assert outcome.result is Result.SKIPPED
    assert "already in the store" in outcome.reason
    assert bundle.read_bytes() == kept
    for each in contents:
        each.unlink()
    assert bring(home, IDS[0]).brought_back == 1  # its files did come back
    assert sorted((home.root / "sessions").iterdir()) == sorted(contents)


def test_a_taken_place_keeps_its_bundle(home: HoldfastHome) -> None:
    archive(home, "leaf")
    new = Session(id="leaf", source="cli", started_at=NOW, last_active_at=NOW)
    store_of(home).create(new)
    for report in (bring(home), undo_latest(home, clock=clock)[1]):
        [outcome] = report.outcomes
        assert outcome.result is Result.FAILED
        assert "a session with this id is in the store" in outcome.reason
    assert archived(home) == ["leaf.tar.zst"]
    assert store_of(home).get("leaf").message_count == 0


def test_a_route_that_leads_elsewhere_by_now_stays(home: HoldfastHome) -> None:
    archive(home, "leaf")
    store_of(home).route("key of leaf", "root")
    bring(home)
    assert store_of(home).get("leaf").routing_key is None
    assert store_of(home).get("root").routing_key == "key of leaf"


def test_a_child_with_another_parent_keeps_it(home: HoldfastHome) -> None:
    store = store_of(home)
    archive(home, "middle")
    with store.database.write() as db:
        db.execute(
            "UPDATE sessions SET parent = (SELECT number FROM sessions WHERE id = 'root')"
            " WHERE id = 'leaf'"
        )
    bring(home)
    assert store.get("leaf").parent_id == "root"
    assert store.get("middle").parent_id == "root"


def test_restored_in_any_order_the_lineage_is_whole(home: HoldfastHome) -> None:
    before = everything(home)
    archive(home, *IDS)
    for each in IDS:
        bring(home, each)
    assert everything(home) == before


# --- What stays -----------------------------------------------------------------------------------


def add_message(store: SqliteSessionStore) -> None:
    store.reopen("leaf", at=NOW)
    store.append("leaf", [Message(role="user", content="x")], now=NOW)
    store.end("leaf", "done", at=NOW)


def reopen(store: SqliteSessionStore) -> None:
    store.reopen("leaf", at=NOW)


def rename(store: SqliteSessionStore) -> None:
    store.rename("leaf", "precious")


def pin(store: SqliteSessionStore) -> None:
    store.pin("leaf", True)


def delete(store: SqliteSessionStore) -> None:
    remove_rows(store, "leaf")


@pytest.mark.parametrize("change", [add_message, reopen, rename, pin, delete])
def test_what_changed_since_the_plan_stays(
    home: HoldfastHome, change: Callable[[SqliteSessionStore], None]
) -> None:
    plan = planned(home, "leaf")
    change(store_of(home))
    before = everything(home)
    report = carried_out(plan, home)
    assert [each.result for each in report.outcomes] == [Result.SKIPPED]
    assert everything(home) == before
    assert archived(home) == []


@pytest.mark.parametrize("change", [add_message, reopen, rename, pin, delete])
def test_what_changes_while_it_is_archived_stays(
    home: HoldfastHome,
    change: Callable[[SqliteSessionStore], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the bundle and the end of the rows: the bundle and its line go again."""
    plan = planned(home, "leaf")
    catalogue = folder_of(home).catalogue
    real = catalogue.add

    def add_and_change(entries: Sequence[ArchivedSession]) -> None:
        real(entries)
        if entries:
            change(store_of(home))

    monkeypatch.setattr(catalogue, "add", add_and_change)
    report = carried_out(plan, home)
    if change is delete:  # by somebody who left no copy: now this is one
        assert report.removed == 1
        assert archived(home) == ["leaf.tar.zst"]
    else:
        assert report.skipped == 1
        assert "leaf" in everything(home)
        assert not list((home.root / "archive").glob("*.tar.*"))
        assert archived(home) == []


def test_what_left_before_an_error_is_archived_and_the_rest_stays(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions leave in short transactions. If a later one fails, what went is in the archive, and
    what stays is in the store alone."""
    before = everything(home)
    monkeypatch.setattr(session_mover, "AT_ONCE", 1)
    real, sizes = moves.SqliteEngine.delete, list[int]()

    def delete(self: moves.SqliteEngine, going: Sequence[Found]) -> None:
        sizes.append(len(going))
        if len(sizes) == 2:
            raise StorageError("no room")
        real(self, going)

    monkeypatch.setattr(moves.SqliteEngine, "delete", delete)
    report = archive(home, *IDS)
    assert sizes == [1, 1, 1]
    assert (report.removed, report.failed) == (2, 1)
    [stayed] = [each.id for each in report.outcomes if each.result is Result.FAILED]
    assert everything(home).keys() == {stayed}
    assert len(archived(home)) == 2
    monkeypatch.undo()
    assert bring(home).brought_back == 2
    assert everything(home) == before
    check_store(home)


def test_a_session_that_a_process_holds_is_no_part_of_it(home: HoldfastHome) -> None:
    plan = planned(home, "leaf")
    store = store_of(home)
    store.reopen("leaf", at=NOW - 15)
    store.hold("leaf", processes.this_process(), now=NOW)
    store.end("leaf", "done", at=NOW - 10)
    item = replace(plan.items[0], version=store.get("leaf").version)
    report = carried_out(replace(plan, items=(item,)), home)
    assert outcomes(report) == [("leaf", "skipped", "in use: a process holds it")]
    assert archived(home) == []


@contextmanager
def files_no_longer_than(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def with_room(root: Path) -> int:
    """How long the catalogue is when nothing fails."""
    home = opened(root)
    fill(home, messages=1)
    archive(home, *IDS)
    return (root / "archive" / CATALOGUE).stat().st_size


@pytest.mark.parametrize("more", [-1_500, -600, -1, 0, 1, 50, 400, 3_000, 100_000])
def test_whatever_fails_a_session_is_in_the_store_or_in_the_archive(
    tmp_path: Path, more: int
) -> None:
    """Files that may not grow stand for a full disk: any write may be the one that fails, that of
    the line which says that a bundle is gone again included."""
    limit = with_room(tmp_path / "other") + more
    home = opened(tmp_path / "home")
    fill(home, messages=1)
    store_of(home).database.truncate_log()
    plan = planned(home, *IDS)
    with files_no_longer_than(limit), suppress(HoldfastError, OSError):
        carried_out(plan, home)
    settle_if_needed(home, clock=clock)
    kept = sorted([*everything(home), *(each.session.id for each in home.archive.find(ANY))])
    assert kept == sorted(IDS)
    assert not folder_of(home).look().problems


@pytest.mark.parametrize(("kept", "readings"), [(4_000_000, 1), (100, 2)])
def test_what_comes_back_is_what_was_compared(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, kept: int, readings: int
) -> None:
    """A bundle is read once, so that nothing can change it between the look and the restore; only
    a line that is too long for memory is read again."""
    before, opened_files = everything(home), list[str]()
    monkeypatch.setattr(archive_store, "_KEPT", kept)
    archive(home, "leaf")
    real = archive_store.SessionArchive.opened

    def counted(self: archive_store.SessionArchive, file: str) -> AbstractContextManager[Any]:
        opened_files.append(file)
        return real(self, file)

    monkeypatch.setattr(archive_store.SessionArchive, "opened", counted)
    assert bring(home).brought_back == 1
    assert len(opened_files) == readings
    assert everything(home) == before


def test_the_search_index_starts_over_only_for_what_is_archived(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly everything goes: it is cheaper to index what stays. But a run that can archive nothing
    must not cost the index."""
    begun, renew = list[object](), space.renew_index

    def begin(database: Database) -> None:
        begun.append(database)
        renew(database)

    monkeypatch.setattr(space, "renew_index", begin)
    monkeypatch.setattr(moves, "_MOST_GOES", -1.0)  # sessions of a small store weigh nothing
    with monkeypatch.context() as failing:
        failing.setattr(archive_bundles.Packer, "session", _no_room)
        assert archive(home, *IDS).removed == 0
    assert not begun
    a_stored_session(home)
    archive(home, *IDS)
    assert len(begun) == 1
    hits = store_of(home).search(Search(text="zebra", wanted=ANY))
    assert {hit.session.id for hit in hits} == {STAMPED}
    check_store(home)


def _no_room(*_: object, **__: object) -> ArchivedSession:
    raise StorageError("no room")


def nested(depth: int) -> Json:
    value: Json = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_could_not_come_back_stays(home: HoldfastHome) -> None:
    """A store takes deeper values than an import does."""
    store = store_of(home)
    store.reopen("leaf", at=NOW - 10)
    store.append("leaf", [Message(role="user", content=nested(300))], now=NOW - 9)
    store.end("leaf", "done", at=NOW - 8)
    before = everything(home)
    report = archive(home, "leaf", "root")
    assert [each.result for each in report.outcomes] == [Result.FAILED, Result.REMOVED]
    assert "could not be restored" in report.outcomes[0].reason
    assert everything(home)["leaf"][1] == before["leaf"][1]
    assert archived(home) == ["root.tar.zst"]


def test_what_is_too_long_to_come_back_stays(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_bundles, "LONGEST", 5_000)
    report = archive(home, "leaf")
    assert [each.result for each in report.outcomes] == [Result.FAILED]
    assert "too long" in report.outcomes[0].reason
    assert "leaf" in everything(home)
    assert [path.name for path in (home.root / "archive").iterdir()] == []


def test_what_is_no_file_is_no_part_of_it(home: HoldfastHome) -> None:
    a_stored_session(home)
    (home.root / "sessions" / f"{STAMPED}.jsonl").mkdir(parents=True)
    os.mkfifo(home.root / "sessions" / f"session_{STAMPED}.json")
    assert archive(home, STAMPED).removed == 1
    assert len(list((home.root / "sessions").iterdir())) == 2
    assert bring(home).brought_back == 1


def test_a_file_that_vanishes_meanwhile_is_left_out(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_stored_session(home)
    with_files(home, STAMPED)
    plan = planned(home, STAMPED)
    real = SessionFolder.of

    def seen_then_gone(
        folder: SessionFolder, ids: Collection[str]
    ) -> Mapping[str, Sequence[SourceFile]]:
        found_files = real(folder, ids)
        (home.root / "sessions" / f"{STAMPED}.jsonl").unlink()
        return found_files

    monkeypatch.setattr(SessionFolder, "of", seen_then_gone)
    report = carried_out(plan, home)
    assert (report.removed, report.skipped) == (3, 1)
    assert bring(home).brought_back == 1
    assert len(files(home)) == 2


def test_nothing_named_is_an_error(home: HoldfastHome) -> None:
    with pytest.raises(UsageError, match="Name the sessions"):
        planned(home)


# --- The folder -----------------------------------------------------------------------------------


def test_a_second_bundle_of_an_id_gets_another_name(home: HoldfastHome) -> None:
    archive(home, "leaf")
    a_stored_session(home, "leaf")
    a_stored_session(home, "leaf.2")
    archive(home, "leaf.2")
    archive(home, "leaf")
    assert archived(home) == ["leaf.2.tar.zst", "leaf.3.tar.zst", "leaf.tar.zst"]
    report = bring(home)
    assert [each.result for each in report.outcomes].count(Result.BROUGHT_BACK) == 2
    assert report.failed == 1
    assert archived(home) == ["leaf.tar.zst"]


def home_with_folder(root: Path, folder: Path) -> HoldfastHome:
    root.mkdir(exist_ok=True)
    return opened(root, ArchiveOptions(folder=str(folder)))


def test_a_configured_folder_is_made_when_it_is_new(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    home = home_with_folder(tmp_path / "home", disk)
    fill(home)
    assert home.archive.find(ANY) == []
    assert not disk.exists(), "reading creates nothing"
    assert archive(home, "leaf").removed == 1
    assert stat.S_IMODE(disk.stat().st_mode) == 0o700
    assert bring(home).brought_back == 1
    nowhere = home_with_folder(tmp_path / "home", tmp_path / "mnt" / "backup" / "archive")
    with pytest.raises(StorageError, match="mnt/backup does not exist"):  # before a plan is shown
        archive(nowhere, "leaf")
    assert not (tmp_path / "mnt").exists()


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
@pytest.mark.parametrize("knows", ["its note", "its log alone"])
def test_a_disk_that_is_not_mounted_is_not_replaced_by_a_folder(
    tmp_path: Path, left: str, knows: str
) -> None:
    disk = tmp_path / "disk"
    home = home_with_folder(tmp_path / "home", disk)
    fill(home)
    archive(home, "root")
    before = everything(home)
    plan = planned(home, "leaf")
    if knows == "its log alone":  # an earlier version took no note
        (tmp_path / "home" / MEMORY).unlink()
        (disk / OWNER).unlink()
    disk.rename(tmp_path / "away")
    if left == "an empty folder":
        disk.mkdir()
    with pytest.raises(StorageError, match=r"does not exist|is empty") as raised:
        planned(home, "leaf")
    assert raised.value.hint is not None
    assert "mounted" in raised.value.hint
    report = carried_out(plan, home)
    assert report.failed == 1
    assert "mounted" in report.outcomes[0].reason
    assert everything(home) == before
    assert not disk.exists() or not list(disk.iterdir())
    with pytest.raises(StorageError):
        home.archive.find(ANY)
    if disk.exists():
        disk.rmdir()
    (tmp_path / "away").rename(disk)
    assert bring(home).brought_back == 1


def test_two_homes_do_not_share_a_folder(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    first = home_with_folder(tmp_path / "home", disk)
    fill(first)
    archive(first, "root")
    store_of(first).close()
    second = home_with_folder(tmp_path / "second", disk)
    fill(second)
    for attempt in (lambda: planned(second, "root"), lambda: second.archive.find(ANY)):
        with pytest.raises(StorageError, match="belongs to another home") as raised:
            attempt()
        assert str(tmp_path / "home") in raised.value.message
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    with pytest.raises(StorageError, match="belongs to another home"):
        home_with_folder(tmp_path / "copy", disk).archive.find(ANY)
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "home").rename(tmp_path / "moved")
    moved = home_with_folder(tmp_path / "moved", disk)
    assert bring(moved).brought_back == 1
    assert archive(moved, "leaf").removed == 1


def test_a_link_in_place_of_the_usual_folder_is_refused(home: HoldfastHome) -> None:
    (home.root / "elsewhere").mkdir()
    (home.root / "archive").symlink_to(home.root / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        planned(home, "leaf")
    assert not list((home.root / "elsewhere").iterdir())


def other_file_system(near: Path) -> Path:
    place = Path("/dev/shm")  # noqa: S108 - a file system of its own, where there is one
    if not place.is_dir() or place.stat().st_dev == near.stat().st_dev:
        pytest.skip("there is no second file system here")
    made = place / f"holdfast-test-{os.getpid()}"
    made.mkdir()
    return made


def test_the_archive_may_be_on_another_file_system(tmp_path: Path) -> None:
    elsewhere = other_file_system(tmp_path)
    try:
        home = opened(tmp_path, ArchiveOptions(folder=str(elsewhere)))
        fill(home)
        before = everything(home)
        assert archive(home, *IDS).removed == 3
        assert remove_archived(home, undoable=True).removed == 3
        undo_latest(home, clock=clock)
        assert bring(home).brought_back == 3
        assert everything(home) == before
    finally:
        shutil.rmtree(elsewhere)


def test_reading_creates_nothing(home: HoldfastHome) -> None:
    assert home.archive.find(ANY) == []
    assert home.archive.search(Search(text="zebra", wanted=ANY)).hits == ()
    assert not (home.root / "archive").exists()


def test_everything_is_private(home: HoldfastHome) -> None:
    archive(home, *IDS)
    for path in [home.root / "archive", *(home.root / "archive").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0, path


# --- The catalogue --------------------------------------------------------------------------------


def test_a_line_tells_what_a_list_shows(home: HoldfastHome) -> None:
    session = store_of(home).get("leaf")
    archive(home, "leaf")
    [line] = lines(home)
    bundle = home.root / "archive" / "leaf.tar.zst"
    assert line == session.to_json() | {
        "archived_at": NOW,
        "operation": "1",
        "file": "leaf.tar.zst",
        "archive_bytes": bundle.stat().st_size,
        "sha256": line["sha256"],
        "holds": "session",
    }


def test_a_torn_last_line_was_never_written(home: HoldfastHome) -> None:
    archive(home, "leaf")
    catalogue = home.root / "archive" / CATALOGUE
    whole = catalogue.read_bytes()
    catalogue.write_bytes(whole + b'{"gone": "leaf.ta')
    assert archived(opened(home.root)) == ["leaf.tar.zst"]
    again = opened(home.root)
    archive(again, "root")
    assert archived(again) == ["leaf.tar.zst", "root.tar.zst"]
    assert catalogue.read_bytes().startswith(whole + b'{"id":"root"')
    assert not again.archive.problems()


def test_a_damaged_line_is_named_and_its_bundle_found(home: HoldfastHome) -> None:
    archive(home, *IDS)
    catalogue = home.root / "archive" / CATALOGUE
    first, second, third = catalogue.read_bytes().splitlines(keepends=True)
    catalogue.write_bytes(first + b"oh no" + second + third)
    again = opened(home.root)
    [problem] = again.archive.problems()
    assert "line 2" in problem.reason
    assert len(archived(again)) == 3
    assert bring(again).brought_back == 3


def test_a_lost_catalogue_is_made_again_from_the_bundles(home: HoldfastHome) -> None:
    archive(home, "leaf", "middle")
    before = sorted(map(str, lines(home)))
    (home.root / "archive" / CATALOGUE).unlink()
    assert len(archived(opened(home.root))) == 2
    assert not (home.root / "archive" / CATALOGUE).exists()
    archive(opened(home.root), "root")
    assert sorted(map(str, lines(home)))[:2] == before


def test_a_line_without_its_bundle_is_a_problem(home: HoldfastHome) -> None:
    archive(home, "leaf")
    (home.root / "archive" / "leaf.tar.zst").unlink()
    [problem] = opened(home.root).archive.problems()
    assert problem.path.endswith("leaf.tar.zst")
    assert archived(home) == []


def test_the_catalogue_forgets_what_is_gone(home: HoldfastHome) -> None:
    for number in range(4):
        a_stored_session(home, f"s{number}")
    archive(home, *(f"s{number}" for number in range(4)))
    bring(home, "s0")
    assert [line["id"] for line in lines(home)] == ["s1", "s2", "s3"]


def test_a_name_in_the_catalogue_leads_nowhere_else(home: HoldfastHome) -> None:
    archive(home, "leaf")
    [line] = lines(home)
    evil = line | {"file": "../sessions.tar.gz"}
    (home.root / "archive" / CATALOGUE).write_text(json.dumps(evil) + "\n")
    again = opened(home.root)
    assert "not the name of a bundle" in again.archive.problems()[0].reason
    assert archived(again) == ["leaf.tar.zst"]


# --- Damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_damaged_bundle_is_named_and_the_others_come_back(tmp_path: Path, codec: str) -> None:
    home = opened(tmp_path, ArchiveOptions(codec=codec))
    fill(home)
    archive(home, *IDS)
    [bundle] = (tmp_path / "archive").glob("middle.*")
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 0xFF
    bundle.write_bytes(data)
    report = bring(home)
    assert report.brought_back == 2
    [damaged] = [each for each in report.outcomes if each.result is Result.DAMAGED]
    assert bundle.name in damaged.reason
    assert bundle.exists()
    assert "middle" not in everything(home)


def test_undo_of_an_archive_names_a_damaged_bundle(home: HoldfastHome) -> None:
    archive(home, "leaf", "root")
    bundle = home.root / "archive" / "root.tar.zst"
    bundle.write_bytes(bundle.read_bytes()[:-50])
    _, report = undo_latest(home, clock=clock)
    assert {each.id: each.result for each in report.outcomes} == {
        "leaf": Result.BROUGHT_BACK,
        "root": Result.DAMAGED,
    }


def test_emptying_the_trash_leaves_the_archive_alone(home: HoldfastHome) -> None:
    archive(home, "leaf")
    report = apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)
    assert report.removed == 0
    assert archived(home) == ["leaf.tar.zst"]
    undo_latest(home, clock=clock)
    assert "leaf" in everything(home)


# --- Removed from the archive ---------------------------------------------------------------------


def plan_archived(home: HoldfastHome, *, undoable: bool) -> Plan:
    items = home.archive.items()
    return plan_all(items, str(home.root), NOW, command="prune", reason="old", undoable=undoable)


def remove_archived(home: HoldfastHome, *, undoable: bool) -> Report:
    return carried_out(plan_archived(home, undoable=undoable), home)


def test_bundles_are_items_of_a_plan(home: HoldfastHome) -> None:
    archive(home, "leaf")
    [item] = home.archive.items()
    assert (item.kind, item.id, item.session) == (ARCHIVED, "leaf.tar.zst", "leaf")
    assert item.last_active_at == NOW
    assert item.bytes > 0


def test_a_removed_bundle_can_be_brought_back(home: HoldfastHome) -> None:
    archive(home, *IDS)
    before = sorted(map(str, lines(home)))
    report = remove_archived(home, undoable=True)
    assert report.removed == 3
    assert report.bytes_in_trash > 0
    assert archived(home) == []
    assert len(list((home.root / "archive" / ".trash" / "2").iterdir())) == 3
    undo_latest(home, clock=clock)
    assert sorted(map(str, lines(home))) == before
    assert not list((home.root / "archive" / ".trash").iterdir())
    assert bring(home).brought_back == 3


def test_a_removed_bundle_leaves_the_trash_for_good(home: HoldfastHome) -> None:
    archive(home, "leaf")
    remove_archived(home, undoable=True)
    report = apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)
    assert report.bytes_freed > 0
    assert not list((home.root / "archive" / ".trash").iterdir())


def test_trash_on_a_disk_that_is_not_mounted_is_not_gone(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "home").mkdir()
    home = opened(tmp_path / "home", ArchiveOptions(folder=str(disk)))
    fill(home)
    archive(home, "leaf")
    remove_archived(home, undoable=True)
    disk.rename(tmp_path / "away")
    emptying = plan_empty(home, now=NOW, command="trash empty")
    assert apply(emptying, home, clock=clock).failed == 1
    (tmp_path / "away").rename(disk)
    undo(home, "2", clock=clock)
    assert archived(home) == ["leaf.tar.zst"]


def test_removed_for_good_is_gone(home: HoldfastHome) -> None:
    archive(home, "leaf")
    report = remove_archived(home, undoable=False)
    assert report.bytes_freed > 0
    assert report.bytes_in_trash == 0
    assert [path.name for path in (home.root / "archive").glob("*.tar*")] == []


@pytest.mark.parametrize("undoable", [True, False])
def test_what_was_archived_cannot_come_back_from_a_bundle_that_was_removed(
    home: HoldfastHome, undoable: bool
) -> None:
    archive(home, "leaf", "middle")
    bring(home, "middle")
    assert home.log.read().archived
    remove_archived(home, undoable=undoable)
    assert not home.log.read().archived, "that would be called damage"
    with pytest.raises(CannotUndoError):
        undo(home, "1", clock=clock)
    if undoable:
        undo(home, "3", clock=clock)
        _, report = undo(home, "1", clock=clock)
        assert outcomes(report) == [("leaf", "brought_back", "")]


def test_a_bundle_that_was_restored_since_the_plan_is_skipped(home: HoldfastHome) -> None:
    archive(home, "leaf")
    plan = plan_archived(home, undoable=True)
    bring(home)
    assert outcomes(carried_out(plan, home)) == [("leaf.tar.zst", "skipped", "already gone")]


# --- Reading --------------------------------------------------------------------------------------


RANKS: dict[SessionOrder, Callable[[Session], float | str | None]] = {
    SessionOrder.ID: lambda session: session.id,
    SessionOrder.SOURCE: lambda session: session.source,
    SessionOrder.TITLE: lambda session: session.title,
    SessionOrder.LAST_ACTIVE: lambda session: session.last_active_at,
    SessionOrder.STARTED: lambda session: session.started_at,
    SessionOrder.MESSAGES: lambda session: session.message_count,
    SessionOrder.TOKENS: lambda session: session.tokens.total,
    SessionOrder.COST: lambda session: session.cost,
    SessionOrder.BYTES: lambda session: session.bytes,
}


def test_the_archive_is_read_like_the_store(home: HoldfastHome) -> None:
    store = store_of(home)
    for number in range(12):
        a_stored_session(home, f"s{number}")
    listed = {
        order: [RANKS[order](each) for each in store.find(ANY, order_by=order, limit=7, offset=3)]
        for order in SessionOrder
    }
    said = [replace(each, number=None) for each in store.messages("leaf")]
    archive(home, *IDS, *(f"s{number}" for number in range(12)))
    reader = home.archive
    for order, wanted in listed.items():
        found_there = reader.find(ANY, order_by=order, limit=7, offset=3)
        assert [RANKS[order](each.session) for each in found_there] == wanted
    assert reader.count(SessionFilter(sources=("cli",))) == 3
    assert [replace(each, number=None) for each in reader.messages("leaf")] == said
    assert [each.number for each in reader.messages("leaf")] == list(range(1, len(said) + 1))


def test_ids_are_resolved_like_those_of_the_store(home: HoldfastHome) -> None:
    a_stored_session(home, "leaflet")
    archive(home, "leaf", "leaflet", "root")
    reader = home.archive
    assert reader.resolve("ro") == "root"
    assert reader.resolve("leaf") == "leaf"
    with pytest.raises(UsageError, match=r"any of 2 archived sessions:\n  leaf\n  leaflet"):
        reader.resolve("lea")
    with pytest.raises(UnknownSessionError):
        reader.resolve("branch")
    with pytest.raises(UsageError):
        reader.resolve("../leaf")


@pytest.mark.parametrize(
    ("text", "substring"),
    [("zebra", False), ("zebra 7", False), ("quagga OR nothing", False), ("uagg", True)],
)
def test_a_search_finds_what_it_found_in_the_store(
    home: HoldfastHome, text: str, substring: bool
) -> None:
    def places(hits: Sequence[Hit]) -> set[tuple[str, str, object]]:
        return {(hit.session.id, hit.snippet, hit.message.content) for hit in hits}

    before = store_of(home).search(Search(text=text, wanted=ANY, limit=1_000, substring=substring))
    archive(home, *IDS)
    after = home.archive.search(Search(text=text, wanted=ANY, limit=1_000, substring=substring))
    assert before
    assert places(after.hits) == places(before)
    assert not after.problems


def test_a_search_has_bounds_and_names_what_it_could_not_read(home: HoldfastHome) -> None:
    archive(home, *IDS)
    reader = home.archive
    assert len(reader.search(Search(text="zebra", wanted=ANY, limit=5)).hits) == 5
    assert len(reader.search(Search(text="zebra", wanted=ANY, limit=50, offset=26)).hits) == 10
    assert not reader.search(Search(text="zebra", wanted=ANY, roles=("assistant",))).hits
    assert not reader.search(Search(text="zebra", wanted=ANY, since=NOW)).hits
    assert not reader.search(Search(text="zebra", wanted=SessionFilter(sources=("cron",)))).hits
    bundle = home.root / "archive" / "leaf.tar.zst"
    bundle.write_bytes(bundle.read_bytes()[:200])
    found_there = reader.search(Search(text="zebra", wanted=ANY, limit=1_000))
    assert {hit.session.id for hit in found_there.hits} == {"root", "middle"}
    assert [problem.path for problem in found_there.problems] == ["leaf.tar.zst"]
    with pytest.raises(DamageError):
        list(reader.messages("leaf"))


# --- After a kill ---------------------------------------------------------------------------------


def test_a_new_session_that_took_the_id_does_not_cost_the_bundle(home: HoldfastHome) -> None:
    """Killed after the rows went; before the next run somebody begins a session of that name."""
    archive(home, "leaf")
    journal = home.root / "operations" / "1.jsonl"
    kept = journal.read_bytes().splitlines(keepends=True)[:2]  # the header and the intent
    journal.write_bytes(b"".join(kept))
    a_stored_session(home, "leaf")
    apply(Plan(home=str(home.root), command="x", made_at=NOW, items=()), home, clock=clock)
    assert archived(home) == ["leaf.tar.zst"]
    assert home.log.read().operations[0].removed == 1


def test_a_session_without_an_end_is_not_archived(home: HoldfastHome) -> None:
    """Not even on a plan that an older version made, or that somebody wrote by hand."""
    store = store_of(home)
    gone = replace(processes.this_process(), process=2**22 - 3, started="1")
    long_ago = NOW - 10 * 86_400
    store.create(Session(id="lost", source="cli", started_at=long_ago, last_active_at=long_ago))
    store.hold("lost", gone, now=long_ago)
    before = store.get("lost")
    assert archive(home, "lost").operation is None, "the plan has nothing to do"
    [item] = [each for each in home.scan(NOW).items if each.id == "lost"]
    assert item.abandoned is not None
    forced = plan_item(item, Action.ARCHIVE, "because", undoable=True)
    report = apply(
        Plan(home=str(home.root), command="x", made_at=NOW, items=(forced,)), home, clock=clock
    )
    assert [each.reason for each in report.outcomes] == ["in use: it has not ended"]
    assert (store.get("lost"), archived(home)) == (before, [])
