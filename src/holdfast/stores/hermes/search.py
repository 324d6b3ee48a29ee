"""Search in Hermes's own search tables; where it has none, in the messages themselves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import QueryError
from holdfast.model.search import Search
from holdfast.model.session import Hit, Session
from holdfast.stores.hermes import values
from holdfast.stores.hermes.rows import dicts, sessions_table
from holdfast.stores.hermes.schema import Schema
from holdfast.stores.sqlite.query import Either, Every, Query, Term, parse, parse_part
from holdfast.stores.sqlite.session_rows import where

_WORDS, _PARTS = "messages_fts", "messages_fts_trigram"
#: The least that Hermes's table of three-letter pieces can find.
_SHORTEST_PIECE = 3
_AROUND = 60
#: How many words of a message are shown around what was found.
_SNIPPET_WORDS = 24


def found(
    db: sqlite3.Connection, schema: Schema, asked: Search
) -> list[tuple[int, str, float, str]]:
    """Number, session, score and snippet of the messages that match, best first; with `substring`
    the newest first."""
    condition, parameters = _scope(schema, asked)
    if asked.substring:
        rows = _containing(db, schema, parse_part(asked.text), condition, parameters, asked)
    else:
        rows = _matching(db, schema, parse(asked.text), condition, parameters, asked)
    return rows[asked.offset :]


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


def _scope(schema: Schema, asked: Search) -> tuple[str, list[Any]]:
    """A condition on messages `m`."""
    condition, parameters = where(asked.wanted)
    parts = []
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
    return " AND ".join(parts) or "1", parameters


def _matching(
    db: sqlite3.Connection,
    schema: Schema,
    query: Query,
    condition: str,
    parameters: Sequence[Any],
    asked: Search,
) -> list[tuple[int, str, float, str]]:
    if _WORDS not in schema.search_tables:
        raise QueryError(
            "This Hermes home has no index of words.", hint="Search for a part of a word: --part."
        )
    try:
        rows = db.execute(
            f"""
            SELECT m.id, m.session_id, -i.rank,
                   snippet({_WORDS}, 0, '[', ']', '…', {_SNIPPET_WORDS})
            FROM {_WORDS} i JOIN messages m ON m.id = i.rowid
            WHERE {_WORDS} MATCH ? AND {condition}
            ORDER BY i.rank, m.id DESC LIMIT ?
            """,  # noqa: S608 - no user text
            [to_fts5(query), *parameters, asked.most],
        ).fetchall()
    except sqlite3.OperationalError as error:
        raise QueryError(
            f"The query is too much for the index: {error}.", hint="Use fewer words or parentheses."
        ) from error
    return [tuple(row) for row in rows]


def _containing(
    db: sqlite3.Connection,
    schema: Schema,
    part: str,
    condition: str,
    parameters: Sequence[Any],
    asked: Search,
) -> list[tuple[int, str, float, str]]:
    """With the table of pieces, those messages that have all of them; then each is looked at."""
    source, first = "messages m", []
    if _PARTS in schema.search_tables and len(part) >= _SHORTEST_PIECE:
        source = f"{_PARTS} i JOIN messages m ON m.id = i.rowid AND {_PARTS} MATCH ?"
        first = [_quoted(part)]
    rows = db.execute(
        f"""
        SELECT m.id, m.session_id, m.content, m.tool_name, m.tool_calls FROM {source}
        WHERE {condition} ORDER BY m.timestamp DESC, m.id DESC
        """,  # noqa: S608 - no user text
        [*first, *parameters],
    )
    found: list[tuple[int, str, float, str]] = []
    for number, name, *texts in rows:
        text = " ".join(str(each) for each in texts if each)
        place = text.casefold().find(part.casefold())
        if place >= 0:
            found.append((number, name, 1.0, _snippet(text, place, len(part))))
            if len(found) >= asked.most:
                break
    return found


def to_fts5(query: Query) -> str:
    """A query in the language of Hermes's index, each word as it stands."""
    match query:
        case Term():
            return _quoted(query.text) + ("*" if query.prefix else "")
        case Either():
            return "(" + " OR ".join(map(to_fts5, query.parts)) + ")"
        case Every():
            wanted = "(" + " AND ".join(map(to_fts5, query.parts)) + ")"
            if not query.without:
                return wanted
            return f"({wanted} NOT ({' OR '.join(map(to_fts5, query.without))}))"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


def _snippet(text: str, place: int, length: int) -> str:
    begin, end = max(0, place - _AROUND), place + length + _AROUND
    before = ("…" if begin else "") + text[begin:place]
    after = text[place + length : end] + ("…" if end < len(text) else "")
    return f"{before}[{text[place : place + length]}]{after}"
