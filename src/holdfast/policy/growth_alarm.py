"""What grows too fast: from two looks at the sizes of folders, or from what is free on a disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from holdfast.value import dataclass

MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What folders hold directly, without the folders in them, and how large the files are that
    were written lately. `at` counts seconds that no clock change moves."""

    at: float
    folders: Mapping[str, int]
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A file, or a folder with all below it, and the bytes that it gains in a minute."""

    path: str
    folder: bool
    bytes_per_minute: float
    bytes: int


def grown(before: Sizes, after: Sizes, limit: float) -> list[Grown]:
    """What gained more than `limit` bytes a minute between two looks. A file is named alone. What
    many files of a folder gained together names that folder, the deepest that explains it."""
    seconds = after.at - before.at
    if seconds <= 0 or limit <= 0:
        return []
    in_a_minute = MINUTE / seconds
    gains = {
        path: size - before.folders.get(path, 0)
        for path, size in after.folders.items()
        if size > before.folders.get(path, 0)
    }
    found: list[Grown] = []
    for path, size in after.files.items():
        folder = os.path.dirname(path)  # noqa: PTH120 - text all the way
        # Of a file that was not written lately at the first look, nobody knows the size then.
        gain = min(size - before.files.get(path, 0), gains.get(folder, 0))
        if gain * in_a_minute > limit:
            found.append(_grown(path, gain * in_a_minute, size, folder=False))
            gains[folder] -= gain
    below = Counter(gains)
    for path in sorted(gains, key=len, reverse=True):
        for above in _above(path):
            if above in after.folders:
                below[above] += gains[path]
    for path in sorted(below, key=len, reverse=True):
        if below[path] * in_a_minute > limit:
            size = sum(much for each, much in after.folders.items() if _is_in(each, path))
            found.append(_grown(path, below[path] * in_a_minute, size, folder=True))
            for above in _above(path):  # it explains what they gained
                below[above] -= below[path]
    return found


def _grown(path: str, pace: float, size: int, *, folder: bool) -> Grown:
    return Grown(path=path, folder=folder, bytes_per_minute=pace, bytes=size)


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:  # noqa: PTH120 - text all the way
        yield above
        path = above


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}{os.sep}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free on each disk, by the number of its device."""

    at: float
    free: Mapping[int, int]


def filling(before: Room, after: Room, limit: float) -> frozenset[int]:
    """The disks that lose room at such a pace that something on them may grow by `limit` bytes a
    minute. Half of it is suspicious: meanwhile another program may have freed something."""
    seconds = after.at - before.at
    if seconds <= 0 or limit <= 0:
        return frozenset()
    return frozenset(
        disk
        for disk, free in after.free.items()
        if (before.free.get(disk, free) - free) * MINUTE / seconds > limit / 2
    )
