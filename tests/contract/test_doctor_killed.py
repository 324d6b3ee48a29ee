"""Killed at any point, a repair leaves the old store or the new one in place, and whole.

Run as a program (`python -m tests.contract.test_doctor_killed KIND STEP`) it forks, like the crash
harness: each child repairs a fresh copy and dies at its n-th call or SQL statement,
where n is one of those that differ (see `points_of`), or some of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.spine.carry_out import Silent
from holdfast.stores.sqlite.repair import repair
from tests import tally
from tests.contract.test_doctor_repair import (
    ROOT,
    build,
    content,
    execute,
    numbers,
    pages_of,
    problems,
)
from tests.crash.harness import NEVER, points_of, run_killed, scratch

KINDS = ("in place", "pages", "first page", "first page and log")
FEWEST_POINTS = 15
#: Every run of the tests has time for some of the points; `make test-deep` takes them all.
SOME = 3


def mend(root: Path) -> None:
    repair(root / "sessions.db", stamp="now", progress=Silent())


def damage(path: Path, kind: str) -> None:
    if kind == "in place":
        execute(path, "UPDATE sessions SET bytes = 3", "DELETE FROM message_index_data")
        return
    data = path.read_bytes()
    page = pages_of(data, *_short(path))[0] if kind == "pages" else 0
    path.write_bytes(data[: page * 4096] + bytes(4096) + data[(page + 1) * 4096 :])


def leave_log(path: Path) -> None:
    """Messages that are in the log alone, as a killed program leaves them."""
    code = (
        "import os, sys; from tests.contract.test_doctor_repair import *\n"
        "store = SqliteSessionStore(Path(sys.argv[1]))\n"
        "store.append('s1', [Message(role='user', content='logged ' * 900)] * 9, now=NOW)\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=True)


def _short(path: Path) -> list[int]:
    messages = content(path)[1]
    return [next(n for n in messages if n > 100 and len(str(messages[n][1].content)) < 200)]


def main(kind: str, step: str) -> None:
    kills = 0
    with scratch() as place:
        damaged, root = place / "damaged", place / "home"
        damaged.mkdir(mode=0o700)
        build(damaged / "sessions.db", 150)
        expected = set(range(1, 151))
        if kind == "first page and log":
            leave_log(damaged / "sessions.db")
            expected |= set(range(151, 160))
        damage(damaged / "sessions.db", kind)
        shutil.copytree(damaged, root)
        expected -= numbers(repair(root / "sessions.db", stamp="now", progress=Silent()))
        fresh(damaged, root)
        points = points_of(mend, root)
        for kill_at in (*points[:: int(step)], NEVER):
            fresh(damaged, root)
            through = run_killed(mend, root, kill_at)
            kills += not through
            _verify(root / "sessions.db", expected, through=through, in_place=kind == "in place")
    sys.stdout.write(json.dumps({"points": len(points), "kills": kills}) + "\n")


def fresh(damaged: Path, root: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(damaged, root)


def _verify(path: Path, expected: set[int], *, through: bool, in_place: bool) -> None:
    found = problems(path)
    assert not (through and found), found
    if in_place:  # a backup has its name only when it is one
        for backup in path.parent.glob("*.backup-now"):
            assert content(backup)[1].keys() == expected
    if found:  # the old one is still there: the next repair saves everything that can be saved
        repair(path, stamp="later", progress=Silent())
        assert problems(path) == []
        assert not list(path.parent.glob("*.repair-*"))
    assert content(path)[1].keys() == expected


def test_killed_at_some_calls() -> None:
    _killed("pages", SOME)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_call(kind: str) -> None:
    _killed(kind, 1)


def _killed(kind: str, step: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.test_doctor_killed", kind, str(step)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    tally.injected(said["kills"])
    tally.verified(said["kills"] + 1)
    assert said["points"] >= FEWEST_POINTS


if __name__ == "__main__":
    main(*sys.argv[1:])
