"""The one call for hosts: bounded, at most once per interval, and harmless whatever happens."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Message, SessionFilter
from holdfast.api.sessions import open_sessions
from holdfast.config.reader import load
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.maintenance import maintain_opened
from holdfast.model.maintenance import Skipped, Step
from holdfast.model.operation import OperationAction
from holdfast.policy.rules import Policy
from holdfast.services.plans import plan_archive
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo_latest
from holdfast.stores.operation_log import FileOperationLog
from tests.contract.maintained import DAY, a_home, at, configure, finished, ids, python, step
from tests.stored import file_of, remove_rows

PRUNE = "[sessions]\nauto_prune = true\n"
HOUR = 3600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


def marker(root: Path) -> Path:
    return root / "operations" / "maintenance.json"


def opened(root: Path, *, lock_wait: float = 0.01) -> HoldfastHome:
    """A home that does not wait long for somebody who has its lock."""
    home = HoldfastHome(root, clock=time.time)
    home.log = FileOperationLog(root / "operations", root / "trash", lock_wait=lock_wait)
    return home


# --- What it does ---------------------------------------------------------------------------------


def test_nobody_asked_so_nothing_is_pruned(root: Path) -> None:
    a_home(root, sessions=3)
    result = holdfast.maintain(root)
    assert (result.ran, result.ok, result.auto_prune, result.removed) == (True, True, False, 0)
    assert [each.step for each in result.steps] == [
        Step.SETTLE,
        Step.UPKEEP,
        Step.END,
        Step.LOG,
    ]
    assert len(ids(root)) == 3


def test_with_auto_prune_old_sessions_go_and_can_come_back(root: Path) -> None:
    a_home(root, PRUNE, sessions=120)
    with open_sessions(root) as store:
        store.create(source="cli", id="young")
    result = holdfast.maintain(root)
    assert result.ok
    assert step(result, Step.PRUNE).removed == 120
    assert ids(root) == {"young"}
    (report,) = step(result, Step.PRUNE).reports
    with holdfast.open(root) as home:
        home.undo(report.operation)
    assert len(ids(root)) == 121


def test_with_auto_gc_trivial_sessions_go_and_others_stay(root: Path) -> None:
    a_home(root, "[sessions]\nauto_gc = true\n", sessions=2)
    past = time.time() - 10 * DAY
    with open_sessions(root, clock=lambda: past) as store:
        trivial = store.create(source="cli", id="trivial")
        store.append(trivial.id, Message(role="user", content="hello"))
        store.end(trivial.id)
        store.end(store.create(source="cli", id="empty").id)
    result = holdfast.maintain(root)
    assert step(result, Step.GC).error is None
    assert ids(root) == {"old-0000", "old-0001"}


def test_gc_without_a_rule_says_so(root: Path) -> None:
    a_home(root, "[sessions]\nauto_gc = true\nempty_hours = 0\ntrivial_max = 0\n", sessions=1)
    result = holdfast.maintain(root)
    assert result.ok
    assert step(result, Step.GC).note == "both rules of gc are off"


def test_pruning_without_a_rule_prunes_nothing_and_says_so(root: Path) -> None:
    a_home(root, PRUNE + "retention_days = 0\n", sessions=2)
    result = holdfast.maintain(root)
    assert result.ok
    assert "no rule" in step(result, Step.PRUNE).note
    assert len(ids(root)) == 2


def archived(root: Path, *, days: float) -> set[str]:
    """Archive everything, so many days ago; the bundles that there are then."""
    past = at(time.time() - days * DAY)
    home = HoldfastHome(root, clock=past)
    plan, _ = plan_archive(
        home,
        home.archive,
        wanted=SessionFilter(),
        policy=Policy(),
        now=past(),
        command="sessions archive",
    )
    assert apply(plan, home, clock=past).failed == 0
    return bundles(root)


def bundles(root: Path) -> set[str]:
    return {item.id for item in HoldfastHome(root, clock=time.time).archive.items()}


def test_the_archive_is_left_alone_unless_it_has_limits(root: Path) -> None:
    a_home(root, PRUNE, sessions=3)
    before = archived(root, days=100)
    assert len(before) == 3
    assert holdfast.maintain(root).ok
    assert bundles(root) == before


def test_what_is_in_the_archive_for_too_long_goes_and_can_come_back(root: Path) -> None:
    a_home(root, "[archive]\nretention_days = 90\n", sessions=3)
    before = archived(root, days=91)
    result = holdfast.maintain(root)
    assert result.ok, result.errors
    assert step(result, Step.ARCHIVE).removed == 3
    assert bundles(root) == set()
    undo_latest(HoldfastHome(root, clock=time.time), clock=time.time)
    assert bundles(root) == before


def test_young_bundles_stay(root: Path) -> None:
    a_home(root, "[archive]\nretention_days = 90\n", sessions=3)
    before = archived(root, days=80)
    assert holdfast.maintain(root).ok
    assert bundles(root) == before


@pytest.mark.deep
def test_the_archive_has_a_cap_of_its_own(root: Path) -> None:
    a_home(root, "[archive]\nmax_total_size_mb = 1\n", sessions=400)
    assert len(archived(root, days=10)) == 400
    result = holdfast.maintain(root)
    assert result.ok, result.errors
    inventory = HoldfastHome(root, clock=time.time).archive.items()
    assert 0 < sum(item.bytes for item in inventory) <= 1_000_000


@pytest.mark.parametrize("config", ["", PRUNE])
def test_what_a_dead_process_left_open_is_ended(root: Path, config: str) -> None:
    a_home(root, config)
    code = (
        "import os, sys, time\nfrom holdfast.api.sessions import open_sessions\n"
        "store = open_sessions(sys.argv[1], clock=lambda: time.time() - 2 * 86400)\n"
        "store.create(source='cli', id='left')\n"
        "os._exit(0)\n"
    )
    assert finished(python(code, root))[0] == 0
    moment = time.time()
    result = holdfast.maintain(root, clock=at(moment))
    assert (result.ok, result.ended, result.removed) == (True, 1, 0)
    with open_sessions(root) as store:
        left = store.get("left")
    assert (left.end_reason, left.ended_at) == ("abandoned", moment)


def test_a_process_that_closed_its_store_and_lives_protects_its_sessions(root: Path) -> None:
    """Its death can be proved later, because its leases stay on record."""
    a_home(root)
    code = (
        "import sys, time\nfrom holdfast.api.sessions import open_sessions\n"
        "clock = lambda: time.time() - 2 * 86400\n"
        "with open_sessions(sys.argv[1], clock=clock) as store:\n"
        "    store.create(source='cli', id='left')\n"
        "print('closed', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "closed\n"
        assert holdfast.maintain(root).ended == 0
        process.communicate()
    assert process.returncode == 0
    assert holdfast.maintain(root, force=True).ended == 1


@pytest.mark.parametrize("config", ["", PRUNE])
def test_trash_whose_time_is_over_is_emptied(root: Path, config: str) -> None:
    a_home(root, PRUNE, sessions=5)
    assert holdfast.maintain(root).bytes_in_trash > 0
    configure(root, config)
    holdfast.maintain(root, clock=lambda: time.time() + 6 * DAY)
    assert HoldfastHome(root, clock=time.time).log.read().trash
    result = holdfast.maintain(root, clock=lambda: time.time() + 9 * DAY)
    assert result.ok
    assert not HoldfastHome(root, clock=time.time).log.read().trash
    assert result.bytes_freed > 0


def test_space_is_given_back_even_when_nothing_is_pruned(root: Path) -> None:
    a_home(root, "", sessions=600)
    home = HoldfastHome(root, clock=time.time)
    store = file_of(home.session_store())
    with store.transaction():
        for session in store.find(holdfast.SessionFilter()):
            remove_rows(store, session.id)
    store.close()
    before = (root / "sessions.db").stat().st_size
    result = holdfast.maintain(root)
    assert (root / "sessions.db").stat().st_size < before
    assert result.bytes_freed > 0


# --- How often ------------------------------------------------------------------------------------


def test_once_per_interval(root: Path) -> None:
    a_home(root, "[maintenance]\nmin_interval_hours = 2\n")
    start = time.time()
    assert holdfast.maintain(root, clock=lambda: start).ran
    again = holdfast.maintain(root, clock=lambda: start + 2 * HOUR - 1)
    assert again.skipped is Skipped.NOT_DUE
    assert again.ok
    assert again.next_due == start + 2 * HOUR
    assert holdfast.maintain(root, clock=lambda: start + 2 * HOUR).ran


def test_force_ignores_the_interval(root: Path) -> None:
    a_home(root)
    assert holdfast.maintain(root).ran
    assert holdfast.maintain(root, force=True).ran


def test_turning_auto_prune_on_takes_effect_at_once(root: Path) -> None:
    a_home(root, sessions=3)
    assert holdfast.maintain(root).ran
    configure(root, PRUNE)
    assert holdfast.maintain(root).removed == 3
    assert holdfast.maintain(root).skipped is Skipped.NOT_DUE


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ("trash_days = 3", True),
        ("[sessions]\nfiles_retention_days = 3", True),
        ("[sessions.source.cron]\nretention_days = 3", True),
        ("[archive]\nretention_days = 3", True),
        ("[checkpoints]\nmax_total_size_mb = 3", True),
        ("[notify]\nnear_percent = 3", False),
        ("[guard]\nmax_iterations = 3", False),
        ("[maintenance]\nmin_interval_hours = 3", False),
        ("# nothing but a comment", False),
    ],
)
def test_a_change_is_due_when_maintenance_would_do_something_else(
    root: Path, changed: str, due: bool
) -> None:
    a_home(root)
    assert holdfast.maintain(root).ran
    configure(root, changed)
    assert holdfast.maintain(root).ran is due


def test_two_hosts_with_other_settings_do_not_make_each_other_run(root: Path) -> None:
    """One has an environment variable, the other has not: each runs once per interval."""
    a_home(root)
    home, now = opened(root), time.time()
    both = [
        load(root / "config.toml", {}),
        load(root / "config.toml", {"HOLDFAST_SESSIONS_AUTO_GC": "true"}),
    ]
    ran = [maintain_opened(home, both[turn % 2], clock=at(now + turn)).ran for turn in range(6)]
    assert ran == [True, True, False, False, False, False]
    later = now + DAY + 10
    assert [maintain_opened(home, each, clock=at(later)).ran for each in both] == [True, True]


def test_a_marker_of_an_older_version_is_due_once(root: Path) -> None:
    a_home(root)
    assert holdfast.maintain(root).ran
    document = json.loads(marker(root).read_bytes())
    del document["done"]
    marker(root).write_text(json.dumps(document))
    assert holdfast.maintain(root).ran
    assert holdfast.maintain(root).skipped is Skipped.NOT_DUE


def test_what_is_due_soon_may_run_early(root: Path) -> None:
    a_home(root)
    start = time.time()
    home, settings = opened(root), load(root / "config.toml", {})
    assert maintain_opened(home, settings, clock=lambda: start).ran
    almost = start + 23 * HOUR
    assert not maintain_opened(home, settings, clock=lambda: almost, early=HOUR - 1).ran
    assert maintain_opened(home, settings, clock=lambda: almost, early=HOUR).ran


def test_a_call_that_is_not_due_touches_nothing(root: Path) -> None:
    a_home(root, PRUNE, sessions=1)
    holdfast.maintain(root)
    before = {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))}
    assert holdfast.maintain(root).skipped is Skipped.NOT_DUE
    assert {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))} == before


BAD_MARKERS = {
    "empty": b"",
    "no JSON": b"{",
    "binary": bytes(range(256)),
    "another shape": b"[1, 2]",
    "no fields": b"{}",
    "a newer format": b'{"format": 2, "finished_at": 1, "ok": true}',
    "a time in words": b'{"format": 1, "finished_at": "now", "ok": true}',
    "true as a time": b'{"format": 1, "finished_at": true, "ok": true}',
    "no number": b'{"format": 1, "finished_at": NaN, "ok": true}',
    "for ever": b'{"format": 1, "finished_at": Infinity, "ok": true}',
    "the future": b'{"format": 1, "finished_at": 99999999999, "ok": true}',
    "a wrong record": b'{"format": 1, "finished_at": 1, "ok": true, "told": {"a": 1}}',
    "deep": b'{"format": 1, "finished_at": ' + b"[" * 100_000,
    "huge": b" " * 2_000_000,
}


@pytest.mark.parametrize("content", BAD_MARKERS.values(), ids=BAD_MARKERS)
def test_a_marker_that_is_wrong_counts_as_never(root: Path, content: bytes) -> None:
    a_home(root)
    marker(root).parent.mkdir(exist_ok=True)
    marker(root).write_bytes(content)
    assert holdfast.maintain(root).ran
    assert holdfast.maintain(root).skipped is Skipped.NOT_DUE
    assert json.loads(marker(root).read_bytes())["ok"] is True


@pytest.mark.parametrize("kind", ["folder", "fifo", "link to nothing", "link to a folder"])
def test_a_marker_that_is_no_file_counts_as_never(root: Path, kind: str) -> None:
    a_home(root)
    path = marker(root)
    path.parent.mkdir(exist_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(root / "nothing" if kind == "link to nothing" else root)
    assert holdfast.maintain(root).ran
    assert holdfast.maintain(root).skipped is Skipped.NOT_DUE
    assert path.is_file()
    assert not path.is_symlink()


def test_a_marker_that_cannot_be_written_is_told(root: Path) -> None:
    a_home(root)
    (marker(root) / "mine").mkdir(parents=True)
    result = holdfast.maintain(root)
    assert not result.ok
    assert step(result, Step.RECORD).error_kind == "storage"
    assert (marker(root) / "mine").is_dir()


_START = """
import pathlib, sys, time, holdfast
root, go = sys.argv[1:]
print("ready", flush=True)
while not pathlib.Path(go).exists():
    time.sleep(0.001)
result = holdfast.maintain(root)
print("ran" if result.ran else result.skipped.value, result.removed, flush=True)
"""


@pytest.mark.parametrize("ran_before", [False, True], ids=["never", "with other settings"])
def test_of_many_processes_that_start_together_exactly_one_runs(
    root: Path, tmp_path: Path, ran_before: bool
) -> None:
    a_home(root, sessions=300)
    assert not ran_before or holdfast.maintain(root).ran
    configure(root, PRUNE)
    go = tmp_path / "go"
    processes = [python(_START, root, go) for _ in range(5)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    said = [finished(process) for process in processes]
    assert [code for code, _, _ in said] == [0] * 5, said
    words = [out.split()[0] for _, out, _ in said]
    assert words.count("ran") == 1, said
    assert set(words) <= {"ran", "not_due", "busy"}
    assert ids(root) == set()


_DIE = """
import os, signal, sys, holdfast
from holdfast.spine import carry_out
from holdfast.stores.sqlite import emptying

carry_out.BATCH = 100
emptying._MOST_SESSIONS = 100  # otherwise all of them leave in one step

class Die:
    def step(self, label, done, total):
        if label == "removing":
            os.kill(os.getpid(), signal.SIGKILL)
    def stop_requested(self):
        return False

holdfast.maintain(sys.argv[1], progress=Die())
"""


def test_a_run_that_was_killed_is_taken_up_again(root: Path) -> None:
    a_home(root, PRUNE, sessions=250)
    assert finished(python(_DIE, root))[0] == -signal.SIGKILL
    assert not marker(root).exists()
    assert ids(root)
    result = holdfast.maintain(root)
    assert result.ran
    assert result.ok, result.errors
    assert ids(root) == set()
    operations = HoldfastHome(root, clock=time.time).log.read().operations
    assert [operation.finished_at is not None for operation in operations] == [True, True]


def test_whoever_finds_another_at_work_leaves_it_to_them(root: Path) -> None:
    a_home(root, PRUNE, sessions=1)
    lock = root / "operations" / "maintenance.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for force in (False, True):
            result = holdfast.maintain(root, force=force)
            assert result.skipped is Skipped.BUSY
            assert result.busy
            assert "Another process is running maintenance of" in result.reason
    assert len(ids(root)) == 1
    assert holdfast.maintain(root).ran


# --- Harmless in the host -------------------------------------------------------------------------


def test_a_wrong_configuration_comes_back_and_nothing_is_done(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_home(root, PRUNE + "retention_day = 1\n", sessions=1)
    result = holdfast.maintain(root)
    assert (result.ran, result.ok, result.error_kind) == (False, False, "config")
    assert "retention_day: unknown key" in (result.error or "")
    assert "unknown key" in caplog.text
    assert not marker(root).exists()


@pytest.mark.parametrize("what", ["nothing", "file", "folder of something else"])
def test_a_home_that_is_none_comes_back(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.write_text("")
    elif what == "folder of something else":
        place.mkdir()
        (place / "state.db").write_text("")
    result = holdfast.maintain(place)
    assert (result.ran, result.error_kind) == (False, "not_a_home")
    assert what == "nothing" or sorted(path.name for path in tmp_path.rglob("*")) in (
        ["place"],
        ["place", "state.db"],
    )


def test_a_damaged_store_comes_back(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_home(root, PRUNE)
    (root / "sessions.db").write_bytes(b"not a database at all" * 1000)
    result = holdfast.maintain(root)
    assert result.ran
    assert not result.ok
    assert step(result, Step.PRUNE).error
    assert "failed" in caplog.text
    assert json.loads(marker(root).read_bytes())["ok"] is False


def test_a_failed_run_is_tried_again_soon(root: Path) -> None:
    a_home(root, PRUNE)
    (root / "sessions.db").write_bytes(b"not a database at all" * 1000)
    now = time.time()
    assert not holdfast.maintain(root, clock=lambda: now).ok
    assert holdfast.maintain(root, clock=lambda: now + HOUR - 1).skipped is Skipped.NOT_DUE
    assert holdfast.maintain(root, clock=lambda: now + HOUR).ran


def test_somebody_who_keeps_the_home_locked_is_not_waited_for_for_ever(root: Path) -> None:
    a_home(root, PRUNE, sessions=1)
    home, settings = opened(root), load(root / "config.toml", {})
    with opened(root).log.writing("sessions prune"):
        result = maintain_opened(home, settings, clock=time.time)
    assert result.busy
    assert "sessions prune" in (step(result, Step.PRUNE).error or "")
    assert not result.events


class Stumbling(HoldfastHome):
    """A home whose first scan fails, as no scan should."""

    stumbled = False

    def scan(self, *args: Any, **kwargs: Any) -> Any:
        if not self.stumbled:
            self.stumbled = True
            raise ZeroDivisionError("oops")
        return super().scan(*args, **kwargs)


def test_one_step_that_fails_keeps_no_other_from_running(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_home(root, PRUNE + "auto_gc = true\ntrivial_max = 10\n", sessions=4)
    home = Stumbling(root, clock=time.time)
    result = maintain_opened(home, load(root / "config.toml", {}), clock=time.time)
    assert step(result, Step.PRUNE).error == "ZeroDivisionError: oops"
    assert step(result, Step.GC).removed == 4
    assert not result.ok
    assert [event.kind.value for event in result.events] == ["maintenance_failed"]
    assert any(record.exc_info for record in caplog.records)


class Watcher:
    """A progress that does something when the removing begins."""

    def __init__(self, then: BaseException | None = None) -> None:
        self._then = then
        self.stopping = False

    def step(self, label: str, done: int, total: int | None) -> None:
        if label != "removing":
            return
        self.stopping = True
        if self._then is not None:
            raise self._then

    def stop_requested(self) -> bool:
        return self.stopping


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=["ctrl-c", "exit"])
def test_a_wish_to_end_the_process_gets_through(root: Path, error: BaseException) -> None:
    a_home(root, PRUNE, sessions=300)
    with pytest.raises(type(error)):
        holdfast.maintain(root, progress=Watcher(error))
    assert holdfast.maintain(root).ok


def test_a_run_that_was_stopped_is_taken_up_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.spine.carry_out.BATCH", 100)
    monkeypatch.setattr("holdfast.stores.sqlite.emptying._MOST_SESSIONS", 100)
    a_home(root, PRUNE + "auto_gc = true\n", sessions=300)
    result = holdfast.maintain(root, progress=Watcher())
    assert result.stopped
    assert 0 < len(ids(root)) < 300
    assert [each.step for each in result.steps] == [Step.SETTLE, Step.PRUNE]
    assert not marker(root).exists()
    assert holdfast.maintain(root).ran
    assert ids(root) == set()


def test_the_result_is_a_document(root: Path) -> None:
    a_home(root, PRUNE, sessions=2)
    document = json.loads(json.dumps(holdfast.maintain(root).to_json()))
    assert document["ran"] is True
    assert document["removed"] == 2
    assert [each["step"] for each in document["steps"]] == ["settle", "prune", "end", "log"]
    assert document["steps"][1]["reports"][0]["operation"] == "1"


# --- Caps -----------------------------------------------------------------------------------------


def used(root: Path) -> int:
    """What sessions and trash take on the disk."""
    inventory = HoldfastHome(root, clock=time.time).scan(time.time())
    return sum(item.bytes for item in (*inventory.items, *inventory.trash))


def test_a_size_cap_is_reached(root: Path) -> None:
    config = PRUNE + "retention_days = 0\nmax_total_size_mb = 1\n"
    a_home(root, config, sessions=900)
    assert used(root) > 1_000_000
    result = holdfast.maintain(root)
    assert result.ok
    assert not result.shortfalls
    assert used(root) <= 1_000_000
    assert ids(root)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        yield caplog


def test_what_holds_a_cap_above_is_in_the_result_and_in_the_log(
    root: Path, log: pytest.LogCaptureFixture
) -> None:
    config = PRUNE + "max_count = 2\npins = ['old-*']\n"
    a_home(root, config, sessions=4)
    result = holdfast.maintain(root)
    assert result.ok
    (shortfall,) = result.shortfalls
    assert (shortfall.cap, shortfall.limit, shortfall.remaining) == ("max_count", 2, 4)
    (event,) = result.events
    assert event.kind.value == "cap_not_reached"
    assert "pinned (4 items)" in event.message
    assert [record.getMessage() for record in log.records] == [event.message]


def test_old_entries_of_the_log_are_dropped(root: Path) -> None:
    a_home(root, "log_days = 30\n", sessions=1)
    long_ago = time.time() - 100 * 86_400
    log = HoldfastHome(root, clock=time.time).log
    for moment in (long_ago, long_ago + 1, time.time()):
        with (
            log.writing("x") as writer,
            writer.begin(action=OperationAction.REMOVE, command="x", at=moment) as journal,
        ):
            journal.finish(at=moment)
    result = holdfast.maintain(root)
    assert step(result, Step.LOG).note == "dropped: 2 operations"
    assert [operation.id for operation in log.read().operations] == ["3"]
