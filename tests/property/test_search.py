"""Search against a model that knows nothing of indexes: words in lists, text in text."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import QueryError
from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.ports.sessions import SessionStore
from holdfast.stores.postgres import search as shared_search
from holdfast.stores.sessions import snippets
from holdfast.stores.sessions.query import parse
from holdfast.stores.sessions.searchable_text import clean, is_searchable, spaced, unspaced
from holdfast.stores.sessions.snippets import bracketed, plain_marks, snippet
from holdfast.stores.sessions.tokenizer import SmallIndex
from holdfast.stores.sessions.unindexed_search import parse_part
from holdfast.stores.sqlite import search as search_module
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.session_stores import KINDS, a_store, kind_of, over_all_deep

# Lone surrogates and NULs too; not the vowels that were no letters yet to SQLite's tables.
CHARACTERS = st.characters(exclude_characters="".join(map(chr, range(0x19B0, 0x19CA))))
ANY_TEXT = st.text(alphabet=CHARACTERS, max_size=60)


@pytest.fixture(autouse=True)
def index_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small stores would otherwise be read without asking the index."""
    monkeypatch.setattr(search_module, "_READ_FIRST", 0)
    monkeypatch.setattr(search_module, "_MANY", 0)
    monkeypatch.setattr(shared_search, "_READ_FIRST", 0)
    monkeypatch.setattr(shared_search, "_RECENT", 2)


@contextlib.contextmanager
def store_with(texts: Sequence[str], indexed: int, kind: str = "sqlite") -> Iterator[SessionStore]:
    """A store with these messages, the first of them indexed."""
    with a_store(kind) as store:
        store.create(Session(id="one", source="cli", started_at=1.0, last_active_at=1.0))
        store.append("one", [Message(role="user", content=text) for text in texts], now=1.0)
        if indexed:
            kind_of(store).index(store, indexed)
        yield store


def found(store: SessionStore, text: str, *, substring: bool = False) -> set[int]:
    """Which messages are found, counted from 1."""
    hits = store.search(Search(text=text, wanted=SessionFilter(), limit=1_000, substring=substring))
    numbers = [hit.message.number or 0 for hit in hits]
    assert len(numbers) == len(set(numbers))
    first = next(store.messages("one", limit=1), None)
    return {number - (0 if first is None else first.number or 0) + 1 for number in numbers}


# --- Queries --------------------------------------------------------------------------------------

WORDS = st.text(alphabet="abAB", min_size=1, max_size=3) | st.sampled_from("中文字")
DOCUMENTS = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from([" ", ".", "_", "\n", "-", ""])), max_size=8).map(
        lambda pairs: "".join(word + gap for word, gap in pairs)
    ),
    max_size=6,
)


def words_of(text: str) -> list[str]:
    return re.findall("[a-z]+|[中文字]", text.lower())


@dataclass(frozen=True)
class Phrase:
    text: str
    prefix: bool

    def __str__(self) -> str:
        return f'"{self.text}"' + "*" * self.prefix

    def matches(self, words: list[str]) -> bool:
        wanted = words_of(self.text)
        return any(
            window[:-1] == wanted[:-1]
            and (window[-1].startswith(wanted[-1]) if self.prefix else window[-1] == wanted[-1])
            for start in range(len(words) - len(wanted) + 1)
            for window in [words[start : start + len(wanted)]]
        )


@dataclass(frozen=True)
class All:
    parts: tuple[Model, ...]
    without: tuple[Model, ...]

    def __str__(self) -> str:
        return "(" + " ".join([*map(str, self.parts), *(f"-{part}" for part in self.without)]) + ")"

    def matches(self, words: list[str]) -> bool:
        wanted = all(part.matches(words) for part in self.parts)
        return wanted and not any(part.matches(words) for part in self.without)


@dataclass(frozen=True)
class Any:
    parts: tuple[Model, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.parts)) + ")"

    def matches(self, words: list[str]) -> bool:
        return any(part.matches(words) for part in self.parts)


Model: TypeAlias = Phrase | All | Any

PHRASES = st.builds(
    Phrase,
    text=st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    prefix=st.booleans(),
)
QUERIES: st.SearchStrategy[Model] = st.recursive(
    PHRASES,
    lambda inner: (
        st.builds(
            All,
            parts=st.lists(inner, min_size=1, max_size=2).map(tuple),
            without=st.lists(inner, max_size=1).map(tuple),
        )
        | st.builds(Any, parts=st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@over_all_deep
@settings(max_examples=40)
@given(documents=DOCUMENTS, queries=st.lists(QUERIES, min_size=1, max_size=8), data=st.data())
def test_queries_find_what_the_model_finds(
    kind: str, documents: list[str], queries: list[Model], data: st.DataObject
) -> None:
    indexed = data.draw(st.integers(0, len(documents)), label="indexed")
    with store_with(documents, indexed, kind) as store:
        for query in queries:
            expected = {
                number
                for number, text in enumerate(documents, start=1)
                if query.matches(words_of(text))
            }
            assert found(store, str(query)) == expected, str(query)


# --- Parts ----------------------------------------------------------------------------------------

PART_ALPHABET = "abAB01._/- \n中文かな한국🚀✅é"


@over_all_deep
@settings(max_examples=40)
@given(
    documents=st.lists(st.text(alphabet=PART_ALPHABET, max_size=12), max_size=6),
    parts=st.lists(st.text(alphabet=PART_ALPHABET, min_size=2, max_size=4), max_size=10),
    most_words=st.sampled_from([0, 2, 1_000]),
    data=st.data(),
)
def test_a_part_is_found_where_the_text_contains_it(
    kind: str, documents: list[str], parts: list[str], most_words: int, data: st.DataObject
) -> None:
    indexed = data.draw(st.integers(0, len(documents)), label="indexed")
    with pytest.MonkeyPatch.context() as patch, store_with(documents, indexed, kind) as store:
        patch.setattr(search_module, "_MOST_WORDS", most_words)
        patch.setattr(shared_search, "_MOST_WORDS", most_words)
        for part in parts:
            if len(part.strip()) < 2:
                continue
            needle = part.casefold().replace("é", "e")
            expected = {
                number
                for number, text in enumerate(documents, start=1)
                if needle in text.casefold().replace("é", "e")
            }
            assert found(store, part, substring=True) == expected, part


@over_all_deep
@settings(max_examples=50)
@given(text=ANY_TEXT.filter(lambda text: len(clean(text)) > 1), data=st.data())
@example(text="á\u0301b", data=None)
@example(text="x" * 40_000 + "y z", data=None)
@example(text="😀" * 3 + "é" * 20_000 + "ab", data=None)
def test_any_piece_of_any_text_is_found(kind: str, text: str, data: st.DataObject | None) -> None:
    text = clean(text)
    last = len(text)
    start = last - 3 if data is None else data.draw(st.integers(0, last - 2), label="start")
    end = last if data is None else data.draw(st.integers(start + 2, last), label="end")
    part = text[max(0, start) : end]
    with store_with([text], 1, kind) as store:
        try:
            parse_part(part)
        except QueryError:
            return
        assert found(store, part, substring=True) == {1}


def _is_searchable(text: str) -> bool:
    return is_searchable(clean(text))


@over_all_deep
@settings(max_examples=50)
@given(text=ANY_TEXT.map(lambda text: text.replace('"', "'")).filter(_is_searchable))
def test_any_text_is_found_as_a_phrase(kind: str, text: str) -> None:
    with store_with([text, text], 1, kind) as store:
        assert found(store, f'"{text}"') == {1, 2}


# --- Anything -------------------------------------------------------------------------------------

SOUP = st.lists(
    st.sampled_from(
        ["a", "b*", '"', '"a b"', "(", ")", "OR", "AND", "NOT", "-", "*", "中", " ", ":"]
    )
    | ANY_TEXT,
    max_size=12,
)


@pytest.fixture(scope="module", params=KINDS)
def some_store(request: pytest.FixtureRequest) -> Iterator[SessionStore]:
    texts = ["a b c", "中文 a", "b (c)", "recent a b"]
    with store_with(texts, 3, request.param) as store:
        yield store


@settings(max_examples=300)
@given(pieces=SOUP, gap=st.sampled_from(["", " "]), substring=st.booleans())
@example(pieces=["(" * 5_000], gap="", substring=False)
@example(pieces=["-("] * 3_000, gap="", substring=False)
@example(pieces=["a\0b"], gap="", substring=False)
def test_nothing_but_a_query_error_comes_of_any_query(
    some_store: SessionStore, pieces: list[str], gap: str, substring: bool
) -> None:
    with contextlib.suppress(QueryError):
        found(some_store, gap.join(pieces), substring=substring)


def test_the_largest_queries_are_answered(some_store: SessionStore) -> None:
    deep = "a OR (b " * 19 + "c" + ")" * 19
    assert found(some_store, deep) == {1, 2, 3, 4}
    wide = "a " * 50 + "-x " * 50
    assert found(some_store, wide) == {1, 2, 4}
    assert found(some_store, '"' + "a " * 1_900 + '"') == set()
    assert found(some_store, " OR ".join("abc" * 33)) == {1, 2, 3, 4}


# --- Text -----------------------------------------------------------------------------------------


@given(text=ANY_TEXT)
def test_setting_apart_is_undone(text: str) -> None:
    text = re.sub("[\U000f0000-\U000fffff]", "", clean(text))
    assert unspaced(spaced(text)) == text


@given(pieces=st.lists(ANY_TEXT | st.sampled_from(["\ufdd0", "\ufdd1", "word " * 40]), max_size=8))
def test_any_snippet_is_one_short_line(pieces: list[str]) -> None:
    line, matches = bracketed(snippet("".join(pieces)))
    assert len(line) < 180
    assert len(line.splitlines()) <= 1
    assert "\ufdd0" not in line
    assert "\ufdd1" not in line
    assert all(line[start - 1] + line[end] == "[]" for start, end in matches)


_LONG = ["word " * 40, "a\n" * 150, "\n" * 300, "x \n" * 90, "b" * 170, "\x00c" * 100]


@settings(max_examples=150)
@given(
    pieces=st.lists(st.sampled_from([*_LONG, "\ufdd0hit\ufdd1", " ", "\n"]) | ANY_TEXT, max_size=9)
)
@example(["word " * 40, "\n" * 300, "\ufdd0hit\ufdd1", "\n" * 300, "word " * 40])
def test_a_snippet_is_that_of_the_whole_text(pieces: list[str]) -> None:
    """What is far from the match is not looked at, and most text needs no regular expression."""
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snippets, "_NEAR", 0)
        patch.setattr(snippets, "_one_line", lambda text: re.sub(snippets._BLANK, " ", text))
        wanted = snippet(text)
    assert snippet(text) == wanted


@settings(max_examples=30)
@given(texts=st.lists(ANY_TEXT, max_size=10), steps=st.lists(st.integers(1, 10), max_size=4))
def test_the_index_agrees_with_the_messages(texts: list[str], steps: list[int]) -> None:
    with store_with(texts, 0) as store:
        assert isinstance(store, SqliteSessionStore)
        for step in steps:
            with store.database.write() as db:
                search_index.catch_up(db, min(step, len(texts)), batch=1)
        with store.database.write() as db:
            db.execute(
                "INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)"
            )


WORDS = st.sampled_from(["a", "ab", "AB", "aba", "b1", "1", "zebra"])
GAPS = st.sampled_from([" ", "  ", "\n", "_", "-", ".", '"', "\x7f", ""])


@given(
    st.lists(st.tuples(WORDS, st.booleans()), min_size=1, max_size=3),
    st.sampled_from([" ", " OR "]),
    st.lists(st.tuples(WORDS, GAPS), max_size=8).map(
        lambda parts: "".join(w + g for w, g in parts)
    ),
)
def test_words_are_marked_as_the_index_marks_them(
    words: list[tuple[str, bool]], between: str, text: str
) -> None:
    query = parse(between.join(word + "*" * prefix for word, prefix in words))
    mark = plain_marks(query)
    assert mark is not None
    with contextlib.closing(SmallIndex()) as small:
        small.add([(1, text)])
        assert mark(text) == small.marked(query.to_fts5()).get(1)


@pytest.mark.parametrize("text", ["café", '"a b"', "a -b", "a.b", "(a b) OR c", "a*b", "時"])
def test_what_is_not_plain_is_left_to_the_index(text: str) -> None:
    assert plain_marks(parse(text)) is None


@pytest.mark.parametrize("indexed", [7, 9, 10])
def test_in_a_large_store_the_newest_of_the_most_frequent(indexed: int) -> None:
    """Words that most messages have weigh next to nothing, and rarer ones count as ever."""
    texts = [f"and so {'and ' * (number % 4)} on {number}" for number in range(10)]
    texts[2] += " zebra"
    texts[3] += " zebra zebra"
    with store_with(texts, indexed) as store:
        frequent = store.search(Search(text="and so", wanted=SessionFilter(), limit=4, offset=1))
        assert [hit.message.number for hit in frequent] == [9, 8, 7, 6]
        assert len({hit.score for hit in frequent}) == 1
        assert frequent[0].score > 0
        rare = store.search(Search(text="and zebra", wanted=SessionFilter(), limit=4))
        assert [hit.message.number for hit in rare] == [4, 3]
        assert rare[0].score > rare[1].score
        either = store.search(Search(text="and OR zebra", wanted=SessionFilter(), limit=3))
        assert [hit.message.number for hit in either][:2] == [4, 3]
