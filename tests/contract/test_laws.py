"""The laws of SPEC §1 and what follows from them, over every home and store of the factory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast import HomeReport
from holdfast.errors import (
    BusyError,
    CannotUndoError,
    HoldfastError,
    NotAHomeError,
    SchemaError,
    UnknownSessionError,
    UsageError,
)
from holdfast.model.item import ARCHIVED, CHECKPOINT, SESSION
from holdfast.model.plan import Action
from holdfast.model.report import Result
from holdfast.parts import rows
from holdfast.stores.sqlite import database
from tests.cli.privileges import mounts_of_its_own
from tests.cli.runner import COMMAND, environment
from tests.contract import factory
from tests.contract.factory import (
    AGENTS,
    ELSEWHERE,
    HOMES,
    SESSION_HOMES,
    Sample,
    Templates,
)
from tests.contract.turns import Turns, marks

Law = TypeVar("Law", bound=Callable[..., object])

ROOT = Path(__file__).parents[2]
WITH_PIN = [name for name, sample in HOMES.items() if sample.pin]
WITH_TOUCH = [name for name, sample in HOMES.items() if sample.touch]
WITH_LIFE = [name for name, sample in HOMES.items() if sample.revive]
WITH_VERSION = [name for name, sample in HOMES.items() if sample.renew]
WITH_DATABASE = [name for name, sample in HOMES.items() if sample.database]
#: At least so many in `make test`, whatever becomes of the list of agents.
_FEWEST_LAWS = 6
#: What no id may be: paths, patterns, SQL, too long, not text.
HOSTILE = ("../../etc", "", "*", "a' OR '1'='1", "x" * 400, "\ud800", "%", "a\nb", "/etc/passwd")


class Bench:
    """A home of the factory, opened."""

    def __init__(self, sample: Sample, root: Path) -> None:
        self.sample = sample
        self.root = root
        self.home = sample.open(root)

    def look(self) -> factory.Look:
        return self.sample.look(self.home)

    def words(self) -> factory.Look:
        return factory.words(self.sample, self.home)

    def ids(self) -> set[str]:
        return self.sample.ids(self.home)

    def going(self) -> list[str]:
        """What the plan of the sample removes, without the files that go with it."""
        removals = self.sample.plan(self.home).removals
        return [each.id for each in removals if each.kind == self.sample.kind]

    def trash(self) -> list[Path]:
        return factory.trash(self.sample, self.home)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates").resolve())


@pytest.fixture
def bench(request: pytest.FixtureRequest, templates: Templates, tmp_path: Path) -> Iterator[Bench]:
    with factory.formats_installed(tmp_path / "packages"):
        made = Bench(
            templates.copy(request.param, tmp_path / "home"), (tmp_path / "home").resolve()
        )
        yield made
        made.home.close()


#: The homes that each law meets in a quick run.
QUICK: dict[str, set[str]] = {}
_turns = Turns((*AGENTS, *ELSEWHERE), share=4)


def over(*names: str, always: bool = False) -> Callable[[Law], Law]:
    """`always`: what no format may break, not even for a day, is tried on every agent each time."""

    def parametrised(law: Law) -> Law:
        quick = QUICK[law.__name__] = {*names} if always else _turns.take(names)
        params = [pytest.param(each, marks=marks(each in quick), id=each) for each in names]
        marked: Law = pytest.mark.parametrize("bench", params, indirect=True)(law)
        return marked

    return parametrised


everything = over(*HOMES)
sessions = over(*SESSION_HOMES)


def test_every_agent_meets_many_laws_in_a_quick_run() -> None:
    for agent in AGENTS:
        assert sum(agent in quick for quick in QUICK.values()) >= _FEWEST_LAWS, agent


def results(report: HomeReport, kind: str) -> dict[str, Result]:
    return {each.id: each.result for each in report.outcomes if each.kind == kind}


def reasons(report: HomeReport) -> dict[str, str]:
    return {each.id: each.reason for each in report.outcomes if each.result is Result.SKIPPED}


# --- Looking changes nothing ----------------------------------------------------------------------


@everything
def test_looking_and_planning_change_nothing(bench: Bench) -> None:
    before, done, home = bench.look(), bench.home.log.list(), bench.home
    home.status()
    home.stats()
    plan = bench.sample.plan(home)
    assert plan.removals
    assert plan.kept
    assert all(each.reason for each in plan.items)
    assert bench.look() == before
    assert home.log.list() == done


@everything
def test_the_same_look_makes_the_same_plan(bench: Bench) -> None:
    assert bench.sample.plan(bench.home).plan == bench.sample.plan(bench.home).plan


@everything
def test_every_byte_on_the_disk_is_shown(bench: Bench) -> None:
    bench.sample.plan(bench.home).apply()
    inventory = bench.home.status().inventory
    shown = inventory.total_bytes
    if bench.sample.elsewhere:  # what the server holds is shown, and does not lie here
        here = sum(path.lstat().st_blocks * 512 for path in bench.trash() if path.exists())
        shown -= sum(each.bytes for each in inventory.items if each.kind == SESSION)
        shown -= sum(each.bytes for each in inventory.trash) - here
        assert inventory.loose_trash_bytes == 0
    files = [
        path.lstat() for path in bench.root.rglob("*") if path.is_symlink() or not path.is_dir()
    ]
    assert shown == sum(each.st_blocks * 512 for each in files)


@everything
def test_figures_are_what_status_shows(bench: Bench) -> None:
    """And lie on this disk; keeping them touches nothing of the agent."""
    before = bench.look()
    status = bench.home.status()
    assert status.growth.latest is not None
    kept = bench.home.record_figures()
    shown = status.growth.latest
    assert bench.look() == before
    assert kept.sessions == shown.sessions
    assert kept.reclaimable_bytes == shown.reclaimable_bytes
    assert kept.session_bytes == shown.session_bytes
    assert bench.home.growth().latest == kept
    if not bench.sample.elsewhere:
        assert shown.bytes == status.inventory.total_bytes
    named = kept.session_bytes + kept.checkpoint_bytes + kept.trash_bytes + kept.vault_bytes
    assert named + kept.archive_bytes + kept.leftover_bytes + kept.other_bytes == kept.bytes


# --- Undo is identity -----------------------------------------------------------------------------


@over(*HOMES, always=True)
def test_undo_is_identity(bench: Bench) -> None:
    before, ids, going = bench.look(), bench.ids(), bench.going()
    report = bench.sample.plan(bench.home).apply()
    assert results(report, bench.sample.kind) == dict.fromkeys(going, Result.REMOVED)
    assert bench.ids() == ids - set(going)
    back = report.undo()
    assert {each.result for each in back.outcomes} == {Result.BROUGHT_BACK}
    assert bench.look() == before
    assert bench.trash() == []


@everything
def test_redo_is_the_operation_again(bench: Bench) -> None:
    before, going = bench.look(), bench.going()
    report = bench.sample.plan(bench.home).apply()
    left = bench.ids()
    undone = report.undo()
    again = bench.home.redo()
    assert results(again, bench.sample.kind) == dict.fromkeys(going, Result.REMOVED)
    assert bench.ids() == left
    operation = bench.home.log.get(str(again.operation))
    assert (operation.redoes, operation.undone_by) == (report.operation, ())
    assert bench.home.log.get(str(report.operation)).redone_by == (again.operation,)
    with pytest.raises(CannotUndoError, match="nothing left to redo"):
        bench.home.redo()
    redone = f"already redone, by operation {again.operation}"
    for number in (report.operation, undone.operation):
        with pytest.raises(CannotUndoError, match=redone):
            bench.home.redo(str(number))
    assert {each.result for each in again.undo().outcomes} == {Result.BROUGHT_BACK}
    assert bench.look() == before
    assert bench.trash() == []


@over(*WITH_TOUCH)
def test_redo_leaves_what_changed_since_the_undo(bench: Bench) -> None:
    name = bench.going()[0]
    first = bench.sample.plan(bench.home).apply()
    first.undo()
    assert bench.sample.touch
    bench.sample.touch(bench.home, name)
    before = bench.look()
    report = bench.home.redo()
    assert name in bench.ids()
    assert reasons(report)[name] == "changed since the plan was made"
    # What is left of it can still be asked for by its number.
    left = bench.home.plan_redo(first.operation).planned.removals
    assert [each.id for each in left if each.kind == bench.sample.kind] == [name]
    report.undo()
    assert bench.look() == before


@sessions
def test_a_name_and_a_pin_are_undone_exactly(bench: Bench) -> None:
    """Whatever can be changed in its place here. What cannot be is refused, and not in the log."""
    before, done, home = bench.look(), len(bench.home.log.list()), bench.home
    names = sorted(bench.ids())[:2]
    edits = home.need_store().edits
    changes: dict[Action, Callable[[], HomeReport]] = {
        Action.PIN: lambda: home.pin_sessions(names),
        Action.RENAME: lambda: home.rename_session(names[0], "another  title"),
    }
    assert edits & changes.keys()
    for action, change in changes.items():
        if action not in edits:
            with pytest.raises(UsageError):
                change()
            continue
        report = change()
        assert {each.result for each in report.outcomes} == {Result.CHANGED}
        after = [home.need_store().get(each) for each in names]
        undone = report.undo()
        assert {each.result for each in undone.outcomes} == {Result.BROUGHT_BACK}
        assert bench.look() == before
        again = home.redo()
        assert [home.need_store().get(each) for each in names] == after
        assert {each.result for each in again.undo().outcomes} == {Result.BROUGHT_BACK}
        assert bench.look() == before
        done += 4
    assert len(home.log.list()) == done


@everything
def test_every_removal_has_a_receipt(bench: Bench) -> None:
    report = bench.sample.plan(bench.home).apply()
    operation = bench.home.log.get(str(report.operation))
    assert operation.finished_at is not None
    assert operation.removed == report.removed > 0
    assert all(entry.removal.item.reason for entry in bench.home.trash.list())


@everything
def test_applied_twice_the_second_run_removes_nothing(bench: Bench) -> None:
    plan = bench.sample.plan(bench.home)
    first = plan.apply()
    after = bench.look()
    second = plan.apply()
    assert (second.removed, second.failed) == (0, 0)
    assert bench.look() == after
    first.undo()
    with pytest.raises(HoldfastError):
        first.undo()


@everything
def test_the_trash_is_emptied_for_good(bench: Bench) -> None:
    report = bench.sample.plan(bench.home).apply()
    left = bench.look()
    emptied = bench.home.trash.plan_empty().apply()
    assert emptied.removed > 0
    assert bench.trash() == []
    assert bench.look() == left
    with pytest.raises(HoldfastError):
        report.undo()


@sessions
def test_each_one_leaves_alone_and_returns(bench: Bench) -> None:
    before, ids = bench.look(), bench.ids()
    for name in bench.going()[:3]:
        report = bench.home.delete([name])
        assert results(report, SESSION)[name] is Result.REMOVED
        assert name not in bench.ids()
        report.undo()
        assert bench.look() == before
        assert bench.ids() == ids


@sessions
def test_they_return_in_any_order(bench: Bench) -> None:
    before, going = bench.ids(), bench.going()[:3]
    reports = [bench.home.delete([name]) for name in going if name in bench.ids()]
    for report in reports:  # the first to leave returns first, which is not the way they left
        assert report.undo().failed == 0
    assert bench.ids() == before


@sessions
def test_a_session_that_is_gone_is_named_and_where_it_is(bench: Bench) -> None:
    name = bench.going()[0]
    bench.home.delete([name])
    with pytest.raises(UnknownSessionError, match="trash"):
        bench.home.resolve(name)
    with pytest.raises(UnknownSessionError):
        bench.home.delete([name])
    bench.home.trash.plan_empty().apply()
    with pytest.raises(UnknownSessionError):
        bench.home.delete([name])


@sessions
def test_without_the_trash_no_copy_stays(bench: Bench) -> None:
    going = bench.going()
    report = bench.sample.plan(bench.home, use_trash=False).apply()
    assert results(report, SESSION) == dict.fromkeys(going, Result.REMOVED)
    assert bench.trash() == []
    assert not bench.ids() & set(going)


# --- Archive --------------------------------------------------------------------------------------


@over(*SESSION_HOMES, always=True)
def test_archived_and_restored_is_identity(bench: Bench) -> None:
    before, going = bench.words(), bench.going()
    report = bench.home.archive_sessions(going)
    assert results(report, SESSION) == dict.fromkeys(going, Result.REMOVED)
    assert not bench.ids() & set(going)
    assert {each.session.id for each in bench.home.archive.find()} == set(going)
    assert bench.home.archive.search(bench.sample.word).hits
    back = bench.home.plan_restore_sessions().apply()
    assert {each.result for each in back.outcomes} == {Result.BROUGHT_BACK}
    assert bench.home.archive.count() == 0
    assert bench.words() == before


@sessions
def test_undo_of_an_archive_is_identity(bench: Bench) -> None:
    before = bench.words()
    report = bench.home.archive_sessions(bench.going())
    assert {each.result for each in report.undo().outcomes} == {Result.BROUGHT_BACK}
    assert bench.home.archive.count() == 0
    assert bench.words() == before


@sessions
def test_a_damaged_bundle_is_named_and_stays(bench: Bench) -> None:
    name = bench.going()[0]
    bench.home.archive_sessions([name])
    [entry] = bench.home.archive.find()
    factory.cut_bundle(bench.sample, bench.home, entry.file)
    report = bench.home.restore_sessions([name])
    assert set(results(report, SESSION).values()) | {each.result for each in report.outcomes} == {
        Result.DAMAGED
    }
    assert [each.file for each in bench.home.archive.find()] == [entry.file]
    assert name not in bench.ids()


# --- Search ---------------------------------------------------------------------------------------


@sessions
def test_search_finds_what_is_here_and_not_what_is_in_the_trash(bench: Bench) -> None:
    def found() -> set[str]:
        hits = bench.home.sessions.search(bench.sample.word, limit=100)
        return {hit.session.id for hit in hits} & ids

    ids = bench.ids()
    before, going = found(), bench.going()
    assert before & set(going)
    report = bench.sample.plan(bench.home).apply()
    assert found() == before - set(going)
    report.undo()
    assert found() == before


# --- The living, the changed and the pinned stay --------------------------------------------------


@over(*WITH_LIFE)
def test_what_came_alive_since_the_plan_stays(bench: Bench) -> None:
    plan, name = bench.sample.plan(bench.home), bench.going()[0]
    assert bench.sample.revive
    bench.sample.revive(bench.home, name)
    report = plan.apply()
    assert name in bench.ids()
    assert results(report, SESSION)[name] is Result.SKIPPED
    assert reasons(report)[name]
    again = {each.id: each.action for each in bench.sample.plan(bench.home).items}
    assert again[name] is Action.KEEP


@over(*WITH_TOUCH)
def test_what_changed_since_the_plan_stays(bench: Bench) -> None:
    plan, name = bench.sample.plan(bench.home), bench.going()[0]
    assert bench.sample.touch
    bench.sample.touch(bench.home, name)
    before = bench.look()
    report = plan.apply()
    assert reasons(report)[name] == "changed since the plan was made"
    assert name in bench.ids()
    report.undo()
    assert bench.look() == before


@over(*WITH_PIN)
def test_a_pinned_one_stays(bench: Bench) -> None:
    plan, name = bench.sample.plan(bench.home), bench.going()[0]
    assert bench.sample.pin
    bench.sample.pin(bench.home, name)
    again = {each.id: each.action for each in bench.sample.plan(bench.home).items}
    assert again[name] is Action.KEEP
    plan.apply()
    assert name in bench.ids(), "it was pinned after the plan was made"


@over(*(name for name in SESSION_HOMES if name not in WITH_PIN))
def test_a_home_without_pins_says_so(bench: Bench) -> None:
    with pytest.raises(UsageError, match="pin"):
        bench.home.sessions.pin(bench.going()[0])


# --- What may not be touched ----------------------------------------------------------------------


@over(*WITH_VERSION)
def test_an_unknown_version_is_never_changed(bench: Bench) -> None:
    plan, ids = bench.sample.plan(bench.home), bench.ids()
    factory.put_away(bench.home)
    assert bench.sample.renew
    bench.sample.renew(bench.root)
    before = _bytes(bench.root)
    # Outside its usual place, only sessions in a form that we know prove some homes (0056).
    with suppress(NotAHomeError), bench.sample.open(bench.root) as home:
        if bench.sample.reads_newer:
            assert bench.sample.ids(home) == ids
            assert home.scan().problems
        else:
            with pytest.raises(HoldfastError):
                bench.sample.ids(home)
    with pytest.raises(SchemaError):
        plan.apply()
    factory.put_away(bench.home)
    assert _bytes(bench.root).items() >= before.items()


@everything
def test_no_hostile_id_reaches_anything(bench: Bench, tmp_path: Path) -> None:
    """Neither in a call nor in a plan that somebody wrote."""
    precious = tmp_path / "etc"
    precious.write_text("mine")
    before = bench.look()
    honest = bench.sample.plan(bench.home)
    for name in HOSTILE:
        with pytest.raises(HoldfastError):
            bench.home.delete([name])
        item = replace(honest.removals[0], id=name, session=name)
        forged = replace(honest, plan=replace(honest.plan, items=(item,)))
        report = forged.apply()
        assert report.removed == 0, name
    assert bench.look() == before
    assert precious.read_text() == "mine"


@everything
def test_a_plan_for_another_home_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.sample.plan(bench.home).save(tmp_path / "plan.json")
    shutil.copytree(bench.root, tmp_path / "other", symlinks=True)
    with bench.sample.open(tmp_path / "other") as other, pytest.raises(HoldfastError):
        other.load_plan(tmp_path / "plan.json")


@everything
def test_a_saved_plan_does_what_the_plan_did(bench: Bench, tmp_path: Path) -> None:
    plan = bench.sample.plan(bench.home)
    plan.save(tmp_path / "plan.json")
    loaded = bench.home.load_plan(tmp_path / "plan.json")
    assert loaded.plan == plan.plan
    assert loaded.apply().removed == len(plan.removals)


_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes to the database, and does not finish."""
    with subprocess.Popen(
        [sys.executable, "-c", _LOCK, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate()


@over(*WITH_DATABASE)
def test_a_locked_database_costs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run says that the store is busy; the next one does the work."""
    patiently = database._patiently
    monkeypatch.setattr(database, "_patiently", lambda act, _: patiently(act, 0.1))
    monkeypatch.setattr(rows, "_WAIT", 0.1)
    bench.home.close()
    before = bench.look()
    with locked(bench.root / str(bench.sample.database)):
        ids = bench.ids()
        plan = bench.sample.plan(bench.home)
        try:
            report = plan.apply()
        except BusyError:
            pass
        else:
            assert report.removed == 0
        assert bench.ids() == ids
    assert bench.look() == before
    again = bench.sample.plan(bench.home).apply()
    assert again.failed == 0
    again.undo()
    assert bench.look() == before


@everything
def test_a_read_only_home_is_left_alone(bench: Bench, tmp_path: Path) -> None:
    """And whatever cannot be done there is said in a sentence."""
    before = bench.look()
    factory.put_away(bench.home)
    pruned = _holdfast(bench, tmp_path, *_PRUNES[bench.sample.kind], "--yes")
    if "Nothing to remove" not in pruned.stdout:  # a recorded home is young by the real clock
        assert pruned.returncode in (1, 5), (pruned.stdout, pruned.stderr)
        assert "error" in pruned.stderr
    assert "Traceback" not in pruned.stderr
    bench.home = bench.sample.open(bench.root)
    assert bench.look() == before


_PRUNES = {
    SESSION: ("sessions", "prune", "--older-than", "90d"),
    CHECKPOINT: ("checkpoints", "prune", "--keep-last", "2"),
    ARCHIVED: ("sessions", "prune", "--archived", "--max-count", "1"),
}


def _holdfast(bench: Bench, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, where the home is mounted read-only."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = [*COMMAND, "--home", str(bench.root), *words]
    paths = os.pathsep.join([str(place / "packages"), str(ROOT)])
    return subprocess.run(
        [*mounts_of_its_own(), "sh", "-c", mount, str(bench.root), *command],
        check=False,
        capture_output=True,
        text=True,
        env=environment(place, PYTHONPATH=paths),
    )


def _bytes(root: Path) -> dict[str, bytes]:
    """The home byte by byte, without what SQLite and Holdfast keep for their own sake."""
    return {
        str(path): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not path.name.endswith(("-wal", "-shm", "-gate", "-queue"))
        if ".holdfast" not in path.parts and "operations" not in path.parts
    }
