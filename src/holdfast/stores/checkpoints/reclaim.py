"""Free the space of objects that no checkpoint needs.

Every user of the store shares its lock. Removing objects needs the exclusive lock, or writers would
lose what they just wrote. Packing takes long but removes nothing, so it runs under the shared lock:
first a pack of everything, marked to be kept; then, under the exclusive lock, a small pack of the
objects written since; objects in neither pack are removed.

A checkpoint stores its objects without deltas and with fast compression. Packing everything
searches for deltas, which takes long, so the store records which packs have had that.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.errors import BusyError, GitFailedError, StorageError
from holdfast.model.checkpoint_inventory import index_root
from holdfast.model.text import format_bytes
from holdfast.stores import lock
from holdfast.stores.checkpoints.checkpoint_commit import all_refs
from holdfast.stores.checkpoints.object_graph import Measured, measure
from holdfast.stores.checkpoints.pack_objects import free_bytes, pack_objects
from holdfast.stores.checkpoints.private_index import lay_to_rest
from holdfast.stores.checkpoints.projects import recorded, remove_record
from holdfast.stores.checkpoints.reclaim_pack_by_pack import reclaim_pack_by_pack
from holdfast.stores.checkpoints.repository import (
    REMOTE_LOCK,
    TRANSFERS,
    Layout,
    alone,
    check,
    forget_worktree,
    opened,
    used,
)
from holdfast.stores.checkpoints.size_cap import (
    room_for_packs,
    store_bytes,
    weigh,
)
from holdfast.stores.files import allocated_below, read_file, replace, storage_errors
from holdfast.stores.git.object_files import note_well_packed, object_files
from holdfast.stores.git.program import PACKING_CONFIG
from holdfast.stores.git.trees import Trees
from holdfast.value import dataclass

#: A pack of everything is worthwhile for this much garbage, or this many loose objects or packs.
_LEAST_GARBAGE = 64 * 1024
_WORTH_PACKING = 256
_FEW_PACKS = 8
#: Less garbage than this is not worth mentioning when a store stays above its cap.
_LEAST_LEFT = 16 * 1024
#: It is also worthwhile if more than one tenth is garbage or was packed without a delta search.
_PART = 10
_LEAST_QUICK = 1024 * 1024
#: With deltas, source code takes at least a third less.
_USUAL_GAIN = 3
_OUR_MARK = b"Holdfast is packing\n"
_NO_ROOM = "too little room on the disk to pack again; only loose objects were removed"
_LITTLE_ROOM = "too little room on the disk to pack the largest pack again"
_CRASHES = "fast_import_crash_*"
_BUSY = "another process is packing the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """`freed` is measured on the file system; `note` explains why it was not more."""

    freed: int
    note: str = ""


def reclaim(
    layout: Layout, *, holder: str, thorough: bool = False, limit: int | None = None
) -> Reclaimed:
    """Remove all objects that no checkpoint, undo copy or private index needs.

    Packs are rewritten if that is worthwhile; with `thorough`, whenever it frees anything. `limit`
    is the cap of the store; a run never exceeds twice the cap.
    """
    check(layout)  # before anything is cleared: a link could lead out of the store
    before = allocated_below(layout.folder)
    with alone(layout, holder=holder):
        _clear(layout)
    with used(layout):
        measured = measure(layout, opened(layout), all_refs(layout))
    over = _is_over(layout, limit)
    if over:
        measured = _without_greedy_indexes(layout, measured, holder)
    with contextlib.ExitStack() as packing:
        packed, note = None, ""
        if _is_worth_packing(measured) or ((thorough or over) and _is_anything(measured)):
            packed, note = _pack(layout, measured, packing, limit)
            if packed is None and limit is not None and note != _BUSY:
                reclaim_pack_by_pack(layout, limit=limit, holder=holder, compare=thorough)
                note = ""
        with alone(layout, holder=holder):
            _prune(layout, packed)
            if packed is not None or (over and _is_over(layout, limit)):
                _lay_to_rest(layout)
    note = note or _what_stays(layout, limit)
    return Reclaimed(freed=max(0, before - allocated_below(layout.folder)), note=note)


def _what_stays(layout: Layout, limit: int | None) -> str:
    """Return why the store is above its cap although it contains garbage; otherwise ""."""
    if limit is None or not _is_over(layout, limit):
        return ""
    with used(layout):
        garbage = measure(layout, opened(layout), all_refs(layout)).garbage
    if garbage < _LEAST_LEFT:
        return ""
    return (
        f"the store takes {format_bytes(store_bytes(layout))}, above its cap of"
        f" {format_bytes(limit)}. {format_bytes(garbage)} of that is no longer needed, but there is"
        " not enough room to repack the store: raise checkpoints.max_total_size_mb temporarily, or"
        " remove more checkpoints"
    )


def _is_over(layout: Layout, limit: int | None) -> bool:
    if limit is None:
        return False
    weigh(layout)
    return store_bytes(layout) > limit


def _without_greedy_indexes(layout: Layout, measured: Measured, holder: str) -> Measured:
    """Return new measurements after replacing private indexes that keep unneeded objects by their
    compact form. An index that is behind may do that, and above the cap it would cost checkpoints
    their place. The next look restores it."""
    what_if = measured.weights.what_if()
    folders = [path.name for path in (layout.store / "worktrees").iterdir()]
    greedy = {name for name in folders if what_if.drop(index_root(name))}
    if not greedy:
        return measured
    with alone(layout, holder=holder):
        _lay_to_rest(layout, greedy)
    with used(layout):
        return measure(layout, opened(layout), all_refs(layout))


def unlock(layout: Layout, *, holder: str) -> None:
    """Remove lock files of killed git processes, which would make git fail forever."""
    with alone(layout, holder=holder):
        _remove(layout, _locks(layout))


@dataclass(frozen=True, slots=True)
class _Packed:
    """A pack to build upon. `mark` keeps it from being removed in the next step; None if there are
    no objects. `well`: everything in it had a delta search."""

    mark: Path | None
    well: bool


def _pack(
    layout: Layout, measured: Measured, packing: contextlib.ExitStack, limit: int | None
) -> tuple[_Packed | None, str]:
    """Write a pack of everything, or return why that was not possible."""
    try:
        packing.enter_context(_packing(layout))
        with used(layout):
            _remove(layout, _our_marks(layout))  # left by a killed run
            if _has_room(layout, measured.weights.held, limit):
                anew = measured.quick * _PART > measured.packed
                options = ("--all", "--indexed-objects", "--non-empty")
                made = pack_objects(layout, *options, anew=anew)
                return _Packed(None if made is None else _marked(made), well=True), ""
            if limit is not None:
                return None, _NO_ROOM  # `reclaim_pack_by_pack` needs less room, and spares no pack
            largest = max(layout.packs.glob("pack-*.pack"), key=_size, default=None)
            if largest is None or not _has_room(layout, measured.packed - _size(largest), None):
                return None, _NO_ROOM
            return _Packed(_marked(largest), well=False), _LITTLE_ROOM
    except BusyError:
        return None, _BUSY
    except GitFailedError as error:
        if not error.disk_full:
            raise
        return None, _NO_ROOM


def _is_worth_packing(measured: Measured) -> bool:
    return (
        measured.garbage_in_packs >= _LEAST_GARBAGE
        or measured.garbage_in_packs * _PART > measured.packed
        or _is_worth_comparing(measured)
        or measured.loose >= _WORTH_PACKING
        or measured.packs >= _FEW_PACKS
    )


def expected(measured: Measured) -> int:
    """Return roughly how many bytes a reclaim will free. The gain from deltas is a guess."""
    return measured.garbage + (
        measured.quick // _USUAL_GAIN if _is_worth_comparing(measured) else 0
    )


def _is_worth_comparing(measured: Measured) -> bool:
    """True if a large part of the store never had a delta search."""
    return measured.quick >= _LEAST_QUICK and measured.quick * _PART > measured.packed


def _is_anything(measured: Measured) -> bool:
    return bool(measured.quick or measured.loose or measured.garbage or measured.packs > 1)


def _has_room(layout: Layout, needed: int, limit: int | None) -> bool:
    if limit is not None and needed > room_for_packs(layout, limit):
        return False
    return free_bytes(layout) >= needed


def _packing(layout: Layout) -> AbstractContextManager[None]:
    """Only one process at a time writes a pack of everything."""
    path = layout.folder / "packing.lock"
    place = layout.folder
    return lock.exclusive(path, holder="checkpoints", wait=0.0, doing="packing", place=place)


def _marked(pack: Path) -> Path:
    mark = pack.with_suffix(".keep")
    with storage_errors(f"mark {pack}"):
        replace(mark, _OUR_MARK)
    return mark


def _prune(layout: Layout, packed: _Packed | None) -> None:
    """Remove all packs without a mark, and all unreferenced objects."""
    git = layout.git()
    try:
        git.run("pack-refs", "--all", "--prune")
    except GitFailedError as error:
        if not error.disk_full:  # on a full disk, the rest is even more important
            raise
    if packed is not None:
        # This includes the objects that were written since. Packs without a mark are removed.
        git.run("repack", "-a", "-d", "-q", config=PACKING_CONFIG)
        _remove(layout, _our_marks(layout))
        if packed.well:
            with storage_errors(f"write to {layout.store}"):
                note_well_packed(layout.packs.parent)
    git.run("prune", "--expire=now")


def _lay_to_rest(layout: Layout, only: Collection[str] | None = None) -> None:
    """Make private indexes compact: together they may be larger than all objects."""
    objects = opened(layout)
    with contextlib.suppress(StorageError):  # if it fails, they stay as they are
        for folder in (layout.store / "worktrees").iterdir():
            if only is not None and folder.name not in only:
                continue
            if lay_to_rest(folder, Trees(objects)):
                forget_worktree(folder)


def _clear(layout: Layout) -> None:
    """Remove leftovers of killed processes. The caller holds the exclusive lock."""
    temporary = object_files(layout.store / "objects").temporary
    crashes = layout.store.rglob(_CRASHES)
    _remove(layout, (*temporary, layout.store / "gc.pid", *crashes, *_locks(layout)))
    if not lock.is_held(layout.folder / REMOTE_LOCK):
        for folder in TRANSFERS:  # from a killed push or fetch
            shutil.rmtree(layout.store / folder, ignore_errors=True)
    _forget_projects(layout)


def _locks(layout: Layout) -> Iterator[Path]:
    for pattern in ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock", "objects/info/*.lock"):
        yield from layout.store.glob(pattern)


def _remove(layout: Layout, paths: Iterable[Path]) -> None:
    with storage_errors(f"clear {layout.store}"):
        for path in paths:
            path.unlink(missing_ok=True)


def _forget_projects(layout: Layout) -> None:
    """Remove the private index of a project without checkpoints. Remove its record, with names and
    pins, once it has no checkpoints in the trash either."""
    refs = all_refs(layout)
    shown = {ref.project for ref in refs if not ref.operation}
    hidden = {ref.project for ref in refs if ref.operation}
    with storage_errors(f"clear {layout.store}"):
        for folder in (layout.store / "worktrees").iterdir():
            if folder.name not in shown:
                shutil.rmtree(folder)
    for project in recorded(layout):
        if project not in shown | hidden:
            remove_record(layout, project)


def _our_marks(layout: Layout) -> list[Path]:
    return [path for path in layout.packs.glob("pack-*.keep") if read_file(path) == _OUR_MARK]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
