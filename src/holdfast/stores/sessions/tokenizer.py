"""Queries the index's tokenizer: how it folds characters, which words it finds in a few texts, and
what matches in them."""

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

#: The tokenizer of the index; schema_1.sql has the same definition.
TOKENIZER = "unicode61 remove_diacritics 2"
#: The tokenizer's folding of each character met so far, A to Z first.
_FOLDED = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}


def too_much(error: sqlite3.Error) -> QueryError:
    return QueryError(
        f"The query is too complex for the index: {error}.", hint="Use fewer words or parentheses."
    )


def rarity(total: int, found: int) -> float:
    """The weight of a phrase in bm25, as computed by FTS5."""
    return max(math.log((total - found + 0.5) / (found + 0.5)), 1e-6)


def folded(text: str) -> str:
    """Text folded like the tokenizer does: without case and diacritics, otherwise unchanged."""
    if text.isascii():
        return text.lower()
    unknown = {c for c in set(text) if not c.isascii() and ord(c) not in _FOLDED}
    if unknown:
        _FOLDED.update(foldings(unknown))
    return text.translate(_FOLDED)


def folded_places(text: str) -> Mapping[int, int] | range:
    """The position in the text of each character of its folded form."""
    if len(folded(text)) == len(text):
        return range(len(text))
    kept = [place for place, character in enumerate(text) if folded(character)]
    return dict(enumerate(kept))


class SmallIndex:
    """A few texts under the rules of the index, in memory, for the duration of one search."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self._db.execute(
                f"CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = '{TOKENIZER}')"
            )
            self._db.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")
        except BaseException:  # for example, SQLite without full-text search
            self._db.close()
            raise
        self._numbers: set[int] = set()

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add readable texts, each with a number; a number that is already there is skipped."""
        self._db.execute("BEGIN")
        for number, text in texts:
            if number not in self._numbers:
                self._numbers.add(number)
                self._db.execute(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)", (number, spaced(text))
                )
        self._db.execute("COMMIT")

    def matches(self, match: str) -> set[int]:
        """The numbers of the texts that match. Raises `QueryError` for a query that is too complex
        for FTS5."""
        try:
            rows = self._db.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,))
        except sqlite3.OperationalError as error:
            raise too_much(error) from error
        return {number for (number,) in rows}

    def weights(self, phrase: str) -> dict[int, float]:
        """The bm25 score of each text for a phrase, without the rarity of the phrase."""
        rows = self._db.execute("SELECT rowid, -rank FROM texts WHERE texts MATCH ?", (phrase,))
        scores = dict(rows.fetchall())
        common = rarity(len(self._numbers), len(scores))
        return {number: score / common for number, score in scores.items()}

    def marked(self, match: str) -> dict[int, str]:
        """Those of the texts that match, in readable form, with the matches marked."""
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
    """The tokenizer's folding of each character, to one character or none. SQLite itself is used:
    its tables differ from Python's, and between its versions. A separator is kept, unless `between`
    replaces it."""
    known = {ord(character): character for character in characters if is_word(character)}
    asked = [character for character in characters if not is_word(character)]
    with contextlib.closing(SmallIndex()) as small:
        small.add((ord(character), f"a{character}b") for character in asked)
        for code, word in small.first_words().items():
            # One word: the character was folded or dropped. Two words: it is a separator.
            known[code] = word[1:-1] if len(word) > 1 else between or chr(code)
    return known
