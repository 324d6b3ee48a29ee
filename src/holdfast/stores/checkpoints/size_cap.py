"""The cap on the checkpoint folder: its size on disk, and how much may still be written.

Fast enough for the end of every take. Most bytes are in packs. There are about two dozen packs,
because `join_packs` keeps them few, so their folder is read each time. Everything else (private
indexes, references, records) grows slowly: it is measured when a project gets its first checkpoint
and after the store was brought back within its bounds, and cached in the file `weighed`.

Archives of older layouts do not count: only the user removes them, and takes do not make them grow.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator

from holdfast.errors import StorageError
from holdfast.model.json_value import NO_RECORD, fields_from_json, fields_to_json
from holdfast.stores.checkpoints.repository import Layout, is_older_name, write_cache
from holdfast.stores.files import PRIVATE_FILE, allocated_below, read_file, storage_errors
from holdfast.value import dataclass, replace

_WEIGHED = "weighed"
_ROOM_LOCK = "room.lock"
_BLOCK = 4_096
#: The maximum bytes per object in a pack's index and the private index.
_PER_OBJECT = 160
#: Reserved for small files: a part of the cap, and some bytes because each file takes a block.
_SMALL_PART = 20
_SMALL_FILES = 200_000
#: If a store cannot get below its cap, do not retry until it has grown by this part of the cap.
_PART = 10


class NoRoomError(StorageError):
    """A take would make the store larger than allowed."""

    kind = "no_room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """`beside` is everything except packs. `floor` is the size after the last run under this
    `limit` if it could not get below the limit, else 0. `bounded_at` is the time of that run,
    `took` its duration in seconds."""

    beside: int
    limit: int = 0
    floor: int = 0
    bounded_at: float = 0.0
    took: float = 0.0


def most_on_disk(limit: int) -> int:
    """Return the size that a store with this cap never exceeds."""
    return 2 * limit


def most_for_takes(limit: int) -> int:
    """Return the size up to which takes may fill the store. The rest, up to `most_on_disk`, is for
    making room, which copies packs before it removes the old ones."""
    return limit + limit // 2


def most_for_packs(limit: int) -> int:
    """Return the size up to which packs may be written. The rest is for small files."""
    return most_on_disk(limit) - min(limit // 2, limit // _SMALL_PART + _SMALL_FILES)


def room_for_packs(layout: Layout, limit: int) -> int:
    """Return the bytes of packs that may be written while takes continue, up to their own limit."""
    return most_for_packs(limit) - max(store_bytes(layout), most_for_takes(limit))


def store_bytes(layout: Layout) -> int:
    """Return the approximate bytes that count against the cap: the folder without older layouts."""
    weighed = read_weighed(layout) or weigh(layout)
    return weighed.beside + pack_bytes(layout)


def is_over(layout: Layout, limit: int, total: int | None = None) -> bool:
    """True if the store is above its cap and a run might change that. `total` is its size, if the
    caller knows it."""
    if total is not None and total <= limit:
        return False
    weighed = read_weighed(layout) or weigh(layout)
    most = limit
    if weighed.limit == limit and weighed.floor:
        most = max(limit, weighed.floor + limit // _PART)
    return weighed.beside + pack_bytes(layout) > most


def pack_bytes(layout: Layout) -> int:
    """Sum up every file in the folder, because another process may be writing a pack. Uses lengths,
    because the file system may allocate blocks late."""
    folder, total = str(layout.packs), 0
    try:
        names = os.listdir(folder)  # noqa: PTH208 - called by every take: names are enough
    except FileNotFoundError:
        return 0
    for name in names:
        try:
            total += -(-os.lstat(f"{folder}/{name}").st_size // _BLOCK) * _BLOCK
        except FileNotFoundError:
            continue  # just removed
    return total


def read_weighed(layout: Layout) -> Weighed | None:
    """Return the cached weights; None if they are missing or unreadable."""
    with contextlib.suppress(OSError, *NO_RECORD):
        return fields_from_json(Weighed, json.loads(read_file(layout.folder / _WEIGHED)))
    return None


def weigh(layout: Layout) -> Weighed:
    """Measure everything except packs, and cache the result."""
    known = read_weighed(layout) or Weighed(beside=0)
    return _note(layout, replace(known, beside=_beside(layout)))


def note_bounded(layout: Layout, *, limit: int, at: float, took: float) -> Weighed:
    """Record the size after the store was brought within its bounds."""
    beside = _beside(layout)
    total = beside + pack_bytes(layout)
    floor = total if total > limit else 0
    weighed = Weighed(beside=beside, limit=limit, floor=floor, bounded_at=at, took=took)
    return _note(layout, weighed)


def _note(layout: Layout, weighed: Weighed) -> Weighed:
    # A full disk must not make a take fail.
    with contextlib.suppress(OSError):
        write_cache(layout.folder / _WEIGHED, json.dumps(fields_to_json(weighed)).encode())
    return weighed


def _beside(layout: Layout) -> int:
    total = allocated_below(layout.store) - allocated_below(layout.packs)
    with contextlib.suppress(FileNotFoundError), os.scandir(layout.folder) as entries:
        for entry in entries:
            if entry.name == layout.store.name or is_older_name(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                total += allocated_below(layout.folder / entry.name)
            else:
                total += _BLOCK
    return max(0, total)


@dataclass(slots=True)
class Room:
    """How much a take may write. A take reserves room around each write, one process at a time, so
    concurrent processes together stay below the limit. `total` is the size of the store after the
    last write, None before the first."""

    layout: Layout
    most: int
    total: int | None = None

    @contextlib.contextmanager
    def reserved(self, size: int, objects: int) -> Iterator[None]:
        """Reserve room for a write; raises `NoRoomError` if this many bytes do not fit."""
        wanted = size + objects * _PER_OBJECT
        with storage_errors(f"open {self.layout.folder / _ROOM_LOCK}"):
            fd = os.open(
                self.layout.folder / _ROOM_LOCK,
                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
                PRIVATE_FILE,
            )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            total = store_bytes(self.layout) + wanted
            if total > self.most:
                raise NoRoomError("The checkpoint store is full.")
            yield
            self.total = total
        finally:
            os.close(fd)
