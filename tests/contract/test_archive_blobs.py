"""The archive needs no more from its blobs than an object store offers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.homes.archive import place as archive_place
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.report import Result
from holdfast.model.session import Search, Session, SessionFilter
from holdfast.policy.plan_by_name import plan_all
from holdfast.spine.apply import apply
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo_latest
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.catalogue import Catalogue
from holdfast.stores.archive.line_blobs import LineBlobs
from holdfast.stores.line_file import CacheFile, LineFile
from tests import tally
from tests.archiving import (
    IDS,
    NOW,
    STAMPED,
    a_stored_session,
    archive,
    archived,
    bring,
    clock,
    everything,
    files,
    fill,
    folder_of,
    opened,
    store_of,
    with_files,
)
from tests.object_store import Bucket, EndedError, ObjectBlobs, spool

ANY = SessionFilter()
Open = Callable[[], HoldfastHome]


@pytest.fixture(params=["folder", "object store"])
def bucket(request: pytest.FixtureRequest) -> Bucket | None:
    return Bucket() if request.param == "object store" else None


class Members:
    """One of several homes that share a bucket."""

    shared = True

    def own(self) -> Sequence[str]:
        return ("h1",)

    def did(self, home: str, operation: str) -> bool:
        return True

    def path(self, home: str) -> str:
        return ""

    def all(self) -> Sequence[str]:
        return ("h1", "h2")


def over(
    monkeypatch: pytest.MonkeyPatch, bucket: Bucket, catalogue: Path, *, shared: bool = False
) -> None:
    """Have every home that is opened from now on keep its archive in a bucket."""

    def made(_: Path, *, chosen_by: Path | None = None) -> SessionArchive:
        blobs = ObjectBlobs(bucket)
        if shared:
            cached = LineBlobs(blobs, CacheFile(catalogue))
            return SessionArchive(blobs, cached, spool=spool, homes=Members())
        return SessionArchive(blobs, Catalogue(LineFile(catalogue)), spool=spool)

    monkeypatch.setattr(archive_place, "folder_archive", made)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: Bucket | None) -> HoldfastHome:
    if bucket is not None:
        over(monkeypatch, bucket, tmp_path / "catalogue.jsonl")
    made = opened(tmp_path / "home")
    (tmp_path / "home").mkdir()
    fill(made)
    a_stored_session(made)
    with_files(made, STAMPED)
    return made


def catalogue_of(home: HoldfastHome) -> Path:
    inside = home.root / "archive" / "catalogue.jsonl"
    return inside if inside.exists() else home.root.parent / "catalogue.jsonl"


def remove_bundles(home: HoldfastHome, *, undoable: bool = True) -> None:
    plan = plan_all(
        home.archive.items(),
        str(home.root),
        NOW,
        command="prune",
        reason="old",
        undoable=undoable,
    )
    assert all(each.result is Result.REMOVED for each in apply(plan, home, clock=clock).outcomes)


@pytest.mark.parametrize("way", ["undo", "restore"])
def test_archived_and_back_is_identity(home: HoldfastHome, way: str) -> None:
    before = everything(home), files(home)
    archive(home, *IDS, STAMPED)
    assert len(archived(home)) == 4
    assert not everything(home)
    assert not files(home)
    hits = home.archive.search(Search(text="zebra", wanted=ANY, limit=500)).hits
    assert {hit.session.id for hit in hits} == {*IDS, STAMPED}
    assert [each.bytes > 0 for each in home.archive.items()] == [True] * 4
    if way == "undo":
        undo_latest(home, clock=clock)
    else:
        assert bring(home).brought_back == 4
    assert (everything(home), files(home)) == before
    assert archived(home) == []


def test_bundles_leave_and_come_back(home: HoldfastHome) -> None:
    before = everything(home), files(home)
    archive(home, *IDS, STAMPED)
    kept = archived(home)
    remove_bundles(home)
    assert archived(home) == []
    undo_latest(home, clock=clock)
    assert archived(home) == kept
    remove_bundles(home, undoable=False)
    assert archived(home) == []
    assert not home.archive.problems()
    assert before[0].keys() == {*IDS, STAMPED}


def test_a_lost_catalogue_is_written_again_from_the_bundles(home: HoldfastHome) -> None:
    archive(home, "leaf", "middle")
    catalogue = catalogue_of(home)
    before = sorted(catalogue.read_bytes().splitlines())
    catalogue.unlink()
    again = opened(home.root)
    assert archived(again) == ["leaf.tar.zst", "middle.tar.zst"]
    assert not catalogue.exists()
    folder_of(again).heal()
    assert sorted(catalogue.read_bytes().splitlines()) == before
    assert bring(again).brought_back == 2


def test_a_name_that_is_taken_gets_a_number(home: HoldfastHome) -> None:
    store = store_of(home)
    archive(home, "leaf")
    store.create(Session(id="leaf", source="cli", started_at=1.0, last_active_at=1.0))
    store.end("leaf", "done", at=2.0)
    archive(home, "leaf")
    assert archived(home) == ["leaf.2.tar.zst", "leaf.tar.zst"]


def test_a_damaged_bundle_costs_no_other(home: HoldfastHome, bucket: Bucket | None) -> None:
    archive(home, *IDS)
    if bucket is None:
        path = home.root / "archive" / "middle.tar.zst"
        path.write_bytes(path.read_bytes()[:-50])
    else:
        bucket.objects["middle.tar.zst"] = bucket.objects["middle.tar.zst"][:-50]
    report = bring(home)
    assert report.brought_back == 2
    assert [each.id for each in report.outcomes if each.result is Result.DAMAGED] == [
        "middle.tar.zst"
    ]
    assert archived(home) == ["middle.tar.zst"]


# --- A process that ends at any request -----------------------------------------------------------


def archive_all(home: HoldfastHome) -> None:
    archive(home, "leaf", STAMPED)


def undo_it(home: HoldfastHome) -> None:
    undo_latest(home, clock=clock)


def restore_all(home: HoldfastHome) -> None:
    bring(home)


SCENARIOS: dict[str, tuple[Callable[[HoldfastHome], None], ...]] = {
    "archive": (archive_all,),
    "undo": (archive_all, undo_it),
    "restore": (archive_all, restore_all),
    "remove": (archive_all, remove_bundles),
    "undo the removal": (archive_all, remove_bundles, undo_it),
}


#: `make test` ends the first scenarios at one side of a request, `make test-deep` all of them at
#: both sides, and where homes share the bucket.
QUICK = 3
ENDS = [
    pytest.param(name, carried_out, shared, id=f"{name}-{side}{whose}", marks=marks)
    for number, name in enumerate(SCENARIOS)
    for carried_out, side in ((False, "before"), (True, "after"))
    for shared, whose in ((False, ""), (True, "-shared"))
    for marks in (
        []
        if carried_out == bool(number % 2) and number < QUICK and not shared
        else [pytest.mark.deep],
    )
]


@pytest.mark.parametrize(("scenario", "carried_out", "shared"), ENDS)
def test_ended_at_any_request_each_session_is_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, carried_out: bool, shared: bool
) -> None:
    *before, last = SCENARIOS[scenario]
    for number in itertools.count(1):
        bucket = Bucket()
        place = tmp_path / str(number)
        place.mkdir()
        over(monkeypatch, bucket, place / "catalogue.jsonl", shared=shared)
        home = opened(place / "home")
        (place / "home").mkdir()
        fill(home, messages=1)
        a_stored_session(home)
        with_files(home, STAMPED)
        original = everything(home), files(home)
        for step in before:
            step(home)
        bucket.last = (bucket.requests + number, carried_out)
        tally.injected()
        try:
            last(home)
        except EndedError:
            through = False
        else:
            through = True
        bucket.last = None
        home.close()
        check_whole(opened(place / "home"), bucket, original, "h1" if shared else "")
        tally.verified()
        if through:
            break


def check_whole(
    home: HoldfastHome, bucket: Bucket, original: tuple[object, object], member: str
) -> None:
    settle_if_needed(home, clock=clock)
    in_archive = {each.session.id for each in home.archive.find(ANY)}
    in_trash = {
        name.rpartition("/")[2].partition("-")[2].removesuffix(".tar.zst")
        for name in bucket.objects
        if name.removeprefix("h1/").startswith(".trash/")
    }
    stored = set(everything(home))
    assert stored | in_archive | in_trash == {*IDS, STAMPED}
    assert len(stored) + len(in_archive) + len(in_trash) == len(IDS) + 1
    assert not home.archive.problems()
    listed = {each.file for each in folder_of(home).catalogue.entries(member)}
    assert listed == set(archived(home))
    if in_trash:
        undo_latest(home, clock=clock)
    bring(home)
    assert (everything(home), files(home)) == original
    home.close()
