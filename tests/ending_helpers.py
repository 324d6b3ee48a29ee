"""Ends helpers that a test started, by the processes that hold their locks."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def helpers_of(folder: Path) -> list[int]:
    """The processes that hold the locks of helpers in a folder."""
    wanted = {f":{path.stat().st_ino}" for path in folder.glob("*.lock")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [
        int(words[4])
        for words in lines
        if words[1] == "FLOCK" and any(words[5].endswith(each) for each in wanted)
    ]


def helper_of(folder: Path) -> int | None:
    """The process that holds the lock of a helper; None when nobody does."""
    return next(iter(helpers_of(folder)), None)


def end_helper(folder: Path, how: int = signal.SIGKILL) -> bool:
    """Whether there was one. It is gone when this returns."""
    process = helper_of(folder)
    if process is None or process == os.getpid():
        return False
    os.kill(process, how)
    until = time.monotonic() + 5
    while process in helpers_of(folder) and time.monotonic() < until:
        time.sleep(0.01)
    return True


def refuse_helpers(folder: Path) -> None:
    """End the helpers of a folder, and let no other one stay there: one may just be starting. With
    a file in the place of the folder it finds no private folder, or no socket of its own."""
    if folder.is_file():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    gone = folder.with_name(f"{folder.name}-gone")
    folder.rename(gone)
    folder.touch()
    while end_helper(gone):
        pass
