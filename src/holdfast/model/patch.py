"""A difference as git writes it, read into files, hunks and lines, ready to be shown.

The text of a line is safe to show. What is very long is cut, and the cut is counted: a page that
opens a difference of a gigabyte must answer like any other.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from holdfast.model.text import printable
from holdfast.value import dataclass, replace

#: Lines of one file that are read, and characters of one line.
MOST_LINES = 2_000
LONGEST_LINE = 1_000
#: Lines that have less than this share in common are two lines, not one that was changed.
_ALIKE = 0.3
_TAB = 4
_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_EXECUTABLE, _LINK = "100755", "120000"
_FACTS = (
    b"old mode",
    b"new mode",
    b"new file mode",
    b"deleted file mode",
    b"similarity index",
    b"rename from",
    b"rename to",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLine:
    """One line. `old` and `new` are its numbers before and after; None where it is not there.
    `start` and `end` are the part of its text that differs from the line next to it."""

    text: str
    old: int | None = None
    new: int | None = None
    start: int = 0
    end: int = 0

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before what differs, that, and the text after it."""
        return self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]

    @property
    def kind(self) -> str:
        """It is "same", "added", "removed", or a "note" of git about the line before."""
        if self.old is None and self.new is None:
            return "note"
        if self.old is None:
            return "added"
        return "removed" if self.new is None else "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that changed, with some around them. `heading` is where they are, as git saw it."""

    heading: str
    lines: tuple[PatchLine, ...]

    def side_by_side(self) -> Iterator[tuple[PatchLine | None, PatchLine | None]]:
        """Before and after in pairs: what was removed stands next to what replaced it."""
        removed: list[PatchLine] = []
        added: list[PatchLine] = []
        for line in self.lines:
            if line.kind == "removed":
                removed.append(line)
            elif line.kind == "added":
                added.append(line)
            elif line.kind == "same":
                yield from zip_longest(removed, added)
                removed, added = [], []
                yield line, line
        yield from zip_longest(removed, added)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What changed in one file. `facts` are changes of its mode or name. A `binary` file has no
    hunks. `hidden` is how many lines were not read, because there are too many."""

    facts: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False
    hidden: int = 0


def read_patch(lines: Iterable[bytes], *, most_lines: int = MOST_LINES) -> Sequence[FilePatch]:
    """The files of a difference, in its order. `most_lines` bounds each of them."""
    files: list[_Reading] = []
    try:
        for line in lines:
            if line.startswith(b"diff --git"):
                files.append(_Reading(most_lines))
            elif files:
                files[-1].take(line.rstrip(b"\n"))
    finally:
        # The temporary file behind it is closed now, and not when Python gets around to it.
        if isinstance(lines, Generator):
            lines.close()
    return [each.done() for each in files]


def _in_words(facts: Sequence[str]) -> tuple[str, ...]:
    """What git says of modes and names, as people say it. Git knows whether a file can be executed,
    and nothing else of its mode."""
    said: list[str] = []
    for fact in facts:
        what, _, value = fact.rpartition(" ")
        if what == "new mode":
            said.append(f"{'became' if value == _EXECUTABLE else 'is no longer'} executable")
        elif what.endswith(" file mode"):
            kind = {_EXECUTABLE: "file, executable", _LINK: "link"}.get(value, "file")
            said.append(f"{what.partition(' ')[0]} {kind}")
        elif what != "old mode":
            said.append(fact)
    return tuple(said)


class _Reading:
    """One file while its lines come in."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._facts: list[str] = []
        self._hunks: list[tuple[str, list[PatchLine]]] = []
        self._binary = False
        self._hidden = 0
        self._old = self._new = 0

    def take(self, line: bytes) -> None:
        found = _HUNK.match(line)
        if found is not None:
            self._old, self._new = int(found[1]), int(found[2])
            self._hunks.append((_text(found[3]), []))
        elif self._hunks:
            self._take_content(line)
        elif line.startswith((b"Binary files", b"GIT binary patch")):
            self._binary = True
        elif line.startswith(_FACTS):
            self._facts.append(_text(line))

    def _take_content(self, line: bytes) -> None:
        mark = line[:1]
        old = self._old if mark in (b"-", b" ", b"") else None
        new = self._new if mark in (b"+", b" ", b"") else None
        self._old += old is not None
        self._new += new is not None
        if self._most <= 0:
            self._hidden += mark != b"\\"
            return
        self._most -= 1
        self._hunks[-1][1].append(PatchLine(text=_text(line[1:]), old=old, new=new))

    def done(self) -> FilePatch:
        hunks = [Hunk(heading=heading, lines=_compared(lines)) for heading, lines in self._hunks]
        return FilePatch(
            facts=_in_words(self._facts),
            hunks=tuple(hunk for hunk in hunks if hunk.lines),
            binary=self._binary,
            hidden=self._hidden,
        )


def _compared(lines: Sequence[PatchLine]) -> tuple[PatchLine, ...]:
    """The lines, with what differs in those that were changed one by one."""
    found: list[PatchLine] = []
    for kind, members in groupby(lines, key=lambda line: line.kind):
        run = list(members)
        before = found[-len(run) :]
        fits = len(before) == len(run) and all(each.kind == "removed" for each in before)
        longer = len(found) > len(run) and found[-len(run) - 1].kind == "removed"
        if kind == "added" and fits and not longer:
            pairs = [_pair(old, new) for old, new in zip(before, run, strict=True)]
            found[-len(run) :] = [old for old, _ in pairs]
            run = [new for _, new in pairs]
        found += run
    return tuple(found)


def _pair(old: PatchLine, new: PatchLine) -> tuple[PatchLine, PatchLine]:
    """Two lines with what lies between their common beginning and their common end. Lines that have
    hardly anything in common differ as a whole, which needs no mark."""
    shorter = min(len(old.text), len(new.text))
    start = next((n for n in range(shorter) if old.text[n] != new.text[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if old.text[-1 - n] != new.text[-1 - n]), rest)
    if start + end < shorter * _ALIKE:
        return old, new
    return (
        replace(old, start=start, end=len(old.text) - end),
        replace(new, start=start, end=len(new.text) - end),
    )


def _text(line: bytes) -> str:
    cut = line[: 4 * LONGEST_LINE].decode("utf-8", "surrogateescape").expandtabs(_TAB)
    shown = printable(cut[:LONGEST_LINE])
    return f"{shown} …" if len(line) > LONGEST_LINE else shown
