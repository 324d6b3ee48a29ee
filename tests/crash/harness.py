"""Kill a real process at every system call of an operation, and look at what it leaves behind.

Run as a program of its own (`python -m tests.crash.harness SCENARIO`), because it forks: the
parent stays single-threaded, each child runs one operation on a fresh copy of a home and kills
itself with SIGKILL right before its n-th call. It prints a JSON line with what it injected and
verified; the first violated promise ends it with an AssertionError.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import CannotUndoError
from holdfast.homes.registry import open_home
from holdfast.model.plan import Plan
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.ports import Home
from holdfast.spine.apply import apply
from holdfast.spine.settle import settle
from holdfast.spine.trash import plan_empty
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores import journal

NOW = 1_800_000_000.0
_CALLS = (
    "open",
    "write",
    "fsync",
    "ftruncate",
    "rename",
    "replace",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "symlink",
    "chown",
    "fchown",
    "fchmod",
)
_DONE = 0
_SESSIONS = ("20260325_112518_6995d1", "20260101_000000_abcdef", "cron_job_20260325_112518")


class Quiet:
    """A progress that shows nothing and never stops."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool:
        return False


def clock() -> float:
    return NOW


@dataclass(frozen=True)
class Seen:
    """A file as a user would compare it."""

    content: bytes | str
    mode: int
    mtime_ns: int


def look(folder: Path) -> dict[str, Seen]:
    seen = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes()
        seen[path.name] = Seen(content, status.st_mode, status.st_mtime_ns)
    return seen


def make_home(root: Path) -> None:
    sessions = root / "sessions"
    sessions.mkdir(parents=True)
    for number, session in enumerate(_SESSIONS):
        path = sessions / f"session_{session}.json"
        path.write_text(json.dumps({"session_id": session, "n": number}))
        path.chmod((0o600, 0o640, 0o444)[number])
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    link = sessions / "request_dump_20260325_112518_6995d1_1.json"
    link.symlink_to("/nowhere/outside")
    os.utime(link, ns=(10**18, 10**18), follow_symlinks=False)
    (sessions / "sessions.json").write_text("{}")


def opened(root: Path) -> Home:
    return open_home(root, clock=clock, idle=DAY)


def prune_plan(home: Home, *, use_trash: bool) -> Plan:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=30 * DAY)), use_trash=use_trash)
    return plan(policy, home.scan(NOW), NOW, command="sessions prune")


def prune(root: Path) -> None:
    home = opened(root)
    apply(prune_plan(home, use_trash=True), home, clock=clock, progress=Quiet())


def prune_now(root: Path) -> None:
    home = opened(root)
    apply(prune_plan(home, use_trash=False), home, clock=clock, progress=Quiet())


def undo_the_latest(root: Path) -> None:
    undo_latest(opened(root), clock=clock, progress=Quiet())


def empty_trash(root: Path) -> None:
    home = opened(root)
    apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock, progress=Quiet())


def settle_only(root: Path) -> None:
    """Any run that writes settles first; this one does nothing else."""
    home = opened(root)
    with home.log.writing("settle") as log:
        settle(log, home, clock=clock)


def run_killed(action: Callable[[Path], None], root: Path, kill_at: int) -> bool:
    """Run `action` in a child that dies before its `kill_at`-th call; True when it got through."""
    pid = os.fork()
    if pid == 0:
        die_at(kill_at)
        try:
            action(root)
        except BaseException as error:  # noqa: BLE001 - told to the parent by the exit code
            sys.stderr.write(f"{error!r}\n")
            os._exit(99)
        os._exit(_DONE)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return False
    assert os.waitstatus_to_exitcode(status) == _DONE, "the operation failed instead of being cut"
    return True


def die_at(kill_at: int, first: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """From here on, this process dies before its `kill_at`-th call, when it has done `first`;
    unless it calls what is returned before."""
    calls = 0
    armed = True

    def disarm() -> None:
        nonlocal armed
        armed = False

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == kill_at and armed:
                if name == "write":  # a torn write: half of the bytes got out
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                first()
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in _CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))

    class Mortal(sqlite3.Connection):
        """Every statement is a call too: SQLite writes past Python."""

        execute = wrapped("execute", sqlite3.Connection.execute)
        executemany = wrapped("executemany", sqlite3.Connection.executemany)
        executescript = wrapped("executescript", sqlite3.Connection.executescript)

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Mortal)  # type: ignore[assignment]
    return disarm


def files_in_trash(root: Path) -> dict[str, Seen]:
    """What lies in the trash, under its original names."""
    found: dict[str, Seen] = {}
    for folder in sorted((root / "trash").glob("*")):
        found |= {name.partition("-")[2]: seen for name, seen in look(folder).items()}
    return found


def check_nothing_lost(root: Path, original: dict[str, Seen]) -> None:
    """Every file is in its place or in the trash, byte for byte; the log can be read."""
    in_place, in_trash = look(root / "sessions"), files_in_trash(root)
    for name, seen in original.items():
        assert seen in (in_place.get(name), in_trash.get(name)), f"lost: {name}"
    assert in_place["sessions.json"] == original["sessions.json"]
    assert not opened(root).log.read().problems


def check_settled(root: Path) -> None:
    """After settling, no operation is open, and log and disk agree about the trash."""
    settle_only(root)
    view = opened(root).log.read()
    assert all(operation.finished_at is not None for operation in view.operations)
    listed = sorted(entry.removal.item.id.removeprefix("sessions/") for entry in view.trash)
    assert listed == sorted(files_in_trash(root)), (listed, sorted(files_in_trash(root)))


def undo_everything(root: Path) -> None:
    home = opened(root)
    for operation in home.log.read().operations:
        if operation.in_trash:
            undo(home, operation.id, clock=clock, progress=Quiet())


def after_prune(root: Path, original: dict[str, Seen]) -> None:
    check_nothing_lost(root, original)
    check_settled(root)
    in_place, in_trash = look(root / "sessions"), files_in_trash(root)
    assert not in_place.keys() & in_trash.keys(), "in two places at once"
    undo_everything(root)
    assert look(root / "sessions") == original, "undo did not give everything back"
    assert not files_in_trash(root)


def then_prune(root: Path, original: dict[str, Seen]) -> None:
    """The next run is another prune: it settles first, then finishes the work."""
    prune(root)
    operations = opened(root).log.read().operations
    assert all(operation.finished_at is not None for operation in operations), "left open"
    assert look(root / "sessions").keys() == {"sessions.json"}
    assert files_in_trash(root).keys() == original.keys() - {"sessions.json"}
    after_prune(root, original)


def then_undo(root: Path, original: dict[str, Seen]) -> None:
    """The next run is an undo: it settles first, then takes back what had been done."""
    try:
        undo_the_latest(root)
    except CannotUndoError:
        assert not files_in_trash(root)
    assert look(root / "sessions") == original
    after_prune(root, original)


def after_prune_now(root: Path, original: dict[str, Seen]) -> None:
    present = look(root / "sessions") | files_in_trash(root)
    announced = {
        removal.item.id.removeprefix("sessions/")
        for operation in sorted((root / "operations").glob("*.jsonl"))
        if (record := journal.read(operation, {})) is not None
        for removal in record.intended.values()
    }
    gone = original.keys() - present.keys()
    assert gone <= announced, f"gone without a record: {gone - announced}"
    check_settled(root)
    for name, seen in look(root / "sessions").items():
        assert seen == original[name]
    assert not files_in_trash(root), "final removals leave nothing in the trash"


def after_empty(root: Path, original: dict[str, Seen]) -> None:
    assert look(root / "sessions").keys() == {"sessions.json"}
    for name, seen in files_in_trash(root).items():
        assert seen == original[name]
    check_settled(root)
    empty_trash(root)
    assert not files_in_trash(root)
    check_settled(root)


@dataclass(frozen=True)
class Scenario:
    """What happens before, what is killed at every call, and what must hold afterwards."""

    killed: Callable[[Path], None]
    verify: Callable[[Path, dict[str, Seen]], None]
    before: Callable[[Path], None] | None = None


SCENARIOS = {
    "prune": Scenario(prune, after_prune),
    "prune-then-prune": Scenario(prune, then_prune),
    "prune-then-undo": Scenario(prune, then_undo),
    "prune-now": Scenario(prune_now, after_prune_now),
    "undo": Scenario(undo_the_latest, after_prune, before=prune),
    "empty": Scenario(empty_trash, after_empty, before=prune),
}


@dataclass
class Tally:
    kills: int = 0
    states: int = 0

    def tell(self) -> None:
        """To whoever started this process."""
        sys.stdout.write(json.dumps({"kills": self.kills, "states": self.states}) + "\n")


def fresh(scratch: Path, scenario: Scenario) -> tuple[Path, dict[str, Seen]]:
    root = scratch / "home"
    shutil.rmtree(root, ignore_errors=True)
    make_home(root)
    original = look(root / "sessions")
    if scenario.before is not None:
        scenario.before(root)
    return root, original


def kill_everywhere(scenario: Scenario, scratch: Path, tally: Tally) -> None:
    """Once: at every call of the operation."""
    for kill_at in itertools.count(1):
        root, original = fresh(scratch, scenario)
        through = run_killed(scenario.killed, root, kill_at)
        tally.kills += not through
        scenario.verify(root, original)
        tally.states += 1
        if through:
            return


def kill_twice_everywhere(scenario: Scenario, scratch: Path, tally: Tally) -> None:
    """Twice: at every call of the operation, and then at every call of settling it."""
    for kill_at in itertools.count(1):
        for settle_at in itertools.count(1):
            root, original = fresh(scratch, scenario)
            if run_killed(scenario.killed, root, kill_at):
                return
            through = run_killed(settle_only, root, settle_at)
            tally.kills += 1 + (not through)
            scenario.verify(root, original)
            tally.states += 1
            if through:
                break


def main(name: str, times: str) -> None:
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as scratch:
        run = kill_everywhere if times == "once" else kill_twice_everywhere
        run(SCENARIOS[name], Path(scratch), tally)
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
