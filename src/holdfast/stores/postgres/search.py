"""Full-text search: what is indexed, and what is not yet, as one list, best first.

The index proposes messages, their text decides: it is matched, weighed and shown with the code that
searches the archive, so that hits, scores and snippets are those of every other store. Where very
many messages match, the newest of them are weighed.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.model.session import Hit, Search
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import COLUMNS, MESSAGE_COLUMNS, TABLES, texts, where
from holdfast.stores.postgres.search_words import LONGEST, matching, may_match, phrase, words
from holdfast.stores.sqlite import content, session_rows
from holdfast.stores.sqlite.indexed_text import clean, is_word, marked, message_text, snippet
from holdfast.stores.sqlite.query import Query, Term, parse
from holdfast.stores.sqlite.unindexed_search import (
    WordSearch,
    folded,
    match_places,
    parse_part,
    rarity,
)
from holdfast.value import dataclass

#: So many of the newest messages that match are weighed.
_WEIGHED = 400
_PAGE = 200
#: Counting goes no further: beyond it a term is frequent.
_FREQUENT = 5_000
#: A store with more messages is not counted but estimated, as the server does it.
_MANY = 50_000
# More words than these are not looked up one by one.
_MOST_WORDS = 500
_NEWEST = 2**62

#: A number of a message, and what its text is made of.
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Which messages count: a condition on `m` and the tables of sessions."""

    tables: str
    condition: str
    values: Sequence[Any]


def search(database: Database, asked: Search) -> Sequence[Hit]:
    """The messages that match a query, best first; of equal ones the newest.

    With `substring`, those that contain the text as it stands, whatever its case and diacritics,
    newest first.
    """
    if asked.substring:
        part = parse_part(asked.text)
        with database.read() as db:
            numbers = _containing(db, part, _scope(asked), asked.most)[asked.offset :]
            return _hits_of_part(db, part, numbers)
    query = parse(asked.text)
    with database.read() as db:
        found = _Weighed(asked, db)
        for row in _waiting(db, _scope(asked)):
            found.take(row[0], message_text(*row[1:]))
        proposed = _proposed(db, query, _scope(asked))
        for count in itertools.count(1):
            some = list(itertools.islice(proposed, _PAGE))
            for row in some:
                found.take(row[0], message_text(*row[1:]))
            is_enough = count * _PAGE >= _WEIGHED and len(found.best(asked.most)) >= asked.most
            if len(some) < _PAGE or is_enough:
                break
        return _hits_of_query(db, found, found.best(asked.most)[asked.offset :])


def suggestion(database: Database, text: str) -> Sequence[str]:
    """Words of the store close to those of a query that it does not have."""
    wanted = {folded(clean(term.text)) for term in parse(text).terms()}
    with database.read() as db:
        return [close for word in sorted(wanted) for close in _close_words(db, word)]


# --- Words ----------------------------------------------------------------------------------------


class _Weighed(WordSearch[int]):
    """Weighs messages by terms that are as rare as they are in the whole store."""

    def __init__(self, asked: Search, db: Db) -> None:
        super().__init__(asked)
        self._db = db
        self._counted: dict[Term, int] = {}
        self._messages: int | None = None

    def rarity(self, term: Term, found: int) -> float:
        if term not in self._counted:
            self._counted[term] = _count(self._db, term)
        if self._messages is None:
            self._messages = _messages(self._db)
        return rarity(max(self._messages, found), max(found, self._counted[term]))


def _count(db: Db, term: Term) -> int:
    """How many messages of the index have a term; what is frequent is not counted to its end."""
    condition, values = _matches(term)
    [[count]] = db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM message_words w WHERE {condition} LIMIT %s) AS few",  # noqa: S608
        [*values, _FREQUENT],
    ).rows
    return int(count)


def _messages(db: Db) -> int:
    [[about]] = db.execute(
        "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'messages'::regclass"
    ).rows
    if about > _MANY:
        return int(about)
    [[count]] = db.execute("SELECT count(*) FROM messages").rows
    return int(count)


def _matches(query: Query) -> tuple[str, list[Any]]:
    """A condition on `message_words w` that holds for every message which may match."""
    exact, may = matching(query), may_match(query)
    if exact == may:
        return "(w.words @@ %s::tsquery OR NOT w.whole)", [exact]
    condition = "(w.words @@ %s::tsquery OR NOT w.exact AND w.words @@ %s::tsquery OR NOT w.whole)"
    return condition, [exact, may]


def _proposed(db: Db, query: Query, scope: _Scope) -> Iterator[_Row]:
    condition, values = _matches(query)
    return _indexed(db, condition, values, scope)


def _hits_of_query(
    db: Db, found: WordSearch[int], ranked: Sequence[tuple[float, int]]
) -> list[Hit]:
    rows = _found(db, [number for _, number in ranked])
    shown = found.marked({number: row.text for number, row in rows.items()})
    return [
        rows[number].hit(shown.get(number, ""), score) for score, number in ranked if number in rows
    ]


# --- Parts of words -------------------------------------------------------------------------------


def _containing(db: Db, part: str, scope: _Scope, count: int) -> list[int]:
    """The newest `count` messages that contain the part. The index only proposes; the text says."""
    needle = folded(part)
    proposed = query_for_part(db, part)
    indexed = (
        _stored(db, scope)
        if proposed is None
        else _indexed(db, "(w.words @@ %s::tsquery OR NOT w.whole)", [proposed], scope)
    )
    rows = heapq.merge(_waiting(db, scope), indexed, key=operator.itemgetter(0), reverse=True)
    found: list[int] = []
    for row in rows:
        if len(found) >= count:
            break
        if (not found or found[-1] != row[0]) and needle in folded(message_text(*row[1:])):
            found.append(row[0])
    return found


def query_for_part(db: Db, part: str) -> str | None:
    """A query that finds every indexed message whose text contains a part, and more than those.
    None: the index cannot say, every message may."""
    cut = words(part)
    if not cut:
        return None
    goes_on = _may_go_on(part[-1])
    if not _may_go_on(part[0]):
        return phrase(cut, prefix=goes_on, exact=False)
    first, rest = cut[0], cut[1:]
    # To go through all words with the same first letter costs more than it narrows down.
    following = (
        phrase(rest, prefix=goes_on, exact=False) if rest and len("".join(rest)) > 1 else None
    )
    found = _words_with(db, first, at_end=bool(rest) or not goes_on)
    if found is None:
        return following
    if not found:
        return "'holdfast nothing has this word'"
    starts = "(" + " | ".join(phrase([word], prefix=False, exact=True) for word in found) + ")"
    return f"{starts} & {following}" if following else starts


def _words_with(db: Db, part: str, *, at_end: bool) -> list[str] | None:
    """The words of the index that contain a part; None if they are too many."""
    condition = "right(v.word, %s) = %s" if at_end else "position(%s IN v.word) > 0"
    values: list[Any] = [len(part), part] if at_end else [part]
    groups = [part[place : place + 3] for place in range(len(part) - 2)]
    if groups:
        condition += " AND v.parts @> %s::text[]"
        values.append(groups)
    rows = db.execute(
        f"""
        (SELECT v.word FROM vocabulary v WHERE {condition} LIMIT %s)
        UNION
        (SELECT v.word FROM vocabulary v WHERE length(v.word) >= {LONGEST} LIMIT %s)
        """,  # noqa: S608 - no user text
        [*values, _MOST_WORDS + 1, _MOST_WORDS + 1],
    ).rows
    return None if len(rows) > _MOST_WORDS else [word for (word,) in rows]


def _close_words(db: Db, word: str) -> list[str]:
    """Words of the index close to one that it does not have, of those that start alike; the most
    frequent first."""
    if not word.isascii() or not word.isalnum():
        return []
    if db.execute("SELECT 1 FROM vocabulary WHERE word = %s", (word,)).first:
        return []
    rows = db.execute(
        """
        SELECT word FROM vocabulary
        WHERE word >= %s AND word < %s AND length(word) BETWEEN %s AND %s
        """,
        (word[:2], word[:2] + "{", len(word) - 2, len(word) + 2),
    )
    close = difflib.get_close_matches(word, [term for (term,) in rows], n=10, cutoff=0.75)
    return sorted(close, key=lambda term: -_count(db, Term(text=term)))[:3]


def _may_go_on(character: str) -> bool:
    """Whether a word may reach across the edge of a part that has this character there."""
    return not is_word(character) and (character.isalnum() or not character.isascii())


def _hits_of_part(db: Db, part: str, numbers: Sequence[int]) -> list[Hit]:
    needle = folded(part)
    found = _found(db, numbers)
    return [
        row.hit(marked(row.text, match_places(row.text, needle)), 1.0)
        for row in (found[number] for number in numbers)
    ]


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


def _found(db: Db, numbers: Sequence[int]) -> dict[int, _Found]:
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS}, {COLUMNS} FROM messages m "  # noqa: S608 - our own names
        f"JOIN ({TABLES}) ON s.number = m.session WHERE m.number = ANY(%s::bigint[])",
        (list(numbers),),
    )
    return {row[0]: _Found(row[:6], row[6:]) for row in rows}


def _waiting(db: Db, scope: _Scope) -> Iterator[_Row]:
    """Messages that are not in the index yet, newest first."""
    joined = "unindexed w JOIN messages m ON m.number = w.message"
    return _pages(db, joined, "w.message", "true", [], scope)


def _indexed(db: Db, condition: str, values: Sequence[Any], scope: _Scope) -> Iterator[_Row]:
    joined = "message_words w JOIN messages m ON m.number = w.message"
    return _pages(db, joined, "w.message", condition, values, scope)


def _stored(db: Db, scope: _Scope) -> Iterator[_Row]:
    return _pages(db, "messages m", "m.number", "true", [], scope)


def _pages(
    db: Db, joined: str, number: str, condition: str, values: Sequence[Any], scope: _Scope
) -> Iterator[_Row]:
    """Newest first, page by page: who looks for a few need not read all."""
    statement = (
        f"SELECT m.number, m.form, m.body, m.fields FROM {joined}{scope.tables} "  # noqa: S608
        f"WHERE {condition} AND {scope.condition} AND {number} < %s "
        f"ORDER BY {number} DESC LIMIT %s"
    )
    below = _NEWEST
    while True:
        rows = db.execute(statement, [*values, *scope.values, below, _PAGE]).rows
        yield from rows
        if len(rows) < _PAGE:
            return
        below = rows[-1][0]


def _scope(asked: Search) -> _Scope:
    condition, values = where(asked.wanted)
    conditions = [condition]
    for part, value in (
        ("m.role = ANY(%s::text[])", None if asked.roles is None else texts(asked.roles)),
        ("m.timestamp >= %s", asked.since),
        ("m.timestamp <= %s", asked.until),
    ):
        if value is not None:
            conditions.append(part)
            values.append(value)
    everything = condition == "true"
    return _Scope(
        tables="" if everything else f" JOIN ({TABLES}) ON s.number = m.session",
        condition=" AND ".join(conditions),
        values=values,
    )
