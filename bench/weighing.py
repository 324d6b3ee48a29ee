"""The memory of a process and of everything that it started, as it was at once.

What processes share counts once: each page is divided among those who have it (PSS). The peaks that
the kernel keeps for each process cannot be added up: they come at different moments, and a program
that was just started inherits the peak of the process that started it. Linux only; 0 elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

#: To look takes a millisecond or two, in which whoever is looked at gets no new memory.
_APART = 0.2
_PROC = Path("/proc")


class Weighing:
    """Looks again and again while the context is open. `megabytes` is the most that it saw."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.megabytes = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_APART):
            self.megabytes = max(self.megabytes, megabytes_of(self._pid))


def megabytes_of(pid: int) -> float:
    """What a process and all below it have now."""
    return sum(map(_share, _family(pid))) / 1024


def _family(pid: int) -> list[int]:
    """A process and all below it. Not every kernel lists the children of a process."""
    below: dict[int, list[int]] = {}
    for each in _PROC.iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            below.setdefault(int(parent), []).append(int(each.name))
    found = [pid]
    for each_pid in found:
        found += below.get(each_pid, [])
    return found


def _share(pid: int) -> int:
    """The kilobytes of a process, and its part of those that it shares; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
