"""A disk that forgets what nobody flushed, as one does when the power goes.

What survives of a file is what it held when it was last flushed; what survives of a folder are the
names it had then, and its own mode. So a rename without a flush of the file before it leaves an
empty file, and one without a flush of the folder after it never was. Modes and times of files are
those of the last moment.

SQLite and git flush for themselves, where nobody in Python sees it: what is theirs is taken as it
is (`copy_trusted`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.stores.blobs import durable_batch
from holdfast.stores.checkpoints import working_tree


@dataclass(frozen=True, slots=True)
class Name:
    """What a folder knows of one of its names."""

    inode: int
    mode: int
    times: tuple[int, int]
    target: str = ""


@dataclass
class Disk:
    """Everything below `root`, as it is on the disk for sure."""

    root: Path
    _contents: dict[int, bytes] = field(default_factory=dict)
    _folders: dict[int, dict[str, Name]] = field(default_factory=dict)
    _modes: dict[int, int] = field(default_factory=dict)
    #: An inode that is kept open is not given to another file.
    _open: dict[int, int] = field(default_factory=dict)
    #: Held while something is flushed. Whoever cuts the power keeps it: until the process is
    #: killed, its other threads go on, but nothing that they flush reaches the disk.
    _power: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        """What is there at the beginning is flushed."""
        self._note_all()

    def _note_all(self) -> None:
        """A flush of the whole disk, which has no order: at worst all names come first."""
        with self._power:
            found = [(folder, names) for folder, _, names in os.walk(self.root)]
            for folder, _ in found:
                self._note(folder)
            for folder, names in found:
                for name in names:
                    path = Path(folder, name)
                    if stat.S_ISREG(path.lstat().st_mode):
                        self._note(str(path))

    def watch(self) -> None:
        """From here on, note what this process flushes."""
        real = os.fsync

        def fsync(fd: Any) -> None:
            with self._power:
                real(fd)
                self._flushed(fd)

        os.fsync = fsync
        vars(working_tree)["flush_disk"] = lambda _: self._note_all()
        vars(durable_batch)["_flush_disk"] = lambda: lambda _: self._note_all()

    def _note(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        try:
            self._flushed(fd)
        finally:
            os.close(fd)

    def _flushed(self, fd: int) -> None:
        status = os.fstat(fd)
        if status.st_ino not in self._open:
            # Without the right to read it: to Holdfast, a file that somebody can read is in use.
            self._open[status.st_ino] = os.open(f"/proc/self/fd/{fd}", os.O_PATH)
        if stat.S_ISDIR(status.st_mode):
            self._folders[status.st_ino] = _names(fd)
            self._modes[status.st_ino] = stat.S_IMODE(status.st_mode)
        else:
            self._contents[status.st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def cut(self, to: Path) -> None:
        """Write what is left into another folder, without what is trusted."""
        self._power.acquire()  # for good
        self._rebuild(self.root.stat().st_ino, to)

    def _rebuild(self, inode: int, to: Path) -> None:
        to.mkdir(exist_ok=True)
        for name, known in self._folders.get(inode, {}).items():
            place = to / name
            if stat.S_ISDIR(known.mode):
                self._rebuild(known.inode, place)
                place.chmod(self._modes.get(known.inode, stat.S_IMODE(known.mode)))
                continue
            if stat.S_ISLNK(known.mode):
                place.symlink_to(known.target)
                os.utime(place, ns=known.times, follow_symlinks=False)
            else:
                place.write_bytes(self._contents.get(known.inode, b""))
                self._dress(known, place)

    def _dress(self, known: Name, place: Path) -> None:
        """Its mode and its times, as they were at last where somebody has it open."""
        mode, times = known.mode, known.times
        if known.inode in self._open:
            status = os.fstat(self._open[known.inode])
            mode, times = status.st_mode, (status.st_atime_ns, status.st_mtime_ns)
        place.chmod(stat.S_IMODE(mode))
        os.utime(place, ns=times)


def copy_trusted(root: Path, trusted: Callable[[str], bool], to: Path) -> None:
    """Add what is trusted, after the death of the process: its threads write until then."""
    for path in root.rglob("*"):
        if path.is_file() and trusted(str(path.relative_to(root))):
            place = to / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())


def _names(fd: int) -> dict[str, Name]:
    found = {}
    with os.scandir(fd) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another thread renamed it meanwhile
                status = entry.stat(follow_symlinks=False)
                target = os.readlink(entry.name, dir_fd=fd) if entry.is_symlink() else ""
                times = status.st_atime_ns, status.st_mtime_ns
                found[entry.name] = Name(status.st_ino, status.st_mode, times, target)
    return found
