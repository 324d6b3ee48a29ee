"""Text and tables laid out without rich: for pipes and files, where there are no colours.

Loading rich takes longer than most commands need for their work, and an agent that runs one reads a
pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Self

from holdfast.model.text import one_line, printable

PIPED_WIDTH = 80
NARROWEST = 40
WIDEST = 120
_GAP = "  "


def is_enough() -> bool:
    """Whether standard output shows no styles, and its width is known without asking a terminal."""
    wanted = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    if any(name in os.environ for name in wanted) or sys.stdout.isatty():
        return False
    return os.environ.get("COLUMNS", "").isdecimal() or not os.environ.get("COLUMNS")


def width() -> int:
    return max(NARROWEST, min(int(os.environ.get("COLUMNS") or PIPED_WIDTH), WIDEST))


class Line:
    """Text of which parts have a style. On a pipe nobody sees the styles; rich shows them.

    What does not fit is folded, unless it must stay on one line (`no_wrap`).
    """

    def __init__(self, text: str = "", style: str = "", *, no_wrap: bool = False) -> None:
        self.parts = [(text, style)] if text else []
        self.no_wrap = no_wrap

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


class Column:
    """A column of a table. One with numbers is on the right and never folded."""

    def __init__(self, title: str, *, right: bool) -> None:
        self.title = title
        self.right = right
        self.no_wrap = right
        self.min_width = 1


class Rows:
    """A table without lines."""

    def __init__(self, *titles: str, right: Sequence[str] = ()) -> None:
        self.columns = [Column(title, right=title in right) for title in titles]
        self.rows: list[tuple[Line, ...]] = []
        self.show_header = True

    def add_row(self, *cells: str | Line) -> None:
        self.rows.append(
            tuple(Line(one_line(cell)) if isinstance(cell, str) else cell for cell in cells)
        )

    def lines(self, width: int) -> Iterator[str]:
        titles = [tuple(Line(each.title) for each in self.columns)] if self.show_header else []
        rows = titles + self.rows
        widths = self._widths(rows, width)
        for row in rows:
            folded = list(map(_folded, row, widths))
            for number in range(max(map(len, folded))):
                parts = (lines[number] if number < len(lines) else "" for lines in folded)
                padded = map(_padded, parts, widths, self.columns)
                yield _GAP.join(padded).rstrip()

    def _widths(self, rows: Sequence[Sequence[Line]], width: int) -> list[int]:
        """As wide as their content. Where that is too wide, the widest are wrapped."""
        widths = [
            max(
                (columns_of(line) for cell in column for line in printable(cell.plain).split("\n")),
                default=0,
            )
            for column in zip(*rows, strict=True)
        ]
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        while excess > 0:
            can = [
                (size, -number)
                for number, size in enumerate(widths)
                if not self.columns[number].no_wrap and size > self.columns[number].min_width
            ]
            if not can:
                break
            widths[-max(can)[1]] -= 1
            excess -= 1
        return widths


def _folded(cell: Line, width: int) -> list[str]:
    text = printable(cell.plain)
    return [text] if cell.no_wrap else wrapped(text, width)


def _padded(text: str, width: int, column: Column) -> str:
    missing = " " * (width - columns_of(text))
    return missing + text if column.right else text + missing


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken between words; a word that is too long is cut."""
    return [line for part in text.split("\n") for line in _wrapped(part, width)]


def _wrapped(text: str, width: int) -> list[str]:
    lines, line, used = [], "", 0
    for word in text.split(" "):
        end = word
        if used + columns_of(word) > width:
            if line:
                lines.append(line)
            *whole, end = _cut(word, width)
            lines += whole
            line, used = "", 0
        line += f"{end} "
        used += columns_of(end) + 1
    return [each.rstrip() for each in (*lines, line)]


def _cut(word: str, width: int) -> list[str]:
    pieces, used = [""], 0
    for each in word:
        used += columns_of(each)
        if used > width and pieces[-1]:
            pieces.append("")
            used = columns_of(each)
        pieces[-1] += each
    return pieces


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        2 if east_asian_width(each) in "WF" else category(each) not in ("Mn", "Me", "Cf")
        for each in text
    )
