"""Full-text search over indexed and not yet indexed messages, merged into one list, best first.

A search reads one snapshot of the store and waits for no other process. All it writes is a cache,
the word list, and only if no other process is writing. `searchable_text` explains how Chinese,
Japanese and Korean text is cut into words.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import heapq
import json
import operator
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from holdfast.model.session import Hit, Search, SessionFilter
from holdfast.stores.sessions import session_rows
from holdfast.stores.sessions.content import Stored, unpacked
from holdfast.stores.sessions.query import Query, Term, parse
from holdfast.stores.sessions.searchable_text import clean, is_word, message_text
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sessions.snippets import FoundRow, marked, marked_words, match_places
from holdfast.stores.sessions.tokenizer import SmallIndex, folded, rarity, too_much
from holdfast.stores.sessions.unindexed_search import WordSearch, parse_part
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.search_index import indexed
from holdfast.stores.sqlite.word_list import IndexWords
from holdfast.value import dataclass

#: To find part of a word, read this many of the newest messages before using the index: frequent
#: words are found there, and going through all words of the index takes longer.
_READ_FIRST = 2_000
#: If a term matches no more messages than this, every match is scored.
_MANY = 5_000
#: The score of a match when matches are not weighed against each other.
_NEXT_TO_NOTHING = 1e-6
# If more words than this contain the part, they are not looked up one by one.
_MOST_WORDS = 1_000
_AT_ONCE = 100
_MESSAGES = f"messages m CROSS JOIN {session_rows.TABLES}"

_Row = tuple[int, int, Stored, Stored]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The messages to search: a condition on `m` and the tables of sessions."""

    condition: str
    parameters: Sequence[Any]
    everything: bool


def search(database: Database, asked: Search) -> Sequence[Hit]:
    """The messages that match a query, best first; among equals, the newest first.

    With `substring`, those that contain the text literally, whatever its case and diacritics,
    newest first.
    """
    scope = _scope(asked)
    if asked.substring:
        part = parse_part(asked.text)
        with database.read() as db:
            words = IndexWords(db)
            numbers = _containing(db, words, part, scope, asked.most)[asked.offset :]
            hits = _hits_of_part(db, part, numbers)
        words.keep(database)
        return hits
    query = parse(asked.text)
    with database.read() as db:
        if _weighs(db, query):
            ranked = _indexed_hits(db, query, scope, asked.most)
            ranked += _recent_hits(db, asked, scope)
        else:
            ranked = _newest_hits(db, query, scope, asked.most)
            ranked += [(_NEXT_TO_NOTHING, number) for _, number in _recent_hits(db, asked, scope)]
        ranked.sort(reverse=True)
        return _hits_of_query(db, query, ranked[asked.offset : asked.most])


def suggestion(database: Database, text: str) -> Sequence[str]:
    """For words of a query that the store does not have, words close to them."""
    words = {folded(clean(term.text)) for term in parse(text).terms()}
    with database.read() as db:
        return [close for word in sorted(words) for close in close_words(db, word)]


# --- Words ----------------------------------------------------------------------------------------


def _weighs(db: sqlite3.Connection, query: Query) -> bool:
    """True if some matches are better than others. A word that half of all messages contain has
    almost no weight. If a query has no other words, its newest matches are as good as all: in a
    large store nobody should wait until the rest is weighed."""
    half = 0
    for term in query.terms():
        if not term.is_plain:
            return True  # counting a phrase takes long
        beyond = _match_after(db, term, half or _MANY)
        if beyond is None:
            return True
        if not half:
            [messages] = db.execute("SELECT count(*) FROM message_index_docsize").fetchone()
            half = messages // 2
            left = half - _MANY - 1
            if left >= 0 and _match_after(db, term, left, above=beyond) is None:
                return True
    return False


def _match_after(db: sqlite3.Connection, term: Term, skipped: int, *, above: int = 0) -> int | None:
    """The number of the message that matches a term after `skipped` other matches; None if there is
    none."""
    row = _matching(
        db,
        "SELECT rowid FROM message_index WHERE message_index MATCH ? AND rowid > ? "
        "LIMIT 1 OFFSET ?",
        [term.to_fts5(), above, skipped],
    ).fetchone()
    return None if row is None else int(row[0])


def _indexed_hits(
    db: sqlite3.Connection, query: Query, scope: _Scope, count: int
) -> list[tuple[float, int]]:
    """Score and number of the best `count` messages in the index."""
    rows = _found(db, query, scope, "i.rank, i.rowid", f"1, 2 DESC LIMIT {int(count)}")
    return [(-rank, number) for rank, number in rows]


def _newest_hits(
    db: sqlite3.Connection, query: Query, scope: _Scope, count: int
) -> list[tuple[float, int]]:
    """The newest `count` matching messages in the index, all with the same score."""
    rows = _found(db, query, scope, "i.rowid", f"i.rowid DESC LIMIT {int(count)}")
    return [(_NEXT_TO_NOTHING, number) for (number,) in rows]


def _found(
    db: sqlite3.Connection, query: Query, scope: _Scope, columns: str, order: str
) -> sqlite3.Cursor:
    joined = "" if scope.everything else f"CROSS JOIN {_MESSAGES}"
    condition = "1" if scope.everything else f"m.number = i.rowid AND {scope.condition}"
    return _matching(
        db,
        f"SELECT {columns} FROM message_index i {joined} "  # noqa: S608 - no user text
        f"WHERE i.message_index MATCH ? AND {condition} ORDER BY {order}",
        [query.to_fts5(), *scope.parameters],
    )


class _RecentSearch(WordSearch[int]):
    """Scores the newest messages, which are not in the index yet. Each term has its weight in the
    whole store: among a few messages alone everything would be rare, or nothing."""

    def __init__(self, asked: Search, db: sqlite3.Connection) -> None:
        super().__init__(asked)
        self._db = db

    def rarity(self, term: Term, found: int) -> float:
        [[indexed]] = _matching(
            self._db,
            "SELECT count(*) FROM message_index WHERE message_index MATCH ?",
            [term.to_fts5()],
        )
        return rarity(self._messages, indexed + found)

    @functools.cached_property
    def _messages(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM messages").fetchone()[0])


def _recent_hits(
    db: sqlite3.Connection, asked: Search, scope: _Scope
) -> Sequence[tuple[float, int]]:
    """Score and number of the best messages that are not in the index yet."""
    newest = indexed(db)
    if db.execute("SELECT 1 FROM messages WHERE number > ?", (newest,)).fetchone() is None:
        return []
    recent = _RecentSearch(asked, db)
    for row in _read(db, scope, above=newest):
        recent.take(row[0], message_text(*row[1:]))
    return recent.best(asked.most)


def _hits_of_query(
    db: sqlite3.Connection, query: Query, ranked: Sequence[tuple[float, int]]
) -> list[Hit]:
    found = _messages(db, [number for _, number in ranked])
    texts = marked_words(query, {number: row.text for number, row in found.items()})
    return [found[number].hit(texts.get(number, ""), score) for score, number in ranked]


# --- Parts of words -------------------------------------------------------------------------------


def _containing(
    db: sqlite3.Connection, words: IndexWords, part: str, scope: _Scope, count: int
) -> list[int]:
    """The newest `count` messages that contain the part. The index only proposes candidates; the
    text of each is checked."""
    needle = folded(part)
    found: list[int] = []
    with contextlib.closing(_proposed(db, words, part, scope)) as rows:
        while len(found) < count and (row := next(rows, None)) is not None:
            if needle in folded(message_text(*row[1:])):
                found.append(row[0])
    return found


def _proposed(
    db: sqlite3.Connection, words: IndexWords, part: str, scope: _Scope
) -> Generator[_Row]:
    """Every message that may contain the part, newest first."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    read_to = max(0, min(indexed(db), newest - _READ_FIRST))
    yield from _read(db, scope, above=read_to)
    if read_to > words.known_to:
        yield from _read(db, scope, above=words.known_to, to=read_to)
        read_to = words.known_to
    if read_to == 0:
        return
    matches = matches_for_part(words, part)
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


# --- The words of the index -----------------------------------------------------------------------


def matches_for_part(index: IndexWords, part: str) -> list[str] | None:
    """Queries that together find every indexed message whose text contains a part.

    They find others too. None if the index cannot narrow it down, so that every message may match.
    """
    with contextlib.closing(SmallIndex()) as small:
        small.add([(1, part)])
        words = small.words(1)
    if not words:
        return None
    goes_on = _may_go_on(part[-1])
    if not _may_go_on(part[0]):
        return [_phrase(words, prefix=goes_on)]
    first, rest = words[0], words[1:]
    # Going through all words with the same first letter costs more than it narrows down.
    following = _phrase(rest, prefix=goes_on) if rest and len("".join(rest)) > 1 else None
    found = index.containing(first, _MOST_WORDS, at_end=bool(rest) or not goes_on)
    if found is None:
        return None if following is None else [following]
    phrases = [_phrase([word], prefix=is_long) for word, is_long in found]
    starts = (" OR ".join(phrases[at : at + _AT_ONCE]) for at in range(0, len(phrases), _AT_ONCE))
    return [f"({start}) AND {following}" if following else start for start in starts]


def close_words(db: sqlite3.Connection, word: str) -> list[str]:
    """For a word that is not in the index, similar words with the same first two letters; the most
    frequent first."""
    if not word.isascii() or not word.isalnum():
        return []
    if db.execute("SELECT 1 FROM index_words WHERE term = ?", (word,)).fetchone():
        return []
    rows = db.execute(
        """
        SELECT term, doc FROM index_words
        WHERE term >= ?1 AND term < ?1 || '{' AND length(term) BETWEEN ?2 - 2 AND ?2 + 2
        """,
        (word[:2], len(word)),
    )
    messages = dict(rows.fetchall())
    close = difflib.get_close_matches(word, messages, n=10, cutoff=0.75)
    return sorted(close, key=lambda term: -messages[term])[:3]


def _may_go_on(character: str) -> bool:
    """True if a word may continue past the edge of a part that has this character there."""
    return not is_word(character) and (character.isalnum() or not character.isascii())


def _phrase(words: list[str], *, prefix: bool) -> str:
    return '"' + " ".join(words) + '"' + ("*" if prefix else "")


# --- Rows -----------------------------------------------------------------------------------------


def _messages(db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, FoundRow]:
    rows = db.execute(
        f"SELECT m.number, m.role, m.timestamp, m.form, m.body, m.fields, "  # noqa: S608 - our own
        f"{session_rows.COLUMNS} FROM {_MESSAGES} "
        f"WHERE s.number = m.session AND m.number {AMONG}",
        (json.dumps(numbers),),
    )
    return {row[0]: FoundRow(unpacked(row[:6]), row[6:]) for row in rows}


def _read(db: sqlite3.Connection, scope: _Scope, *, above: int, to: int = 2**62) -> Iterator[_Row]:
    rows = db.execute(
        f"SELECT m.number, m.form, m.body, m.fields FROM {_MESSAGES} "  # noqa: S608 - no user text
        f"WHERE m.number > ? AND m.number <= ? AND {scope.condition} ORDER BY m.number DESC",
        [above, to, *scope.parameters],
    )
    with contextlib.closing(rows):
        yield from rows


def _matching(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
    """Run a statement with an FTS5 query, which may exceed what FTS5 can take."""
    try:
        return db.execute(sql, parameters)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise too_much(error) from error


def _scope(asked: Search) -> _Scope:
    condition, parameters = session_rows.where(asked.wanted)
    conditions = ["s.number = m.session", condition]
    for part, value in (
        (f"m.role {AMONG}", None if asked.roles is None else json.dumps(asked.roles)),
        ("m.timestamp >= ?", asked.since),
        ("m.timestamp <= ?", asked.until),
    ):
        if value is not None:
            conditions.append(part)
            parameters.append(value)
    bounds = (asked.wanted, asked.roles, asked.since, asked.until)
    everything = bounds == (SessionFilter(), None, None, None)
    return _Scope(condition=" AND ".join(conditions), parameters=parameters, everything=everything)
