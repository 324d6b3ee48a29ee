"""Disk space set aside for the case that the disk fills up.

The reserve is a file of zeros. It is given back by truncating it, which needs no space, even on a
disk with none left. Homes on one disk share it: each has a hard link to the same file, and the
first one that needs the space gives it back for all. If there is no reserve, Holdfast's caches are
deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.model.figures import LEAST_ROOM, NEEDED
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
#: The reserve plus what a change needs is at most one in this many bytes of the free space.
_PART = 4
#: A smaller reserve is not worth a file.
_LEAST = 1024 * 1024
#: Recreated when needed: the notes on a home, the search index, and lines of an archive's
#: catalogue. The cheapest to lose come first.
_CACHES = (
    "archive-lines.jsonl",
    "index/units.json",
    "index/sessions.db-wal",
    "index/sessions.db-shm",
    "index/sessions.db",
)
_PIECE = bytes(1024 * 1024)


def is_held(state: Path) -> bool:
    """True if space is set aside here."""
    try:
        return (state / NAME).lstat().st_size > 0
    except OSError:
        return False


def log_fits(state: Path) -> bool:
    """True if the log of a change is sure to fit on the disk, if need be after `give_back_if_full`
    gave up what it can. True if the system does not report how much is free."""
    room = disk_room(state if state.is_dir() else state.parent)
    return room is None or room.free + _spare(state) >= LEAST_ROOM


def _spare(state: Path) -> int:
    """The bytes that `give_back_if_full` would free."""
    if is_held(state):
        return (state / NAME).lstat().st_blocks * 512
    found = 0
    for name in _CACHES:
        path = state / name
        with contextlib.suppress(OSError):
            found += 0 if path.parent.is_symlink() else path.lstat().st_blocks * 512
    return found


def give_back_if_full(state: Path) -> int:
    """Give back the reserve if the disk has hardly any space left; return the bytes freed. If there
    is no reserve and no space at all, delete our caches. Never raises: the caller's next write
    shows whether there is space."""
    room = disk_room(state)
    if room is None or room.free >= NEEDED:
        return 0
    return give_back(state) or (_drop_caches(state) if room.is_used_up else 0)


def _drop_caches(state: Path) -> int:
    """Delete our caches. They are unlinked, not truncated: a process that reads one still has all
    of it."""
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
        freed = f"Holdfast deleted its caches in {state}, which freed {format_bytes(won)}"
        _warn(f"The disk is full. {freed}. They are recreated when needed.")
    return won


def give_back(state: Path) -> int:
    """Give the reserve back now, for all homes that share it."""
    try:
        fd = open_regular(state / NAME, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        held = os.fstat(fd).st_blocks * 512
        os.ftruncate(fd, 0)
        os.fsync(fd)
    except OSError as error:
        _warn(f"Cannot release the reserve {state / NAME}: {error}")
        return 0
    finally:
        os.close(fd)
    if held:
        freed = f"Holdfast released its reserve of {format_bytes(held)} ({state / NAME})"
        _warn(f"The disk is nearly full. {freed}.")
    return held


def _warn(message: str) -> None:
    import logging  # noqa: PLC0415 - every operation loads this module, and hardly any needs that

    logging.getLogger("holdfast").warning(message)


def set_aside(states: Iterable[Path], size: int) -> list[Path]:
    """Make sure that each of these folders has a reserve of this size, one file for each disk.
    Return the folders where it was created or refilled. With a size of 0, remove all."""
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
    """Make `path` a hard link to the first folder's file; return False if that is impossible."""
    with contextlib.suppress(OSError):
        if path.samefile(first):
            return True
        path.unlink()
    try:
        return first.exists() and link_new(first, path)
    except OSError:
        return False


def _fill(state: Path, size: int) -> bool:
    """Fill a folder's reserve, to at most a quarter of the free space minus what a change needs. If
    that fails halfway, give everything back."""
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
                least = f"a reserve needs at least {format_bytes(_PART * (_LEAST + NEEDED))}"
                _warn(f"No space is reserved for a full disk: {free}; {least}.")
            return False
        if mine <= size and wanted < min(size, 2 * mine):
            return False  # good enough until there is much more room
        os.fchmod(fd, PRIVATE_FILE)
        try:
            _take(fd, wanted)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, 0)
            raise
        if wanted < size:
            less = f"Only {format_bytes(wanted)} instead of {format_bytes(size)} are reserved"
            free = f"the disk of {state} has {format_bytes(room.free)} free"
            _warn(f"{less} for a full disk: {free}.")
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
