"""Homes that archive to an object store, alone and together. The servers are real."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Home
from holdfast.errors import HoldfastError, StorageError
from holdfast.homes.archive.place import CACHE
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import ArchiveOptions
from holdfast.model.report import Result
from holdfast.model.session import Search, SessionFilter
from holdfast.policy.plan_by_name import plan_all
from holdfast.ports.archive import Blobs
from holdfast.services.restore import chosen
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores.blobs import object_store
from holdfast.stores.blobs.membership import MEMORY
from holdfast.stores.blobs.object_store import ObjectBlobs
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
    with_files,
)
from tests.contract.factory import HOMES, formats_installed, trash
from tests.object_servers import (
    BUCKET,
    CREDENTIALS,
    HASTY,
    KEY,
    SECRET,
    an_address,
    moto,
    names_at,
    proxied,
    rclone,
    times,
)

ANY = SessionFilter()
SERVERS: dict[str, Callable[[], str]] = {"rclone": lambda: rclone().endpoint, "moto": moto}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_store, "Patience", lambda: HASTY)


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> ArchiveOptions:
    return options(SERVERS[request.param]())


def options(endpoint: str) -> ArchiveOptions:
    address = an_address(endpoint)
    return ArchiveOptions(url=address.url, endpoint=endpoint, region=address.region)


def a_home(root: Path, place: ArchiveOptions, *, messages: int = 2) -> HoldfastHome:
    root.mkdir()
    home = opened(root, place)
    fill(home, messages=messages)
    a_stored_session(home)
    with_files(home, STAMPED)
    return home


def objects(place: ArchiveOptions) -> set[str]:
    """Everything below the address, as another tool sees it."""
    return names_at(place.url, place.endpoint)


def texts(place: ArchiveOptions) -> bytes:
    blobs = ObjectBlobs(an_address(place.endpoint, place.url.partition(f"{BUCKET}/")[2]))
    found = b""
    for name in objects(place):
        with blobs.get(name) as content:
            found += content.read()
    return found


def remove_bundles(home: HoldfastHome, *, undoable: bool = True) -> None:
    plan = plan_all(
        home.archive.items(), str(home.root), NOW, command="prune", reason="old", undoable=undoable
    )
    assert all(each.result is Result.REMOVED for each in apply(plan, home, clock=clock).outcomes)


def test_there_and_back(tmp_path: Path, place: ArchiveOptions) -> None:
    home = a_home(tmp_path / "home", place)
    before = everything(home), files(home)
    assert archived(home) == []
    assert objects(place) == set()
    archive(home, *IDS, STAMPED)
    assert not everything(home)
    assert not files(home)
    [name] = {file.partition("/")[0] for file in archived(home)}
    assert archived(home) == sorted(f"{name}/{each}.tar.zst" for each in (*IDS, STAMPED))
    assert not (tmp_path / "home" / "archive").exists()
    hits = home.archive.search(Search(text="zebra", wanted=ANY, limit=500)).hits
    assert {hit.session.id for hit in hits} == {*IDS, STAMPED}
    assert not home.archive.problems()
    [finding] = [each for each in home.checkup().look(Quiet()) if each.check == "archive"]
    looks_up = "; this object store would replace an object" in finding.message
    assert (finding.message.split(";")[0], looks_up) == ("fine", place.endpoint != moto())

    again = opened(tmp_path / "home", place)  # as the next command does
    kept = archived(again)
    remove_bundles(again)
    assert archived(again) == []
    undo_latest(again, clock=clock)
    assert archived(again) == kept
    assert bring(again, STAMPED).brought_back == 1
    assert undo(again, "1", clock=clock)[1].brought_back == 3
    assert (everything(again), files(again)) == before
    assert objects(place) == {".holdfast.json", f"homes/{name}.json"}


class Quiet:
    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool:
        return False


def test_what_goes_for_good_leaves_no_title(tmp_path: Path) -> None:
    place = options(rclone().endpoint)
    home = a_home(tmp_path / "home", place)
    archive(home, *IDS)
    (tmp_path / "other").mkdir()
    other = opened(tmp_path / "other", place)
    assert len(archived(other)) == 3
    assert b"title of leaf" in texts(place)
    assert b"title of leaf" in (tmp_path / "other" / CACHE).read_bytes()
    remove_bundles(home, undoable=False)
    assert b"title of" not in texts(place)
    assert archived(other) == []
    for name in ("home", "other"):
        assert b"title of" not in (tmp_path / name / CACHE).read_bytes()
    assert len(objects(place)) == 2


def test_a_lost_line_and_a_lost_bundle(tmp_path: Path) -> None:
    place = options(moto())
    home = a_home(tmp_path / "home", place)
    archive(home, *IDS)
    blobs = folder_of(home).blobs
    [line] = [name for name in objects(place) if "/.lines/leaf." in name]
    [bundle] = [name for name in archived(home) if "middle" in name]
    blobs.delete([line, bundle])
    fresh = opened(tmp_path / "home", place)
    assert [each.session.id for each in fresh.archive.find(ANY)] == ["leaf", "root"]
    [problem] = fresh.archive.problems()
    assert problem.path.endswith(f"/{bundle}")
    assert problem.reason == "is in the catalogue but not here"
    folder_of(fresh).heal()
    assert line in objects(place)


# --- Several homes --------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[HoldfastHome, HoldfastHome]:
    """Two machines with the same sessions and one archive, on the server that promises less."""
    place = options(rclone().endpoint)
    return a_home(tmp_path / "a", place), a_home(tmp_path / "b", place)


def test_two_homes_archive_the_same_session(two: tuple[HoldfastHome, HoldfastHome]) -> None:
    a, b = two
    before = everything(a), everything(b)
    archive(a, "leaf")
    archive(b, "leaf")  # each with its operation 1
    assert len({each.file for each in a.archive.find(ANY)}) == 2
    assert [len(home.archive.items()) for home in two] == [1, 1]
    assert {each.file for each in (*chosen(a.archive, ["leaf"]), *chosen(a.archive, []))} == {
        each.id
        for each in a.archive.items()  # not that of the other, which is younger
    }
    undo_latest(a, clock=clock)
    assert everything(a) == before[0]
    assert len(b.archive.items()) == 1
    remove_bundles(b)
    assert archived(a) == []
    undo_latest(b, clock=clock)
    undo(b, "1", clock=clock)
    assert everything(b) == before[1]


def test_what_one_home_archived_another_restores(two: tuple[HoldfastHome, HoldfastHome]) -> None:
    a, b = two
    before = everything(b)[STAMPED], files(a)
    archive(a, "root", STAMPED)
    archive(b, "root", STAMPED)
    remove_bundles(b, undoable=False)
    assert len(archived(b)) == 2  # those of the other home are not for its rules
    assert not files(b)
    assert bring(b, STAMPED).brought_back == 1
    assert (everything(b)[STAMPED], files(b)) == before
    assert len(archived(a)) == 1
    # The home that archived it finds that it is gone, and says so.
    _, report = undo(a, "1", clock=clock)
    assert {each.id: each.result for each in report.outcomes} == {
        "root": Result.BROUGHT_BACK,
        STAMPED: Result.DAMAGED,
    }


def test_a_copied_home_takes_a_name_of_its_own(tmp_path: Path) -> None:
    place = options(moto())
    a = a_home(tmp_path / "a", place)
    archive(a, "leaf")
    a.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=True)
    b = opened(tmp_path / "b", place)
    archive(b, "middle")
    archive(a, "middle")  # both with their operation 2
    assert len({each.partition("/")[0] for each in archived(a)}) == 2
    undo_latest(b, clock=clock)
    assert [each.session for each in a.archive.items()] == ["leaf", "middle"]
    assert undo(b, "1", clock=clock)[1].brought_back == 1  # it still knows its earlier name


def said(home: Home) -> dict[str, list[object]]:
    return {
        each.id: [message.content for message in home.sessions.messages(each)]
        for each in home.sessions.find()
    }


def test_a_unit_of_another_machine(tmp_path: Path) -> None:
    """Its home has the same path there, and operations of the same numbers."""
    place, sample = options(moto()), HOMES["marmot"]
    path, there = tmp_path / "home", tmp_path / "other machine"

    def made() -> None:
        sample.make(path)
        (path / ".holdfast").mkdir(exist_ok=True)
        keys = f'url = "{place.url}"\nendpoint = "{place.endpoint}"\n'
        (path / ".holdfast" / "config.toml").write_text(f"[archive]\n{keys}")

    with formats_installed(tmp_path / "formats"):
        made()
        with sample.open(path) as home:
            [name, *_] = sorted(each.id for each in sample.plan(home).removals)
            home.archive_sessions([name])  # operation 1, item 0
        path.rename(there)
        made()
        with sample.open(path) as home:
            before = said(home)[name]
            home.plan_delete([name]).apply()  # operation 1, item 0
            kept = trash(sample, home)
            assert home.restore_sessions([name]).brought_back == 1
            assert said(home)[name] == before
            assert trash(sample, home) == kept  # what this home removed itself
            home.archive_sessions([name])
        with sample.open(there) as home:  # a home in another place
            [outcome] = home.restore_sessions([name]).outcomes
            assert outcome.result is Result.FAILED
            assert f"it comes from another home ({path})" in outcome.reason
            assert home.archive.count() == 1


# --- Bad days -------------------------------------------------------------------------------------


def over(endpoint: str) -> Blobs:
    return ObjectBlobs(an_address(endpoint), patience=HASTY)


@pytest.mark.parametrize(
    ("server", "how"),
    [("rclone", "lose"), ("rclone", "503"), ("moto", "lose"), ("moto", "refuse")],
)
def test_a_put_gets_through(server: str, how: str) -> None:
    with proxied(SERVERS[server]()) as proxy:
        blobs = over(proxy.endpoint)
        blobs.make()
        proxy.spoil = times(2, how, "PUT", "/a")
        blobs.put_new("a", lambda raw: raw.write(b"one"))
        assert sum(asked[0] == "PUT" and asked[1].endswith("/a") for asked in proxy.asked) > 1
        with blobs.get("a") as content:
            assert content.read() == b"one"
        with pytest.raises(FileExistsError):
            blobs.put_new("a", lambda raw: raw.write(b"two"))


def test_a_large_blob_is_sent_from_its_file(tmp_path: Path) -> None:
    data = os.urandom(5 * 1024 * 1024)
    blobs = ObjectBlobs(an_address(rclone().endpoint), temporary=tmp_path, patience=HASTY)
    blobs.put_new("a", lambda raw: raw.write(data), [lambda raw: raw.read()])
    with blobs.get("a") as content:
        assert content.read() == data
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_a_put_that_hangs() -> None:
    with proxied(moto()) as proxy:
        blobs = over(proxy.endpoint)
        blobs.make()
        proxy.spoil = times(1, "hang", "PUT", "/a")
        blobs.put_new("a", lambda raw: raw.write(b"one"))
        assert blobs.find("a") is not None


def test_a_put_that_never_gets_through() -> None:
    with proxied(moto()) as proxy:
        blobs = over(proxy.endpoint)
        blobs.make()
        proxy.spoil = times(99, "503", "PUT", "/b")
        with pytest.raises(StorageError, match=r"answered 503\."):
            blobs.put_new("b", lambda raw: raw.write(b"two"))
        assert blobs.find("b") is None
        blobs.put_new("a", lambda raw: raw.write(b"one"))
        proxy.spoil = times(99, "cut", "GET", "/a")
        with (
            pytest.raises(StorageError, match=r"did not answer|was cut off"),
            blobs.get("a") as raw,
        ):
            raw.read()


def test_a_store_that_fails_in_the_middle_costs_nothing(tmp_path: Path) -> None:
    with proxied(moto()) as proxy:
        place = options(proxy.endpoint)
        home = a_home(tmp_path / "home", place)
        before = everything(home), files(home)
        proxy.spoil = lambda method, path: "503" if method == "PUT" and "middle" in path else None
        report = archive(home, *IDS)
        ended = {each.id: (each.result, each.reason) for each in report.outcomes}
        assert ended.pop("leaf") == (Result.REMOVED, "")
        why = f"The object store of the archive {place.url} answered 503."
        assert ended == dict.fromkeys(("middle", "root"), (Result.FAILED, why))
        proxy.spoil = lambda method, _: "503" if method == "GET" else None
        failed = undo_latest(home, clock=clock)[1]
        assert {each.result for each in failed.outcomes} == {Result.FAILED}
        with pytest.raises(StorageError):
            home.archive.find(ANY)
        assert [each.path for each in home.scan(NOW).problems] == [place.url]
        proxy.spoil = times(0, "", "")
        assert undo_latest(home, clock=clock)[1].brought_back == 1
        assert (everything(home), files(home)) == before


# --- What cannot be used --------------------------------------------------------------------------


def refused(place: ArchiveOptions, tmp_path: Path) -> HoldfastError:
    (tmp_path / "home").mkdir(exist_ok=True)
    with pytest.raises(StorageError) as caught:
        opened(tmp_path / "home", place).archive.check()
    said = f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
    assert SECRET not in said
    assert KEY not in said
    return caught.value


def test_plain_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ArchiveOptions(url="s3://none/x", endpoint=rclone().endpoint)
    assert refused(here, tmp_path).message == "There is no bucket none for the archive s3://none/x."
    gone = ArchiveOptions(url=f"s3://{BUCKET}/x", endpoint="http://127.0.0.1:1")
    said = refused(gone, tmp_path)
    assert said.message == "The object store of the archive s3://archive/x did not answer."
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    wrong = refused(ArchiveOptions(url=f"s3://{BUCKET}/x", endpoint=here.endpoint), tmp_path)
    assert wrong.message.startswith("The object store refuses access to the archive s3://archive/x")
    profile = refused(ArchiveOptions(url="s3://b/x", profile="nobody"), tmp_path)
    assert "No credentials were found for the profile 'nobody' of [archive]" in profile.message
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    extra = refused(ArchiveOptions(url="s3://b/x"), tmp_path)
    assert extra.message == "The archive is at s3://b/x: that needs the package obstore."
    assert extra.hint is not None
    assert "pip install 'obstore" in extra.hint
    assert "holdfast[" not in extra.hint


def test_a_profile_has_the_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = f"[backup]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(keys)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    place = options(rclone().endpoint)
    home = a_home(
        tmp_path / "home",
        ArchiveOptions(url=place.url, endpoint=place.endpoint, profile="backup"),
    )
    archive(home, "leaf")
    assert len(archived(home)) == 1
    for path in (tmp_path / "home").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_an_archive_that_was_there_is_missed(tmp_path: Path) -> None:
    place = options(moto())
    home = a_home(tmp_path / "home", place)
    archive(home, "leaf")
    blobs = folder_of(home).blobs
    blobs.delete(objects(place))
    fresh = opened(tmp_path / "home", place)
    with pytest.raises(StorageError, match="but this home used it before"):
        fresh.archive.check()
    assert "leaf" not in everything(fresh)
    with pytest.raises(StorageError):  # nothing leaves the store meanwhile
        archive(fresh, "middle")
    assert "middle" in everything(fresh)
    known = json.loads((tmp_path / "home" / MEMORY).read_bytes())
    assert known["creates_only"] == {place.url: True}
