"""What belongs to a command that `holdfast run` attends, and what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from holdfast.stores.process_group import ProcessGroup


def test_a_worker_of_ours_is_no_part_of_the_command(tmp_path: Path) -> None:
    """It has a session of its own, as what the command left behind may have."""
    others = {each.pid for each in psutil.Process().children()}  # servers of other tests
    worker = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        group = ProcessGroup(
            [sys.executable, "-c", "pass"],
            cwd=tmp_path,
            environ=os.environ,
            terminal=None,
            not_of_it=lambda: {worker.pid, *others},
        )
        try:
            deadline = time.monotonic() + 20
            while group.alive():
                assert time.monotonic() < deadline, "the worker counts as the command's"
                group.wait(0.05)
        finally:
            group.close()
        assert worker.poll() is None
    finally:
        worker.kill()
        worker.wait()
