"""Room that is set aside on a disk, so that there is some when it is full.

A file of nothing. Giving it back is to cut it off, which takes no room, not even on a disk with
none left. Homes on one disk share it: each has a name of the same file, and whoever needs the room
first gives it back for all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.model.text import format_bytes
from holdfast.stores.disk import disk_room
from holdfast.stores.files import PRIVATE_FILE, link_new, make_private_dir, open_regular, write_all

NAME = "reserve"
#: A change needs so much for its journal, its undo copies and the log of a database.
_NEEDED = 8 * 1024 * 1024
#: It is set aside again only when the disk has this many times as much free.
_PLENTY = 4
_PIECE = bytes(1024 * 1024)


def give_back_if_full(state: Path) -> int:
    """Give back what was set aside, if the disk has hardly any room left; how many bytes those
    were. Never raises: whoever goes on finds out whether there is room."""
    path = state / NAME
    try:
        held = path.lstat().st_size
    except OSError:
        return 0  # the usual case, and the cheapest
    room = disk_room(state)
    if not held or room is None or room.free >= _NEEDED:
        return 0
    return give_back(state)


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
    """Only on a disk that has plenty, and never half: what does not fit is given back."""
    path = state / NAME
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        held = os.fstat(fd)
        if held.st_size == size and held.st_blocks * 512 >= size:
            return False
        room = disk_room(state)
        if room is None or room.free < _PLENTY * (size + _NEEDED):
            return False
        os.fchmod(fd, PRIVATE_FILE)
        try:
            _take(fd, size)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, 0)
            raise
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
