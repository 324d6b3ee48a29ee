"""Which paths of a project changed since the last look, for a process that takes many checkpoints.

A whole look compares the times of every file. This watch receives every change instead, and is used
only where nothing can be missed: on a local file system, with a watch on every directory and on
every file in it. A watch on a directory alone would miss writes through a hard link elsewhere.
Whenever something may have been missed it reports that, and the caller does a whole look: events
that the kernel dropped, changed rules, a worktree added or removed, a new mount, or no room for
more watches.

Writes through a memory map are reported when the map is closed. While it is open, a look by times
misses them as well.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from inotify_simple import flags  # type: ignore[import-untyped]

from holdfast.errors import StorageError
from holdfast.model.checkpoint import ChangedPaths
from holdfast.stores.checkpoints.repository import Layout, project_of
from holdfast.stores.checkpoints.walk import is_local, mounts
from holdfast.stores.checkpoints.watch import ignored_directories
from holdfast.stores.checkpoints.watch_inotify import Ignored, Inotify
from holdfast.stores.git.program import Git

_MOST_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
#: Other programs of this user need watches too.
_SHARE = 8
# MASK_ADD: if a directory has replaced the file meanwhile, it keeps its own watch flags.
_OF_FILES = flags.MODIFY | flags.ATTRIB | flags.CLOSE_WRITE | flags.DONT_FOLLOW | flags.MASK_ADD
_RULES, _REPOSITORY = ".gitignore", ".git"


class _Everything(Inotify):
    """Watches on all directories in which something is captured, and on the files in them."""

    def __init__(self, workdir: Path, ignored: Ignored, most: int) -> None:
        self._most = most
        self._device = workdir.lstat().st_dev
        #: By watch. Two names may be the same file.
        self._files: dict[int, set[str]] = {}
        super().__init__(workdir, ignored)

    def _list(self, path: str) -> list[str]:
        found = []
        with contextlib.suppress(OSError), os.scandir(self._workdir / path) as entries:
            for entry in entries:
                name = f"{path}/{entry.name}" if path else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != _REPOSITORY:
                        found.append(name)
                elif entry.is_file(follow_symlinks=False):
                    self.watch_file(name)
        return found

    def _watch(self, path: str) -> bool:
        with contextlib.suppress(OSError):
            if (self._workdir / path).lstat().st_dev != self._device:
                self.blind = f"another file system is mounted at {path}"
                return False
        self._bound()
        watched = super()._watch(path)
        if watched:
            self._files.pop(self._watches[path], None)
        return watched

    def watch_file(self, path: str) -> None:
        if self._kernel is None or self.blind:
            return
        self._bound()
        try:
            watch = self._kernel.add_watch(self._workdir / path, _OF_FILES)
        except FileNotFoundError:
            return  # the watch on its directory reports that
        except OSError as error:
            self._give_up(error)  # a file without a watch may change unseen
            return
        if watch not in self._paths:  # otherwise it is a directory by now, and was reported
            self._files.setdefault(watch, set()).add(path)

    def _bound(self) -> None:
        if len(self._files) + len(self._paths) >= self._most:
            self.blind = "it has too many files to watch them all"

    def _told(self, events: Iterable[tuple[int, int, int, str]]) -> ChangedPaths:
        changed: set[str] = set()
        lost, others = "", []
        for event in events:
            watch, mask, _, name = event
            if watch in self._files:
                names = self._files[watch]
                changed |= names
                if mask & flags.IGNORED:
                    del self._files[watch]
                if any(each.rpartition("/")[2] == _RULES for each in names):
                    lost = "the ignore rules changed"
                continue
            if name == _REPOSITORY and self._paths.get(watch):
                lost = "a repository in the project came or went"
            others.append(event)
        seen = super()._told(others)
        for path in seen.paths:
            if (self._workdir / path).is_file() and not (self._workdir / path).is_symlink():
                self.watch_file(path)  # a new file, or another one of this name
        return ChangedPaths(paths=seen.paths | changed, lost=seen.lost or lost)


class StandingWatch:
    """A project that is watched from now on. After creating this, the caller does one whole look,
    and from then on looks only at what `since` returns."""

    def __init__(self, layout: Layout, workdir: Path) -> None:
        """Raises `StorageError` if it cannot receive every change."""
        self._workdir = workdir
        self._identity = _identity(workdir)
        self._mounts = mounts()
        if not is_local(self._mounts, self._identity[0]):
            raise StorageError(f"Changes of {workdir} may be made by another machine.")
        git = Git(store=layout.store, folder=layout.private(project_of(workdir)), work_tree=workdir)
        most = int(_read(_MOST_WATCHES) or 0) // _SHARE
        self._kernel = _Everything(workdir, lambda some: ignored_directories(git, some), most)
        if self._kernel.blind:
            self._kernel.close()
            raise StorageError(f"{workdir} cannot be watched: {self._kernel.blind}.")

    def since(self) -> ChangedPaths:
        """Return what may have changed since the last call. If something was `lost`, the watch is
        no longer usable."""
        try:
            if mounts() != self._mounts:
                return ChangedPaths(lost="a file system was mounted")
            if _identity(self._workdir) != self._identity:
                return ChangedPaths(lost="the directory was replaced")
            seen = self._kernel.wait(0.0)
        except (OSError, StorageError) as error:
            return ChangedPaths(lost=str(error))
        return ChangedPaths(paths=seen.paths, lost=seen.lost or self._kernel.blind)

    def close(self) -> None:
        self._kernel.close()


def _identity(workdir: Path) -> tuple[int, int]:
    """Identify the directory: a parent folder may have been moved, which causes no event."""
    status = workdir.stat()
    return status.st_dev, status.st_ino


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
