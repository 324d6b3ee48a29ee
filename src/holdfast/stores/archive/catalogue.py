"""The catalogue of the archive: `catalogue.jsonl`, one readable line for each bundle.

    {"id": …, everything a list shows …, "archived_at": …, "file": …, "sha256": …}
    {"gone": "<file>", "operation": "13"}                          that bundle left the archive

It is a cache in a local file. The bundles are the truth: a lost or damaged line is written again
from its bundle, and so is the whole file. The file is rewritten when more than half of its lines
are obsolete, and when a bundle is deleted for good.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.archive import ArchivedSession
from holdfast.model.item import Problem
from holdfast.model.json_value import Reader
from holdfast.stores.archive.codec import codec_of
from holdfast.stores.line_file import LineFile, Stamp
from holdfast.value import dataclass, field

NAME = "catalogue.jsonl"


@dataclass(slots=True)
class _Content:
    """The content of the file: entries by bundle, the number of lines, and the damaged lines."""

    entries: dict[str, ArchivedSession] = field(default_factory=dict)
    lines: int = 0
    problems: list[Problem] = field(default_factory=list)


class Catalogue:
    """The catalogue of one archive. Reading creates nothing."""

    def __init__(self, file: LineFile) -> None:
        self._file = file
        self._content = _Content()
        self._stamp: Stamp | None = None

    def entries(self, home: str = "") -> Sequence[ArchivedSession]:
        """Every bundle that has a line, in the order in which they were archived."""
        return tuple(self._read().entries.values())

    def problems(self) -> Sequence[Problem]:
        return tuple(self._read().problems)

    def has(self, entry: ArchivedSession) -> bool:
        return self._read().entries.get(entry.file) == entry

    def add(self, entries: Sequence[ArchivedSession]) -> None:
        self._file.clear_unfinished()
        if entries:
            self._append([entry.to_json() for entry in entries])

    def drop(self, files: Iterable[str], operation: str) -> None:
        """Record that bundles are gone. Those without a line are ignored."""
        self._file.clear_unfinished()
        known = self._read().entries
        gone = [file for file in files if file in known]
        if not gone:
            return
        try:
            self._append([{"gone": file, "operation": operation} for file in gone])
        except OSError:
            # The disk is full, and a line that was just added must not stay. A kill in between
            # loses lines of other bundles, which are written again from those bundles.
            self._file.cut(lambda line: _bundle_of(line) in gone)
        content = self._read()
        if content.lines > 2 * len(content.entries):
            self._rewrite(content)

    def forget_gone(self) -> None:
        """Drop every line about a bundle that is gone: a title must not outlive its session. If the
        disk is full, the next call does it."""
        with contextlib.suppress(OSError):
            content = self._read()
            if content.lines > len(content.entries) and not content.problems:
                self._rewrite(content)

    def clear_unfinished(self) -> None:
        """Remove the unfinished file of a killed rewrite."""
        self._file.clear_unfinished()

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        content = self._read()
        encoded = [_encoded(line) for line in lines]
        self._stamp = self._file.append(encoded)
        # The file is long, and one run appends to it often, so it is not read again.
        for line in encoded:
            content.lines += 1
            _take(content, line)

    def _rewrite(self, content: _Content) -> None:
        self._file.rewrite(_encoded(each.to_json()) for each in content.entries.values())

    def _read(self) -> _Content:
        stamp = self._file.stamp()
        if stamp is None:
            self._content = _Content()
        elif stamp != self._stamp:
            try:
                self._content = self._read_lines()
            except FileNotFoundError:  # removed meanwhile
                self._content, stamp = _Content(), None
        self._stamp = stamp
        return self._content

    def _read_lines(self) -> _Content:
        content = _Content()
        for number, line in enumerate(self._file.lines(), start=1):
            content.lines += 1
            try:
                _take(content, line)
            except (ValueError, RecursionError, HoldfastError) as error:
                reason = f"line {number} is damaged and was ignored: {error}"
                content.problems.append(Problem(path=str(self._file.path), reason=reason))
        return content


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
    """The name of the bundle that a line is about; None if it cannot be read."""
    try:
        value = json.loads(line)
        named = value.get("file") or value.get("gone")
    except (ValueError, RecursionError, AttributeError):
        return None
    return named if isinstance(named, str) else None


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
