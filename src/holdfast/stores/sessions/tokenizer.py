"""The tokenizer of the index, asked: how it folds characters, which words it sees in a few texts,
and what it would mark in them."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterable, Mapping

from holdfast.errors import QueryError
from holdfast.stores.sessions.searchable_text import (
    MATCH_ENDS,
    MATCH_STARTS,
    is_word,
    spaced,
    unspaced,
)

#: How text becomes words; schema_1.sql says the same of the index.
TOKENIZER = "unicode61 remove_diacritics 2"
#: The tokenizer's folding of each character met so far, A to Z first.
_FOLDED = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}


def too_much(error: sqlite3.Error) -> QueryError:
    return QueryError(
        f"The query is too complex for the index: {error}.", hint="Use fewer words or parentheses."
    )


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
