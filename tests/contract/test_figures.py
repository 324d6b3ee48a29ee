"""The figures of a home: kept for long in a small file, whatever happens while they are written."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.api.machine import Machine
from holdfast.api.sessions import open_sessions
from holdfast.errors import BusyError, StorageError
from holdfast.model.figures import Growth, HomeFigures, Tally
from holdfast.model.maintenance import Step
from holdfast.policy.rules import DAY, HOUR
from holdfast.stores import figures_file
from holdfast.stores.counters import FileTallies
from holdfast.stores.figures_file import FiguresFile, thinned
from holdfast.stores.lock import exclusive
from tests.builders import NOW
from tests.contract.maintained import a_home, step
from tests.contract.maintained import at as stopped_at


def at(moment: float, size: int = 1) -> HomeFigures:
    return HomeFigures(at=moment, bytes=size, maintained_at=moment, maintenance_ok=True)


def file_of(state: Path) -> Path:
    return state / "operations" / figures_file.NAME


# --- Figures --------------------------------------------------------------------------------------


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    whole = HomeFigures(
        at=NOW,
        bytes=100,
        session_bytes=1,
        checkpoint_bytes=2,
        trash_bytes=3,
        vault_bytes=4,
        archive_bytes=5,
        leftover_bytes=6,
        sessions=7,
        reclaimable_bytes=8,
        disk_free=9,
        disk_size=10,
        maintained_at=11.5,
        maintenance_ok=False,
        refusals=12,
        hook_failures=13,
        alarms=14,
    )
    bare = HomeFigures(at=NOW + 1, bytes=0)
    for each in (whole, bare):
        FiguresFile(tmp_path).add(each)
    assert FiguresFile(tmp_path).read() == [whole, bare]
    assert whole.other_bytes == 79


def test_reading_creates_nothing(tmp_path: Path) -> None:
    assert FiguresFile(tmp_path).read() == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b'{"format":1,"at":17', id="torn by a kill"),
        pytest.param(b"\0\0\0\0\n", id="zeroes after a power cut"),
        pytest.param(b'{"format":2,"at":1,"bytes":1}\n', id="of a later version"),
        pytest.param(b'{"format":1,"at":NaN,"bytes":1}\n', id="not a time"),
        pytest.param(b'{"format":1,"at":1,"bytes":-5}\n', id="less than nothing"),
        pytest.param(b'{"format":1,"at":1,"bytes":' + b"9" * 400 + b"}\n", id="too large"),
        pytest.param(b'{"format":1,"at":1,"bytes":9007199254740992}\n', id="larger than any disk"),
        pytest.param(b"[" * 100_000 + b"\n", id="too deep"),
        pytest.param(b"[1]\n", id="a list"),
    ],
)
def test_a_line_that_is_none_costs_itself_only(tmp_path: Path, tail: bytes) -> None:
    kept = FiguresFile(tmp_path)
    kept.add(at(NOW))
    with file_of(tmp_path).open("ab") as file:
        file.write(tail)
    assert kept.read() == [at(NOW)]
    kept.add(at(NOW + 1))
    assert kept.read() == [at(NOW), at(NOW + 1)]


def test_years_of_looks_stay_a_small_file(tmp_path: Path) -> None:
    """Twice an hour for months, as a watcher looks; and the oldest look is still one of
    them."""
    kept = FiguresFile(tmp_path)
    kept.add(at(NOW - 600 * DAY))
    lines = [figures_file._line(at(NOW - 100 * DAY + n * HOUR / 2)) for n in range(4_800)]
    with file_of(tmp_path).open("ab") as file:
        file.writelines(lines)
    kept.add(at(NOW))
    found = kept.read()
    assert len(found) < figures_file._MOST / 1.5
    assert file_of(tmp_path).stat().st_size < 150_000
    assert (found[0].at, found[-1].at) == (NOW - 600 * DAY, NOW)
    recent = [each for each in found if each.at > NOW - DAY]
    assert len(recent) >= 24


def test_a_wrong_clock_costs_no_history() -> None:
    """Thinning counts days: one look from 2099 is one day more, not the end of all others."""
    right = [at(NOW - n * DAY) for n in range(80)]
    kept = thinned([*right, at(NOW + 73 * 365 * DAY), at(0.0)])
    assert set(right) <= set(kept)
    assert kept == sorted(kept, key=lambda each: each.at)


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: FiguresFile(tmp_path).add(at(NOW + n)), range(40)))
    assert [each.at - NOW for each in FiguresFile(tmp_path).read()] == list(range(40))


def test_what_a_killed_thinning_left_goes_with_the_next_look(tmp_path: Path) -> None:
    kept = FiguresFile(tmp_path)
    kept.add(at(NOW))
    left = file_of(tmp_path).with_name(f".{figures_file.NAME}.tmp")
    left.write_bytes(b"half")
    kept.add(at(NOW + 1))
    assert not left.exists()
    assert len(kept.read()) == 2


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("mine")
    (tmp_path / "operations").mkdir()
    file_of(tmp_path).symlink_to(elsewhere)
    with pytest.raises(StorageError):
        FiguresFile(tmp_path).add(at(NOW))
    assert FiguresFile(tmp_path).read() == []
    assert elsewhere.read_text() == "mine"


def test_only_its_owner_reads_them(tmp_path: Path) -> None:
    FiguresFile(tmp_path).add(at(NOW))
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600


def test_a_line_has_numbers_alone(tmp_path: Path) -> None:
    """Nothing that an export could give away: no path, no id, no title."""
    FiguresFile(tmp_path).add(at(NOW))
    said = json.loads(file_of(tmp_path).read_text())
    assert all(isinstance(each, int | float | None) for each in said.values())


def test_a_writer_that_is_stuck_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_file, "_WAIT", 0.0)
    FiguresFile(tmp_path).add(at(NOW))
    with (
        exclusive(tmp_path / "operations" / figures_file.LOCK, holder="x", wait=0.0),
        pytest.raises(BusyError),
    ):
        FiguresFile(tmp_path).add(at(NOW + 1))


# --- Who keeps them -------------------------------------------------------------------------------


def test_maintenance_keeps_what_it_saw_and_how_it_went(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home", sessions=3)
    result = holdfast.maintain(root, clock=lambda: NOW)
    assert result.ok, result
    with holdfast.open(root, clock=lambda: NOW + 60) as home:
        (seen,) = home.figures()
        assert (seen.sessions, seen.maintained_at, seen.maintenance_ok) == (3, NOW, True)
        assert seen.session_bytes > 0
        assert seen.disk_free is not None
        assert home.growth().latest == seen


def test_a_maintenance_that_failed_says_so(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home", "[archive]\nretention_days = 1\n", sessions=1)
    (root / "archive").write_text("in the way")
    assert not holdfast.maintain(root, clock=lambda: NOW).ok
    with holdfast.open(root) as home:
        assert [each.maintenance_ok for each in home.figures()] == [False]


def test_figures_that_cannot_be_kept_stop_nothing(tmp_path: Path) -> None:
    """Law 7: the rest of the run is done, and the result says what was not."""
    root = a_home(tmp_path / "home", "[sessions]\nauto_prune = true\n", sessions=3)
    (root / "operations").mkdir(exist_ok=True)
    (root / "operations" / figures_file.NAME).mkdir()
    result = holdfast.maintain(root)
    assert step(result, Step.PRUNE).removed == 3
    assert step(result, Step.FIGURES).error
    assert not result.ok


def test_the_machine_keeps_those_of_each_home(tmp_path: Path) -> None:
    a_home(tmp_path / ".holdfast", sessions=2)
    codex = tmp_path / ".codex"
    (codex / "sessions").mkdir(parents=True)
    with Machine(tmp_path, environ={}, clock=lambda: NOW) as machine:
        kept = machine.record_figures()
        assert not kept.unread
        found = machine.growth()
    assert {home.agent for home, _ in found.seen} == {home.agent for home, _ in kept.seen}
    assert found.together.latest is not None
    assert found.together.latest.sessions == 2
    assert found.together.latest.bytes == sum(each.bytes for _, each in kept.seen)


# --- Tallies --------------------------------------------------------------------------------------


def test_each_count_is_one_byte_more(tmp_path: Path) -> None:
    counts = FileTallies(tmp_path)
    assert counts.read() == {}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: FileTallies(tmp_path).add(Tally.REFUSALS, "codex"), range(50)))
    counts.add(Tally.REFUSALS, "claude-code")
    counts.add(Tally.ALARMS)
    assert counts.read() == {
        (Tally.REFUSALS, "codex"): 50,
        (Tally.REFUSALS, "claude-code"): 1,
        (Tally.ALARMS, ""): 1,
    }
    assert counts.total(Tally.REFUSALS) == 51


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "x" * 300, "Ünï", "\0", "a\nb"])
def test_the_name_of_an_agent_is_never_a_path(tmp_path: Path, name: str) -> None:
    FileTallies(tmp_path).add(Tally.HOOK_FAILURES, name)
    assert FileTallies(tmp_path).read() == {(Tally.HOOK_FAILURES, "other"): 1}
    assert [each.name for each in tmp_path.iterdir()] == ["tallies"]


def test_names_without_end_are_counted_as_one(tmp_path: Path) -> None:
    counts = FileTallies(tmp_path)
    for number in range(120):
        counts.add(Tally.REFUSALS, f"agent-{number}")
    assert len(counts.read()) <= 51
    assert counts.total(Tally.REFUSALS) == 120


def test_a_count_that_is_too_long_begins_anew(tmp_path: Path) -> None:
    counts = FileTallies(tmp_path)
    counts.add(Tally.ALARMS)
    os.truncate(tmp_path / "tallies" / "alarms", 1024**2)
    counts.add(Tally.ALARMS)
    assert counts.total(Tally.ALARMS) == 1


def test_counting_never_raises(tmp_path: Path) -> None:
    (tmp_path / "tallies").write_text("a file in the place of the folder")
    FileTallies(tmp_path).add(Tally.ALARMS)
    assert FileTallies(tmp_path).read() == {}
    link = tmp_path / "other" / "tallies"
    link.mkdir(parents=True)
    (link / "alarms").symlink_to(tmp_path / "tallies")
    FileTallies(tmp_path / "other").add(Tally.ALARMS)
    assert (tmp_path / "tallies").read_text() == "a file in the place of the folder"


# --- A month --------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_month_of_growth_and_prunes_is_told_as_it_was(tmp_path: Path) -> None:
    """Thirty days of an agent that leaves more each day, with maintenance that prunes what is older
    than ten: after that the home grows no more, and both is what the trend says."""
    root = a_home(tmp_path / "home", "[sessions]\nauto_prune = true\nretention_days = 10\n")
    chance = Random(1)
    seen: list[Growth] = []
    for day in range(30):
        clock = stopped_at(NOW + day * DAY)
        with open_sessions(root, clock=clock) as store:
            for number in range(8):
                session = store.create(source="cli", id=f"day-{day:02}-{number}")
                text = chance.randbytes(30_000).hex()  # hardly to be compressed
                store.append(session.id, holdfast.Message(role="user", content=text))
                store.end(session.id)
        assert holdfast.maintain(root, clock=clock, force=True).ok
        with holdfast.open(root, clock=clock) as home:
            seen.append(home.growth())
    young, old = seen[8], seen[-1]
    assert young.bytes_per_day is not None
    assert old.bytes_per_day is not None
    assert 8 * 30_000 * 0.8 < young.bytes_per_day < 8 * 60_000 * 1.5
    assert abs(old.bytes_per_day) < young.bytes_per_day / 2
    assert [len(each.points) for each in seen] == [min(day + 1, 28) for day in range(30)]
    assert all(each.latest is not None and each.latest.maintenance_ok for each in seen)
    assert old.latest is not None
    assert old.latest.sessions <= 8 * 11
