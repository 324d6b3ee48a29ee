"""Processor time of all who take part: it hardly depends on what else runs on the machine."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path


def here() -> float:
    """Seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def server(folder: Path) -> float:
    """Seconds of a PostgreSQL: its processes that run, and those of them that have ended."""
    spent = 0.0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder / "data":
                spent += int((entry / "schedstat").read_text().split()[0]) / 1e9
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                spent += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return spent
