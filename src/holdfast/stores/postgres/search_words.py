"""The words of a text, split and folded like SQLite's index does it, in PostgreSQL's format.

So a query means the same in both stores. PostgreSQL's own parsers split text differently, and none
of them supports scripts without spaces.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence

from holdfast.stores.sessions.query import Either, Query, Term
from holdfast.stores.sessions.searchable_text import spaced
from holdfast.stores.sessions.tokenizer import foldings
from holdfast.value import dataclass

#: Only the beginning of a longer word is indexed.
LONGEST = 200
#: PostgreSQL's limits: the most positions of a word, and the last position it records.
_MOST_PLACES = 255
_LAST_PLACE = 16_382
#: PostgreSQL refuses a vector of a megabyte.
_MOST_BYTES = 700_000
#: A text with this many words is well within all these limits.
_USUAL = 800

#: The replacement for each character: its folded form, nothing, or a space between words.
_CUT: dict[int, str] = {
    code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)
}


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    if text.isascii():
        found = text.translate(_CUT).split()
        if max(map(len, found), default=0) <= LONGEST:
            return found
        return [word[:LONGEST] for word in found]
    text = spaced(text)
    unknown = {c for c in set(text) if ord(c) not in _CUT}
    if unknown:
        _CUT.update(foldings(unknown, between=" "))
    return [word[:LONGEST] for word in text.translate(_CUT).split(" ") if word]


# --- As PostgreSQL stores them --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The index entry of a text; `exact` and `whole` are columns of `message_words`."""

    text: str
    words: Collection[str]
    exact: bool
    whole: bool


def vector(text: str) -> Vector:
    found = words(text)
    if text.isascii() and len(found) <= _USUAL:
        distinct = set(found)
        if len(found) - len(distinct) < _MOST_PLACES:  # no word can have more positions than that
            # The server sorts and merges duplicates; nothing in the text needs quotes.
            placed = " ".join(map(operator.add, found, _numbered()))
            return Vector(text=placed, words=distinct, exact=True, whole=True)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(found, start=1):
        if word in places:
            places[word].append(place)
        else:
            places[word] = [place]
    if not text.isascii():
        for pair in pairs(found):
            places[pair] = []
    exact = len(found) <= _LAST_PLACE and all(len(each) <= _MOST_PLACES for each in places.values())
    whole = 4 * len(text) + 16 * len(places) < _MOST_BYTES  # most texts are short
    if exact and whole:
        lexemes = [_lexeme(word, where) for word, where in places.items()]
        return Vector(text=" ".join(lexemes), words=list(places), exact=True, whole=True)
    return _cut_short(places, exact=exact)


@functools.cache
def _numbered() -> Sequence[str]:
    return [f":{place}" for place in range(1, _USUAL + 1)]


def _cut_short(places: Mapping[str, Sequence[int]], *, exact: bool) -> Vector:
    """The part of a long text that PostgreSQL can store."""
    lexemes: list[str] = []
    size = 0
    for word, where in places.items():
        kept = [place for place in where[:_MOST_PLACES] if place <= _LAST_PLACE]
        size += len(word.encode()) + 2 * len(kept) + 8
        if size > _MOST_BYTES:
            return Vector(text=" ".join(lexemes), words=list(places), exact=False, whole=False)
        lexemes.append(_lexeme(word, kept))
    return Vector(text=" ".join(lexemes), words=list(places), exact=exact, whole=True)


def _lexeme(word: str, places: Sequence[int]) -> str:
    """Words need no escaping: quotes separate words, so no word contains one."""
    return f"'{word}':{','.join(map(str, places))}" if places else f"'{word}'"


def pairs(found: Sequence[str]) -> Iterator[str]:
    """Pairs of adjacent single-character words: a single character is in too many texts to narrow a
    search down."""
    for one, other in itertools.pairwise(found):
        if _stands_alone(one) and _stands_alone(other):
            yield one + other


def _stands_alone(word: str) -> bool:
    return len(word) == 1 and not word.isascii()


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


# --- Queries --------------------------------------------------------------------------------------


def matching(query: Query) -> str:
    """A query for exact vectors."""
    return _written(query, exact=True)


def may_match(query: Query) -> str:
    """A query that also finds every vector without all positions whose text may match."""
    return _written(query, exact=False)


def phrase(found: Sequence[str], *, prefix: bool, exact: bool) -> str:
    """Adjacent words; with `prefix` the last one may continue."""
    terms = [_quoted(word) for word in found]
    if prefix:
        terms[-1] += ":*"
    joined = (" <-> " if exact else " & ").join(terms)
    # The last word of a prefix query may continue, so no pair includes it.
    narrower = [_quoted(pair) for pair in pairs(found[:-1] if prefix else found)]
    return "(" + " & ".join([*narrower, f"({joined})"]) + ")"


def _written(query: Query, *, exact: bool) -> str:
    if isinstance(query, Term):
        return phrase(words(query.text), prefix=query.prefix, exact=exact)
    if isinstance(query, Either):
        return "(" + " | ".join(_written(part, exact=exact) for part in query.parts) + ")"
    wanted = [_written(part, exact=exact) for part in query.parts]
    if exact:
        wanted += [f"!{_written(part, exact=True)}" for part in query.without]
    return "(" + " & ".join(wanted) + ")"
