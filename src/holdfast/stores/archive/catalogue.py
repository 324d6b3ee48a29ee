"""What is in the archive: `catalogue.jsonl`, one readable line for each session.

    {"id": …, everything a list shows …, "archived_at": …, "file": …, "sha256": …}
    {"gone": "<file>", "operation": "13"}                              that one left the archive

Lines are only appended, and durable when the call returns. A torn last line was never written.
It is written anew when more than half of it is of no use any more, and when a bundle goes for
good. The bundles are the truth: a line that is lost or damaged is made again from its bundle.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.archived import ArchivedSession
from holdfast.model.inventory import Problem
from holdfast.model.read import Reader
from holdfast.stores.archive.codec import codec_of
from holdfast.stores.files import open_regular, sync_dir, write_all, write_new

NAME = "catalogue.jsonl"
_LONGEST_LINE = 64 * 1024 * 1024
_BLOCK = 64 * 1024

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Content:
    """The file as it was read: entries by bundle, how many lines it took to say so, and its
    damaged lines."""

    entries: dict[str, ArchivedSession] = field(default_factory=dict)
    lines: int = 0
    problems: list[Problem] = field(default_factory=list)


class Catalogue:
    """The catalogue of one archive folder. Reading creates nothing."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        # Known beforehand, so that the next run clears away what a killed one left.
        self._temporary = folder / f".{NAME}.tmp"
        self._content = _Content()
        self._stamp: _Stamp | None = None

    def entries(self) -> Sequence[ArchivedSession]:
        """Every session that a line tells of, in the order in which they were archived."""
        return tuple(self._read().entries.values())

    def problems(self) -> Sequence[Problem]:
        return tuple(self._read().problems)

    def add(self, entries: Sequence[ArchivedSession]) -> None:
        self._temporary.unlink(missing_ok=True)
        if entries:
            self._append([entry.to_json() for entry in entries])

    def drop(self, files: Iterable[str], operation: str) -> None:
        """Say of bundles that they are gone; those it has no line of are passed over."""
        self._temporary.unlink(missing_ok=True)
        known = self._read().entries
        gone = [file for file in files if file in known]
        if not gone:
            return
        try:
            self._append([{"gone": file, "operation": operation} for file in gone])
        except OSError:
            # No room for a line more: what was just added must not stay for want of it.
            self._cut_out(frozenset(gone))
        content = self._read()
        if content.lines > 2 * len(content.entries):
            self._rewrite(content)

    def forget_gone(self) -> None:
        """Write the file anew without what it says of bundles that are gone: a title is gone with
        its session. Where there is no room for that, the next call does it."""
        with contextlib.suppress(OSError):
            content = self._read()
            if content.lines > len(content.entries) and not content.problems:
                self._rewrite(content)

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        content = self._read()
        encoded = [_encoded(line) for line in lines]
        created = not self._path.exists()
        fd = open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            whole = _whole_bytes(fd)
            os.ftruncate(fd, whole)  # what a killed run tore off
            os.lseek(fd, whole, os.SEEK_SET)
            try:
                write_all(fd, b"".join(encoded))
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, whole)  # a part of a line would stand in the way of the next
                raise
            self._stamp = _stamp(os.fstat(fd))
        finally:
            os.close(fd)
        if created:
            sync_dir(self._path.parent)
        # The file is long, and a run appends to it often: it is not read again for that.
        for line in encoded:
            content.lines += 1
            _take(content, line)

    def _cut_out(self, gone: Collection[str]) -> None:
        """Drop the lines of bundles in place, which needs no room: the file is cut where the first
        of them begins, and gets back the lines behind it that stay. Those that a kill in between
        costs are made again from their bundles."""
        with os.fdopen(open_regular(self._path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
            start, behind = 0, list(_lines(file))
            while behind and _bundle_of(behind[0]) not in gone:
                start += len(behind.pop(0))
            file.truncate(start)
            file.seek(start)
            file.write(b"".join(line for line in behind if _bundle_of(line) not in gone))
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self, content: _Content) -> None:
        lines = (_encoded(each.to_json()) for each in content.entries.values())
        write_new(self._temporary, b"".join(lines))
        self._temporary.replace(self._path)
        sync_dir(self._path.parent)

    def _read(self) -> _Content:
        try:
            fd = open_regular(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._content, self._stamp = _Content(), None
            return self._content
        with os.fdopen(fd, "rb") as file:
            stamp = _stamp(os.fstat(fd))
            if stamp != self._stamp:
                self._content, self._stamp = _read(file, self._path), stamp
        return self._content


def _read(file: IO[bytes], path: Path) -> _Content:
    content = _Content()
    for number, line in enumerate(_lines(file), start=1):
        content.lines += 1
        try:
            _take(content, line)
        except (ValueError, RecursionError, HoldfastError) as error:
            reason = f"line {number} is damaged and was passed over: {error}"
            content.problems.append(Problem(path=str(path), reason=reason))
    return content


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines; one beyond all measure comes as its beginning, which is no line."""
    while line := file.readline(_LONGEST_LINE):
        if line.endswith(b"\n"):
            yield line
            continue
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        if rest:  # else torn by a kill: never written
            yield line[:_BLOCK]


def _take(content: _Content, line: bytes) -> None:
    value = json.loads(line)
    read = Reader(value, "catalogue line", DamageError)
    if "gone" in read:
        content.entries.pop(read.text("gone"), None)
        return
    entry = ArchivedSession.from_json(value)
    if "/" in entry.file or "\0" in entry.file or codec_of(entry.file) is None:
        raise DamageError(f"{entry.file!r} is not the name of a bundle")
    content.entries.pop(entry.file, None)  # the order is that of the latest lines
    content.entries[entry.file] = entry


def _bundle_of(line: bytes) -> str | None:
    """Which bundle a line tells of; None when it cannot be read."""
    try:
        value = json.loads(line)
        named = value.get("file") or value.get("gone")
    except (ValueError, RecursionError, AttributeError):
        return None
    return named if isinstance(named, str) else None


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def _whole_bytes(fd: int) -> int:
    """Where the last whole line ends."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
