"""Eight processes on one home do everything there is to do, and any of them may die at any moment.

Three talk, one bounds sessions, one archives, two take and restore checkpoints, one bounds those.
Afterwards everything is compared with what they had been promised.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import tally
from tests.crash.chaos_check import check_everything

ROOT = Path(__file__).parents[2]
PROCESSES = (
    ("talk", "t1"),
    ("talk", "t2"),
    ("talk", "t3"),
    ("bound", "b1"),
    ("archive", "a1"),
    ("take", "p1"),
    ("take", "p2"),
    ("space", "s1"),
)
CONFIG = """
[sessions]
auto_prune = true
auto_gc = true
max_count = 60
trivial_days = 0.00001

[checkpoints]
max_total_size_mb = 1
"""
PATIENCE = 60.0


def start(root: Path, role: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.chaos_worker", role, str(root), name],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def chaos(root: Path, seconds: float) -> int:
    """How many were killed. None may end by itself: then it saw something that must not be."""
    (root / "home").mkdir()
    (root / "home" / "config.toml").write_text(CONFIG)
    chance = random.Random(11)
    running = {each: start(root, *each) for each in PROCESSES}
    end = time.monotonic() + seconds
    killed = 0
    try:
        while time.monotonic() < end:
            # Long enough that most of them get to work, short enough that they are at it.
            time.sleep(chance.uniform(0.3, 1.5))
            for each, process in running.items():
                assert process.poll() is None, f"{each} ended: {process.communicate()[1]}"
            victim = chance.choice(PROCESSES)
            stop(running[victim])
            running[victim] = start(root, *victim)
            killed += 1
            tally.injected()
    finally:
        for process in running.values():
            stop(process)
    return killed


@pytest.mark.deep
def test_nothing_that_was_promised_is_lost_in_the_chaos(tmp_path: Path) -> None:
    assert chaos(tmp_path, seconds=150) > 80
    counts = check_everything(tmp_path)
    assert counts["living"] >= 3
    assert counts["said"] > 500
    assert counts["took"] > 50
