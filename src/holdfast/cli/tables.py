"""Tables without rules, fitted to a width: the least useful columns are dropped first, then text is
shortened with a sign. A number is never shortened. A pipe gets everything, separated by tabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.cli.plain import Line, columns_of
from holdfast.model.text import one_line

_GAP = "  "
_HEAD = "bold"
#: How narrow a column may become before another one is dropped: for folded text, and for shortened
#: text.
_FOLDED, _CUT = 16, 16
_NARROWEST = 6
#: The indentation of a note below a row that does not fit below the last column.
_INDENT = 4


class Column:
    """A column of a table. A `whole` column is never shortened or folded: a number, an id. `cut`
    text is shortened at its end, or at its `front` if it is a path; other text is folded."""

    def __init__(self, title: str, *, right: bool, whole: bool, cut: bool, front: bool) -> None:
        self.title = title
        self.right = right
        self.whole = whole or right or not title
        self.cut = cut or front
        self.front = front
        #: At least this wide, so that tables on one screen align.
        self.min_width = 0

    def least(self, natural: int) -> int:
        """How narrow it may become before other columns are dropped."""
        if self.whole:
            return natural
        return min(natural, max(columns_of(self.title), _CUT if self.cut else _FOLDED))


class Rows:
    """A table. `right` names the columns of numbers, `whole`, `cut` and `front` those of text that
    is not folded (see `Column`). `drops` are columns that may be left out, the least useful first;
    those without any content are always left out. A column without a title is decoration: it is
    dropped before any other, and never in a pipe.

    `below` names a note that a row can have: on a terminal it is below the row, in a pipe in a last
    column.
    """

    def __init__(
        self,
        *titles: str,
        right: Sequence[str] = (),
        whole: Sequence[str] = (),
        cut: Sequence[str] = (),
        front: Sequence[str] = (),
        drops: Sequence[str] = (),
        below: str = "",
    ) -> None:
        self.columns = [
            Column(
                title,
                right=title in right,
                whole=title in whole,
                cut=title in cut,
                front=title in front,
            )
            for title in titles
        ]
        self.rows: list[tuple[tuple[Line, ...], Line]] = []
        self.show_header = True
        self._drops = tuple(titles.index(title) for title in ("", *drops) if title in titles)
        self._below = below

    def add_row(self, *cells: str | Line, below: Line | None = None) -> None:
        made = (Line(one_line(c)) if isinstance(c, str) else c.printable() for c in cells)
        self.rows.append((tuple(made), (below or Line()).printable()))

    # --- In a pipe --------------------------------------------------------------------------------

    def records(self) -> Iterator[Line]:
        """One line per row with complete values, separated by tabs: for grep, awk, cut and head."""
        shown = [number for number, column in enumerate(self.columns) if column.title]
        titles = [*(self.columns[number].title for number in shown), self._below]
        last = len(titles) if any(below for _, below in self.rows) else len(shown)
        if self.show_header:
            yield Line("\t".join(titles[:last]))
        for cells, below in self.rows:
            texts = [*(cells[number].plain for number in shown), below.plain][:last]
            yield Line("\t".join(text.replace("\n", "  ").strip() for text in texts).rstrip("\t"))

    # --- On a terminal ----------------------------------------------------------------------------

    def lines(self, width: int) -> Iterator[Line]:
        """The table fitted to a width. If even the minimum does not fit, lines are longer: nothing
        is lost."""
        shown, widths = self._fitted(width)
        if self.show_header:
            heads = tuple(Line(column.title, _HEAD) for column in self.columns)
            yield from self._row(heads, shown, widths)
        indent = self._indent(widths, width)
        for cells, below in self.rows:
            yield from self._row(cells, shown, widths)
            if below:
                for line in below.folded(width - indent):
                    yield Line(" " * indent).append_text(line)

    def _indent(self, widths: Sequence[int], width: int) -> int:
        """The indentation of notes: below the last column, or near the left if there is too little
        room for one of them."""
        last = _together(widths[:-1]) + len(_GAP) * (len(widths) > 1)
        notes = (line for _, below in self.rows for line in below.plain.split("\n"))
        fits = all(columns_of(line) <= width - last for line in notes)
        return last if fits else _INDENT

    def _row(
        self, cells: Sequence[Line], shown: Sequence[int], widths: Sequence[int]
    ) -> Iterator[Line]:
        parts = [
            self._cell(self.columns[number], cells[number], room)
            for number, room in zip(shown, widths, strict=True)
        ]
        for number in range(max(map(len, parts))):
            line = Line()
            missing = ""
            for place, (column, room) in enumerate(zip(shown, widths, strict=True)):
                text = parts[place][number] if number < len(parts[place]) else Line()
                padding = " " * (room - columns_of(text.plain))
                gap = _GAP if place else ""
                if not text:
                    missing += gap + padding
                elif self.columns[column].right:
                    line.append(missing + gap + padding).append_text(text)
                    missing = ""
                else:
                    line.append(missing + gap).append_text(text)
                    missing = padding
            yield line

    def _cell(self, column: Column, cell: Line, room: int) -> list[Line]:
        if column.whole:
            return [cell]
        if column.cut:
            return [cell.shortened(room, front=column.front)]
        return list(cell.folded(room))

    def _fitted(self, width: int) -> tuple[list[int], list[int]]:
        """Which columns are shown, and the width of each."""
        natural = [self._natural(number) for number in range(len(self.columns))]
        empty = {n for n in self._drops if not any(cells[n] for cells, _ in self.rows)}
        shown = [number for number in range(len(self.columns)) if number not in empty]
        drops = [number for number in self._drops if number not in empty]
        while _together([self.columns[n].least(natural[n]) for n in shown]) > width and drops:
            shown.remove(drops.pop(0))
        widths = [natural[number] for number in shown]
        least = [self.columns[number].least(natural[number]) for number in shown]
        _shrink(widths, least, width)
        if _together(widths) > width:
            flexible = [
                size if self.columns[number].whole else min(size, _NARROWEST)
                for number, size in zip(shown, widths, strict=True)
            ]
            _shrink(widths, flexible, width)
        return shown, widths

    def _natural(self, number: int) -> int:
        column = self.columns[number]
        texts = [column.title] if self.show_header else []
        texts += [part for cells, _ in self.rows for part in cells[number].plain.split("\n")]
        return max([column.min_width, *map(columns_of, texts)])


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * max(0, len(widths) - 1)


def _shrink(widths: list[int], least: Sequence[int], width: int) -> None:
    """Narrow the widest column, one terminal column at a time, until all fit or none may become
    narrower."""
    while _together(widths) > width:
        can = [(size, number) for number, size in enumerate(widths) if size > least[number]]
        if not can:
            return
        widths[max(can)[1]] -= 1
