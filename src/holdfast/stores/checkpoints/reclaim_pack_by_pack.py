"""Free space if there is no room for a second copy of the store.

Packing everything needs as much room again. Here a few packs at a time are copied without
unreferenced objects, then the old packs are removed; a pack without referenced objects is removed
at once. So a store near its cap never takes more than twice the cap.

Takes can continue while a pack is written. Only the removal is exclusive, and it checks again
first: an object that was unreferenced a moment ago may be in use by then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.checkpoints.checkpoint_commit import all_refs
from holdfast.stores.checkpoints.object_graph import held_objects
from holdfast.stores.checkpoints.pack_objects import free_bytes, pack_objects
from holdfast.stores.checkpoints.repository import Layout, alone, opened, used
from holdfast.stores.checkpoints.size_cap import (
    most_for_takes,
    most_on_disk,
    room_for_packs,
    store_bytes,
)
from holdfast.stores.files import storage_errors
from holdfast.stores.git.object_files import note_well_packed, object_files, pack_oids
from holdfast.stores.git.pack_writer import remove_pack
from holdfast.value import dataclass

#: With less garbage than this, a pack is not worth copying.
_LEAST_GARBAGE = 4_096
#: The bytes of the two files of an empty pack, rounded up to whole blocks.
_PACK_OVERHEAD = 3 * 4_096
#: More rounds than a store has packs.
_ROUNDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A pack. `needed` are its referenced objects that are in no better pack."""

    path: Path
    size: int
    needed: Sequence[bytes]
    needed_bytes: int
    quick: bool

    @property
    def garbage(self) -> int:
        return self.size - self.needed_bytes


def reclaim_pack_by_pack(layout: Layout, *, limit: int, holder: str, compare: bool) -> None:
    """Make packs smaller until the store is within its cap, or nothing more can be done.

    With `compare`, git also searches for deltas in packs written by takes. The caller holds the
    lock for packing.
    """
    for _ in range(_ROUNDS):
        if not compare and store_bytes(layout) <= limit:
            return
        if not _round(layout, limit, holder, compare=compare):
            return


def _round(layout: Layout, limit: int, holder: str, *, compare: bool) -> bool:
    """Copy one group of packs; return whether any pack was removed."""
    with used(layout):
        worth = [each for each in _parts(layout) if _is_worth(each, compare=compare)]
        group = _group(worth, min(room_for_packs(layout, limit), free_bytes(layout)))
        if group:
            _copy(layout, group, compare=compare)
    if group:
        with alone(layout, holder=holder):
            return _drop(layout, {each.path for each in group})
    return bool(worth) and _alone_round(layout, limit, holder)


def _alone_round(layout: Layout, limit: int, holder: str) -> bool:
    """Copy a pack that is too large to be copied while takes continue. Since takes have to wait,
    git does not search for deltas."""
    with alone(layout, holder=holder):
        worth = [each for each in _parts(layout) if each.garbage >= _LEAST_GARBAGE]
        smallest = min(worth, key=lambda each: each.needed_bytes, default=None)
        if smallest is None:
            return False
        if smallest.needed_bytes + _PACK_OVERHEAD > _room_alone(layout, limit, smallest.size):
            return False
        _copy(layout, [smallest], compare=False)
        return _drop(layout, {smallest.path})


def _room_alone(layout: Layout, limit: int, size: int) -> int:
    """Return the maximum size of a copy of a pack of this size. No other process can write
    meanwhile, so no room is reserved for takes: if the referenced objects and the pack fit the cap,
    the copy always fits below twice the cap.

    If the store is above the limit for takes, or the pack above the cap, the cap was higher once.
    Then only the disk is the limit, or the store would never get smaller.
    """
    taken, free = store_bytes(layout), free_bytes(layout)
    if taken > most_for_takes(limit) or size > limit:
        return free
    return min(free, most_on_disk(limit) - taken)


def _is_worth(part: _Part, *, compare: bool) -> bool:
    return part.garbage >= _LEAST_GARBAGE or not part.needed or (compare and part.quick)


def _group(parts: Sequence[_Part], room: int) -> list[_Part]:
    """Choose as many packs as fit into the room, the smallest copies first."""
    chosen: list[_Part] = []
    for each in sorted(parts, key=lambda each: (each.needed_bytes, str(each.path))):
        if each.needed and each.needed_bytes > room:
            break
        room -= each.needed_bytes
        chosen.append(each)
    return chosen


def _parts(layout: Layout) -> list[_Part]:
    """Return every pack. An object in several packs is needed only in one, preferably a pack with
    deltas, because that copy is smaller."""
    files = object_files(layout.store / "objects")
    held = held_objects(layout, opened(layout), all_refs(layout))
    seen: set[bytes] = set()
    found = []
    for path in sorted(files.packs, key=lambda path: (path.name not in files.well_packed, path)):
        needed = [oid for oid in pack_oids(path) if oid in held and oid not in seen]
        seen.update(needed)
        found.append(
            _Part(
                path=path,
                size=_size(path),
                needed=needed,
                needed_bytes=sum(held[oid] for oid in needed),
                quick=path.name not in files.well_packed,
            )
        )
    return found


def _copy(layout: Layout, group: Sequence[_Part], *, compare: bool) -> None:
    """Write a new pack of the needed objects of a group."""
    oids = [oid for each in group for oid in each.needed]
    if not oids:
        return
    anew = compare and any(each.quick for each in group)
    made = pack_objects(layout, anew=anew, oids=oids)
    if compare and made is not None:
        with storage_errors(f"write to {layout.store}"):
            note_well_packed(layout.packs.parent, made.name)


def _drop(layout: Layout, paths: set[Path]) -> bool:
    """Remove packs whose referenced objects are all in other packs as well; return whether a pack
    was removed. The caller holds the exclusive lock."""
    held = held_objects(layout, opened(layout), all_refs(layout))
    packs = object_files(layout.store / "objects").packs
    objects = {path: [oid for oid in pack_oids(path) if oid in held] for path in packs}
    copies = Counter(oid for oids in objects.values() for oid in oids)
    gone = False
    for path in sorted(paths & objects.keys()):
        if all(copies[oid] > 1 for oid in objects[path]):
            copies.subtract(objects[path])
            with storage_errors(f"remove {path}"):
                remove_pack(path)
            gone = True
    return gone


def _size(pack: Path) -> int:
    with contextlib.suppress(OSError):
        return pack.stat().st_size + pack.with_suffix(".idx").stat().st_size
    return 0
