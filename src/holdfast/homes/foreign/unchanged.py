"""A cheap glance at a home, to find out if anything in it has changed since the last look.

It compares names, sizes and times (mtime and ctime), and opens no file. For a link, the size and
times of its target count too, but a linked folder is not entered.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR

from holdfast.value import dataclass

#: A file changed this recently may change again without a new time: file times are coarse.
_STEP = 2.0
_ENCODING = ("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """One checksum of all files of a home. `settled` is the latest ctime among them."""

    checksum: str
    settled: float

    def proves(self, noted: str, *, taken: float) -> bool:
        """True if an earlier glance, taken at `taken` with the checksum `noted`, saw the same files
        in the same state."""
        return self.checksum == noted and self.settled < taken - _STEP


def glance(tops: Iterable[Path], *, without: Path, most: int) -> Glance | None:
    """Take a glance at everything below these folders. None if there are more than `most` entries,
    or if one cannot be read: then a full look is needed."""
    left_out = str(without)
    left = most
    waiting, latest, files = _sorted_out(tops)
    seen = blake2b(files.encode(*_ENCODING), digest_size=16)
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda each: each.name)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        left -= len(found)
        if left < 0:
            return None
        lines = [folder]
        for each in found:
            if each.is_dir(follow_symlinks=False):
                if each.path != left_out:
                    waiting.append(each.path)
                    lines.append(each.name)
                continue
            try:
                status = each.stat(follow_symlinks=False)
            except OSError:
                return None  # for example, it was removed in the meantime
            if _made_by_reading(each.name, status.st_size):
                continue
            line, changed = _told(each, status)
            latest = max(latest, changed)
            lines.append(line)
        seen.update("\0".join(lines).encode(*_ENCODING))
        seen.update(b"\0\0")
    return Glance(checksum=seen.hexdigest(), settled=latest / 1e9)


def _told(entry: os.DirEntry[str], status: os.stat_result) -> tuple[str, int]:
    """Return a string that differs if the file has changed, and the time of the change."""
    line = f"{entry.name}/{_times(status)}/{status.st_mode:o}"
    changed = status.st_ctime_ns
    if entry.is_symlink():
        # An agent that follows the link writes to its target.
        with contextlib.suppress(OSError):
            behind = entry.stat()
            return f"{line}/{_times(behind)}", max(changed, behind.st_ctime_ns)
    return line, changed


def _times(status: os.stat_result) -> str:
    return f"{status.st_size}/{status.st_mtime_ns}/{status.st_ctime_ns}"


def _sorted_out(tops: Iterable[Path]) -> tuple[list[str], int, str]:
    """Split the tops into folders and single files. Returns the folders, the latest change of the
    files, and a string that differs if one of them has changed."""
    folders, latest, files = [], 0, ""
    for top in map(str, tops):
        try:
            status = os.stat(top)  # noqa: PTH116 - plain strings throughout
        except OSError:
            folders.append(top)  # the caller reports why when opening it fails
            continue
        if S_ISDIR(status.st_mode):
            folders.append(top)
        else:
            latest = max(latest, status.st_ctime_ns)
            files += f"{top}/{status.st_size}/{status.st_ctime_ns}\0"
    return folders, latest, files


def _made_by_reading(name: str, size: int) -> bool:
    """True for files that SQLite creates even for readers. An empty WAL contains nothing."""
    return name.endswith("-shm") or (size == 0 and name.endswith("-wal"))
