"""Search by reading: texts that no index of ours has are matched and weighed one by one.

The archive is searched this way, the newest messages of a store, and the messages of another agent
where that agent's own index cannot answer. The rules are those of the index: the same query finds
the same texts.
"""

from __future__ import annotations

import contextlib
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.errors import QueryError
from holdfast.model.session import Json, Search
from holdfast.stores.sessions.indexed_text import (
    MATCH_ENDS,
    MATCH_STARTS,
    clean,
    is_word,
    marked,
    plain_text,
    spaced,
    unspaced,
)
from holdfast.stores.sessions.query import Every, Query, Term, check_length, parse
from holdfast.value import dataclass, field

#: How text becomes words; schema_1.sql says the same of the index.
TOKENIZER = "unicode61 remove_diacritics 2"
SHORTEST_PART = 2
_MOST_MARKS = 100
_LETTER = "[0-9A-Za-z]"
#: The tokenizer's folding of each character met so far, A to Z first.
_FOLDED = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}
#: Texts that are weighed together, and their length.
_WINDOW = 500
_WINDOW_CHARACTERS = 8_000_000
#: So many matches more than asked for are kept; then only the best.
_SPARE = 2_000


#: A text with its matches marked; None if it does not match.
Mark = Callable[[str], str | None]


class Place(Protocol):
    """The place of a text. Of equal matches the greater place comes first."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


P = TypeVar("P", bound=Place)


def searched_text(content: Json, tool_name: Json, tool_calls: Json, reasoning: Json) -> str:
    """What is searched in a message."""
    named = {"tool_name": tool_name, "tool_calls": tool_calls, "reasoning": reasoning}
    return plain_text(content, named)


class WordSearch(Generic[P]):
    """Finds a query of words. It takes texts one by one, and knows the best of them at the end."""

    def __init__(self, asked: Search) -> None:
        self._query: Query = parse(asked.text)
        self._most = asked.most
        self._terms: list[Term] = list(self._query.terms())
        self._window: list[tuple[P, str]] = []
        self._characters = 0
        self._total = 0
        self._found = [0] * len(self._terms)
        self._matched: list[tuple[tuple[float, ...], P]] = []
        with contextlib.closing(SmallIndex()) as small:
            small.add((number, clean(term.text)) for number, term in enumerate(self._terms))
            self._needed = {term: small.words(n) for n, term in enumerate(self._terms)}
            small.matches(self._query.to_fts5())  # refuses what is too much for the index

    def take(self, place: P, text: str) -> None:
        self._total += 1
        seen = folded(spaced(text))
        if not self._query.may_match(lambda term: all(w in seen for w in self._needed[term])):
            return
        self._window.append((place, text))
        self._characters += len(text)
        if len(self._window) >= _WINDOW or self._characters >= _WINDOW_CHARACTERS:
            self._weigh()

    def best(self, count: int) -> Sequence[tuple[float, P]]:
        """Score and place of the best so far."""
        self._weigh()
        return self._ranked(count)

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        """Texts with what matched in them marked."""
        return marked_words(self._query, texts)

    def rarity(self, term: Term, found: int) -> float:
        """The weight of a term that was found in so many texts."""
        return rarity(self._total, found)

    def _ranked(self, count: int) -> list[tuple[float, P]]:
        if not self._matched:
            return []
        rare = [self.rarity(*each) for each in zip(self._terms, self._found, strict=True)]
        scored = [
            (sum(weight * each for weight, each in zip(weights, rare, strict=True)), place)
            for weights, place in self._matched
        ]
        return sorted(scored, reverse=True)[:count]

    def _weigh(self) -> None:
        if not self._window:
            return
        with contextlib.closing(SmallIndex()) as small:
            small.add((number, text) for number, (_, text) in enumerate(self._window))
            matching = sorted(small.matches(self._query.to_fts5()))
            weights = [small.weights(term.to_fts5()) for term in self._terms]
        self._found = [
            count + len(found) for count, found in zip(self._found, weights, strict=True)
        ]
        self._matched += [
            (tuple(found.get(number, 0.0) for found in weights), self._window[number][0])
            for number in matching
        ]
        self._window, self._characters = [], 0
        if len(self._matched) > 2 * (self._most + _SPARE):
            kept = {place for _, place in self._ranked(self._most + _SPARE)}
            self._matched = [each for each in self._matched if each[1] in kept]


@dataclass(slots=True)
class PartSearch(Generic[P]):
    """Finds a part of a text literally, ignoring case and diacritics."""

    asked: Search
    needle: str = field(init=False)
    found: list[P] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needle = folded(parse_part(self.asked.text))

    def take(self, place: P, text: str) -> None:
        if self.needle not in folded(text):
            return
        self.found.append(place)
        if len(self.found) > 2 * (self.asked.most + _SPARE):
            self.found = sorted(self.found, reverse=True)[: self.asked.most]

    def best(self, count: int) -> Sequence[tuple[float, P]]:
        return [(1.0, place) for place in sorted(self.found, reverse=True)[:count]]

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        return {
            number: marked(text, match_places(text, self.needle)) for number, text in texts.items()
        }


TextSearch: TypeAlias = WordSearch[P] | PartSearch[P]


def text_search(asked: Search) -> TextSearch[Any]:
    return PartSearch(asked) if asked.substring else WordSearch(asked)


def parse_part(text: str) -> str:
    """A part of a text to search for literally: no operators, no quotes."""
    check_length(text)
    part = clean(text)
    if len(folded(part).strip()) < SHORTEST_PART:
        raise QueryError(
            f"{text!r} is too short: a substring needs at least {SHORTEST_PART} characters.",
            hint="Search for a longer part, or for whole words.",
        )
    return part


def match_places(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """Where the first matches start and end."""
    haystack, places = folded(text), folded_places(text)
    start = haystack.find(needle)
    for _ in range(_MOST_MARKS):
        if start < 0:
            return
        yield places[start], places[start + len(needle) - 1] + 1
        start = haystack.find(needle, start + len(needle))


def marked_words(query: Query, texts: Mapping[int, str]) -> Mapping[int, str]:
    """Those of the texts that match, with the matches marked."""
    mark = plain_marks(query)
    found: dict[int, str] = {}
    others: dict[int, str] = {}
    for number, text in texts.items():
        if mark is None or not text.isascii():
            others[number] = text
        elif (shown := mark(text)) is not None:
            found[number] = shown
    if others:
        with contextlib.closing(SmallIndex()) as small:
            small.add(others.items())
            found |= small.marked(query.to_fts5())
    return found


def plain_marks(query: Query) -> Mark | None:
    """What marks texts of ASCII alone, as nearly all are, without an index: there a word is any run
    of letters and digits, and case is all that the tokenizer folds. None for a query with phrases,
    exclusions or groups in it."""
    parts = (query,) if isinstance(query, Term) else query.parts
    words = [part for part in parts if isinstance(part, Term) and part.is_plain]
    if len(words) < len(parts) or (isinstance(query, Every) and query.without):
        return None
    needed = all if isinstance(query, Every) else any
    # What stands before a word is looked at last, and each word has a pattern of its own. So the
    # search jumps from word to word; one pattern for all would stop at every character.
    patterns = [
        re.compile(
            f"{each}(?<!{_LETTER}{each})"
            + (f"{_LETTER}*" if word.prefix else "")
            + f"(?!{_LETTER})"
        )
        for word in words
        for each in [word.text.lower()]
    ]

    def mark(text: str) -> str | None:
        lower = text.lower()
        places = [[found.span() for found in pattern.finditer(lower)] for pattern in patterns]
        if not needed(places):
            return None
        # Two may find the same word: one of them is a beginning of the other.
        return marked(text, sorted({place for each in places for place in each}))

    return mark


def too_much(error: sqlite3.Error) -> QueryError:
    return QueryError(
        f"The query is too complex for the index: {error}.", hint="Use fewer words or parentheses."
    )


# --- A small index --------------------------------------------------------------------------------


def rarity(total: int, found: int) -> float:
    """The weight of a phrase in bm25, as FTS5 has it."""
    return max(math.log((total - found + 0.5) / (found + 0.5)), 1e-6)


def folded(text: str) -> str:
    """Text as the tokenizer folds it: case and diacritics gone, everything else as it is."""
    if text.isascii():
        return text.lower()
    unknown = {c for c in set(text) if not c.isascii() and ord(c) not in _FOLDED}
    if unknown:
        _FOLDED.update(foldings(unknown))
    return text.translate(_FOLDED)


def folded_places(text: str) -> Mapping[int, int] | range:
    """Where in the text each character of its folded form is."""
    if len(folded(text)) == len(text):
        return range(len(text))
    kept = [place for place, character in enumerate(text) if folded(character)]
    return dict(enumerate(kept))


class SmallIndex:
    """A few texts under the rules of the index, in memory, for as long as one search."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self._db.execute(
                f"CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = '{TOKENIZER}')"
            )
            self._db.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")
        except BaseException:  # a SQLite without full-text search
            self._db.close()
            raise
        self._numbers: set[int] = set()

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Texts as a person sees them, each with a number; one that is there stays."""
        self._db.execute("BEGIN")
        for number, text in texts:
            if number not in self._numbers:
                self._numbers.add(number)
                self._db.execute(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)", (number, spaced(text))
                )
        self._db.execute("COMMIT")

    def matches(self, match: str) -> set[int]:
        """Raises `QueryError` for a query that is too much for FTS5."""
        try:
            rows = self._db.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,))
        except sqlite3.OperationalError as error:
            raise too_much(error) from error
        return {number for (number,) in rows}

    def weights(self, phrase: str) -> dict[int, float]:
        """What bm25 gives each text for a phrase, without the rarity of the phrase."""
        rows = self._db.execute("SELECT rowid, -rank FROM texts WHERE texts MATCH ?", (phrase,))
        scores = dict(rows.fetchall())
        common = rarity(len(self._numbers), len(scores))
        return {number: score / common for number, score in scores.items()}

    def marked(self, match: str) -> dict[int, str]:
        """Those of the texts that match, as a person sees them, with the matches marked."""
        rows = self._db.execute(
            "SELECT rowid, highlight(texts, 0, ?, ?) FROM texts WHERE texts MATCH ?",
            (MATCH_STARTS, MATCH_ENDS, match),
        )
        return {number: unspaced(text) for number, text in rows}

    def words(self, number: int) -> list[str]:
        """The words of one text, in order."""
        rows = self._db.execute("SELECT term FROM words WHERE doc = ? ORDER BY offset", (number,))
        return [word for (word,) in rows]

    def first_words(self) -> dict[int, str]:
        return dict(self._db.execute("SELECT doc, term FROM words WHERE offset = 0").fetchall())

    def close(self) -> None:
        self._db.close()


def foldings(characters: set[str], between: str | None = None) -> dict[int, str]:
    """How the tokenizer folds characters, to one or to none. It is asked: its tables differ from
    Python's, and between versions of SQLite. What is between words stays, unless something else
    stands for it."""
    known = {ord(character): character for character in characters if is_word(character)}
    asked = [character for character in characters if not is_word(character)]
    with contextlib.closing(SmallIndex()) as small:
        small.add((ord(character), f"a{character}b") for character in asked)
        for code, word in small.first_words().items():
            # One word: folded, or dropped from within. Two: what is between words.
            known[code] = word[1:-1] if len(word) > 1 else between or chr(code)
    return known
