"""Killed, or out of space, in the middle of archiving and restoring: nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.archive_harness import SCENARIOS
from tests.crash.child import FEWEST_KILLS, ROOT, all_killed, harness

#: Of the calls of settling: killed twice at each of all calls, it would take too long.
SOME = "3"
#: Every call of the long scenarios is for the deep run.
FEW = "3"

FULL_DISK = """
import json, os, sys
from pathlib import Path
from holdfast.homes.options import ArchiveOptions
from holdfast.model.session import Message, Session
from tests.archiving import NOW, archive, archived, bring, everything, folder_of, opened

root, small = Path(sys.argv[1]), Path(sys.argv[2])
home = opened(root, ArchiveOptions(folder=str(small)))
store = home.create_session_store()
ids = [f"s{number}" for number in range(20)]
for name in ids:
    store.create(Session(id=name, source="cli", started_at=NOW - 9, last_active_at=NOW - 9))
    store.append(name, [Message(role="user", content=os.urandom(50_000).hex())], now=NOW - 8)
    store.end(name, "done", at=NOW - 7)
before = everything(home)
report = archive(home, *ids)
stayed = everything(home)
whole = [folder_of(home).verify(file).session.id for file in archived(home)]
reasons = [outcome.reason for outcome in report.outcomes if outcome.result == "failed"]
lost = [name for name in ids if (name in stayed) == (name in whole)]
left = sorted(path.name for path in small.glob(".*"))
bring(home)
print(json.dumps([report.removed, reasons, lost, left, everything(home) == before]))
"""


def test_killed_at_some_calls() -> None:
    """While it puts the files of a reset session away. `test_home_kill` has the other ways."""
    tally = harness("files", "once", FEW, module="archive_harness")
    assert tally["kills"] >= FEWEST_KILLS / 2
    assert all_killed(tally)


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_call(scenario: str) -> None:
    tally = harness(scenario, module="archive_harness")
    assert tally["kills"] >= FEWEST_KILLS
    assert all_killed(tally)


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_again_while_settling(scenario: str) -> None:
    tally = harness(scenario, "twice", SOME, module="archive_harness")
    assert tally["kills"] >= FEWEST_KILLS**2 / 2


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_nothing_goes_for_which_the_archive_has_no_room(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FULL_DISK)
    home, small = tmp_path / "home", tmp_path / "small"
    home.mkdir()
    small.mkdir()
    mount = f"mount -t tmpfs -o size=512k tmpfs {small}"
    run = f"{sys.executable} {tmp_path}/script.py {home} {small}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {run}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    removed, reasons, lost, left, came_back = json.loads(done.stdout)
    assert 0 < removed < 20
    assert len(reasons) == 20 - removed
    assert "`home.prune(use_trash=False)`" in reasons[0]
    assert "`folder` of [archive]" in reasons[0]
    assert lost == []
    assert left == []
    assert came_back
