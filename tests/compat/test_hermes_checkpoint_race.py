"""Holdfast bounds and restores beside real Hermes processes that take checkpoints all the time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.errors import BusyError
from holdfast.homes.hermes.repository.reclaim import GRACE
from holdfast.model.report import Report, Result
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.rollback import rollback
from tests.compat.hermes_store import Hermes, Home, hermes, tree, write

pytestmark = pytest.mark.deep

SECONDS = 60.0
#: What is younger stays, as it would for ten minutes: long enough for a checkpoint here, and short
#: enough that something goes while the test runs.
YOUNG = 15.0
KEPT = 3
#: What Hermes says when its `git gc` finds that we are at work, or just about to begin: it tries
#: again with its next one.
GC_WAITS = ("gc is already running", "gc.pid.lock': File exists")

Captured = Mapping[str, Mapping[str, Mapping[str, str]]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path.resolve() / "home"
    root.mkdir()
    (root / "config.yaml").write_text("model: none\n")
    (root / "SOUL.md").touch()
    return Home(root, now=time.time())


def folders(home: Home, *names: str) -> list[Path]:
    made = [home.root.parent / name for name in names]
    for each in made:
        each.mkdir()
    return made


def bound(home: Home, rounds: list[Report], *, use_trash: bool) -> None:
    home.now = time.time() + GRACE - YOUNG
    try:
        rounds.append(home.prune(CheckpointPolicy(max_count=KEPT, use_trash=use_trash)))
    except BusyError:
        return  # a `git gc` of Hermes: that is the answer for which there is a next run


def go_back_and_forth(home: Home, still: Path) -> None:
    """Restore a project at which nobody works, and take that back."""
    before = tree(still)
    target = home.store.list(still)[-1]
    ready = home.store.ready(home.store.get(target.id))
    rollback(home.home, home.store, ready.id, command="restore", clock=lambda: home.now)
    assert (still / "a.txt").read_text() == "0\n"
    home.undo()
    assert tree(still) == before


def a_still_project(running: Hermes, still: Path) -> None:
    for number in range(2):
        write(still, [("a.txt", f"{number}\n"), (f"{number}", "x\n")])
        assert running.take(still, f"still {number}")


def assert_only_waited(running: Hermes) -> None:
    errors = running.ask("errors")
    assert [each for each in errors if not any(said in each for said in GC_WAITS)] == []


def check(home: Home, captured: Captured) -> int:
    """Every checkpoint that is left is whole, and what Hermes saw when it took it."""
    home.fsck()
    verified = home.home.checkpoint_upkeep.verify()
    assert verified.ok, verified.problems
    checked = 0
    for workdir, by_reason in captured.items():
        for each in home.store.list(Path(workdir)):
            if each.reason in by_reason:
                files = home.store.captured(each.tree).files
                found = {path: home.store.blob(entry.oid) for path, entry in files.items()}
                wanted = by_reason[each.reason]
                assert found == {name: text.encode() for name, text in wanted.items()}
                checked += 1
    return checked


def race(home: Home, hermeses: Sequence[tuple[Hermes, list[Path]]], still: Path) -> Captured:
    rounds: list[Report] = []
    for each, workdirs in hermeses:
        each.begin("keep_busy", workdirs, SECONDS)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        bound(home, rounds, use_trash=len(rounds) % 2 == 0)
        go_back_and_forth(home, still)
    captured = {key: value for each, _ in hermeses for key, value in each.end().items()}
    assert len(rounds) > 5
    outcomes = [each for report in rounds for each in report.outcomes]
    assert not [each for each in outcomes if each.result is Result.FAILED]
    assert sum(each.result is Result.REMOVED for each in outcomes) > 5
    return captured


def test_several_hermeses_take_while_we_bound_and_restore(home: Home) -> None:
    one, two, three, still = folders(home, "one", "two", "three", "still")
    with ExitStack() as stack:
        first = stack.enter_context(hermes(home.root, max_snapshots=10_000))
        second = stack.enter_context(hermes(home.root, max_snapshots=10_000))
        a_still_project(first, still)
        captured = race(home, [(first, [one, two]), (second, [three])], still)
        for running in (first, second):
            assert_only_waited(running)
        tried = sum(len(each) for each in captured.values())
        assert tried > 20
        assert check(home, captured)
        # The last thing that each of them took is there.
        for workdir, by_reason in captured.items():
            newest = first.ask("listed", workdir)[0]["reason"]
            assert newest == list(by_reason)[-1]
    home.age()
    home.prune(CheckpointPolicy(max_count=1, use_trash=False))
    assert check(home, captured) == len(captured)


def test_a_hermes_that_drops_and_collects_by_itself_meets_us(home: Home) -> None:
    one, two, still = folders(home, "one", "two", "still")
    with hermes(home.root, max_snapshots=KEPT + 1) as running:
        a_still_project(running, still)
        captured = race(home, [(running, [one, two])], still)
        assert_only_waited(running)
        for workdir, by_reason in captured.items():
            assert running.ask("listed", workdir)[0]["reason"] == list(by_reason)[-1]
    assert check(home, captured)


def test_no_git_of_ours_is_left_behind(home: Home) -> None:
    """A lock of git's that stayed would keep Hermes out for good."""
    (one,) = folders(home, "one")
    with hermes(home.root) as running:
        write(one, [("a.txt", "0\n")])
        assert running.take(one, "first")
    lock = home.git_dir / "indexes" / f"{home.git('for-each-ref').split('/')[-1].strip()}.lock"
    lock.write_bytes(b"")  # what a git leaves that Hermes killed because it was slow
    with hermes(home.root) as running:
        write(one, [("a.txt", "1\n")])
        assert not running.take(one, "in vain")
        home.age()
        home.home.checkpoint_upkeep.pack()
        write(one, [("a.txt", "2\n")])
        assert running.take(one, "again")
    assert list(home.git_dir.rglob("*.lock")) == []
