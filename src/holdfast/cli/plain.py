"""Text layout without rich: for pipes and files, which have no colours, and for the width of a
terminal.

Loading rich takes longer than most commands need for their work, and an agent that runs a command
reads from a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from holdfast.model.text import printable

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Self

PIPED_WIDTH = 80
NARROWEST = 40
WIDEST = 120
#: Marks the place where text was left out.
CUT = "…"


def is_enough() -> bool:
    """True if standard output shows no styles, and its width is known without querying a
    terminal."""
    wanted = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    if any(name in os.environ for name in wanted) or sys.stdout.isatty():
        return False
    return os.environ.get("COLUMNS", "").isdecimal() or not os.environ.get("COLUMNS")


def is_piped() -> bool:
    """True if a program reads the output: it gets complete values, one row per line. A user who
    sets COLUMNS wants the output of a terminal of that width."""
    return is_enough() and not os.environ.get("COLUMNS")


def width() -> int:
    return max(NARROWEST, min(int(os.environ.get("COLUMNS") or PIPED_WIDTH), WIDEST))


class Line:
    """Text with styled parts. A pipe does not show the styles; rich does."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts = [(text, style)] if text else []

    def __bool__(self) -> bool:
        return bool(self.parts)

    def append(self, text: str, style: str = "") -> Self:
        if text:
            self.parts.append((text, style))
        return self

    def append_text(self, other: Line) -> Self:
        self.parts += other.parts
        return self

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.parts)

    def printable(self) -> Line:
        """The same with escapes for everything that is not safe to show; newlines stay."""
        if all(text.isprintable() for text, _ in self.parts):
            return self
        made = Line()
        for text, style in self.parts:
            made.append(printable(text), style)
        return made

    def between(self, start: int, end: int) -> Line:
        """The characters between two positions, with their styles."""
        made = Line()
        place = 0
        for text, style in self.parts:
            made.append(text[max(0, start - place) : max(0, end - place)], style)
            place += len(text)
        return made

    def folded(self, width: int) -> Iterator[Line]:
        """Lines of at most this width, broken between words; a word that is too long is broken
        anywhere. If the text is indented, so are its continuation lines."""
        text = self.plain
        if "\n" not in text and columns_of(text) <= width:
            yield self
            return
        start = 0
        for part in text.split("\n"):
            indent = min(len(part) - len(part.lstrip(" ")), width // 2)
            for number, (begin, end) in enumerate(_spans(part, width, indent)):
                piece = self.between(start + begin, start + end)
                yield Line(" " * indent).append_text(piece) if number and indent else piece
            start += len(part) + 1

    def shortened(self, width: int, *, front: bool = False) -> Line:
        """At most this wide, on one line, with a sign where something was cut: at the end or, for a
        path, at the front."""
        text = self.plain
        if columns_of(text) <= width:
            return self
        if front:
            kept = from_the_left(text, width)
            return Line(CUT).append_text(self.between(len(text) - len(kept) + 1, len(text)))
        end, used = 0, columns_of(CUT)
        for each in text:
            used += columns_of(each)
            if used > width:
                break
            end += 1
        return self.between(0, len(text[:end].rstrip())).append(CUT)


def from_the_left(text: str, width: int) -> str:
    """The end of a path if it does not fit as a whole: `…/work/site`. The end is what distinguishes
    two directories; it begins at a separator if enough of it is left."""
    if columns_of(text) <= width:
        return text
    end = ""
    for character in reversed(text):
        if columns_of(character + end) >= width:
            break
        end = character + end
    whole = end.find("/")
    return f"{CUT}{end[whole:] if 0 <= whole < len(end) // 2 else end}"


def _spans(text: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """The start and end of each line of a text. Lines after the first have `indent` columns
    less."""
    begin = end = place = 0
    room = width
    for word in text.split(" "):
        at, place = place, place + len(word) + 1
        if begin < at and columns_of(text[begin : at + len(word)]) > room:
            yield begin, len(text[:end].rstrip(" "))
            begin, room = at, width - indent
        end = at + len(word)
        while columns_of(text[begin:end]) > room:
            cut = _fitting(text, begin, room)
            yield begin, cut
            begin, room = cut, width - indent
    yield begin, end


def _fitting(text: str, begin: int, room: int) -> int:
    """The position up to which a text fits; at least one character."""
    used, place = columns_of(text[begin]), begin + 1
    while used + columns_of(text[place]) <= room:
        used += columns_of(text[place])
        place += 1
    return place


def columns_of(text: str) -> int:
    """How many terminal columns a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        2 if east_asian_width(each) in "WF" else category(each) not in ("Mn", "Me", "Cf")
        for each in text
    )
