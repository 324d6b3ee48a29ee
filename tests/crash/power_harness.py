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
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.spine.undo import undo
from holdfast.stores import journal
from tests.archiving import Everything, Files, bring, clock, opened, store_of
from tests.crash import archive_harness, harness, session_harness
from tests.crash.harness import Tally, die_at
from tests.crash.power_cut import Disk


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
        disk = Disk(root, trusted)
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
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "the operation failed instead of being cut"
    return True


def files_are_whole(root: Path, original: dict[str, harness.Seen]) -> None:
    """In its place or in the trash, and back in its place when everything was undone. A name that
    was given up may be there again: that is no loss."""
    harness.check_nothing_lost(root, original)
    harness.settle_only(root)
    harness.undo_everything(root)
    assert harness.look(root / "sessions") == original, "undo did not give everything back"


def gone_with_a_receipt(root: Path, original: dict[str, harness.Seen]) -> None:
    present = harness.look(root / "sessions")
    gone = original.keys() - present.keys()
    assert {name: original[name] for name in present} == present
    assert gone <= announced(root), f"gone without a record: {gone - announced(root)}"
    harness.settle_only(root)


def announced(root: Path) -> set[str]:
    return {
        removal.item.id.removeprefix("sessions/")
        for path in sorted((root / "operations").glob("*.jsonl"))
        if (record := journal.read(path, {})) is not None
        for removal in record.intended.values()
    }


def sessions_are_whole(root: Path, original: session_harness.Seen) -> None:
    now = session_harness.look(root)
    in_trash = session_harness.in_trash(root)
    assert now.sessions.keys() | in_trash == original.sessions.keys(), "lost"
    harness.settle_only(root)
    session_harness.undo_everything(root)
    assert session_harness.look(root) == original, "undo did not give everything back"


def archive_is_whole(root: Path, original: tuple[Everything, Files]) -> None:
    """In the store, the archive or its trash, and back in the store from either."""
    for _ in range(2):
        stored, in_archive, in_trash = archive_harness.places(root)
        assert stored | in_archive | in_trash == original[0].keys(), "lost"
        archive_harness.settle_only(root)
    home = opened(root)
    for operation in reversed(home.log.read().operations):
        if operation.in_trash:
            undo(home, operation.id, clock=clock)
    bring(home)
    store_of(home).close()
    assert archive_harness.look(root) == original, "not everything came back"


@dataclass(frozen=True)
class Scenario:
    """`make` fills a home, `look` sees what of it must not be lost."""

    make: Callable[[Path], None]
    look: Callable[[Path], Any]
    done: Callable[[Path], None]
    verify: Callable[[Path, Any], None]
    before: tuple[Callable[[Path], None], ...] = ()


def _look_at_files(root: Path) -> dict[str, harness.Seen]:
    return harness.look(root / "sessions")


def _files(
    done: Callable[[Path], None],
    *before: Callable[[Path], None],
    verify: Callable[[Path, Any], None] = files_are_whole,
) -> Scenario:
    return Scenario(harness.make_home, _look_at_files, done, verify, before)


def _sessions(done: Callable[[Path], None], *before: Callable[[Path], None]) -> Scenario:
    look, make = session_harness.look, session_harness.make
    return Scenario(make, look, done, sessions_are_whole, before)


def _archive(done: Callable[[Path], None], *before: Callable[[Path], None]) -> Scenario:
    look, make = archive_harness.look, archive_harness.make
    return Scenario(make, look, done, archive_is_whole, before)


SCENARIOS = {
    "files-prune": _files(harness.prune),
    "files-prune-now": _files(harness.prune_now, verify=gone_with_a_receipt),
    "files-undo": _files(harness.undo_the_latest, harness.prune),
    "sessions-prune": _sessions(session_harness.prune),
    "sessions-undo": _sessions(session_harness.undo_the_latest, session_harness.prune),
    "archive": _archive(archive_harness.archive_some),
    "archive-restore": _archive(archive_harness.restore_all, archive_harness.archive_some),
    "archive-drop": _archive(archive_harness.drop_bundles, archive_harness.archive_some),
}


def main(name: str, every: str) -> None:
    scenario, tally = SCENARIOS[name], Tally()
    with tempfile.TemporaryDirectory(prefix="holdfast-power-") as made:
        scratch = Path(made)
        pattern, root, left = scratch / "pattern", scratch / "home", scratch / "left"
        pattern.mkdir()
        scenario.make(pattern)
        original = scenario.look(pattern)
        for step in scenario.before:
            step(pattern)
        for cut_at in itertools.count(1, int(every)):
            for place in (root, left):
                shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(pattern, root, symlinks=True)
            through = run_cut(scenario.done, root, cut_at, left)
            scenario.verify(left, original)
            tally.kills += 1
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
