"""Search in a Hermes home, with the results that a home of ours would give.

Hermes's table of words takes a run of Chinese, Japanese or Thai for one word, Latin letters inside
the run too. So the table answers what it can, and the messages that it cannot answer for are read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from holdfast.errors import QueryError
from holdfast.homes.hermes.state_db import search_reading, values
from holdfast.homes.hermes.state_db.rows import dicts, sessions_table, taken_back, where
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.search_reading import Row, Scope
from holdfast.model.search import Search
from holdfast.model.session import Hit, Session
from holdfast.stores.sqlite.query import Either, Every, Query, Term, parse
from holdfast.stores.sqlite.search_text import has_unspaced

_WORDS = "messages_fts"
#: How many words of a message are shown around what was found.
_SNIPPET_WORDS = 24


def found(db: sqlite3.Connection, schema: Schema, asked: Search) -> list[Row]:
    """Number, session, score and snippet of the messages that match, best first; with `substring`
    the newest first."""
    scope = _scope(schema, asked)
    if asked.substring or _WORDS not in schema.search_tables:
        return search_reading.found(db, schema, scope, asked)[asked.offset :]
    query = parse(asked.text)
    if _excludes(query) or any(has_unspaced(term.text) for term in query.terms()):
        return search_reading.found(db, schema, scope, asked)[asked.offset :]
    rows = _indexed(db, query, scope, asked)
    rows += search_reading.run_together(db, schema, scope, asked, to_fts5(query), query)
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
        Hit(session=sessions[name], message=messages[number], snippet=snippet, score=score)
        for number, name, score, snippet in rows
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
                   snippet({_WORDS}, 0, '[', ']', '…', {_SNIPPET_WORDS})
            FROM {_WORDS} i JOIN messages m ON m.id = i.rowid
            WHERE {_WORDS} MATCH ? AND {scope.condition}
            ORDER BY i.rank, m.id DESC LIMIT ?
            """,  # noqa: S608 - no user text
            [to_fts5(query), *scope.parameters, asked.most],
        ).fetchall()
    except sqlite3.OperationalError as error:
        raise QueryError(
            f"The query is too much for the index: {error}.", hint="Use fewer words or parentheses."
        ) from error
    return [tuple(row) for row in rows]


def _excludes(query: Query) -> bool:
    """Whether it has a NOT: what the table of words does not see would not be excluded."""
    match query:
        case Term():
            return False
        case Either():
            return any(map(_excludes, query.parts))
        case Every():
            return bool(query.without) or any(map(_excludes, query.parts))


def to_fts5(query: Query) -> str:
    """A query without NOT in the language of Hermes's index, each word as it stands."""
    match query:
        case Term():
            return _quoted(query.text) + ("*" if query.prefix else "")
        case Either():
            return "(" + " OR ".join(map(to_fts5, query.parts)) + ")"
        case Every():
            return "(" + " AND ".join(map(to_fts5, query.parts)) + ")"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'
