"""Text without rich: it breaks where rich breaks it, and nothing in it steers a terminal."""

from __future__ import annotations

import io

from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from holdfast.cli.plain import Line, columns_of
from holdfast.cli.tables import Rows

_WORDS = st.lists(st.text("abc-/", min_size=1, max_size=30), min_size=1, max_size=12)


def _by_rich(shown: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(Text(shown))
    return [line.rstrip() for line in captured.get().splitlines()]


def _folded(text: str, width: int) -> list[str]:
    return [line.plain for line in Line(text).folded(width)]


@given(_WORDS, st.integers(5, 60))
def test_lines_break_where_rich_breaks_them(words: list[str], width: int) -> None:
    # After a word that fills several lines, rich begins the next one with the space.
    assume(not any(len(word) > width and len(word) % width == 0 for word in words[:-1]))
    text = " ".join(words)
    assert _folded(text, width) == _by_rich(text, width)


def test_a_wide_character_takes_two_columns() -> None:
    assert columns_of("会话") == 4
    assert columns_of("e\u0301") == 1
    assert _folded("会话会话", 5) == ["会话", "会话"]


def test_what_is_too_wide_is_folded_and_an_id_is_not() -> None:
    rows = Rows("id", "size", "title", right=("size",), whole=("id",))
    rows.add_row("20261116_013622", "1,200 B", "a title of many words that does not fit")
    lines = [line.plain for line in rows.lines(40)]
    assert all(columns_of(line) <= 40 for line in lines)
    assert lines[1].startswith("20261116_013622  1,200 B  a title")
    assert len(lines) > 2


def test_nothing_steers_the_terminal() -> None:
    rows = Rows("name")
    rows.add_row("a\x1b[31m\nb")
    rows.add_row(Line("\x1b]0;x\x07"))
    assert [line.plain for line in rows.lines(40)] == ["name", "a\\x1b[31m\\nb", "\\x1b]0;x\\x07"]
    assert [line.plain for line in rows.records()][1] == "a\\x1b[31m\\nb"
