"""Search by reading: texts that no index of ours knows are matched and weighed one by one.

The archive is searched this way, and so are the messages of another agent where that agent's own
index cannot answer. The rules are those of our index: the same query finds the same texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Generic, Protocol, TypeVar

from holdfast.errors import QueryError
from holdfast.model.session import Json, Search
from holdfast.stores.sqlite.query import Query, Term, parse, parse_part
from holdfast.stores.sqlite.search import match_places
from holdfast.stores.sqlite.search_index import SmallIndex, folded, rarity, words_of
from holdfast.stores.sqlite.search_text import clean, marked, plain_text, spaced
from holdfast.value import dataclass, field

#: Texts that are weighed together, and their length.
_WINDOW = 500
_WINDOW_CHARACTERS = 8_000_000
#: So many matches beside those that are asked for are kept; of more, the best.
_SPARE = 2_000


class Place(Protocol):
    """Where a text stands. Of equal matches the greater place comes first."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


P = TypeVar("P", bound=Place)


class TextSearch(Protocol[P]):
    """Takes texts one by one, and knows the best of them at the end."""

    def take(self, place: P, text: str) -> None: ...

    def best(self, count: int) -> Sequence[tuple[float, P]]:
        """Score and place of the best so far."""

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        """Texts with what matched in them marked."""


def searched_text(content: Json, tool_name: Json, tool_calls: Json, reasoning: Json) -> str:
    """What of a message is searched."""
    named = {"tool_name": tool_name, "tool_calls": tool_calls, "reasoning": reasoning}
    return plain_text(content, named)


class WordSearch(Generic[P]):
    """Finds a query of words."""

    def __init__(self, asked: Search) -> None:
        self._query: Query = parse(asked.text)
        self._most = asked.most
        self._terms: list[Term] = list(self._query.terms())
        words = words_of([clean(term.text) for term in self._terms])
        self._needed = dict(zip(self._terms, words, strict=True))
        self._window: list[tuple[P, str]] = []
        self._characters = 0
        self._total = 0
        self._found = [0] * len(self._terms)
        self._matched: list[tuple[tuple[float, ...], P]] = []
        self._refuse_too_much()

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
        self._weigh()
        return self._ranked(count)

    def _ranked(self, count: int) -> list[tuple[float, P]]:
        rare = [rarity(self._total, found) for found in self._found]
        scored = [
            (sum(weight * each for weight, each in zip(weights, rare, strict=True)), place)
            for weights, place in self._matched
        ]
        return sorted(scored, reverse=True)[:count]

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        with closing(SmallIndex()) as small:
            small.add(texts.items())
            return small.marked(self._query.to_fts5(), texts)

    def _weigh(self) -> None:
        with closing(SmallIndex()) as small:
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

    def _refuse_too_much(self) -> None:
        with closing(SmallIndex()) as small:
            try:
                small.matches(self._query.to_fts5())
            except sqlite3.OperationalError as error:
                raise QueryError(
                    f"The query is too much for the index: {error}.",
                    hint="Use fewer words or parentheses.",
                ) from error


@dataclass(slots=True)
class PartSearch(Generic[P]):
    """Finds a part of a text as it stands, whatever its case and diacritics."""

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


def text_search(asked: Search) -> TextSearch[Any]:
    return PartSearch(asked) if asked.substring else WordSearch(asked)
