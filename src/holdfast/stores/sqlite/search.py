"""Full-text search: what is indexed, and what is not yet, as one list, best first.

A search reads one moment of the store. It writes nothing and waits for nobody.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import operator
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from holdfast.errors import QueryError
from holdfast.model.session import Hit, Search, SessionFilter
from holdfast.stores.sqlite import content, session_rows
from holdfast.stores.sqlite.content import Stored
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.query import Query, Term, parse, parse_part
from holdfast.stores.sqlite.search_index import (
    SmallIndex,
    close_words,
    folded,
    folded_places,
    indexed,
    matches_for_part,
    rarity,
    words_of,
)
from holdfast.stores.sqlite.search_text import clean, marked, message_text, snippet, spaced
from holdfast.value import dataclass

#: So many of the newest messages are read for a part of a word before the index is asked: what is
#: frequent is found there, and going through all words of the index takes longer.
_READ_FIRST = 2_000
_MOST_MARKS = 100
_MESSAGES = f"messages m CROSS JOIN {session_rows.TABLES}"

_Row = tuple[int, int, Stored, Stored]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Which messages count: a condition on `m` and the tables of sessions."""

    condition: str
    parameters: Sequence[Any]
    everything: bool


def search(database: Database, asked: Search) -> Sequence[Hit]:
    """The messages that match a query, best first; of equal ones the newest.

    With `substring`, those that contain the text as it stands, whatever its case and diacritics,
    newest first.
    """
    scope = _scope(asked)
    if asked.substring:
        part = parse_part(asked.text)
        with database.read() as db:
            numbers = _containing(db, part, scope, asked.most)[asked.offset :]
            return _hits_of_part(db, part, numbers)
    query = parse(asked.text)
    with database.read() as db, contextlib.closing(SmallIndex()) as small:
        ranked = _indexed_hits(db, query, scope, asked.most)
        ranked += _recent_hits(db, query, scope, small)
        ranked.sort(reverse=True)
        return _hits_of_query(db, query, ranked[asked.offset : asked.most], small)


def suggestion(database: Database, text: str) -> Sequence[str]:
    """Words of the store close to those of a query that it does not have."""
    words = {folded(clean(term.text)) for term in parse(text).terms()}
    with database.read() as db:
        return [close for word in sorted(words) for close in close_words(db, word)]


# --- Words ----------------------------------------------------------------------------------------


def _indexed_hits(
    db: sqlite3.Connection, query: Query, scope: _Scope, count: int
) -> list[tuple[float, int]]:
    """Score and number of the best `count` messages in the index."""
    joined = "" if scope.everything else f"CROSS JOIN {_MESSAGES}"
    condition = "1" if scope.everything else f"m.number = i.rowid AND {scope.condition}"
    rows = _matching(
        db,
        f"SELECT i.rank, i.rowid FROM message_index i {joined} "  # noqa: S608 - no user text
        f"WHERE i.message_index MATCH ? AND {condition} ORDER BY 1, 2 DESC LIMIT ?",
        [query.to_fts5(), *scope.parameters, count],
    )
    return [(-rank, number) for rank, number in rows]


def _recent_hits(
    db: sqlite3.Connection, query: Query, scope: _Scope, small: SmallIndex
) -> list[tuple[float, int]]:
    """Score and number of the messages after those in the index.

    Each phrase weighs as it does in the whole store: among a few messages alone everything is
    rare, or nothing is.
    """
    if db.execute("SELECT 1 FROM messages WHERE number > ?", (indexed(db),)).fetchone() is None:
        return []
    terms = list(query.terms())
    needed = dict(zip(terms, words_of([clean(term.text) for term in terms]), strict=True))

    def may_match(text: str) -> bool:
        text = folded(spaced(text))
        return query.may_match(lambda term: all(word in text for word in needed[term]))

    recent = ((row[0], message_text(*row[1:])) for row in _read(db, scope, above=indexed(db)))
    small.add(pair for pair in recent if may_match(pair[1]))
    scores = dict.fromkeys(small.matches(query.to_fts5()), 0.0)
    if not scores:
        return []
    [total] = db.execute("SELECT count(*) FROM messages").fetchone()
    for term in terms:
        weights = small.weights(term.to_fts5())
        rare = rarity(total, _count_indexed(db, term) + len(weights))
        for number in scores.keys() & weights.keys():
            scores[number] += weights[number] * rare
    return [(score, number) for number, score in scores.items()]


def _hits_of_query(
    db: sqlite3.Connection, query: Query, ranked: Sequence[tuple[float, int]], small: SmallIndex
) -> list[Hit]:
    found = _messages(db, [number for _, number in ranked])
    small.add((number, row.text) for number, row in found.items())
    texts = small.marked(query.to_fts5(), found)
    return [found[number].hit(texts.get(number, ""), score) for score, number in ranked]


def _count_indexed(db: sqlite3.Connection, term: Term) -> int:
    [[count]] = _matching(
        db, "SELECT count(*) FROM message_index WHERE message_index MATCH ?", [term.to_fts5()]
    )
    return int(count)


# --- Parts of words -------------------------------------------------------------------------------


def _containing(db: sqlite3.Connection, part: str, scope: _Scope, count: int) -> list[int]:
    """The newest `count` messages that contain the part. The index only proposes; the text says."""
    needle = folded(part)
    found: list[int] = []
    with contextlib.closing(_proposed(db, part, scope)) as rows:
        while len(found) < count and (row := next(rows, None)) is not None:
            if needle in folded(message_text(*row[1:])):
                found.append(row[0])
    return found


def _proposed(db: sqlite3.Connection, part: str, scope: _Scope) -> Generator[_Row]:
    """Every message that may contain the part, newest first."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    read_to = max(0, min(indexed(db), newest - _READ_FIRST))
    yield from _read(db, scope, above=read_to)
    if read_to == 0:
        return
    matches = matches_for_part(db, part)
    if matches is None:
        yield from _read(db, scope, above=0, to=read_to)
        return
    with contextlib.ExitStack() as stack:
        streams = [_matches(db, match, scope, read_to) for match in matches]
        for stream in streams:
            stack.callback(stream.close)
        last = None
        for row in heapq.merge(*streams, key=operator.itemgetter(0), reverse=True):
            if row[0] != last:
                yield row
            last = row[0]


def _matches(db: sqlite3.Connection, match: str, scope: _Scope, to: int) -> sqlite3.Cursor:
    return _matching(
        db,
        f"SELECT m.number, m.form, m.body, m.fields "  # noqa: S608 - no user text
        f"FROM message_index i CROSS JOIN {_MESSAGES} "
        f"WHERE i.message_index MATCH ? AND i.rowid <= ? AND m.number = i.rowid "
        f"AND {scope.condition} ORDER BY i.rowid DESC",
        [match, to, *scope.parameters],
    )


def _hits_of_part(db: sqlite3.Connection, part: str, numbers: Sequence[int]) -> list[Hit]:
    needle = folded(part)
    found = _messages(db, numbers)
    return [
        row.hit(marked(row.text, match_places(row.text, needle)), 1.0)
        for row in (found[number] for number in numbers)
    ]


def match_places(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """Where the first matches start and end."""
    haystack, places = folded(text), folded_places(text)
    start = haystack.find(needle)
    for _ in range(_MOST_MARKS):
        if start < 0:
            return
        yield places[start], places[start + len(needle) - 1] + 1
        start = haystack.find(needle, start + len(needle))


# --- Rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """A message that was found, with its session, as rows."""

    message: Sequence[Any]
    session: Sequence[Any]

    @property
    def text(self) -> str:
        return message_text(*self.message[3:])

    def hit(self, marked: str, score: float) -> Hit:
        return Hit(
            session=session_rows.session(self.session),
            message=content.decode(*self.message),
            snippet=snippet(marked),
            score=score,
        )


def _messages(db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, _Found]:
    rows = db.execute(
        f"SELECT m.number, m.role, m.timestamp, m.form, m.body, m.fields, "  # noqa: S608 - our own
        f"{session_rows.COLUMNS} FROM {_MESSAGES} "
        f"WHERE s.number = m.session AND m.number IN (SELECT value FROM json_each(?))",
        (json.dumps(numbers),),
    )
    return {row[0]: _Found(row[:6], row[6:]) for row in rows}


def _read(db: sqlite3.Connection, scope: _Scope, *, above: int, to: int = 2**62) -> Iterator[_Row]:
    rows = db.execute(
        f"SELECT m.number, m.form, m.body, m.fields FROM {_MESSAGES} "  # noqa: S608 - no user text
        f"WHERE m.number > ? AND m.number <= ? AND {scope.condition} ORDER BY m.number DESC",
        [above, to, *scope.parameters],
    )
    with contextlib.closing(rows):
        yield from rows


def _matching(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
    """A statement with a query of FTS5 in it, which may be beyond what FTS5 can take."""
    try:
        return db.execute(sql, parameters)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise QueryError(
            f"The query is too much for the index: {error}.", hint="Use fewer words or parentheses."
        ) from error


def _scope(asked: Search) -> _Scope:
    condition, parameters = session_rows.where(asked.wanted)
    conditions = ["s.number = m.session", condition]
    for part, value in (
        (
            "m.role IN (SELECT value FROM json_each(?))",
            None if asked.roles is None else json.dumps(asked.roles),
        ),
        ("m.timestamp >= ?", asked.since),
        ("m.timestamp <= ?", asked.until),
    ):
        if value is not None:
            conditions.append(part)
            parameters.append(value)
    bounds = (asked.wanted, asked.roles, asked.since, asked.until)
    everything = bounds == (SessionFilter(), None, None, None)
    return _Scope(condition=" AND ".join(conditions), parameters=parameters, everything=everything)
