"""Room that is set aside for a full disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.api.machine import Machine
from holdfast.model.figures import DiskRoom
from holdfast.stores import disk_reserve
from holdfast.stores.operation_log import FileOperationLog
from tests.contract.agent_homes import make_claude
from tests.contract.maintained import a_home

MB = 1_000_000
SIZE = 2 * MB


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Says how much is free."""

    def free(much: int) -> None:
        monkeypatch.setattr(disk_reserve, "disk_room", lambda _: DiskRoom(free=much, size=much))

    free(1_000 * MB)
    return free


def held(state: Path) -> int:
    return (state / disk_reserve.NAME).stat().st_blocks * 512


def test_homes_on_one_disk_share_it_and_whoever_needs_it_first_gives_it_back(
    tmp_path: Path, room: Callable[[int], None]
) -> None:
    one, two, far = tmp_path / "one", tmp_path / "two", tmp_path / "linked"
    far.symlink_to(tmp_path / "two")
    assert disk_reserve.set_aside([one, two], SIZE) == [one]
    assert held(one) >= SIZE
    assert (one / disk_reserve.NAME).samefile(two / disk_reserve.NAME)
    assert disk_reserve.set_aside([one, two], SIZE) == [], "it is there"
    assert disk_reserve.give_back_if_full(two) == 0, "there is room"
    room(MB)
    assert disk_reserve.give_back_if_full(two) >= SIZE
    assert held(one) == 0
    assert disk_reserve.give_back_if_full(two) == 0, "once"
    assert disk_reserve.set_aside([one, two], SIZE) == [], "not on a disk that is nearly full"
    room(1_000 * MB)
    assert disk_reserve.set_aside([one, two], SIZE) == [one]
    assert held(two) >= SIZE
    assert disk_reserve.set_aside([one, two], 0) == []
    assert not (one / disk_reserve.NAME).exists()
    assert not (two / disk_reserve.NAME).exists()


def test_a_change_on_a_full_disk_gets_it_and_a_link_is_not_followed(
    tmp_path: Path, room: Callable[[int], None]
) -> None:
    disk_reserve.set_aside([tmp_path], SIZE)
    room(0)
    with FileOperationLog(tmp_path / "operations", tmp_path / "trash").writing("test"):
        assert held(tmp_path) == 0
    (tmp_path / disk_reserve.NAME).unlink()
    precious = tmp_path / "precious"
    precious.write_bytes(b"x" * 100)
    (tmp_path / disk_reserve.NAME).symlink_to(precious)
    assert disk_reserve.give_back_if_full(tmp_path) == 0
    room(1_000 * MB)
    assert disk_reserve.set_aside([tmp_path], SIZE) == []
    assert precious.read_bytes() == b"x" * 100


def test_it_counts_against_no_cap(tmp_path: Path, room: Callable[[int], None]) -> None:
    home = a_home(tmp_path / ".holdfast", "[guardian]\nreserve_mb = 2\n", sessions=1)
    make_claude(tmp_path / ".claude")
    machine = Machine(tmp_path, environ={})
    [own] = [each for each in machine.homes if each.path == home]
    before = machine.open(own).scan()
    assert list(machine.set_aside()) == [home]
    for is_shared in (True, False):
        after = machine.open(own).scan()
        assert sum(after.overhead.values()) == sum(before.overhead.values())
        assert (after.total_bytes, after.other_bytes) == (before.total_bytes, before.other_bytes)
        assert after.reserve_bytes >= SIZE
        if is_shared:
            disk_reserve.set_aside([home], 0)
            (tmp_path / ".claude" / ".holdfast" / disk_reserve.NAME).unlink()
            disk_reserve.set_aside([home], SIZE)


def test_a_small_disk_has_a_smaller_one_and_it_is_said(
    tmp_path: Path, room: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Of 150 MB free, a quarter is for it and for what a change needs. It grows with the room."""
    room(150 * MB)
    assert disk_reserve.set_aside([tmp_path], 64 * MB) == [tmp_path]
    small = held(tmp_path)
    assert 20 * MB < small < 40 * MB
    assert "instead of 64 MB" in caplog.text.replace("64.0", "64")
    room(150 * MB - small)
    assert disk_reserve.set_aside([tmp_path], 64 * MB) == [], "nothing changed"
    room(1_000 * MB)
    assert disk_reserve.set_aside([tmp_path], 64 * MB) == [tmp_path]
    assert held(tmp_path) >= 64 * MB
    disk_reserve.set_aside([tmp_path], 0)
    caplog.clear()
    room(30 * MB)
    assert disk_reserve.set_aside([tmp_path], 64 * MB) == []
    assert "No space is reserved" in caplog.text
    assert held(tmp_path) == 0


def test_without_one_what_is_only_remembered_makes_room(
    tmp_path: Path, room: Callable[[int], None]
) -> None:
    """The journal comes first, and needs room even where nothing was set aside."""
    index, kept = tmp_path / "index", tmp_path / "figures.jsonl"
    index.mkdir()
    for path in (index / "units.json", index / "sessions.db", kept):
        path.write_bytes(b"x" * 10_000)
    room(MB)
    assert disk_reserve.give_back_if_full(tmp_path) == 0, "a journal fits"
    room(0)
    assert disk_reserve.give_back_if_full(tmp_path) >= 20_000
    assert list(index.iterdir()) == []
    assert kept.exists(), "nobody could make that again"
    far = tmp_path / "far"
    far.mkdir()
    (far / "units.json").write_bytes(b"x")
    index.rmdir()
    index.symlink_to(far)
    assert disk_reserve.give_back_if_full(tmp_path) == 0
    assert (far / "units.json").exists()
