"""Search in a Hermes home, with the same results as in a home of ours.

Hermes's word table treats a run of Chinese, Japanese or Thai as one word, including Latin letters
inside it. So the table finds what it can, and messages that it may miss are read.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.homes.hermes.state_db import values
from holdfast.homes.hermes.state_db.rows import sessions_table, taken_back, where
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.session import Hit, Search, Session
from holdfast.stores.sessions.query import Either, Every, Query, Term, parse
from holdfast.stores.sessions.searchable_text import MATCH_ENDS, MATCH_STARTS, has_unspaced
from holdfast.stores.sessions.snippets import bracketed, snippet
from holdfast.stores.sessions.tokenizer import too_much
from holdfast.stores.sessions.unindexed_search import (
    TextSearch,
    WordSearch,
    searched_text,
    text_search,
)
from holdfast.stores.sqlite.foreign import dicts
from holdfast.value import dataclass

#: Number, session, score and snippet of a message; matches are marked in the snippet.
Row: TypeAlias = tuple[int, str, float, str]
#: The time, number and session of a message. Among equal scores the newest comes first.
_Place: TypeAlias = tuple[float, int, str]

_PIECES = "messages_fts_trigram"
#: The shortest string that the trigram table can find.
_SHORTEST_PIECE = 3
_WORD = re.compile("[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The messages to search: a condition on `m`."""

    condition: str
    parameters: Sequence[Any]


_WORDS = "messages_fts"
#: How many words of a message are shown around a match.
_SNIPPET_WORDS = 24


def found(db: sqlite3.Connection, schema: Schema, asked: Search) -> list[Row]:
    """Number, session, score and snippet of the matching messages, best first; with `substring`
    newest first."""
    scope = _scope(schema, asked)
    if asked.substring or _WORDS not in schema.search_tables:
        return read_through(db, schema, scope, asked)[asked.offset :]
    query = parse(asked.text)
    if _excludes(query) or any(has_unspaced(term.text) for term in query.terms()):
        return read_through(db, schema, scope, asked)[asked.offset :]
    rows = _indexed(db, query, scope, asked)
    rows += run_together(db, schema, scope, asked, query)
    rows.sort(key=lambda row: (row[2], row[0]), reverse=True)
    return rows[asked.offset : asked.most]


def hits(
    db: sqlite3.Connection,
    rows: Sequence[tuple[int, str, float, str]],
    sessions: Mapping[str, Session],
) -> list[Hit]:
    raw = dicts(
        db.execute(
            "SELECT * FROM messages WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps([number for number, *_ in rows]),),
        )
    )
    messages = {row["id"]: values.message(row) for row in raw}
    return [
        Hit(
            session=sessions[name],
            message=messages[number],
            snippet=shown,
            score=score,
            matches=matches,
        )
        for number, name, score, line in rows
        for shown, matches in [bracketed(line)]
    ]


def _scope(schema: Schema, asked: Search) -> Scope:
    condition, parameters = where(asked.wanted)
    gone = taken_back(schema)
    parts = [] if gone is None else [f"{gone} IS NOT TRUE"]
    if condition != "1":
        parts.append(
            f"m.session_id IN (SELECT s.id FROM {sessions_table(schema)} WHERE {condition})"  # noqa: S608 - no user text
        )
    if asked.roles is not None:
        parts.append("m.role IN (SELECT value FROM json_each(?))")
        parameters.append(json.dumps(asked.roles))
    for sign, bound in ((">=", asked.since), ("<=", asked.until)):
        if bound is not None:
            parts.append(f"m.timestamp {sign} ?")
            parameters.append(bound)
    return Scope(condition=" AND ".join(parts) or "1", parameters=parameters)


def _indexed(db: sqlite3.Connection, query: Query, scope: Scope, asked: Search) -> list[Row]:
    try:
        rows = db.execute(
            f"""
            SELECT m.id, m.session_id, -i.rank,
                   snippet({_WORDS}, 0, '{MATCH_STARTS}', '{MATCH_ENDS}', '…', {_SNIPPET_WORDS})
            FROM {_WORDS} i JOIN messages m ON m.id = i.rowid
            WHERE {_WORDS} MATCH ? AND {scope.condition}
            ORDER BY i.rank, m.id DESC LIMIT ?
            """,  # noqa: S608 - no user text
            [query.to_fts5(_quoted), *scope.parameters, asked.most],
        ).fetchall()
    except sqlite3.OperationalError as error:
        raise too_much(error) from error
    return [tuple(row) for row in rows]


def _excludes(query: Query) -> bool:
    """True if the query contains NOT: the word table would not exclude words that it does not
    see."""
    match query:
        case Term():
            return False
        case Either():
            return any(map(_excludes, query.parts))
        case Every():
            return bool(query.without) or any(map(_excludes, query.parts))


def _quoted(text: str) -> str:
    """A word quoted for Hermes's index."""
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


# --- Reading the messages, by the rules of our own index ------------------------------------------


def read_through(db: sqlite3.Connection, schema: Schema, scope: Scope, asked: Search) -> list[Row]:
    """The best matches among all messages of a scope."""
    seeking: TextSearch[_Place] = text_search(asked)
    for place, text in _texts(db, schema, scope.condition, scope.parameters):
        seeking.take(place, text)
    return _best(db, schema, seeking, asked)


def run_together(
    db: sqlite3.Connection, schema: Schema, scope: Scope, asked: Search, query: Query
) -> list[Row]:
    """The matches where a word is next to a script without spaces, as in 用docker部署: Hermes's
    word table treats that as one word."""
    condition = f"m.id NOT IN (SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH ?)"  # noqa: S608 - our own names
    parameters: list[Any] = [query.to_fts5(_quoted)]
    pieces = _pieces(query) if _PIECES in schema.search_tables else None
    if pieces is not None:
        condition += f" AND m.id IN (SELECT rowid FROM {_PIECES} WHERE {_PIECES} MATCH ?)"  # noqa: S608 - our own names
        parameters.append(pieces)
    seeking: WordSearch[_Place] = WordSearch(asked)
    for place, text in _texts(
        db, schema, f"{condition} AND {scope.condition}", [*parameters, *scope.parameters]
    ):
        if has_unspaced(text):
            seeking.take(place, text)
    return _best(db, schema, seeking, asked)


def _pieces(query: Query) -> str | None:
    """A query for Hermes's trigram table that finds every match of this one, and maybe more. None
    if there is no such query: the table cannot find short words, and keeps diacritics that ours
    drops."""
    match query:
        case Term():
            words = _WORD.findall(query.text)
            known = [f'"{word}"' for word in words if len(word) >= _SHORTEST_PIECE]
            return " AND ".join(known) or None
        case Either():
            parts = [_pieces(part) for part in query.parts]
            known = [f"({part})" for part in parts if part is not None]
            return " OR ".join(known) if len(known) == len(parts) else None
        case Every():
            some = [part for part in map(_pieces, query.parts) if part is not None]
            return " AND ".join(f"({part})" for part in some) or None


def _texts(
    db: sqlite3.Connection, schema: Schema, condition: str, parameters: Sequence[Any]
) -> Iterator[tuple[_Place, str]]:
    reasoning = "m.reasoning" if schema.has("messages", "reasoning") else "NULL"
    rows = db.execute(
        f"""
        SELECT m.timestamp, m.id, m.session_id, m.content, m.tool_name, m.tool_calls, {reasoning}
        FROM messages m WHERE {condition}
        """,  # noqa: S608 - no user text
        parameters,
    )
    for moment, number, session, content, tool_name, tool_calls, reason in rows:
        place = (moment if isinstance(moment, int | float) else 0.0, number, session)
        calls = values.loaded(tool_calls)
        yield place, searched_text(values.content(content), tool_name, calls, reason)


def _best(
    db: sqlite3.Connection, schema: Schema, seeking: TextSearch[_Place], asked: Search
) -> list[Row]:
    """The best matches, with snippets. Their texts are read again, because none were kept."""
    best = seeking.best(asked.most)
    chosen = json.dumps([number for _, (_, number, _) in best])
    among = "m.id IN (SELECT value FROM json_each(?))"
    texts = {place[1]: text for place, text in _texts(db, schema, among, [chosen])}
    marks = seeking.marked(texts)
    return [
        (number, session, score, snippet(marks.get(number, "")))
        for score, (_, number, session) in best
    ]
