"""Ends helpers that a test started, by the process that holds their lock."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path


def helper_of(folder: Path) -> int | None:
    """The process that holds the lock of a helper; None when nobody does."""
    try:
        status = (folder / "hooks.lock").stat()
    except OSError:
        return None
    wanted = f":{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5].endswith(wanted):
            return int(words[4])
    return None


def end_helper(folder: Path, how: int = signal.SIGKILL) -> bool:
    """Whether there was one. It is gone when this returns."""
    process = helper_of(folder)
    if process is None:
        return False
    os.kill(process, how)
    until = time.monotonic() + 5
    while helper_of(folder) == process and time.monotonic() < until:
        time.sleep(0.01)
    return True


#: Held until the process of the tests ends: a helper that comes late finds its place taken.
_TAKEN: list[int] = []


def refuse_helpers(folder: Path) -> None:
    """End the helper of a folder, and let no other one stay there: one may just be starting."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "hooks.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _TAKEN.append(lock)
    for _ in range(100):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            end_helper(folder)
            continue
        return
