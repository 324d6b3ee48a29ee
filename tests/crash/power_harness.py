"""Cut the power before every call of an operation, and look at what the disk still knows.

`python -m tests.crash.power_harness SCENARIO EVERY`, in the manner of `harness`; but what nobody
flushed is lost. At the end the power is cut after the operation was acknowledged: then all of it
must be there.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast import Home
from holdfast.errors import CannotUndoError
from holdfast.homes.sessions import mover as session_mover
from holdfast.model.item import ARCHIVED
from holdfast.stores.blobs import durable_batch
from holdfast.stores.sqlite import moves
from tests.contract import factory
from tests.contract.factory import SETTING_UP, Look, Sample, Templates
from tests.crash import home_harness
from tests.crash.child import FEWEST_KILLS
from tests.crash.harness import Tally, calls_of, die_at, in_memory
from tests.crash.home_harness import Bench, restore, settle_only
from tests.crash.power_cut import Disk, copy_trusted

#: Bundles, or the files of sessions that come back, are flushed together, as many are.
MANY = {"own-archive-many": ("own", "archive"), "own-restore-many": ("own", "restore")}
#: The store is emptied in one step, and space is given back while files move, as where thousands
#: leave.
EMPTIED = "own-prune-emptied"
#: Homes of the factory, with scenarios of `home_harness`.
SCENARIOS = {
    f"{name}-{scenario}": (name, scenario)
    for name, scenario in (
        ("own", "prune"),
        ("own", "prune-now"),
        ("own", "undo"),
        ("own", "archive"),
        ("own", "restore"),
        ("own-archive", "prune"),
    )
} | {EMPTIED: ("own", "prune"), **MANY}


def trusted(path: str) -> bool:
    """The store is SQLite's, and a lock says nothing."""
    return path.startswith("sessions.db") or path.endswith("lock")


def run_cut(
    action: Callable[[Path], None],
    root: Path,
    cut_at: int,
    to: Path,
    *,
    trusted: Callable[[str], bool] = trusted,
) -> bool:
    """Run `action` in a child that loses its power; True when it got through before."""
    pid = os.fork()
    if pid == 0:
        disk = Disk(root)
        disk.watch()
        disarm = die_at(cut_at, lambda: disk.cut(to))
        try:
            action(root)
            disarm()
            disk.cut(to)
        except BaseException as error:  # noqa: BLE001 - told to the parent by the exit code
            sys.stderr.write(f"{error!r}\n")
            os._exit(99)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    copy_trusted(root, trusted, to)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "the operation failed instead of being cut"
    return True


def everything_returns(sample: Sample, home: Home, original: Look) -> None:
    """A name that was given up may be there again: that is no loss, so copies may be left."""
    for operation in home.log.list():
        try:
            if operation.command != SETTING_UP:
                home.undo(operation)
        except CannotUndoError:
            continue
    if sample.kind != ARCHIVED and home.archive.count():
        restore(sample, home)
    assert factory.words(sample, home) == original, "not everything came back"


def what_is_here_is_whole(sample: Sample, home: Home, original: Look) -> None:
    seen = factory.words(sample, home)
    staying = [each.id for each in sample.plan(home).kept if each.kind == sample.kind]
    assert {*staying} <= seen.keys()
    for name, what in seen.items():
        assert _without_lineage(what) == _without_lineage(original[name]), name


def _without_lineage(what: object) -> object:
    """A session whose parent has gone for good has no parent."""
    assert isinstance(what, tuple)
    session, said = what
    return (getattr(session, "id", session), said)


def main(scenario: str, every: str) -> None:
    name, doing = SCENARIOS[scenario]
    if scenario in MANY:
        durable_batch.MANY = 0
    if scenario == EMPTIED:
        moves._MOST_GOES = -1
        session_mover._MANY = -1
    work = home_harness.SCENARIOS[doing]
    verify = what_is_here_is_whole if doing == "prune-now" else everything_returns
    tally = Tally()
    with in_memory() as scratch:
        bench = Bench(name, work, scratch / "bench", Templates(scratch / "templates"))
        left = bench.root.with_name("left")
        bench.fresh()
        assert calls_of(bench.run(work.killed), bench.root) > FEWEST_KILLS
        for cut_at in itertools.count(1, int(every)):
            shutil.rmtree(left, ignore_errors=True)
            bench.fresh()
            through = run_cut(bench.run(work.killed), bench.root, cut_at, left)
            with bench.sample.open(left) as home:
                settle_only(bench.sample, home)
                verify(bench.sample, home, bench.original)
            tally.kills += 1
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
