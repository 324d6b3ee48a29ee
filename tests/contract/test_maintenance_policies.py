"""Files-only retention and archiving as maintenance does them, in both kinds of homes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.api.sessions import open_sessions
from holdfast.config.reader import load
from holdfast.errors import StorageError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import HomeOptions
from holdfast.homes.registry import config_file, create_state, open_home
from holdfast.model.item import SESSION
from holdfast.model.maintenance import Step
from holdfast.policy.rules import Policy
from holdfast.ports.home import Home
from holdfast.services.doctor import examine
from holdfast.services.maintenance_steps import plan_step, preview
from holdfast.services.plans import plan_archive
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
from tests.compat import hermes_sessions as hermes
from tests.contract.maintained import DAY, a_home, at, bundles_of, ids, step

ARCHIVE = "[sessions]\nauto_archive = true\n"


@pytest.fixture(params=["holdfast", "hermes"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A home with old sessions that have files."""
    if request.param == "hermes":
        root, now = hermes.recorded(tmp_path), hermes.NOW
    else:
        root, now = a_home(tmp_path / "home", sessions=3), time.time()
        for number in range(3):
            write_old(root / "sessions" / f"old-{number:04}.jsonl", now - 200 * DAY)
    return open_home(root, clock=lambda: now)


def write_old(path: Path, at: float) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"role": "user"}\n')
    os.utime(path, (at, at))


def configure(home: Home, text: str) -> None:
    create_state(home.root)
    config_file(home.root).write_text(text)


def now_of(home: Home) -> float:
    return hermes.NOW if home.kind == "hermes" else time.time()


def stored(home: Home) -> set[str]:
    store = home.session_store()
    assert store is not None
    return {session.id for session in store.find(holdfast.SessionFilter())}


def files(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home.root / "sessions").iterdir()}


def maintained(home: Home, name: Step) -> str:
    """Run it; the operation of one of its steps."""
    now = now_of(home)
    result = holdfast.maintain(home.root, clock=lambda: now)
    assert result.ok, result.errors
    (report,) = step(result, name).reports
    assert report.operation is not None
    return report.operation


def test_files_of_old_sessions_go_and_their_rows_stay(home: Home) -> None:
    configure(home, "[sessions]\nfiles_retention_days = 7\n")
    before, there = stored(home), files(home)
    operation = maintained(home, Step.FILES)
    assert stored(home) == before
    assert set(files(home)) < set(there)
    undo(home, operation, clock=lambda: now_of(home))
    assert files(home) == there


def test_old_sessions_are_archived_before_prune_takes_them(home: Home) -> None:
    configure(home, ARCHIVE + "auto_prune = true\narchive_after_days = 90\nretention_days = 90\n")
    before, there = stored(home), files(home)
    operation = maintained(home, Step.AUTO_ARCHIVE)
    gone = before - stored(home)
    assert gone
    assert {item.session for item in home.archive.items()} == gone
    kinds = {entry.removal.item.kind for entry in home.log.read().trash}
    assert SESSION not in kinds, "prune took a session that belongs into the archive"
    undo(home, operation, clock=lambda: now_of(home))
    assert stored(home) == before
    assert set(there) >= set(files(home)) >= {name for name in there if "old-" in name}


@pytest.mark.parametrize("inside", ["", "archive", "missing/archive"])
def test_what_cannot_be_archived_is_not_pruned(tmp_path: Path, inside: str) -> None:
    root = a_home(tmp_path / "home", sessions=3)
    place = tmp_path / "place"
    if "missing" not in inside:
        place.write_text("")
    (root / "config.toml").write_text(
        f"{ARCHIVE}auto_prune = true\nauto_gc = true\ntrivial_max = 9\n"
        f'files_retention_days = 1\n[archive]\nfolder = "{place / inside}"\n'
    )
    write_old(root / "sessions" / "old-0000.jsonl", time.time() - 200 * DAY)
    settings = load(root / "config.toml", {})
    home = open_home(root, clock=time.time, options=HomeOptions.of(settings))
    shown = plan_step(Step.AUTO_ARCHIVE, home, settings, now=time.time())
    assert str(place) in shown.note, "a dry run says so"
    with pytest.raises(StorageError, match=str(place)):  # before a plan is shown
        plan_archive(
            home, home.archive, ids=sorted(ids(root)), policy=Policy(), now=time.time(), command="x"
        )
    result = holdfast.maintain(root)
    failed = step(result, Step.AUTO_ARCHIVE)
    assert not result.ok
    assert str(place) in (failed.error or ""), "one error, not one for each session"
    assert not failed.reports
    checked = HoldfastHome(root, clock=time.time, options=HomeOptions.of(settings))
    found = {each.check: each for each in examine(checked, progress=Silent()).findings}
    assert str(place) in found["archive"].message
    assert len(ids(root)) == 3, "they wait for the archive"
    assert (root / "sessions" / "old-0000.jsonl").exists()
    place.unlink(missing_ok=True)
    (place / inside).mkdir(parents=True)
    later = time.time() + 2 * 3600  # a failed run is tried again after an hour
    result = holdfast.maintain(root, clock=lambda: later)
    assert result.ok, result.errors
    assert ids(root) == set()
    assert len(bundles_of(place)) == 3


@pytest.mark.parametrize("cap", [1, 2, 3, 9, 10])
def test_a_cap_counts_what_waits_for_the_archive(tmp_path: Path, cap: int) -> None:
    """Four wait, five are young. Those that wait cost no younger one its place."""
    root = a_home(tmp_path / "home", sessions=4)
    with open_sessions(root) as store:
        for number in range(5):
            store.create(source="cli", id=f"new-{number}")
            store.append(f"new-{number}", holdfast.Message(role="user", content="hello"))
            store.end(f"new-{number}")
    (root / "config.toml").write_text(
        f"{ARCHIVE}auto_prune = true\nretention_days = 0\nmax_count = {cap}\n"
        f'[archive]\nfolder = "{tmp_path / "missing" / "archive"}"\n'
    )
    young = min(5, cap)
    for moment in (time.time(), time.time() + 2 * 3600):
        result = holdfast.maintain(root, clock=at(moment))
        there = ids(root)
        assert len(there) == 4 + young
        found = step(result, Step.PRUNE).shortfalls
        assert [(each.limit, each.remaining) for each in found] == (
            [(cap, len(there))] if len(there) > cap else []
        )
        for each in found:
            assert each.held_by["waiting for the archive"] == 4
            assert sum(each.held_by.values()) == each.remaining
        told = [event.message for event in result.events]
        assert not any("not given back yet" in each for each in told), told
    settings = load(root / "config.toml", {})
    (tmp_path / "missing").mkdir()
    home = open_home(root, clock=time.time, options=HomeOptions.of(settings))
    plans = preview(home, settings, now=time.time())
    assert not any(each.plan.shortfalls for each in plans), "the archive would take them first"


def test_what_is_in_the_archive_stays_bounded(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home", ARCHIVE + "[archive]\nretention_days = 10\n", sessions=3)
    assert step(holdfast.maintain(root), Step.AUTO_ARCHIVE).removed
    later = time.time() + 11 * DAY
    result = holdfast.maintain(root, clock=lambda: later)
    assert step(result, Step.ARCHIVE).removed == 3


def test_a_pin_keeps_files_and_keeps_out_of_the_archive(tmp_path: Path) -> None:
    config = ARCHIVE + "files_retention_days = 1\npins = ['old-0001']\n"
    root = a_home(tmp_path / "home", config, sessions=2)
    for number in range(2):
        write_old(root / "sessions" / f"old-{number:04}.jsonl", time.time() - 200 * DAY)
    assert holdfast.maintain(root).ok
    assert ids(root) == {"old-0001"}
    assert [path.name for path in (root / "sessions").iterdir()] == ["old-0001.jsonl"]


def test_nothing_old_enough_writes_no_operation(tmp_path: Path) -> None:
    config = ARCHIVE + "archive_after_days = 900\nfiles_retention_days = 900\n"
    root = a_home(tmp_path / "home", config, sessions=2)
    result = holdfast.maintain(root)
    assert result.ok
    assert not step(result, Step.AUTO_ARCHIVE).reports
    assert not step(result, Step.FILES).reports


def test_a_default_that_is_written_down_is_due_too(home: Home) -> None:
    """In the home of another agent, ending abandoned sessions begins when the file says so."""
    now = now_of(home)
    assert holdfast.maintain(home.root, clock=lambda: now).ran
    configure(home, "[sessions]\nabandoned_hours = 24\n")
    assert holdfast.maintain(home.root, clock=lambda: now).ran
    assert not holdfast.maintain(home.root, clock=lambda: now).ran
