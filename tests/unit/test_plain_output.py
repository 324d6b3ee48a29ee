"""Text and tables for pipes: laid out as rich lays them out for a terminal, without it."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.cli.console import rendered
from holdfast.cli.plain import Line, Rows, columns_of, wrapped

_WORDS = st.lists(st.text("abc-/", min_size=1, max_size=30), min_size=1, max_size=12)


def _by_rich(shown: str | Line | Rows, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(rendered(shown))
    return [line.rstrip() for line in captured.get().splitlines()]


@given(_WORDS, st.integers(5, 60))
def test_lines_break_where_rich_breaks_them(words: list[str], width: int) -> None:
    text = " ".join(words)
    # After a word that fills its lines, rich begins the next line with the space.
    by_rich = [line.strip() for line in _by_rich(text, width)]
    assert wrapped(text, width) == [line for line in by_rich if line]


def test_a_wide_character_takes_two_columns() -> None:
    assert columns_of("会话") == 4
    assert columns_of("e\u0301") == 1
    assert wrapped("会话会话", 5) == ["会话", "会话"]


def test_a_table_is_as_rich_shows_it() -> None:
    rows = Rows("id", "size", "title", right=("size",))
    rows.add_row("20261116_013622", "1,200 B", Line("● ").append("A title", "bold"))
    rows.add_row("short", "3 B", "会话")
    assert list(rows.lines(80)) == _by_rich(rows, 80)


def test_what_is_too_wide_is_folded_and_an_id_is_not() -> None:
    rows = Rows("id", "size", "title", right=("size",))
    rows.columns[0].min_width = 15
    rows.add_row("20261116_013622", "1,200 B", "a title of many words that does not fit")
    lines = list(rows.lines(40))
    assert all(columns_of(line) <= 40 for line in lines)
    assert lines[1].startswith("20261116_013622  1,200 B  a title")
    assert len(lines) > 2


def test_nothing_steers_the_terminal() -> None:
    rows = Rows("name")
    rows.add_row("a\x1b[31m\nb")
    assert list(rows.lines(40)) == ["name", "a\\x1b[31m\\nb"]
