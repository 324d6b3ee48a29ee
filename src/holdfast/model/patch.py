"""Parses a git diff into files, hunks and lines, ready to be shown.

The text of a line is safe to show. Very long parts are cut, and what was cut is counted: a page
that opens a diff of a gigabyte must respond like any other.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from holdfast.model.text import printable
from holdfast.value import dataclass, replace

#: How many lines of a file are read, and how many characters of a line.
MOST_LINES = 2_000
LONGEST_LINE = 1_000
#: Two lines that share less than this are unrelated, not one line that was changed.
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
    """One line. `old` and `new` are its line numbers before and after; None on a side that lacks
    it. `start` and `end` delimit the part of its text that differs from its counterpart."""

    text: str
    old: int | None = None
    new: int | None = None
    start: int = 0
    end: int = 0

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the part that differs, that part, and the text after it."""
        return self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]

    @property
    def kind(self) -> str:
        """The kind of line: "same", "added", "removed", or "note" for a remark of git about the
        line before."""
        if self.old is None and self.new is None:
            return "note"
        if self.old is None:
            return "added"
        return "removed" if self.new is None else "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Changed lines with some context. `heading` is where they are, as reported by git."""

    heading: str
    lines: tuple[PatchLine, ...]

    def side_by_side(self) -> Iterator[tuple[PatchLine | None, PatchLine | None]]:
        """Before and after in pairs: a removed line is paired with the line that replaced it."""
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
    hunks. `hidden` is how many lines were not read because there are too many."""

    facts: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False
    hidden: int = 0


def read_patch(lines: Iterable[bytes], *, most_lines: int = MOST_LINES) -> Sequence[FilePatch]:
    """Read the files of a diff, in its order. `most_lines` limits the lines of each file."""
    files: list[_Reading] = []
    try:
        for line in lines:
            if line.startswith(b"diff --git"):
                files.append(_Reading(most_lines))
            elif files:
                files[-1].take(line.rstrip(b"\n"))
    finally:
        # Close the temporary file behind it now, and not whenever Python collects the generator.
        if isinstance(lines, Generator):
            lines.close()
    return [each.done() for each in files]


def _in_words(facts: Sequence[str]) -> tuple[str, ...]:
    """Changes of modes and names in plain words. Git tracks whether a file is executable, and
    nothing else of its mode."""
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
    """One file while its lines are being read."""

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
    """The lines, with the differing parts marked where single lines were changed."""
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
    """Mark in two lines what differs between their common prefix and suffix. Lines with hardly
    anything in common differ as a whole and need no mark."""
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
