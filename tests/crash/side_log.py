"""What a process was promised, told beside the store: whatever is in here must be kept.

One file for each name, one JSON line for each thing: when, what, and its words. A line is one write
of the kernel, so a kill leaves it whole or not there, and it outlives whoever wrote it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = "said"


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    verb: str
    words: tuple[str, ...]


class SideLog:
    def __init__(self, root: Path, name: str) -> None:
        (root / FOLDER).mkdir(exist_ok=True)
        self.path = root / FOLDER / name
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, verb: str, *words: str) -> None:
        os.write(self._fd, json.dumps([time.time(), verb, *words]).encode() + b"\n")


def told(path: Path) -> Iterator[Line]:
    """The lines of one file, in order."""
    for line in path.read_bytes().splitlines():
        at, verb, *words = json.loads(line)
        yield Line(at, verb, tuple(words))


def everything_told(root: Path) -> list[Line]:
    """The lines of all, in the order of time."""
    lines = [line for path in sorted((root / FOLDER).iterdir()) for line in told(path)]
    return sorted(lines, key=lambda line: line.at)
