"""What `status` says about tomorrow, and the one command that helps most."""

from __future__ import annotations

import time

import pytest

from holdfast.cli import show_growth
from holdfast.model.alarm import Alarm, Writer
from holdfast.model.figures import Growth, HomeFigures, Point, growth_words
from holdfast.policy.remedy import Freeable, Remedy
from holdfast.policy.rules import DAY
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.figures_file import FiguresFile
from holdfast.value import replace
from tests.cli.inside import Inside
from tests.cli.machine import Machine

MB = 10**6


def looked(machine: Machine, *sizes: int, free: int | None = None) -> None:
    """Figures of the days before today."""
    kept = FiguresFile(machine.home)
    for place, size in enumerate(sizes):
        moment = time.time() - (len(sizes) - place) * DAY
        kept.add(HomeFigures(at=moment, bytes=size * MB, disk_free=free))


def test_status_shows_the_trend_once_it_is_known(used: Machine) -> None:
    inside = Inside(used)
    assert "MB in" not in inside.ok("status").out
    looked(used, 900, 700, 400, 100)
    said = inside.run("status", columns=80).out
    assert "▁  -900.0 MB in 4 days" in said or "▁  -899." in said
    assert "full" not in said


def test_a_disk_that_fills_up_says_when_and_from_how_many_days() -> None:
    points = tuple(Point(at=n * DAY, bytes=n * 100 * MB) for n in range(15))
    grown = Growth(points=points, bytes_per_day=1e8, over_days=14.0, full_in_days=30.5)
    assert growth_words(grown) == (
        "+1.4 GB in 14 days; at 100.0 MB a day the disk is full in 30 days"
    )


def test_a_terminal_without_blocks_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    class Latin:
        encoding = "latin-1"

    monkeypatch.setattr("sys.stdout", Latin())
    points = [Point(at=n * DAY, bytes=n) for n in range(8)]
    assert show_growth.curve(points, 8) == "_.:-=+*#"[:7] + "#"
    assert show_growth.curve(points[:1], 4) == "____"


def test_a_day_without_a_look_is_as_the_day_before() -> None:
    points = [Point(at=0, bytes=0), Point(at=DAY, bytes=70), Point(at=10 * DAY, bytes=70)]
    assert show_growth.curve(points, 10) == "█" * 10
    late = [Point(at=0, bytes=0), Point(at=9.5 * DAY, bytes=70), Point(at=10 * DAY, bytes=70)]
    assert show_growth.curve(late, 10) == "▁" * 9 + "█"


def test_a_program_is_told_the_command_that_helps_most(used: Machine) -> None:
    inside = Inside(used)
    document = inside.machine.json("status")
    assert document["helps"]["what"] == "prune"
    assert document["helps"]["bytes"] > 0
    assert document["helps"]["command"] == ("holdfast sessions prune --home holdfast --dry-run")
    assert document["growth"] == document["homes"][0]["growth"]
    inside.ok("sessions", "prune", "--yes")
    assert used.json("status")["helps"]["what"] == "trash"


def test_of_what_can_go_the_most_bytes_win(used: Machine) -> None:
    """The policy would remove a little, and the trash has more: then it is the trash."""
    inside = Inside(used)
    inside.ok("sessions", "prune", "--older-than", "2h", "--yes")
    assert "holdfast trash" in inside.ok("status").out


@pytest.mark.parametrize(("days", "stale"), [(2, False), (12, True)])
def test_doctor_says_when_nobody_looks_any_more(used: Machine, days: int, stale: bool) -> None:
    FiguresFile(used.home).add(HomeFigures(at=time.time() - days * DAY, bytes=1))
    said = Inside(used).ok("doctor").words
    assert ("this home has had no maintenance for 12 d" in said) is stale
    assert ("holdfast maintain" in said) is stale


def test_a_watcher_does_not_hide_that_nobody_maintains(used: Machine) -> None:
    now = time.time()
    FiguresFile(used.home).add(HomeFigures(at=now, bytes=1, maintained_at=now - 12 * DAY))
    said = Inside(used).ok("doctor").words
    assert "this home has had no maintenance for 12 d" in said
    assert "just as old" not in said


@pytest.mark.parametrize(
    ("sizes", "best"),
    [
        ({}, None),
        ({"sessions": 9}, None),
        ({"policy": 2, "trash": 1}, Remedy.PRUNE),
        ({"policy": 1, "trash": 2}, Remedy.TRASH),
        ({"policy": 1, "trash": 2, "leftovers": 3}, Remedy.LEFTOVERS),
        ({"policy": 1, "leftovers": 3, "sessions": 3}, Remedy.PRUNE),
        ({"policy": 2, "trash": 2, "leftovers": 2}, Remedy.PRUNE),
    ],
)
def test_what_helps_is_chosen_by_bytes(sizes: dict[str, int], best: Remedy | None) -> None:
    assert Freeable(**sizes).best is best


def test_status_shows_what_grows_too_fast(machine: Machine) -> None:
    machine.file(machine.sessions / "sessions.json")
    path = machine.sessions / "a\x1b[31m.jsonl"
    now = time.time()
    alarm = Alarm(
        home=str(machine.home),
        path=str(path),
        folder=False,
        first_at=now - 20,
        last_at=now - 10,
        bytes=5_000_000_000,
        bytes_per_minute=2e9,
        writers=(Writer(pid=4711, command="node cli.js"),),
    )
    AlarmFile(machine.home).note([alarm, replace(alarm, path="/over", ended_at=now)], now)
    inside = Inside(machine)
    shown = inside.ok("status").out
    assert "grows by 2.0 GB a minute" in shown
    assert "kill 4711" in shown
    assert "\x1b[31m" not in shown
    assert "/over" not in shown
    document = inside.json("status")
    assert isinstance(document, dict)
    assert [each["active"] for each in document["alarms"]] == [True, False]
