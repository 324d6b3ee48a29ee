"""Keeping single objects and packs few, between two runs of maintenance."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.stores.shadowgit.joining import join
from holdfast.stores.shadowgit.repository import Layout, alone

#: Beyond so many, looking for an object takes noticeably longer, and each takes a whole block.
MOST_LOOSE = 2_000
MOST_PACKS = 24
PACKING_CONFIG = {"repack.writeBitmaps": "false", "pack.compression": "-1"}

#: git fans objects out by the first byte of their id, evenly: one folder tells of all.
_FOLDERS = 256
_SAMPLED = "17"


def tidy(layout: Layout) -> bool:
    """Put single objects into a pack when they have become many, and small packs into larger ones;
    says whether that was done.

    Cheap enough for the end of a checkpoint, whose lock must be released by then. Whoever finds
    the store in use leaves it to the next.
    """
    if not (_many_loose(layout) or _many_packs(layout)):
        return False
    with contextlib.suppress(BusyError), alone(layout, holder="checkpoints", wait=0.0):
        if _many_packs(layout):
            join(layout.packs)
        # Single objects, or packs that maintenance made: these take longer.
        if _many_loose(layout) or _many_packs(layout):
            layout.git().run("repack", "-d", "-q", "--geometric=2", config=PACKING_CONFIG)
        return True
    return False


def _many_loose(layout: Layout) -> bool:
    return _count(layout.store / "objects" / _SAMPLED) * _FOLDERS > MOST_LOOSE


def _many_packs(layout: Layout) -> bool:
    return _count(layout.packs, ".pack") > MOST_PACKS


def _count(folder: Path, suffix: str = "") -> int:
    try:
        return sum(name.endswith(suffix) for name in os.listdir(folder))  # noqa: PTH208 - no paths
    except FileNotFoundError:
        return 0
