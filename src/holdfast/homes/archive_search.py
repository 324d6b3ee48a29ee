"""Search in archived sessions: each is read, and its messages weighed as the store weighs them.

There is no index of the archive. Texts are weighed in windows of bounded size; what is kept of a
match is its place and its weight, and only what is shown is read a second time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.errors import DamageError, QueryError
from holdfast.model.archived import ArchivedSession, ArchiveHits
from holdfast.model.inventory import Problem
from holdfast.model.search import Search
from holdfast.model.session import Hit, Message
from holdfast.stores.sqlite.query import Query, Term, parse, parse_part
from holdfast.stores.sqlite.search import match_places
from holdfast.stores.sqlite.search_index import SmallIndex, folded, rarity, words_of
from holdfast.stores.sqlite.search_text import clean, marked, plain_text, snippet, spaced

#: Texts that are weighed together, and their length.
_WINDOW = 500
_WINDOW_CHARACTERS = 8_000_000
#: So many matches beside those that are asked for are kept; of more, the best.
_SPARE = 2_000


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A message: when it was said, in which of the sessions, and its number there."""

    timestamp: float
    session: int
    number: int


class _Seeker(Protocol):
    def take(self, place: _Place, text: str) -> None: ...

    def best(self, count: int) -> Sequence[tuple[float, _Place]]:
        """Score and place of the best so far."""

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        """Texts with what matched in them marked."""


def search(
    asked: Search,
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
) -> ArchiveHits:
    """The messages that match, best first; with `substring` those that contain it, newest first."""
    seeker: _Seeker = (_Part if asked.substring else _Words)(asked.text, asked.most)
    problems = []
    for place, session in enumerate(sessions):
        try:
            for message in messages(session):
                if asked.has(message):
                    seeker.take(
                        _Place(message.timestamp or 0.0, place, message.number or 0),
                        _text(message),
                    )
        except DamageError as error:
            problems.append(Problem(path=session.file, reason=error.message))
    chosen = seeker.best(asked.most)[asked.offset :]
    hits = _hits(chosen, sessions, messages, seeker)
    return ArchiveHits(hits=tuple(hits), problems=tuple(problems))


class _Words:
    """Finds a query of words."""

    def __init__(self, text: str, most: int) -> None:
        self._query: Query = parse(text)
        self._most = most
        self._terms: list[Term] = list(self._query.terms())
        words = words_of([clean(term.text) for term in self._terms])
        self._needed = dict(zip(self._terms, words, strict=True))
        self._window: list[tuple[_Place, str]] = []
        self._characters = 0
        self._total = 0
        self._found = [0] * len(self._terms)
        self._matched: list[tuple[tuple[float, ...], _Place]] = []
        self._refuse_too_much()

    def take(self, place: _Place, text: str) -> None:
        self._total += 1
        seen = folded(spaced(text))
        if not self._query.may_match(lambda term: all(w in seen for w in self._needed[term])):
            return
        self._window.append((place, text))
        self._characters += len(text)
        if len(self._window) >= _WINDOW or self._characters >= _WINDOW_CHARACTERS:
            self._weigh()

    def best(self, count: int) -> Sequence[tuple[float, _Place]]:
        self._weigh()
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
            kept = {place for _, place in self.best(self._most + _SPARE)}
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
class _Part:
    """Finds a part of a text as it stands, whatever its case and diacritics."""

    text: str
    most: int
    needle: str = field(init=False)
    found: list[_Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needle = folded(parse_part(self.text))

    def take(self, place: _Place, text: str) -> None:
        if self.needle not in folded(text):
            return
        self.found.append(place)
        if len(self.found) > 2 * (self.most + _SPARE):
            self.found = sorted(self.found, reverse=True)[: self.most]

    def best(self, count: int) -> Sequence[tuple[float, _Place]]:
        return [(1.0, place) for place in sorted(self.found, reverse=True)[:count]]

    def marked(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        return {
            number: marked(text, match_places(text, self.needle)) for number, text in texts.items()
        }


def _hits(
    chosen: Sequence[tuple[float, _Place]],
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
    seeker: _Seeker,
) -> Iterator[Hit]:
    """Read what is shown once more: nothing of it was kept."""
    numbers: dict[int, set[int]] = {}
    for _, place in chosen:
        numbers.setdefault(place.session, set()).add(place.number)
    found: dict[tuple[int, int], Message] = {}
    for session, wanted in numbers.items():
        try:
            for message in messages(sessions[session]):
                if message.number in wanted:
                    found[session, message.number or 0] = message
        except DamageError:
            continue  # named already
    shown = [(score, place) for score, place in chosen if (place.session, place.number) in found]
    texts = {
        number: _text(found[place.session, place.number]) for number, (_, place) in enumerate(shown)
    }
    marks = seeker.marked(texts)
    for number, (score, place) in enumerate(shown):
        yield Hit(
            session=sessions[place.session].session,
            message=found[place.session, place.number],
            snippet=snippet(marks.get(number, "")),
            score=score,
        )


def _text(message: Message) -> str:
    """What of a message is searched."""
    named = {
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "reasoning": message.reasoning,
    }
    return plain_text(message.content, named)
