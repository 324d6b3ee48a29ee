"""What people type, what it means, and what they are told when it means nothing."""

from __future__ import annotations

import pytest

from holdfast.errors import QueryError
from holdfast.stores.sessions.query import Either, Every, Term, parse
from holdfast.stores.sessions.unindexed_search import parse_part


@pytest.mark.parametrize(
    ("text", "fts5"),
    [
        ("timeout", '"timeout"'),
        ("connection refused", '("connection" AND "refused")'),
        ("connection AND refused", '("connection" AND "refused")'),
        ('"connection refused"', '"connection refused"'),
        ("conn*", '"conn"*'),
        ('"connection ref"*', '"connection ref"*'),
        ("a OR b c", '("a" OR ("b" AND "c"))'),
        ("(a OR b) c", '(("a" OR "b") AND "c")'),
        ("a -b", '("a" NOT "b")'),
        ("-b a", '("a" NOT "b")'),
        ("a NOT b", '("a" NOT "b")'),
        ("a AND NOT b", '("a" NOT "b")'),
        ("a b -c NOT d", '(("a" AND "b") NOT ("c" OR "d"))'),
        ('a -"b c" -(d OR e)', '("a" NOT ("b c" OR ("d" OR "e")))'),
        ("((a))", '"a"'),
    ],
)
def test_signs_mean_something(text: str, fts5: str) -> None:
    assert parse(text).to_fts5() == fts5


@pytest.mark.parametrize(
    "text",
    [
        "foo_bar",
        "foo-bar",
        "a.b(c)",
        "f()",
        "me@example.org",
        "/usr/local/bin",
        "C:\\temp",
        "key:value",
        "^start",
        "--verbose",
        "->next",
        "it's",
        "x=1;",
        "*.py",
        "foo.*",
        "a*b",
        "50%",
        "#12",
        "{brace}",
        "🚀",
        "and",
        "or",
        "not",
        "Or",
        "NEAR",
        "NEAR(x",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert parse(text) == Term(text=text)


def test_a_quote_inside_a_word_is_text() -> None:
    assert parse('5"').to_fts5() == '"5"""'


def test_parentheses_of_a_word_may_span_words() -> None:
    assert parse("print(a, b)") == Every(parts=(Term(text="print(a,"), Term(text="b)")))
    assert parse("(f(x) OR g)") == Either(parts=(Term(text="f(x)"), Term(text="g")))


def test_a_run_of_characters_that_are_words_is_a_phrase() -> None:
    assert parse("中文").to_fts5().split() == ['"', "中", "文", '"']
    assert parse("foo中").to_fts5().split() == ['"foo', "中", '"']


def test_a_term_has_only_what_sqlite_can_hold() -> None:
    assert parse("a\0b\ud800c").to_fts5() == '"a\ufffdb\ufffdc"'


def test_only_what_is_looked_for_counts_as_a_term() -> None:
    assert [term.text for term in parse("a (b OR c*) -d").terms()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("OR", "OR needs a term on both sides", 1),
        ("a OR", "OR needs a term on both sides", 3),
        ("OR a", "OR needs a term on both sides", 1),
        ("a OR OR b", "OR needs a term on both sides", 3),
        ("AND a", "AND needs a term on both sides", 1),
        ("a AND", "AND needs a term on both sides", 3),
        ("a AND OR b", "AND needs a term on both sides", 3),
        ("a NOT", "NOT needs a term after it", 3),
        ("NOT NOT a", "NOT needs a term after it", 1),
        ("a (OR b)", "OR needs a term on both sides", 4),
        ("a -)", "NOT needs a term after it", 3),
        ("-a", "only excludes", 1),
        ("NOT a", "only excludes", 1),
        ("a OR -b", "only excludes", 6),
        ("a (-b)", "only excludes", 4),
        ('say "hello', "quote is never closed", 5),
        ("a (b", "never closed", 3),
        ("a b)", "closes nothing", 4),
        (")", "closes nothing", 1),
        ("a ()", "are empty", 3),
        ("a -> b", "nothing to search for in '->'", 3),
        ("a - b", "nothing to search for in '-'", 3),
        ("*", "nothing to search for in '*'", 1),
        ('a ""', "nothing to search for in ''", 3),
        ("(" * 21 + "a" + ")" * 21, "The parentheses are nested", 21),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str, place: int) -> None:
    with pytest.raises(QueryError, match=rf"(?s){problem}.* \(at character {place}\)") as caught:
        parse(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "  ", "a " * 101, "a" * 4_001])
def test_nothing_and_too_much_are_refused(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", " ", "a", " a ", "中", "\u0301\u0301", "a" * 4_001])
def test_a_part_has_a_length(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_part(text)
    assert caught.value.hint


def test_a_part_is_taken_as_it_stands() -> None:
    assert parse_part('OR "(') == 'OR "('
