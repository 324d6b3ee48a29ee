"""Giving back what no checkpoint holds, and keeping objects few and packed between runs.

Everybody who uses the store shares its lock; what removes objects has it alone, or writers would
lose what they just wrote. The long part, packing, removes nothing, so it is done beside them: first
a pack of everything, marked to stay; then, alone, a small one of what came since, and what is in
neither goes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.stores import lock
from holdfast.stores.files import replace, storage_errors
from holdfast.stores.shadowgit.dropping import all_refs
from holdfast.stores.shadowgit.git import GitFailedError
from holdfast.stores.shadowgit.object_files import allocated_below, object_files
from holdfast.stores.shadowgit.projects import recorded, remove_record
from holdfast.stores.shadowgit.repository import IMPORT_REFS, Layout, alone, opened, used
from holdfast.stores.shadowgit.sizes import Measured, measure

#: Beyond so many, looking for an object takes noticeably longer, and each takes a whole block.
MOST_LOOSE = 2_000
MOST_PACKS = 50

#: A pack of everything is worth making for so much garbage, so many single objects or packs.
_LEAST_GARBAGE = 64 * 1024
_WORTH_PACKING = 256
_FEW_PACKS = 8
#: Left free on the disk after a pack of everything was made.
_MARGIN = 16 * 1024 * 1024
#: git fans objects out by the first byte of their id, evenly: one folder tells of all.
_FOLDERS = 256
_SAMPLED = "17"
_OUR_MARK = b"Holdfast is packing\n"
_PACKING_CONFIG = {"repack.writeBitmaps": "false", "pack.compression": "-1"}
_NO_ROOM = "too little room on the disk to pack again; only single objects were given back"
_BUSY = "another process is packing the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """`freed` is what the file system says, and `note` why it could be no more."""

    freed: int
    note: str = ""


def reclaim(layout: Layout, *, holder: str, thorough: bool = False) -> Reclaimed:
    """Remove everything that no checkpoint, undo copy or private index holds.

    Packs are made anew when that is worth it; with `thorough`, whenever it frees anything.
    """
    before = allocated_below(layout.folder)
    with alone(layout, holder=holder):
        _clear(layout)
    with used(layout):
        measured = measure(layout, opened(layout), all_refs(layout))
    with contextlib.ExitStack() as packing:
        packed, note = None, ""
        if _is_worth_packing(measured) or (thorough and (measured.loose or measured.garbage)):
            packed, note = _pack(layout, measured, packing)
        with alone(layout, holder=holder):
            _prune(layout, packed)
    return Reclaimed(freed=max(0, before - allocated_below(layout.folder)), note=note)


def unlock(layout: Layout, *, holder: str) -> None:
    """Remove locks of git's that killed processes left: git itself waits for them for ever."""
    with alone(layout, holder=holder):
        _remove(layout, _locks(layout))


def tidy(layout: Layout) -> bool:
    """Put single objects into a pack when they have become many, and small packs into larger ones;
    says whether that was done.

    Cheap enough for the end of a checkpoint, whose lock must be released by then. Whoever finds
    the store in use leaves it to the next.
    """
    objects = layout.store / "objects"
    if _count(objects / _SAMPLED) * _FOLDERS <= MOST_LOOSE and _packs(objects) <= MOST_PACKS:
        return False
    with contextlib.suppress(BusyError), alone(layout, holder="checkpoints", wait=0.0):
        layout.git().run("repack", "-d", "-q", "--geometric=2", config=_PACKING_CONFIG)
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Packed:
    """A pack of everything was made. `mark` makes the next step keep it; nothing is held at all
    when there is none."""

    mark: Path | None


def _pack(
    layout: Layout, measured: Measured, packing: contextlib.ExitStack
) -> tuple[_Packed | None, str]:
    """Make a pack of everything, or say why there is none."""
    if not _has_room(layout, measured):
        return None, _NO_ROOM
    try:
        packing.enter_context(_packing(layout))
        with used(layout):
            return _Packed(_pack_everything(layout)), ""
    except BusyError:
        return None, _BUSY
    except GitFailedError as error:
        if not error.disk_full:
            raise
        return None, _NO_ROOM


def _is_worth_packing(measured: Measured) -> bool:
    return (
        measured.garbage_in_packs >= _LEAST_GARBAGE
        or measured.loose >= _WORTH_PACKING
        or measured.packs >= _FEW_PACKS
    )


def _has_room(layout: Layout, measured: Measured) -> bool:
    free = shutil.disk_usage(layout.store).free
    return free >= measured.weights.held + _MARGIN


def _packing(layout: Layout) -> AbstractContextManager[None]:
    """One process at a time makes a pack of everything."""
    path = layout.folder / "packing.lock"
    place = layout.folder
    return lock.exclusive(path, holder="checkpoints", wait=0.0, doing="packing", place=place)


def _pack_everything(layout: Layout) -> Path | None:
    """A pack of all that is held now, marked so that the next step keeps it."""
    folder = layout.store / "objects" / "pack"
    with storage_errors(f"mark packs in {folder}"):
        for mark in _our_marks(folder):
            mark.unlink()  # a run that was killed left it
        said = layout.git().run(
            "pack-objects",
            "--all",
            "--indexed-objects",
            "--non-empty",
            "--delta-base-offset",
            "-q",
            str(folder / "pack"),
            config=_PACKING_CONFIG,
        )
        name = said.output.decode("ascii").strip()
        if not name:
            return None
        mark = folder / f"pack-{name}.keep"
        replace(mark, _OUR_MARK)
    return mark


def _prune(layout: Layout, packed: _Packed | None) -> None:
    """What is in no pack that stays, and held by nothing, goes."""
    git = layout.git()
    git.run("pack-refs", "--all", "--prune")
    if packed is not None:
        # Also what was written since the pack was made; packs without a mark go.
        git.run("repack", "-a", "-d", "-q", config=_PACKING_CONFIG)
        if packed.mark is not None:
            with storage_errors(f"remove {packed.mark}"):
                packed.mark.unlink(missing_ok=True)
    git.run("prune", "--expire=now")


def _clear(layout: Layout) -> None:
    """Remove what killed processes left. Nobody else uses the store now."""
    temporary = object_files(layout.store / "objects").temporary
    _remove(layout, (*temporary, layout.store / "gc.pid", *_locks(layout)))
    git = layout.git()
    found = git.run("for-each-ref", "--format=delete %(refname)", IMPORT_REFS).output
    if found:
        git.run("update-ref", "--stdin", stdin=found)
    _forget_projects(layout)


def _locks(layout: Layout) -> Iterator[Path]:
    for pattern in ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock", "objects/info/*.lock"):
        yield from layout.store.glob(pattern)


def _remove(layout: Layout, paths: Iterable[Path]) -> None:
    with storage_errors(f"clear {layout.store}"):
        for path in paths:
            path.unlink(missing_ok=True)


def _forget_projects(layout: Layout) -> None:
    """Of a project without checkpoints the private index goes; its record, with names and pins,
    once nothing of it can be brought back."""
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


def _our_marks(folder: Path) -> Iterator[Path]:
    for path in folder.glob("pack-*.keep"):
        if path.read_bytes() == _OUR_MARK:
            yield path


def _packs(objects: Path) -> int:
    return sum(1 for _ in (objects / "pack").glob("pack-*.pack"))


def _count(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208 - only their number is wanted
    except FileNotFoundError:
        return 0
