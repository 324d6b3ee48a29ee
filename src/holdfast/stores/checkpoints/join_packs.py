"""Keeps the number of packs in the checkpoint store low: each take adds one, or loose objects."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.stores.checkpoints.repository import Layout, alone, used
from holdfast.stores.checkpoints.size_cap import NoRoomError, Room, most_for_packs
from holdfast.stores.git.pack_writer import join
from holdfast.stores.git.program import PACKING_CONFIG

#: Beyond these numbers, lookups are noticeably slower. Each file also takes a whole block.
MOST_LOOSE = 2_000
MOST_PACKS = 24

#: git distributes objects evenly by the first byte of their id, so one folder is a sample.
_FOLDERS = 256
_SAMPLED = "17"


def join_if_many(layout: Layout, *, patience: int = 1) -> bool:
    """Pack loose objects if there are many, and join small packs; return whether that was done.
    `patience` multiplies the thresholds.

    Fast enough for the end of a take, which must have released its lock by then. If the store is in
    use, the next take does it.
    """
    if not (_many_loose(layout, patience) or _many_packs(layout, patience)):
        return False
    with contextlib.suppress(BusyError), alone(layout, holder="checkpoints", wait=0.0):
        if _many_packs(layout):
            join(layout.packs)()
        # Loose objects, or packs that maintenance wrote: these take longer.
        if _many_loose(layout) or _many_packs(layout):
            layout.git().run("repack", "-d", "-q", "--geometric=2", config=PACKING_CONFIG)
        return True
    return False


def join_beside_takes(layout: Layout, limit: int | None) -> None:
    """Do the same in a worker: takes continue while packs are joined, and wait only while the
    joined ones are removed."""
    if not (_many_loose(layout) or _many_packs(layout)):
        return
    room = None if limit is None else Room(layout, most_for_packs(limit)).reserved
    with contextlib.suppress(BusyError, NoRoomError):
        with used(layout):
            remove = join(layout.packs, room)
        with alone(layout, holder="checkpoints"):
            remove()
        join_if_many(layout)  # for what joining cannot handle


def _many_loose(layout: Layout, patience: int = 1) -> bool:
    return _count(layout.store / "objects" / _SAMPLED) * _FOLDERS > MOST_LOOSE * patience


def _many_packs(layout: Layout, patience: int = 1) -> bool:
    return _count(layout.packs, ".pack") > MOST_PACKS * patience


def _count(folder: Path, suffix: str = "") -> int:
    try:
        return sum(name.endswith(suffix) for name in os.listdir(folder))  # noqa: PTH208 - no paths
    except FileNotFoundError:
        return 0
