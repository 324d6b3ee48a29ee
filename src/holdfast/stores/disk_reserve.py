"""Room that is set aside on a disk, so that there is some when it is full.

A file of nothing. Giving it back is to cut it off, which takes no room, not even on a disk with
none left. Homes on one disk share it: each has a name of the same file, and whoever needs the room
first gives it back for all. Where there is none, what we only remember makes room.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.model.figures import NEEDED
from holdfast.model.text import format_bytes
from holdfast.stores.disk import disk_room
from holdfast.stores.files import (
    PRIVATE_FILE,
    RESERVE,
    link_new,
    make_private_dir,
    open_regular,
    write_all,
)

NAME = RESERVE
#: At most this part of what is free, together with what a change needs.
_PART = 4
#: Less than this is not worth a file.
_LEAST = 1024 * 1024
#: What is made again when it is needed: the notes on a home, the index for search, and lines of
#: the catalogue of an archive. The smallest loss first.
_CACHES = (
    "archive-lines.jsonl",
    "index/units.json",
    "index/sessions.db-wal",
    "index/sessions.db-shm",
    "index/sessions.db",
)
_PIECE = bytes(1024 * 1024)


def is_held(state: Path) -> bool:
    """Whether room is set aside here."""
    try:
        return (state / NAME).lstat().st_size > 0
    except OSError:
        return False


def give_back_if_full(state: Path) -> int:
    """Give back what was set aside, if the disk has hardly any room left; how many bytes those
    were. With nothing set aside and no room at all, our own caches make room. Never raises: whoever
    goes on finds out whether there is room."""
    room = disk_room(state)
    if room is None or room.free >= NEEDED:
        return 0
    return give_back(state) or (_drop_caches(state) if room.is_used_up else 0)


def _drop_caches(state: Path) -> int:
    """Removed and not cut off: whoever reads one of them still has it whole."""
    won = 0
    for name in _CACHES:
        path = state / name
        with contextlib.suppress(OSError):
            if path.parent.is_symlink():
                continue  # it leads out of our folder
            held = path.lstat().st_blocks * 512
            path.unlink()
            won += held
    if won:
        free = f"{format_bytes(won)} of what Holdfast remembers of {state} are free again"
        _warn(f"The disk is full: {free}. It is made again when it is needed.")
    return won


def give_back(state: Path) -> int:
    """Give it back now, for all homes that share it."""
    try:
        fd = open_regular(state / NAME, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        held = os.fstat(fd).st_blocks * 512
        os.ftruncate(fd, 0)
        os.fsync(fd)
    except OSError as error:
        _warn(f"{state / NAME} cannot be given back: {error}")
        return 0
    finally:
        os.close(fd)
    if held:
        free = f"{format_bytes(held)} that were set aside are free again ({state / NAME})"
        _warn(f"The disk is nearly full: {free}.")
    return held


def _warn(message: str) -> None:
    import logging  # noqa: PLC0415 - every operation loads this module, and hardly any needs that

    logging.getLogger("holdfast").warning(message)


def set_aside(states: Iterable[Path], size: int) -> list[Path]:
    """See that each of these folders has a reserve of this size, one for each disk. Those that were
    made or filled again are returned. With a size of 0, none stays."""
    made: list[Path] = []
    by_disk: dict[int, Path] = {}
    for state in states:
        with contextlib.suppress(OSError):
            if size == 0:
                (state / NAME).unlink(missing_ok=True)
                continue
            make_private_dir(state)
            disk = state.stat().st_dev
            first = by_disk.setdefault(disk, state)
            if first != state and _shares(state / NAME, first / NAME):
                continue
            if _fill(state, size):
                made.append(state)
    return made


def _shares(path: Path, first: Path) -> bool:
    """Make a name of the first one's file; False where that cannot be."""
    with contextlib.suppress(OSError):
        if path.samefile(first):
            return True
        path.unlink()
    try:
        return first.exists() and link_new(first, path)
    except OSError:
        return False


def _fill(state: Path, size: int) -> bool:
    """Never more than a part of what is free, and never half of that: what does not fit is given
    back."""
    path = state / NAME
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        held = os.fstat(fd)
        mine = min(held.st_size, held.st_blocks * 512)
        room = disk_room(state)
        if mine == size or room is None:
            return False
        fits = (room.free + mine) // _PART - NEEDED
        wanted = min(size, fits)
        if wanted < min(_LEAST, size) and mine <= size:
            if not mine:
                free = f"the disk of {state} has only {format_bytes(room.free)} free"
                least = f"it takes {format_bytes(_PART * (_LEAST + NEEDED))}"
                _warn(f"Nothing is set aside for a full disk: {free}, and {least}.")
            return False
        if mine <= size and wanted < min(size, 2 * mine):
            return False  # what is there does, until there is much more room
        os.fchmod(fd, PRIVATE_FILE)
        try:
            _take(fd, wanted)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, 0)
            raise
        if wanted < size:
            less = f"{format_bytes(wanted)} and not {format_bytes(size)}"
            _warn(f"{less} are set aside: the disk of {state} has {format_bytes(room.free)} free.")
    finally:
        os.close(fd)
    return True


def _take(fd: int, size: int) -> None:
    os.ftruncate(fd, 0)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    left = size
    while left:
        write_all(fd, _PIECE[: min(left, len(_PIECE))])
        left -= min(left, len(_PIECE))
