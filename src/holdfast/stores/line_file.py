"""A local file of lines that is appended to, and rewritten when it gets too long.

An append is durable on return. A kill can tear only the last line, and a torn line counts as never
written. Reading creates nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from holdfast.stores.files import (
    PRIVATE_FILE,
    open_regular,
    read_file,
    sync_dir,
    write_all,
    write_new,
)

_LONGEST_LINE = 64 * 1024 * 1024
_BLOCK = 64 * 1024
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

#: Changes whenever the file does.
Stamp = tuple[int, int, int]


class LineFile:
    """A file of lines. Its folder must exist before the first append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A fixed name, so the next process that writes removes what a killed one left.
        self._temporary = path.with_name(f".{path.name}.tmp")

    def stamp(self) -> Stamp | None:
        """The stamp of the file; None if there is no file."""
        try:
            return stamp_of(self.path)
        except FileNotFoundError:
            return None

    def lines(self) -> Iterator[bytes]:
        """Every complete line; of one that is too long, only the start."""
        with self._opened(os.O_RDONLY) as file:
            yield from _lines(file)

    def append(self, lines: Iterable[bytes]) -> Stamp:
        """Append all lines or none. Return the stamp of the resulting file."""
        created = not self.path.exists()
        with self._opened(os.O_RDWR | os.O_CREAT) as file:
            fd = file.fileno()
            end = _end_of_lines(fd)
            os.ftruncate(fd, end)  # drop a line that a killed process tore
            os.lseek(fd, end, os.SEEK_SET)
            try:
                write_all(fd, b"".join(lines))
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, end)  # half a line would spoil the next one
                raise
            stamp = _stamp(os.fstat(fd))
        if created:
            sync_dir(self.path.parent)
        return stamp

    def cut(self, gone: Callable[[bytes], bool]) -> None:
        """Drop lines in place, which works on a full disk. The file is truncated where the first
        dropped line starts, then the remaining lines are written again: a kill in between loses
        them."""
        with self._opened(os.O_RDWR) as file:
            start, rest = 0, list(_lines(file))
            while rest and not gone(rest[0]):
                start += len(rest.pop(0))
            file.truncate(start)
            file.seek(start)
            file.write(b"".join(line for line in rest if not gone(line)))
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace the whole file. Readers see the old lines or the new ones."""
        self.clear_unfinished()
        write_new(self._temporary, b"".join(lines))
        self._temporary.replace(self.path)
        sync_dir(self.path.parent)

    def clear_unfinished(self) -> None:
        """Remove what a killed `rewrite` left."""
        self._temporary.unlink(missing_ok=True)

    def _opened(self, flags: int) -> IO[bytes]:
        fd = open_regular(self.path, flags | os.O_NOFOLLOW)
        return os.fdopen(fd, "rb" if flags == os.O_RDONLY else "r+b")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if line.endswith(b"\n"):
            yield line
            continue
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        if rest:  # otherwise torn by a kill: never written
            yield line[:_BLOCK]


def stamp_of(path: Path) -> Stamp:
    return _stamp(path.stat(follow_symlinks=False))


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _end_of_lines(fd: int) -> int:
    """The offset of the end of the last complete line."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


class CacheFile:
    """Lines that may be lost, because they can be fetched again. If its folder is missing, nothing
    is stored.

    There is no lock: several processes may append at once, and one may rewrite the file meanwhile.
    Lines that are lost or torn by that are fetched again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> Iterator[bytes]:
        try:
            yield from read_file(self._path).split(b"\n")
        except OSError:
            return

    def append(self, lines: Iterable[bytes]) -> None:
        # The line break comes first: it ends a line that a killed process tore.
        data = b"\n" + b"".join(line + b"\n" for line in lines)
        with contextlib.suppress(OSError):
            fd = os.open(self._path, _APPEND, PRIVATE_FILE)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)

    def rewrite(self, lines: Iterable[bytes]) -> None:
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            try:
                new.write_bytes(b"".join(line + b"\n" for line in lines))
                new.chmod(PRIVATE_FILE)
                new.replace(self._path)
            finally:
                new.unlink(missing_ok=True)
