"""Machines that share a store: who lives, whatever their clocks say, and who maintains it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Home
from holdfast.api.store import fleet_status
from holdfast.errors import SessionEndedError
from holdfast.model.item import SESSION
from holdfast.model.maintenance import Skipped
from holdfast.model.session import Message, Session
from holdfast.model.stored_session import Holder
from holdfast.stores.postgres import maintenance_gate
from tests import fleet, postgres
from tests.fleet import DAY, NOW, Machine

ID = "20270101_000000_aaaaaa"


@pytest.fixture
def url() -> str:
    return postgres.a_database()


@pytest.fixture
def pair(tmp_path: Path, url: str) -> tuple[Machine, Machine]:
    """The first has a session open, and waits for its user since two days."""
    a, b = fleet.machines(tmp_path, "alpha", "beta", url=url)
    with a.open(now=NOW - 2 * DAY) as home:
        store, at = home.need_store(), NOW - 2 * DAY
        store.create(Session(id=ID, source="cli", started_at=at, last_active_at=at))
        store.append(ID, [Message("user", "hello")], now=at)
        assert store.hold(ID, a.process, now=at)
    return a, b


def is_abandoned(home: Home) -> bool:
    [item] = [each for each in home.scan().items if each.kind == SESSION]
    return item.abandoned is not None


def silent(url: str, days: float) -> None:
    """Everything that was heard so far was heard so long ago."""
    shift = f"interval '{days} days'"
    earlier = f"first_at = first_at - {shift}, last_at = last_at - {shift}"
    postgres.execute(url, f"UPDATE holdfast.boots SET {earlier}")  # noqa: S608 - a number


@pytest.mark.parametrize("wrong", [-1_000.0, 0.0, 600.0, 40 * DAY])
def test_a_process_of_another_machine_is_alive_whatever_a_clock_says(
    pair: tuple[Machine, Machine], wrong: float
) -> None:
    """It last spoke two days ago, and the clock of the one who asks may be off by a month."""
    with pair[1].open(now=NOW + wrong) as home:
        assert not is_abandoned(home)
        assert home.maintain(force=True).ok
        assert home.sessions.get(ID).ended_at is None


def test_a_machine_that_was_started_again_has_none_of_its_processes(
    pair: tuple[Machine, Machine], url: str
) -> None:
    a, b = pair
    silent(url, 1)
    a.boot = "boot 2"
    with a.open() as home:
        home.maintain(force=True)  # it is heard of
    with b.open() as home:
        assert is_abandoned(home)
        assert home.maintain(force=True).ok
        assert home.sessions.get(ID).end_reason == "abandoned"


def test_two_machines_with_one_identity_do_not_kill_each_other(
    pair: tuple[Machine, Machine], url: str
) -> None:
    """Both boots are heard of by turns: neither is the later one."""
    a, b = pair
    for boot in ("boot 2", "boot 1"):
        silent(url, 1)
        a.boot = boot
        with a.open() as home:
            home.maintain(force=True)
    with b.open() as home:
        assert not is_abandoned(home)


def test_a_machine_that_comes_back_after_weeks(pair: tuple[Machine, Machine], url: str) -> None:
    a, b = pair
    silent(url, 29)
    with b.open() as home:
        assert not is_abandoned(home)
    silent(url, 2)
    with b.open() as home:
        assert home.maintain(force=True).ok
        assert home.sessions.get(ID).end_reason == "abandoned"
    with a.open() as home:
        assert not home.need_store().hold(ID, a.process, now=NOW)
        with pytest.raises(SessionEndedError):
            home.sessions.append(ID, {"role": "user", "content": "where was I"})
        # Nothing is lost, and it goes on.
        home.sessions.reopen(ID)
        assert home.need_store().hold(ID, a.process, now=NOW)
        home.sessions.append(ID, {"role": "user", "content": "where was I"})
    with b.open(now=NOW + 3 * DAY) as home:
        assert not is_abandoned(home)


def test_silence_can_be_turned_off(pair: tuple[Machine, Machine], url: str) -> None:
    _, b = pair
    silent(url, 4_000)
    with (b.root / "config.toml").open("a") as config:
        config.write("machine_silence_days = 0\n")
    with b.open() as home:
        assert not is_abandoned(home)


def test_a_machine_that_nobody_ever_heard_of_is_not_dead(
    pair: tuple[Machine, Machine], url: str
) -> None:
    _, b = pair
    postgres.execute(url, "DELETE FROM holdfast.boots")
    with b.open() as home:
        stranger = Holder(host="name-only/pid:[1]", boot="x", process=1, started="1")
        assert home.need_store().hold(ID, stranger, now=NOW - 2 * DAY)
        assert not is_abandoned(home)


# --- Maintenance ----------------------------------------------------------------------------------


def test_one_machine_at_a_time_maintains(
    pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    monkeypatch.setattr(maintenance_gate, "_WAIT", 0.1)
    with a.open() as first, first._place.home.maintenance_gate.entered("maintain"):
        with b.open() as second:
            refused = second.maintain(force=True)
        assert refused.skipped is Skipped.BUSY
        assert "on alpha, `holdfast maintain`" in (refused.reason or "")
    with b.open() as second:
        assert second.maintain(force=True).ran


def test_each_home_knows_when_it_was_maintained_itself(pair: tuple[Machine, Machine]) -> None:
    """Each has files of its own; a home whose timer fires next is not due because of another."""
    a, b = pair
    with a.open() as home:
        assert home.maintain().ran
        assert home.maintain().skipped is Skipped.NOT_DUE
    with b.open() as home:
        assert home.maintain().ran
    with a.open(now=NOW + 2 * DAY) as home:
        assert home.maintain().ran


# --- What the store knows of its homes ------------------------------------------------------------


def test_the_fleet_is_known_from_any_machine(pair: tuple[Machine, Machine], url: str) -> None:
    a, b = pair
    with a.open(now=NOW + 40 * DAY) as home:  # its clock is wrong
        home.maintain(force=True)  # this makes it known
        (a.root / "sessions").mkdir()
        (a.root / "sessions" / "large.jsonl").write_bytes(b"x" * 1_000_000)
        home.status()
    silent(url, 31)
    postgres.execute(url, "UPDATE holdfast.members SET seen_at = now() - interval '31 days'")
    with b.open() as home:
        home.status()  # looking at it creates nothing
        assert len(fleet_status(home._place).homes) == 1
        home.maintain(force=True)
        found = fleet_status(home._place)
    assert (found.sessions, found.messages) == (1, 1)
    first, second = found.homes
    assert (first.machine, second.machine) == ("alpha", "beta")
    assert (first.gone, second.gone) == (True, False)
    assert first.figures is not None
    assert second.figures is not None
    assert first.figures.bytes > 1_000_000 > second.figures.bytes
    assert first.maintained is not None
    assert second.maintained is not None
    assert 0 <= second.maintained < 60
    assert 0 <= second.heard < 60
