"""Give space back where there is no room for a second copy of the store.

Packing everything needs as much room again. A sweep copies a few packs at a time without
unreferenced objects and then removes the old packs; a pack without referenced objects goes at once.
So a store near its cap never takes more than twice the cap.

Takes go on while a pack is written. Only the removal is exclusive, and it checks again first: an
object that nothing referenced a moment ago may be in use by then.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.stores.checkpoints.checkpoint_commit import all_refs
from holdfast.stores.checkpoints.repository import Layout, alone, opened, used
from holdfast.stores.checkpoints.sizes import held_objects
from holdfast.stores.checkpoints.space import (
    most_for_packs,
    most_for_takes,
    most_on_disk,
    store_bytes,
)
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.object_files import note_also_well_packed, object_files
from holdfast.stores.git.pack import index_oids
from holdfast.stores.git.pack_writer import remove_pack
from holdfast.stores.git.program import PACKING_CONFIG
from holdfast.value import dataclass

#: Less than this in a pack is not worth a copy of the rest.
_LEAST_GARBAGE = 4_096
#: What the two files of a pack take besides their objects, rounded up to whole blocks.
_PACK_OVERHEAD = 3 * 4_096
#: More rounds than a store has packs.
_ROUNDS = 64
#: Left free on the disk.
_MARGIN = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A pack: its objects that are held and lie in no better pack, and what those take."""

    path: Path
    size: int
    needed: Sequence[bytes]
    needed_bytes: int
    quick: bool

    @property
    def garbage(self) -> int:
        return self.size - self.needed_bytes


def sweep(layout: Layout, *, limit: int, holder: str, compare: bool) -> None:
    """Make packs smaller until the store is within its cap, or nothing more can be done.

    With `compare`, packs that takes left are also compared object by object, which finds what they
    have in common. The caller has the lock for packing.
    """
    for _ in range(_ROUNDS):
        if not compare and store_bytes(layout) <= limit:
            return
        if not _round(layout, limit, holder, compare=compare):
            return


def _round(layout: Layout, limit: int, holder: str, *, compare: bool) -> bool:
    """Copy one group of packs; returns whether any pack was removed."""
    with used(layout):
        worth = [each for each in _parts(layout) if _is_worth(each, compare=compare)]
        # Takes may go on up to their own limit meanwhile.
        taken = max(store_bytes(layout), most_for_takes(limit))
        group = _group(worth, min(most_for_packs(limit) - taken, _free(layout)))
        if group:
            _copy(layout, group, compare=compare)
    if group:
        with alone(layout, holder=holder):
            return _drop(layout, {each.path for each in group})
    return bool(worth) and _alone_round(layout, limit, holder)


def _alone_round(layout: Layout, limit: int, holder: str) -> bool:
    """Copy a pack that is too large to copy while takes go on. Others wait, so no deltas."""
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
    """How large the copy of a pack of this size may be. Nobody else writes meanwhile, so nothing is
    set aside for them: where what is held fits the cap and the pack does too, its copy always fits
    below twice the cap.

    A store above what takes may use, or a pack above the cap, is of a time when the cap was higher.
    Then only the disk says how far to go, or the store would never get smaller."""
    taken, free = store_bytes(layout), _free(layout)
    if taken > most_for_takes(limit) or size > limit:
        return free
    return min(free, most_on_disk(limit) - taken)


def _is_worth(part: _Part, *, compare: bool) -> bool:
    return part.garbage >= _LEAST_GARBAGE or not part.needed or (compare and part.quick)


def _group(parts: Sequence[_Part], room: int) -> list[_Part]:
    """As many as fit, those first that give the most back for what they need."""
    chosen: list[_Part] = []
    for each in sorted(parts, key=lambda each: (each.needed_bytes, str(each.path))):
        if each.needed and each.needed_bytes > room:
            break
        room -= each.needed_bytes
        chosen.append(each)
    return chosen


def _parts(layout: Layout) -> list[_Part]:
    """Every pack. An object in several is needed in one of them: best in one that was made by
    comparing, because that is the smaller copy."""
    files = object_files(layout.store / "objects")
    held = held_objects(layout, opened(layout), all_refs(layout))
    seen: set[bytes] = set()
    found = []
    for path in sorted(files.packs, key=lambda path: (path.name not in files.well_packed, path)):
        needed = [oid for oid in _oids(path) if oid in held and oid not in seen]
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
    said = layout.git().run(
        "pack-objects",
        "--delta-base-offset",
        "-q",
        # What lies whole in one pack is compared only when it is not just copied.
        *(["--no-reuse-object"] if compare and any(each.quick for each in group) else []),
        str(layout.packs / "pack"),
        stdin=b"".join(b"%b\n" % oid.hex().encode() for oid in oids),
        config=PACKING_CONFIG,
    )
    if compare:
        with storage_errors(f"write to {layout.store}"):
            name = said.output.decode("ascii").strip()
            note_also_well_packed(layout.packs.parent, f"pack-{name}.pack")


def _drop(layout: Layout, paths: set[Path]) -> bool:
    """Remove those of which no held object lies in them alone; says whether any went. Nobody else
    uses the store now."""
    held = held_objects(layout, opened(layout), all_refs(layout))
    packs = object_files(layout.store / "objects").packs
    objects = {path: [oid for oid in _oids(path) if oid in held] for path in packs}
    copies = Counter(oid for oids in objects.values() for oid in oids)
    gone = False
    for path in sorted(paths & objects.keys()):
        if all(copies[oid] > 1 for oid in objects[path]):
            copies.subtract(objects[path])
            with storage_errors(f"remove {path}"):
                remove_pack(path)
            gone = True
    return gone


def _oids(pack: Path) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        yield from index_oids(read_file(pack.with_suffix(".idx")))


def _size(pack: Path) -> int:
    with contextlib.suppress(OSError):
        return pack.stat().st_size + pack.with_suffix(".idx").stat().st_size
    return 0


def _free(layout: Layout) -> int:
    return max(0, shutil.disk_usage(layout.store).free - _MARGIN)
