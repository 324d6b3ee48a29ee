"""Prune and delete where something is in the way: nothing is lost, and it is said what and why."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BusyError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.item import SESSION, SPACE
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, Plan
from holdfast.model.report import Report, Result
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY
from holdfast.policy.session_filter import Selection
from holdfast.services.edits import end_abandoned
from holdfast.services.plans import plan_delete, plan_home_endings, plan_prune
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo_latest
from holdfast.stores import plan_file
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.builders import a_plan_item, a_policy
from tests.cli.machine import Machine, age, item_id
from tests.cli.privileges import as_nobody_special, mounts_of_its_own
from tests.cli.runner import COMMAND
from tests.cli.runner import Result as Ran
from tests.stored import (
    a_dead_holder,
    a_line,
    an_open_line,
    bring_in,
    check_whole,
    file_of,
    opened,
    see,
)

pytestmark = pytest.mark.usefixtures("bad_day")

ROOT = Path(__file__).parents[2]
NOBODY = 65_534
OLD = "20250101_000000_00000a"
OTHER = "20250101_000000_00000b"
YOUNG = "20250101_000000_00000c"
clock = time.time


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two old sessions and a young one, each with a transcript."""
    made = Machine(root=tmp_path)
    made.home.mkdir(parents=True)
    days = {OLD: 200, OTHER: 150, YOUNG: 1}
    now = clock()
    lines = [a_line(name, at=now - much * DAY) for name, much in days.items()]
    bring_in(made.home, lines, now=now)
    for name in days:
        made.file(transcript(made, name), days=200)
    return made


def transcript(machine: Machine, name: str) -> Path:
    return machine.sessions / f"{name}.jsonl"


def opened_home(machine: Machine) -> HoldfastHome:
    return HoldfastHome(machine.home.resolve(), clock=clock)


def planned(home: HoldfastHome, *, use_trash: bool = True) -> Plan:
    policy = a_policy(max_age=90 * DAY, use_trash=use_trash)
    return plan_prune(home, policy, now=clock(), command="sessions prune", selection=Selection())[0]


def results(report: Report) -> dict[str, tuple[Result, str]]:
    return {each.id: (each.result, each.reason) for each in report.outcomes}


# --- Files between plan and apply -----------------------------------------------------------------


def _vanish(path: Path, _: Path) -> None:
    path.unlink()


def _become_a_folder(path: Path, _: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)
    age(path, 200)


def _become_a_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside)
    age(path, 200)


def _grow(path: Path, _: Path) -> None:
    with path.open("a") as more:
        more.write("more")
    age(path, 200)


@pytest.mark.parametrize("use_trash", [True, False])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_vanish, "already gone"),
        (_become_a_folder, "no longer a file"),
        (_become_a_link, "changed since the plan was made"),
        (_grow, "changed since the plan was made"),
    ],
)
def test_a_file_that_is_not_what_the_plan_saw_is_skipped(
    machine: Machine, change: Callable[[Path, Path], None], why: str, use_trash: bool
) -> None:
    """Its session goes: that is as it was. What is in the file's place now stays."""
    outside = machine.file(machine.root / "precious")
    home = opened_home(machine)
    plan = planned(home, use_trash=use_trash)
    path = transcript(machine, OLD)
    change(path, outside)
    there = os.path.lexists(path)
    report = apply(plan, home, clock=clock)
    assert results(report)[item_id(path)] == (Result.SKIPPED, why)
    assert (report.removed, report.failed) == (3, 0)
    assert see(machine.home).sessions.keys() == {YOUNG}
    assert os.path.lexists(path) == there
    assert outside.read_text() == "mine"
    check_whole(machine.home)


@pytest.mark.parametrize("flags", [[], ["--now"]])
def test_of_a_link_out_of_the_home_only_the_link_goes(machine: Machine, flags: list[str]) -> None:
    outside = machine.file(machine.root / "precious")
    path = transcript(machine, OLD)
    _become_a_link(path, outside)
    before = see(machine.home)
    document = machine.json("sessions", "prune", *flags, "--yes")
    assert document["report"]["removed"] == 4
    assert not path.is_symlink()
    assert outside.read_text() == "mine"
    if not flags:
        machine.ok("undo")
        assert see(machine.home) == before


def test_a_folder_under_the_name_of_a_file_is_left_alone(machine: Machine) -> None:
    path = transcript(machine, OLD)
    _become_a_folder(path, path)
    result = machine.run("sessions", "prune", "--yes")
    assert result.code == 0
    assert "is not a file; left alone" in result.err
    assert (path / "inside").is_dir()
    assert see(machine.home).sessions.keys() == {YOUNG}


# --- What is not ours -----------------------------------------------------------------------------


def test_a_file_of_another_user_stays_with_its_session(machine: Machine) -> None:
    """Without the right to look into it nobody can tell whether it is open."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    before_command = as_nobody_special()
    path = transcript(machine, OLD)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o600)
    age(path, 200)
    done = machine.run("--json", "sessions", "prune", "--yes", before=before_command)
    assert done.code == 0
    reasons = {item["id"]: item["reason"] for item in done.document["plan"]["items"]}
    assert "cannot be opened" in reasons[item_id(path)]
    assert "its file" in reasons[OLD]
    assert see(machine.home).sessions.keys() == {OLD, YOUNG}
    assert path.exists()
    assert not transcript(machine, OTHER).exists()


def _with_mode(machine: Machine, mode: int, *command: str) -> Ran:
    """Run a command while sessions/ has a mode that the user has not much use for."""
    before_command = as_nobody_special()
    machine.sessions.chmod(mode)
    try:
        return machine.run(*command, before=before_command)
    finally:
        machine.sessions.chmod(0o700)


def test_a_sessions_folder_that_cannot_be_read_stops_everything(machine: Machine) -> None:
    """Nobody can tell which files there are: no session goes without its own."""
    before = see(machine.home)
    result = _with_mode(machine, 0o000, "sessions", "prune", "--yes")
    assert result.code == 1
    assert f"Cannot read {machine.sessions}: Permission denied" in result.words
    assert see(machine.home) == before
    assert machine.json("log")["operations"] == []


def test_a_sessions_folder_that_cannot_be_written_fails_by_name(machine: Machine) -> None:
    before = see(machine.home)
    result = _with_mode(machine, 0o500, "--json", "sessions", "prune", "--yes")
    assert result.code == 1
    report = result.document["report"]
    failed = {item["id"]: item["reason"] for item in report["items"] if item["result"] == "failed"}
    assert failed == {
        item_id(transcript(machine, name)): "Permission denied" for name in (OLD, OTHER)
    }
    assert see(machine.home).files == before.files
    machine.ok("undo")
    assert see(machine.home) == before


# --- Plans that somebody wrote --------------------------------------------------------------------


def test_a_saved_plan_with_a_path_for_an_id(machine: Machine) -> None:
    outside = machine.file(machine.home.parent.parent / "x")
    honest = planned(opened_home(machine))
    items = [
        a_plan_item("../../x", kind=SESSION, session="../../x"),
        a_plan_item("sessions/../../../x", session=OLD, goes_with=OLD, owned=True),
        a_plan_item("../../x", session=OLD, goes_with="../../x", owned=True),
    ]
    path = machine.root / "plan.json"
    plan_file.save(replace(honest, items=tuple(items)), path)
    before = see(machine.home)
    document = machine.json("apply", str(path), "--yes", code=1)
    assert document["report"]["removed"] == 0
    assert outside.read_text() == "mine"
    assert see(machine.home) == before


def test_a_file_goes_with_the_session_it_belongs_to_and_no_other(machine: Machine) -> None:
    """A plan that says that the file of a young session goes with an old one is not believed."""
    honest = planned(opened_home(machine))
    [going] = [item for item in honest.items if item.id == OLD]
    [file] = [item for item in honest.items if item.id == item_id(transcript(machine, YOUNG))]
    forged = replace(
        file, action=going.action, goes_with=OLD, session=OLD, undoable=False, owned=True
    )
    report = apply(replace(honest, items=(going, forged)), opened_home(machine), clock=clock)
    assert results(report)[forged.id][0] is Result.SKIPPED
    assert transcript(machine, YOUNG).exists()


# --- A store that does not answer -----------------------------------------------------------------

_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def written_elsewhere(machine: Machine) -> Iterator[None]:
    """Another process has the write lock, and keeps it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(machine.home / "sessions.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate(timeout=30)


def _impatient(home: HoldfastHome) -> HoldfastHome:
    file_of(home.session_store()).database._busy_seconds = 0.1
    return home


def _more_that_stays(machine: Machine) -> None:
    """So much that the search index is not begun anew."""
    lines = (a_line(f"more{n}", at=clock(), messages=20, size=1_000) for n in range(20))
    bring_in(machine.home, lines, now=clock())


@pytest.mark.parametrize("nearly_all_goes", [True, False])
@pytest.mark.parametrize("use_trash", [True, False])
def test_a_locked_store_is_busy_and_loses_nothing(
    machine: Machine, nearly_all_goes: bool, use_trash: bool
) -> None:
    if not nearly_all_goes:
        _more_that_stays(machine)
    before = see(machine.home)
    home = _impatient(opened_home(machine))
    with written_elsewhere(machine):
        plan = planned(home, use_trash=use_trash)
        with pytest.raises(BusyError, match="being written by another process"):
            apply(plan, home, clock=clock)
        assert not list(machine.trash.rglob("*.db")), "copies of sessions that are still there"
    assert see(machine.home) == before
    report = apply(planned(home), home, clock=clock)
    assert (report.removed, report.failed) == (4, 0)
    undo_latest(home, clock=clock)
    assert see(machine.home) == before


def test_a_store_that_is_locked_for_the_last_step_is_still_a_success(machine: Machine) -> None:
    """Everything has gone; the space comes back with the next run."""
    home = _impatient(opened_home(machine))
    plan = planned(home)
    keeper = home.doer(SPACE, Action.RECLAIM)
    apply(
        replace(plan, items=tuple(each for each in plan.items if each.kind != SPACE)),
        home,
        clock=clock,
    )
    with written_elsewhere(machine):
        space = [each for each in plan.items if each.kind == SPACE]
        removals = [Removal(operation="1", number=9, item=item) for item in space]
        [outcome] = keeper.do(removals)
    assert outcome.result is Result.SKIPPED
    assert "being written" in outcome.reason


def test_undo_of_a_locked_store_is_busy_and_can_be_tried_again(machine: Machine) -> None:
    before = see(machine.home)
    machine.ok("sessions", "prune", "--yes")
    home = _impatient(opened_home(machine))
    with written_elsewhere(machine), pytest.raises(BusyError):
        undo_latest(home, clock=clock)
    machine.run("undo")
    assert see(machine.home) == before
    assert list(machine.trash.rglob("*")) == []


def test_abandoned_sessions_of_a_locked_store_are_not_ended(machine: Machine) -> None:
    _more_that_stays(machine)
    machine.ok("sessions", "prune", "--yes")
    now = clock()
    bring_in(machine.home, [an_open_line("left", at=now - 2 * DAY)], now=now)
    with opened(machine.home) as store:
        store.hold("left", a_dead_holder(), now=now)
    home = _impatient(opened_home(machine))
    with written_elsewhere(machine):
        plan, _ = plan_home_endings(home, now=now, command="maintain")
        with pytest.raises(BusyError):
            apply(plan, home, clock=clock)
    assert end_abandoned(home, clock=clock, command="maintain") == ["left"]


# --- A damaged store ------------------------------------------------------------------------------


def _scribble(path: Path) -> None:
    with path.open("r+b") as raw:
        raw.write(b"\xff" * 4096)


def _cut_short(path: Path) -> None:
    with path.open("r+b") as raw:
        raw.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [_scribble, _cut_short])
@pytest.mark.parametrize("command", ["prune", "gc", f"delete {OLD}"])
def test_a_damaged_store_is_named_and_left_untouched(
    machine: Machine, damage: Callable[[Path], None], command: str
) -> None:
    database = machine.home / "sessions.db"
    damage(database)
    before = database.read_bytes(), see_files(machine)
    result = machine.run("sessions", *command.split(), "--yes")
    assert result.code == 5
    assert str(database) in result.words
    assert "holdfast doctor" in result.words
    assert (database.read_bytes(), see_files(machine)) == before


def see_files(machine: Machine) -> set[str]:
    return {str(path) for path in machine.sessions.iterdir()}


# --- A full disk ----------------------------------------------------------------------------------

#: $1 a folder to mount on, $2 a home to copy there, $3 how much to leave free, then the command.
_SMALL = r"""
set -e
small=$1 seed=$2 free=$3
shift 3
mount -t tmpfs -o size=24m tmpfs "$small"
cp -a "$seed/." "$small/"
dd if=/dev/zero of="$small/spare" bs=1k count="$free" status=none
cat /dev/zero >"$small/filler" 2>/dev/null || true
rm "$small/spare"
code=0
"$@" --home "$small" --json sessions prune --yes >"$OUT/first" 2>"$OUT/first.err" || code=$?
echo "$code" >"$OUT/first.code"
rm -rf "$OUT/after"
cp -a "$small" "$OUT/after"
code=0
"$@" --home "$small" --json sessions prune --now --yes >"$OUT/second" 2>"$OUT/second.err" || code=$?
echo "$code" >"$OUT/second.code"
cp -a "$small" "$OUT/last"
"""


def test_a_disk_that_fills_up_with_undo_copies(tmp_path: Path) -> None:
    """Nothing goes that has no copy; the message says how to go without one, and that works."""
    before_command = mounts_of_its_own()
    machine = Machine(root=tmp_path)
    now = clock()
    bring_in(
        machine.home,
        (a_line(f"s{n}", at=now - 100 * DAY, messages=20, size=6_000) for n in range(100)),
        now=now,
    )
    before = see(machine.home)
    small, out = tmp_path / "small", tmp_path / "out"
    small.mkdir()
    out.mkdir()
    words = ["sh", "-c", _SMALL, "sh", str(small), str(machine.home), "1500", *COMMAND]
    done = subprocess.run(
        [*before_command, *words],
        check=False,
        capture_output=True,
        text=True,
        env={**machine.env(), "OUT": str(out)},
    )
    assert done.returncode == 0, done.stderr
    first, errors = (out / "first").read_text(), (out / "first.err").read_text()
    assert (out / "first.code").read_text() == "1\n", (first, errors)
    assert "Traceback" not in errors
    said = " ".join((first + errors).split())
    assert "--now" in said
    assert "full" in said
    after = see_store(out / "after")
    report = json.loads(first)["report"]
    assert len(after) == 100 - report["removed"]
    assert after.items() <= see_store(machine.home).items()
    gone = {item["id"] for item in report["items"] if item["result"] == "removed"}
    assert gone == before.sessions.keys() - after.keys()
    # What went before the disk was full has its copy.
    shutil.rmtree(machine.home)
    shutil.copytree(out / "after", machine.home)
    (machine.home / "filler").unlink()
    if gone:
        machine.ok("undo")
    assert see(machine.home) == before
    assert (out / "second.code").read_text() == "0\n", (out / "second.err").read_text()
    assert see_store(out / "last") == {}


def see_store(root: Path) -> dict[str, int]:
    with closing(SqliteSessionStore(root / "sessions.db", create=False)) as store:
        return {each.id: each.message_count for each in store.find(SessionFilter())}


# --- Very many ------------------------------------------------------------------------------------

MANY = 33_000


@pytest.fixture
def crowded(tmp_path: Path) -> Machine:
    machine = Machine(root=tmp_path)
    machine.home.mkdir(parents=True)
    SqliteSessionStore(machine.home / "sessions.db").close()
    crowd(machine, MANY)
    return machine


def crowd(machine: Machine, sessions: int) -> None:
    with opened(machine.home) as store, store.database.write() as db:
        db.execute(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO sessions (id, source, started_at, last_active_at, ended_at, end_reason)
            SELECT printf('s%06d', i), 'cron', 1.0, 1.0, 1.0, 'done' FROM n
            """,
            (sessions,),
        )


@pytest.mark.deep
def test_thirty_three_thousand_sessions_in_one_run(crowded: Machine) -> None:
    report = crowded.json("sessions", "prune", "--yes")["report"]
    assert (report["removed"], report["skipped"], report["failed"]) == (MANY, 0, 0)
    assert see_store(crowded.home) == {}
    back = crowded.json("undo")["report"]
    assert (back["brought_back"], back["failed"]) == (MANY, 0)
    assert len(see_store(crowded.home)) == MANY
    check_whole(crowded.home)


@pytest.mark.deep
def test_thirty_three_thousand_names(crowded: Machine) -> None:
    """More than a statement has variables, and more than fits a command line."""
    delete_by_name(crowded, MANY)


def test_more_names_than_a_statement_has_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in small: SQLite lets a statement have fewer of them."""
    connect = sqlite3.connect

    def with_few(*args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*args, **options)
        db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 50)
        return db

    monkeypatch.setattr(sqlite3, "connect", with_few)
    machine = Machine(root=tmp_path)
    machine.home.mkdir(parents=True)
    SqliteSessionStore(machine.home / "sessions.db").close()
    crowd(machine, 120)
    delete_by_name(machine, 120)


def delete_by_name(machine: Machine, sessions: int) -> None:
    home = opened_home(machine)
    ids = [f"s{number:06d}" for number in range(1, sessions + 1)]
    plan = plan_delete(home, ids, now=clock(), command="sessions delete", undoable=False)
    report = apply(plan, home, clock=clock)
    assert (report.removed, report.failed) == (sessions, 0)
    assert see_store(machine.home) == {}
