"""Tables keep every number whole, drop columns in their order, and shorten text with a sign."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.plain import CUT, Line, columns_of, from_the_left
from holdfast.cli.tables import Rows

_TITLE = "A rather long title of a session that is about a disk"
_PATH = "/home/somebody/work/customers/site"


def _table() -> Rows:
    rows = Rows(
        "id",
        "source",
        "size",
        "title",
        "path",
        "",
        right=("size",),
        whole=("id",),
        cut=("source", "title"),
        front=("path",),
        drops=("source", "path"),
    )
    rows.add_row("20260325_112518_6995d1", "telegram", "762 B", _TITLE, _PATH, Line("████"))
    rows.add_row("20260325_112518_aaaaaa", "cli", "1.2 MB", "Short", "/w", Line("█"))
    return rows


def _shown(rows: Rows, width: int) -> list[str]:
    return [line.plain.rstrip() for line in rows.lines(width)]


def test_columns_go_in_their_order_and_the_rest_is_shortened_with_a_sign() -> None:
    wide = _shown(_table(), 160)
    assert wide[0].split() == ["id", "source", "size", "title", "path"]
    assert _TITLE in wide[1]
    assert wide[1].endswith(f"{_PATH}  ████")
    assert _shown(_table(), 90)[0].split() == ["id", "source", "size", "title", "path"]
    assert "█" not in "".join(_shown(_table(), 76)), "decoration goes first"
    assert _shown(_table(), 66)[0].split() == ["id", "size", "title", "path"]
    assert "  …/customers/site" in _shown(_table(), 72)[1], "a path loses its front"
    narrow = _shown(_table(), 56)
    assert narrow[0].split() == ["id", "size", "title"]
    assert narrow[1] == "20260325_112518_6995d1   762 B  A rather long title of…"
    assert narrow[2] == "20260325_112518_aaaaaa  1.2 MB  Short"


@given(st.integers(min_value=20, max_value=140))
def test_no_number_and_no_id_is_ever_cut(width: int) -> None:
    first, second = _shown(_table(), width)[1:]
    assert first.startswith("20260325_112518_6995d1")
    assert second.startswith("20260325_112518_aaaaaa")
    assert " 762 B" in first
    assert " 1.2 MB" in second
    whole = {"", "20260325_112518_6995d1", "762 B", "telegram", _TITLE, _PATH, "████"}
    assert all(part.strip() in whole or CUT in part for part in first.split("  "))
    if width >= 38:  # the least that an id, a size and some of a title take
        assert max(map(columns_of, (first, second))) <= width


def test_a_pipe_gets_whole_values_and_no_decoration() -> None:
    lines = [line.plain for line in _table().records()]
    assert lines[0] == "id\tsource\tsize\ttitle\tpath"
    assert lines[1] == f"20260325_112518_6995d1\ttelegram\t762 B\t{_TITLE}\t{_PATH}"


def test_a_note_is_below_its_row_and_in_a_pipe_a_column() -> None:
    rows = Rows("size", "item", right=("size",), front=("item",), below="why")
    rows.add_row("4.1 kB", "sessions/one.json", below=Line("older than 90 d"))
    rows.add_row("12 B", "two")
    assert _shown(rows, 40) == [
        "  size  item",
        "4.1 kB  sessions/one.json",
        "        older than 90 d",
        "  12 B  two",
    ]
    assert [line.plain for line in rows.records()] == [
        "size\titem\twhy",
        "4.1 kB\tsessions/one.json\tolder than 90 d",
        "12 B\ttwo",
    ]


def test_text_is_folded_between_words_below_its_indentation() -> None:
    line = Line("  one two ").append("three four", "bold")
    folded = list(line.folded(11))
    assert [each.plain for each in folded] == ["  one two", "  three", "  four"]
    assert folded[1].parts == [("  ", ""), ("three", "bold")]
    assert [each.plain for each in Line("a\nb").folded(80)] == ["a", "b"]


@given(st.text(alphabet="ab 中\n", max_size=60), st.integers(min_value=4, max_value=20))
def test_folding_loses_nothing(text: str, width: int) -> None:
    folded = [line.plain for line in Line(text).folded(width)]
    assert "".join("".join(folded).split()) == "".join(text.split())
    assert max(map(columns_of, folded)) <= width


@given(st.text(alphabet="ab/中", max_size=40), st.integers(min_value=3, max_value=30))
def test_what_is_shortened_fits_and_says_so(text: str, width: int) -> None:
    for front in (False, True):
        shown = Line(text).shortened(width, front=front).plain
        assert columns_of(shown) <= width
        assert shown == text or shown.strip(CUT) in text
        assert (CUT in shown) == (shown != text)


def test_a_path_begins_at_a_separator_where_that_leaves_enough() -> None:
    assert from_the_left(_PATH, 20) == "…/customers/site"
    assert from_the_left("/work/a-rather-long-name", 12) == "…r-long-name"
    assert from_the_left("/work", 12) == "/work"
