"""What a newcomer meets first: a home with nothing in it, one with a single session, the home
directory, and figures that are compared with what `du` says."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from holdfast.model.plan_words import freed_words
from holdfast.model.report import Outcome, Report, Result
from holdfast.model.text import format_bytes
from holdfast.policy.rules import DAY
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.stored import a_line, bring_in, disk_bytes

_NONE_YET = "There are no sessions here yet. To see how Holdfast works:\n  holdfast demo\n"
ONE = "20250101_000000_000001"


def _ago(days: float) -> float:
    return time.time() - days * DAY


@pytest.fixture
def inside(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Inside:
    machine.user.mkdir(exist_ok=True)
    monkeypatch.chdir(machine.user)
    return Inside(machine)


@pytest.fixture
def small(inside: Inside) -> Inside:
    """One session, whose rows fit into pages that an empty store has too."""
    line = a_line(ONE, at=_ago(100), messages=2, size=100)
    bring_in(inside.machine.home, [line], now=time.time())
    return inside


def _report(inside: Inside, *args: str) -> Any:
    document = inside.json(*args)
    assert isinstance(document, dict)
    return document["report"]


def test_what_was_freed_less_the_log_is_what_the_disk_says(inside: Inside) -> None:
    home = inside.machine.home
    lines = [a_line(f"20250101_000000_{n:06x}", at=_ago(100), messages=4) for n in range(200)]
    bring_in(home, lines, now=time.time())
    inside.ok("sessions", "list")  # makes what every command makes
    before = disk_bytes(home)
    report = _report(inside, "sessions", "prune", "--yes")
    assert report["log_bytes"] == disk_bytes(home / "operations" / "1.jsonl") > 50_000
    lock = disk_bytes(home / "operations" / "lock")
    assert before - disk_bytes(home) == report["bytes_freed"] - report["log_bytes"] - lock
    inside.ok("undo")
    said = inside.ok("sessions", "prune", "--yes").out
    assert " now (its log takes " in said  # four messages are hardly more than their record
    assert "). Emptying the trash frees another " in said


def test_a_plan_says_about_what_its_log_will_take(inside: Inside) -> None:
    home = inside.machine.home
    lines = [a_line(f"20250101_000000_{n:06x}", at=_ago(100), messages=2) for n in range(200)]
    bring_in(home, lines, now=time.time())
    for words in ("sessions prune --older-than 1d", "trash empty"):
        said = inside.ok(*words.split(), "--dry-run").out
        [told] = re.findall(r"The undo log of this run will take about ([0-9.]+) kB\.", said)
        took = _report(inside, *words.split(), "--yes")["log_bytes"]
        assert float(told) == pytest.approx(took / 1000, rel=0.15)
    bring_in(home, [a_line(ONE, at=_ago(100), messages=40, size=1000)], now=time.time())
    assert "log of this run" not in inside.ok("sessions", "prune", "--dry-run").out


def test_what_an_archive_takes_is_not_free(inside: Inside) -> None:
    home = inside.machine.home
    lines = [a_line(f"20250101_000000_{n:06x}", at=_ago(100), messages=40) for n in range(50)]
    bring_in(home, lines, now=time.time())
    inside.ok("sessions", "list")
    before = disk_bytes(home)
    plan = "The plan archives 50 items, [0-9.]+ kB on disk"
    assert re.search(plan, inside.ok("sessions", "archive", "--older-than", "1d", "--dry-run").out)
    report = _report(inside, "sessions", "archive", "--older-than", "1d", "--yes")
    bundles = disk_bytes(*(home / "archive").glob("*.tar.zst"))
    assert report["bytes_in_archive"] == bundles > 0
    assert sum(each["bytes_in_archive"] for each in report["items"]) == bundles
    taken = report["bytes_in_archive"] + report["log_bytes"]
    beside = sum(disk_bytes(home / each) for each in ("operations/lock", "archive/catalogue.jsonl"))
    assert before - disk_bytes(home) == report["bytes_freed"] - taken - beside
    log = inside.json("log")
    assert isinstance(log, dict)
    [logged] = log["operations"]
    assert logged["bytes_in_archive"] == bundles
    inside.ok("undo")
    said = inside.ok("sessions", "archive", "--older-than", "1d", "--yes").out
    assert f", minus {format_bytes(bundles)} for the archive" in said
    assert f"of messages in {format_bytes(bundles)}." in said


@pytest.mark.parametrize(
    ("freed", "in_archive", "log", "said"),
    [
        (45_100, 0, 331_800, "45.1 kB (its log takes 331.8 kB)"),
        (593_900, 0, 241_700, "593.9 kB, minus 241.7 kB for the log"),
        (
            593_900,
            90_000,
            241_700,
            "593.9 kB, minus 90.0 kB for the archive and 241.7 kB for the log",
        ),
        (593_900, 0, 9_000, "593.9 kB"),
        (593_900, 9_000, 0, "593.9 kB"),
        (0, 0, 331_800, "0 B"),
        (0, 45_100, 331_800, "0 B (the archive takes 45.1 kB)"),
        (20_000, 122_900, 12_300, "20.0 kB (the archive takes 122.9 kB, its log 12.3 kB)"),
    ],
)
def test_no_more_comes_off_than_was_freed(freed: int, in_archive: int, log: int, said: str) -> None:
    """Of two prunes at once, one frees little and logs all that it skipped."""
    outcome = Outcome(
        kind="space",
        id="1",
        result=Result.RECLAIMED,
        bytes_freed=freed,
        bytes_in_archive=in_archive,
    )
    assert freed_words([Report(operation="1", outcomes=(outcome,), log_bytes=log)]) == said


def test_a_small_home_is_promised_what_it_gets(small: Inside) -> None:
    assert "The policy would remove 1 item and free 0 B." in small.ok("status").out
    gone = small.ok("sessions", "prune", "--now", "--yes").out
    assert "The plan removes 1 item, 0 B on disk" in gone
    assert "Freed 0 B.\n" in gone


def test_undo_copies_are_not_counted_as_a_gain(small: Inside) -> None:
    home = small.machine.home
    said = small.ok("sessions", "delete", ONE, "--yes").out
    assert "Freed 0 B now. Bring it back with:" in said
    copies = disk_bytes(home / "trash")
    assert f"copies of database rows take {copies / 1000:.1f} kB more." in said


def test_a_home_without_sessions_says_so(inside: Inside) -> None:
    inside.ok("config", "init")
    for words in ("sessions list", "sessions stats"):
        assert inside.ok(*words.split()).out == _NONE_YET, words
    assert inside.ok("sessions", "list", "--title", "x").out == "No sessions match.\n"
    bring_in(inside.machine.home, [], now=time.time())
    assert inside.ok("sessions", "stats").out == _NONE_YET


def test_where_all_is_in_the_trash_that_is_named(inside: Inside) -> None:
    bring_in(inside.machine.home, [a_line(ONE, at=_ago(400))], now=time.time())
    inside.ok("sessions", "delete", ONE, "--yes")
    said = inside.ok("sessions", "list").out
    assert said.endswith("What was removed is in the trash:\n  holdfast trash list\n"), said


def test_in_the_home_directory_another_one_is_asked_for(inside: Inside) -> None:
    inside.ok("config", "init")
    for words in ("checkpoints", "checkpoints list"):
        assert "  holdfast checkpoints take DIR\n" in inside.ok(*words.split()).out, words
    refused = inside.run("checkpoints", "take")
    assert refused.code == 1
    assert "it is your home directory" in refused.err
    assert "`holdfast checkpoints take DIR`" in refused.err
    project = inside.machine.user / "project"
    project.mkdir()
    assert (
        f"holdfast checkpoints take {project}\n"
        in inside.ok("checkpoints", "list", str(project)).out
    )
