"""Search by reading: texts that are in none of our indexes are matched and scored one by one.

This is used for the archive, the newest messages of a store, and another agent's messages if that
agent's own index cannot be used. The rules are those of the index: the same query finds the same
texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.errors import QueryError
from holdfast.model.session import Json, Search
from holdfast.stores.sessions.query import Query, Term, check_length, parse
from holdfast.stores.sessions.searchable_text import clean, plain_text, spaced
from holdfast.stores.sessions.snippets import marked, marked_words, match_places
from holdfast.stores.sessions.tokenizer import SmallIndex, folded, rarity
from holdfast.value import dataclass, field

SHORTEST_PART = 2
#: Limits of a batch that is scored together: texts and characters.
_WINDOW = 500
_WINDOW_CHARACTERS = 8_000_000
#: How many more matches than requested are kept before all but the best are dropped.
_SPARE = 2_000


class Place(Protocol):
    """The place of a text. Among equal matches, the greater place comes first."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


P = TypeVar("P", bound=Place)


def searched_text(content: Json, tool_name: Json, tool_calls: Json, reasoning: Json) -> str:
    """The searchable text of a message."""
    named = {"tool_name": tool_name, "tool_calls": tool_calls, "reasoning": reasoning}
    return plain_text(content, named)


class WordSearch(Generic[P]):
    """Runs a query of words: takes texts one by one and returns the best of them at the end."""

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
            small.matches(self._query.to_fts5())  # raises if the query is too complex for the index

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
        """The texts with their matches marked."""
        return marked_words(self._query, texts)

    def rarity(self, term: Term, found: int) -> float:
        """The weight of a term that was found in this many texts."""
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
