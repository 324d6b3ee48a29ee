"""Watch a directory with inotify, which needs one watch per directory."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from inotify_simple import INotify, flags  # type: ignore[import-untyped]

from holdfast.errors import StorageError
from holdfast.model.checkpoint import ChangedPaths

#: Returns those of the given directories in which nothing is ever captured.
Ignored = Callable[[Sequence[str]], Collection[str]]

#: Never captured, regardless of the rules.
_NEVER = ".git"
_RULES = ".gitignore"
_NO_ROOM = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# CLOSE_WRITE too: it is the only event for writes through a memory map.
_WANTED = (
    flags.CREATE
    | flags.DELETE
    | flags.MODIFY
    | flags.CLOSE_WRITE
    | flags.ATTRIB
    | flags.MOVED_FROM
    | flags.MOVED_TO
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
    | flags.DONT_FOLLOW
    | flags.EXCL_UNLINK
)
_CAME = flags.CREATE | flags.MOVED_TO | flags.ATTRIB
_WENT = flags.DELETE | flags.MOVED_FROM
_LEFT = flags.DELETE_SELF | flags.MOVE_SELF


class Inotify:
    """Watches on a directory and everything below it.

    A directory gets its watch before it is listed, and a new directory is itself reported as
    changed, so nothing is missed in between. Events that the kernel dropped are reported as lost.
    """

    def __init__(self, workdir: Path, ignored: Ignored) -> None:
        self.blind = ""
        self._workdir = workdir
        self._ignored = ignored
        # By watch; None is a directory that was moved away, until its last event arrives.
        self._paths: dict[int, str | None] = {}
        self._watches: dict[str, int] = {}
        self._kernel: INotify | None = None
        try:
            self._kernel = INotify(nonblocking=True)
        except OSError as error:
            self._give_up(error)
        self._follow([""])

    def wait(self, seconds: float) -> ChangedPaths:
        if self._kernel is None or self.blind:
            time.sleep(seconds)
            return ChangedPaths()
        if not select.select([self._kernel], [], [], seconds)[0]:
            return ChangedPaths()
        return self._told(self._kernel.read(timeout=0))

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def _told(self, events: Iterable[tuple[int, int, int, str]]) -> ChangedPaths:
        changed: set[str] = set()
        came: set[str] = set()
        lost = ""
        for watch, mask, _, name in events:
            if mask & flags.Q_OVERFLOW or mask & flags.UNMOUNT:
                lost = "the kernel dropped events, because there were too many at once"
                continue
            if mask & flags.IGNORED:
                self._forget(watch)
                continue
            directory = self._paths.get(watch)
            # A moved directory is reported as a whole at its new place.
            if directory is None or name == _NEVER:
                continue
            if not name:
                lost = lost or self._root_left(directory, mask)
                continue
            path = f"{directory}/{name}" if directory else name
            changed.add(path)
            if mask & flags.ISDIR and mask & _WENT:
                self._drop(path)
            if mask & flags.ISDIR and mask & _CAME:
                came.add(path)
            if name == _RULES:  # other directories may matter from now on
                came.add("")
                lost = f"{path} changed"
        self._follow([""] if lost else sorted(came))
        return ChangedPaths(paths=frozenset(changed), lost=lost)

    def _root_left(self, directory: str, mask: int) -> str:
        if directory or not mask & _LEFT:
            return ""
        if not self._workdir.is_dir():
            raise StorageError(
                f"{self._workdir} is gone, so there is nothing left to watch.",
                hint="Its checkpoints are still there: `holdfast checkpoints status`.",
            )
        self._drop("")
        return "the directory was replaced"

    def _follow(self, directories: Sequence[str]) -> None:
        """Watch directories and everything below them, level by level."""
        level = self._of_interest(directories)
        while level and not self.blind:
            level = self._of_interest(
                [path for each in level if self._watch(each) for path in self._list(each)]
            )

    def _of_interest(self, directories: Sequence[str]) -> list[str]:
        left_out = self._ignored([path for path in directories if path])
        return [path for path in directories if path not in left_out]

    def _watch(self, path: str) -> bool:
        """Watch a directory; return whether that worked. A later creation causes an event."""
        if self._kernel is None:
            return False
        try:
            watch = self._kernel.add_watch(self._workdir / path, _WANTED)
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._give_up(error)
            return False
        self._paths[watch] = path
        self._watches[path] = watch
        return True

    def _list(self, path: str) -> list[str]:
        found = []
        with contextlib.suppress(OSError), os.scandir(self._workdir / path) as entries:
            found = [
                f"{path}/{entry.name}" if path else entry.name
                for entry in entries
                if entry.name != _NEVER and entry.is_dir(follow_symlinks=False)
            ]
        return found

    def _drop(self, top: str) -> None:
        """Remove the watches of a directory that was moved or deleted, and of those below it."""
        inside = f"{top}/" if top else ""
        for path in [p for p in self._watches if p == top or p.startswith(inside)]:
            watch = self._watches.pop(path)
            if self._kernel is None or self._paths.get(watch) != path:
                continue  # the watch belongs to another path by now
            self._paths[watch] = None
            with contextlib.suppress(OSError):  # already gone
                self._kernel.rm_watch(watch)

    def _forget(self, watch: int) -> None:
        path = self._paths.pop(watch, None)
        if path is not None and self._watches.get(path) == watch:
            del self._watches[path]

    def _give_up(self, error: OSError) -> None:
        self.blind = f"the system has no room to watch it ({os.strerror(error.errno or 0)})"
