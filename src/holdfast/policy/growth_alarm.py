"""What grows too fast: from two looks at the sizes of folders, or at the free space of disks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from holdfast.value import dataclass

MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What folders contain directly, without their subfolders, and the sizes of recently written
    files. `at` is in seconds of a clock that no clock change affects."""

    at: float
    folders: Mapping[str, int]
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A file, or a folder with everything below it, and the bytes that it gains per minute."""

    path: str
    folder: bool
    bytes_per_minute: float
    bytes: int


def grown(before: Sizes, after: Sizes, limit: float) -> list[Grown]:
    """What gained more than `limit` bytes per minute between two looks. A single file is named by
    itself. If many files of a folder did so together, the deepest folder that explains the gain is
    named."""
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
        # The earlier size is unknown for a file that was not recently written at the first look.
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
            for above in _above(path):  # this folder explains what its parents gained
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
    """The free space of each disk, by its device number."""

    at: float
    free: Mapping[int, int]


def filling(before: Room, after: Room, limit: float) -> frozenset[int]:
    """The disks that lose space so fast that something on them may grow by `limit` bytes per
    minute. Half that pace is suspicious: another program may have freed space meanwhile."""
    seconds = after.at - before.at
    if seconds <= 0 or limit <= 0:
        return frozenset()
    return frozenset(
        disk
        for disk, free in after.free.items()
        if (before.free.get(disk, free) - free) * MINUTE / seconds > limit / 2
    )
