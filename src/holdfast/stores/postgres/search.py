"""Full-text search over indexed and not yet indexed messages, merged into one list, best first.

The index proposes messages, and their text decides. The text is matched, scored and shown by the
code that searches the archive, so hits, scores and snippets are those of every other store. If very
many messages match, only the newest of them are scored.
"""

from __future__ import annotations

import difflib
import heapq
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.model.session import Hit, Search
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import COLUMNS, MESSAGE_COLUMNS, TABLES, texts, where
from holdfast.stores.postgres.search_words import LONGEST, matching, may_match, phrase, words
from holdfast.stores.sessions.query import Query, Term, parse
from holdfast.stores.sessions.searchable_text import clean, is_word, message_text
from holdfast.stores.sessions.snippets import FoundRow, marked, match_places
from holdfast.stores.sessions.tokenizer import folded, rarity
from holdfast.stores.sessions.unindexed_search import WordSearch, parse_part
from holdfast.value import dataclass

#: Scoring stops after this many of the newest messages, if that gives enough hits.
_WEIGHED = 400
_PAGE = 200
#: Counting stops here: a term with more messages is frequent.
_FREQUENT = 1_000
#: To find part of a word, read this many of the newest messages before using the index: frequent
#: words are found there.
_READ_FIRST = 2_000
#: A larger store's messages are not counted; the server's estimate is used.
_MANY = 50_000
#: This many of the newest messages are searched before the index as a whole.
_RECENT = 10_000
# If more words than this contain the part, they are not looked up one by one.
_MOST_WORDS = 2_000
_NEWEST = 2**62

#: The number of a message, and the columns of its text.
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The messages to search: a condition on `m` and the tables of sessions."""

    tables: str
    condition: str
    values: Sequence[Any]


def search(database: Database, asked: Search) -> Sequence[Hit]:
    """The messages that match a query, best first; among equals, the newest first.

    With `substring`, those that contain the text literally, whatever its case and diacritics,
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

        def is_enough() -> bool:
            return len(found.best(asked.most)) >= asked.most

        for count, row in enumerate(_proposed(db, query, _scope(asked), is_enough), start=1):
            found.take(row[0], message_text(*row[1:]))
            if count >= _WEIGHED and count % _PAGE == 0 and is_enough():
                break
        return _hits_of_query(db, found, found.best(asked.most)[asked.offset :])


def suggestion(database: Database, text: str) -> Sequence[str]:
    """For words of a query that the store does not have, words close to them."""
    wanted = {folded(clean(term.text)) for term in parse(text).terms()}
    with database.read() as db:
        return [close for word in sorted(wanted) for close in _close_words(db, word)]


# --- Words ----------------------------------------------------------------------------------------


class _Weighed(WordSearch[int]):
    """Scores messages by the rarity that terms have in the whole store."""

    def __init__(self, asked: Search, db: Db) -> None:
        super().__init__(asked)
        self._db = db
        self._counted: dict[Term, int] = {}
        self._messages: int | None = None

    def rarity(self, term: Term, found: int) -> float:
        if len(self._terms) == 1:  # its rarity is the same for all matches
            return rarity(self._total, found)
        if term not in self._counted:
            self._counted[term] = _count(self._db, term)
        if self._messages is None:
            self._messages = _messages(self._db)
        return rarity(max(self._messages, found), max(found, self._counted[term]))


def _count(db: Db, term: Term) -> int:
    """The number of messages in the index with a term, counted up to `_FREQUENT`."""
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
    """A condition on `message_words w` that is true for every message that may match."""
    exact, may = matching(query), may_match(query)
    if exact == may:
        return "(w.words @@ %s::tsquery OR NOT w.whole)", [exact]
    condition = "(w.words @@ %s::tsquery OR NOT w.exact AND w.words @@ %s::tsquery OR NOT w.whole)"
    return condition, [exact, may]


def _proposed(db: Db, query: Query, scope: _Scope, is_enough: Callable[[], bool]) -> Iterator[_Row]:
    """Every indexed message that may match, newest first.

    First the newest messages of all, one by one: frequent words are found there. Then all others at
    once, using only the index. Left to itself, the planner treats every word without statistics as
    frequent.

    For phrases the index has to check every message that contains their words, so it is not used if
    the newest messages are enough.
    """
    condition, values = _matches(query)
    [[floor]] = db.execute(
        "SELECT coalesce(max(message), 0) - %s FROM message_words", (_RECENT,)
    ).rows
    newest = f"SELECT w.message FROM message_words w{{0}} WHERE {condition} AND w.message > {floor}"  # noqa: S608
    older = f"SELECT w.message FROM message_words w WHERE {condition} AND w.message <= {floor}"  # noqa: S608
    yield from _indexed(db, newest, values, scope)
    if any(len(words(term.text)) > 1 for term in query.terms()) and is_enough():
        return
    others = f"WITH w AS MATERIALIZED ({older}) SELECT w.message FROM w{{0}} WHERE true"  # noqa: S608
    yield from _indexed(db, others, values, scope)


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
    """The newest `count` messages that contain the part. The index only proposes candidates; the
    text of each is checked."""
    needle = folded(part)
    found: list[int] = []
    for row in _in_order(db, part, scope):
        if len(found) >= count:
            break
        if needle in folded(message_text(*row[1:])):
            found.append(row[0])
    return found


def _in_order(db: Db, part: str, scope: _Scope) -> Iterator[_Row]:
    """Every message that may contain the part, newest first, without duplicates."""
    [[read_to]] = db.execute(
        "SELECT coalesce(min(number), 0) FROM "
        "(SELECT number FROM messages ORDER BY number DESC LIMIT %s) newest",
        (_READ_FIRST,),
    ).rows
    yield from _stored(db, scope, above=read_to - 1)
    queries = queries_for_part(db, part)
    if queries is None:
        yield from _stored(db, scope, below=read_to)
        return
    # Word by word: for a long list of words the planner would choose to read everything.
    proposed = """
        SELECT DISTINCT w.message FROM (
            SELECT i.message FROM unnest(%s::text[]) q JOIN message_words i ON i.words @@ q::tsquery
            UNION ALL SELECT message FROM message_words WHERE NOT whole
        ) w{0} WHERE true
    """
    indexed = _indexed(db, proposed, [queries], scope, below=read_to)
    waiting = _waiting(db, scope, below=read_to)
    last = None
    for row in heapq.merge(waiting, indexed, key=operator.itemgetter(0), reverse=True):
        if row[0] != last:
            yield row
        last = row[0]


def queries_for_part(db: Db, part: str) -> Sequence[str] | None:
    """Queries that together find every indexed message whose text contains a part, and others. None
    if the index cannot narrow it down, so that every message may match."""
    cut = words(part)
    if not cut:
        return None
    goes_on = _may_go_on(part[-1])
    if not _may_go_on(part[0]):
        return [phrase(cut, prefix=goes_on, exact=False)]
    first, rest = cut[0], cut[1:]
    # Going through all words with the same first letter costs more than it narrows down.
    following = (
        phrase(rest, prefix=goes_on, exact=False) if rest and len("".join(rest)) > 1 else None
    )
    found = _words_with(db, first, at_end=bool(rest) or not goes_on)
    if found is None:
        return None if following is None else [following]
    starts = [phrase([word], prefix=False, exact=True) for word in found]
    return [f"{start} & {following}" for start in starts] if following else starts


def _words_with(db: Db, part: str, *, at_end: bool) -> list[str] | None:
    """The words of the index that contain a part; None if there are too many."""
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
    """For a word that is not in the index, similar words with the same first two letters; the most
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
    """True if a word may continue past the edge of a part that has this character there."""
    return not is_word(character) and (character.isalnum() or not character.isascii())


def _hits_of_part(db: Db, part: str, numbers: Sequence[int]) -> list[Hit]:
    needle = folded(part)
    found = _found(db, numbers)
    return [
        row.hit(marked(row.text, match_places(row.text, needle)), 1.0)
        for row in (found[number] for number in numbers)
    ]


# --- Rows -----------------------------------------------------------------------------------------


def _found(db: Db, numbers: Sequence[int]) -> dict[int, FoundRow]:
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS}, {COLUMNS} FROM messages m "  # noqa: S608 - our own names
        f"JOIN ({TABLES}) ON s.number = m.session WHERE m.number = ANY(%s::bigint[])",
        (list(numbers),),
    )
    return {row[0]: FoundRow(row[:6], row[6:]) for row in rows}


def _waiting(db: Db, scope: _Scope, *, below: int = _NEWEST) -> Iterator[_Row]:
    """Messages that are not in the index yet, newest first."""
    return _indexed(db, "SELECT w.message FROM unindexed w{0} WHERE true", [], scope, below=below)


def _indexed(
    db: Db, proposed: str, values: Sequence[Any], scope: _Scope, *, below: int = _NEWEST
) -> Iterator[_Row]:
    """The messages whose numbers a query proposes, newest first. Numbers are fetched first, and
    texts in small batches: a caller that needs only a few hits does not read them all."""
    joined = scope.tables and f" JOIN messages m ON m.number = w.message{scope.tables}"
    statement = (
        f"{proposed.format(joined)} AND {scope.condition} AND w.message < %s "
        "ORDER BY w.message DESC LIMIT %s"
    )
    while True:
        chosen = db.execute(statement, [*values, *scope.values, below, _WEIGHED]).rows
        numbers = [number for (number,) in chosen]
        for first in range(0, len(numbers), _PAGE):
            yield from db.execute(
                "SELECT number, form, body, fields FROM messages "
                "WHERE number = ANY(%s::bigint[]) ORDER BY number DESC",
                [numbers[first : first + _PAGE]],
            )
        if len(numbers) < _WEIGHED:
            return
        below = numbers[-1]


def _stored(db: Db, scope: _Scope, *, above: int = -1, below: int = _NEWEST) -> Iterator[_Row]:
    """The messages between two numbers, newest first."""
    statement = (
        f"SELECT m.number, m.form, m.body, m.fields FROM messages m{scope.tables} "  # noqa: S608
        f"WHERE {scope.condition} AND m.number > %s AND m.number < %s "
        "ORDER BY m.number DESC LIMIT %s"
    )
    while True:
        rows = db.execute(statement, [*scope.values, above, below, _PAGE]).rows
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
    everything = conditions == ["true"]
    return _Scope(
        tables="" if everything else f" JOIN ({TABLES}) ON s.number = m.session",
        condition=" AND ".join(conditions),
        values=values,
    )
