"""Search in a Hermes home by reading its messages, by the rules of our own index."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.homes.hermes.state_db import values
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.search import Search
from holdfast.stores.sqlite.query import Either, Every, Query, Term
from holdfast.stores.sqlite.search_text import has_unspaced, snippet
from holdfast.stores.sqlite.seeking import Seeker, SoughtWords, searched_text, seeker

#: Number, session, score and snippet of a message.
Row: TypeAlias = tuple[int, str, float, str]
#: When a message was said, its number, and its session. Of equal ones the newest comes first.
_Place: TypeAlias = tuple[float, int, str]

_WORDS, _PIECES = "messages_fts", "messages_fts_trigram"
#: The least that Hermes's table of pieces can find.
_SHORTEST_PIECE = 3
_WORD = re.compile("[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which messages count: a condition on `m`."""

    condition: str
    parameters: Sequence[Any]


def found(db: sqlite3.Connection, schema: Schema, scope: Scope, asked: Search) -> list[Row]:
    """The best matches among all messages of a scope."""
    seeking: Seeker[_Place] = seeker(asked)
    for place, text in _texts(db, schema, scope.condition, scope.parameters):
        seeking.take(place, text)
    return _best(db, schema, seeking, asked)


def run_together(
    db: sqlite3.Connection, schema: Schema, scope: Scope, asked: Search, match: str, query: Query
) -> list[Row]:
    """The matches in which a word stands against a script without spaces, as in 用docker部署: to
    Hermes's table of words that is one word. `match` is the query in the language of that table."""
    condition = f"m.id NOT IN (SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH ?)"  # noqa: S608 - our own names
    parameters: list[Any] = [match]
    pieces = _pieces(query) if _PIECES in schema.search_tables else None
    if pieces is not None:
        condition += f" AND m.id IN (SELECT rowid FROM {_PIECES} WHERE {_PIECES} MATCH ?)"  # noqa: S608 - our own names
        parameters.append(pieces)
    seeking: SoughtWords[_Place] = SoughtWords(asked)
    for place, text in _texts(
        db, schema, f"{condition} AND {scope.condition}", [*parameters, *scope.parameters]
    ):
        if has_unspaced(text):
            seeking.take(place, text)
    return _best(db, schema, seeking, asked)


def _pieces(query: Query) -> str | None:
    """A query that Hermes's table of pieces answers with every match of this one, and with others.
    None when it cannot: it has no pieces of short words, and keeps diacritics that ours drops."""
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
    db: sqlite3.Connection, schema: Schema, seeking: Seeker[_Place], asked: Search
) -> list[Row]:
    """What is shown is read once more: no text was kept."""
    best = seeking.best(asked.most)
    chosen = json.dumps([number for _, (_, number, _) in best])
    among = "m.id IN (SELECT value FROM json_each(?))"
    texts = {place[1]: text for place, text in _texts(db, schema, among, [chosen])}
    marks = seeking.marked(texts)
    return [
        (number, session, score, snippet(marks.get(number, "")))
        for score, (_, number, session) in best
    ]
