"""Sessions of Hermes out of its database, and back in, in its own rows.

Hermes's triggers do their work: what is deleted leaves its search tables with it, and what comes
back is searched again. Tables that only name sessions stay as they are, as Hermes leaves them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.hermes.state_db.bundle import copied_rows, copied_tables
from holdfast.homes.hermes.state_db.life import Signs
from holdfast.homes.hermes.state_db.rows import names, quoted, sessions_table
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.session import session_version
from holdfast.model.stored_session import End, Found
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors

_AMONG = "IN (SELECT value FROM json_each(?))"
_MESSAGES = "messages"
AWAITED_PARENTS = "awaited-parents.json"


class AwaitedParents:
    """Which children wait for parents that are not in the store: Hermes's rows have no place for
    that. Whoever changes these notes of a home has its lock."""

    def __init__(self, state: Path) -> None:
        self._path = state / AWAITED_PARENTS

    def add(self, parents: Mapping[str, str]) -> None:
        """Note parents by child."""
        known = self._read()
        if parents.items() <= known.items():
            return
        with storage_errors(f"write {self._path}"):
            make_private_dir(self._path.parent)
            replace(self._path, json.dumps({**known, **parents}).encode())

    def among(self, names: Collection[str]) -> Mapping[str, str]:
        """The notes in which one of these is the child or the parent."""
        return {
            child: parent
            for child, parent in self._read().items()
            if child in names or parent in names
        }

    def _read(self) -> dict[str, str]:
        """What cannot be read says nothing: a child then stays without its parent."""
        try:
            notes = json.loads(read_file(self._path))
        except (OSError, ValueError):
            return {}
        return {str(c): str(p) for c, p in notes.items()} if isinstance(notes, dict) else {}


def look(
    db: sqlite3.Connection, schema: Schema, ids: Sequence[str], *, now: float, signs: Signs
) -> Mapping[str, Found]:
    """Those of these sessions that are there. Inside a write transaction nobody can come in
    between this look and what is done then."""
    rows = db.execute(
        f"""
        SELECT s.number, s.id, s.message_count, s.last_active_at, s.ended_at,
               s.agent_archived, s.title, s.cwd, s.model
        FROM {sessions_table(schema)} WHERE s.id {_AMONG}
        """,  # noqa: S608 - our own text
        (json.dumps(ids),),
    )
    found = {}
    for number, name, messages, active, ended_at, archived, *texts in rows:
        title, cwd, model = texts
        lives = signs.judge(name, ended=ended_at is not None, idle=now - active)
        found[name] = Found(
            id=name,
            number=number,
            version=session_version(messages, active, ended_at, archived, (title, cwd, model)),
            messages=messages,
            bytes=messages,  # a weight among others
            alive=lives.alive,
            abandoned=lives.abandoned,
        )
    return found


def delete(db: sqlite3.Connection, schema: Schema, numbers: Sequence[int]) -> None:
    """Take sessions out with all that belongs to them; their children stay, without a parent."""
    rows = db.execute(f"SELECT id FROM sessions WHERE rowid {_AMONG}", (json.dumps(numbers),))  # noqa: S608 - our own text
    chosen = (json.dumps([name for (name,) in rows]),)
    db.execute(
        f"UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id {_AMONG}",  # noqa: S608 - our own text
        chosen,
    )
    for table in schema.belonging:
        db.execute(f"DELETE FROM {quoted(table)} WHERE session_id {_AMONG}", chosen)  # noqa: S608 - quoted name
    db.execute(f"DELETE FROM sessions WHERE id {_AMONG}", chosen)  # noqa: S608 - our own text


def ends(db: sqlite3.Connection, schema: Schema, ids: Sequence[str]) -> Mapping[str, End]:
    """Those of these sessions that are there, with their ends."""
    rows = db.execute(
        f"""
        SELECT s.id, s.number, s.last_said_at, s.ended_at, s.end_reason
        FROM {sessions_table(schema)} WHERE s.id {_AMONG}
        """,  # noqa: S608 - our own text
        (json.dumps(ids),),
    )
    return {
        name: End(number=number, last_active_at=active, ended_at=ended, reason=reason)
        for name, number, active, ended, reason in rows
    }


def set_end(
    db: sqlite3.Connection, numbers: Sequence[int], at: float | None, reason: str | None
) -> None:
    """Give sessions an end, or take it from them; nothing else of them changes."""
    db.execute(
        f"UPDATE sessions SET ended_at = ?, end_reason = ? WHERE rowid {_AMONG}",  # noqa: S608 - our own text
        (at, reason, json.dumps(numbers)),
    )


def put_back(
    db: sqlite3.Connection,
    schema: Schema,
    copies: sqlite3.Connection,
    ids: Collection[str],
    awaited: AwaitedParents,
) -> Mapping[str, str]:
    """Put sessions back as they were; why some could not be, by id."""
    chosen = copies.execute(
        f"SELECT number, id, children FROM sessions WHERE id {_AMONG} ORDER BY number",  # noqa: S608 - our own text
        (json.dumps(list(ids)),),
    ).fetchall()
    refused: dict[str, str] = {}
    children: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for number, name, own_children in chosen:
        [(place, row)] = copied_rows(copies, "sessions", number)
        why = _obstacle(db, row)
        if why is not None:
            refused[name] = why
            continue
        if row["parent_session_id"] is not None:
            parents[name] = row["parent_session_id"]
        insert(db, schema, "sessions", place, row | {"parent_session_id": None})
        children[name] = json.loads(own_children)
        for table in copied_tables(copies):
            if table != "sessions" and table in schema.columns:
                for place, each in copied_rows(copies, table, number):
                    insert(db, schema, table, place, each)
    relate(db, parents, children, awaited)
    return refused


def relate(
    db: sqlite3.Connection,
    parents: Mapping[str, str],
    children: Mapping[str, Sequence[str]],
    awaited: AwaitedParents,
) -> None:
    """Give sessions that came back their parents, and those their children that have no other
    parent by now. `children` has all that came back. Of two that belong together and are not both
    there, it is noted until the other comes back."""
    wanted = dict(awaited.among(children))
    wanted |= {child: parent for parent, own in children.items() for child in own}
    wanted |= parents
    rows = db.execute(
        f"SELECT id FROM sessions WHERE id {_AMONG}",  # noqa: S608 - our own text
        (json.dumps([*wanted, *wanted.values()]),),
    )
    there = {name for (name,) in rows}
    both = {child: parent for child, parent in wanted.items() if {child, parent} <= there}
    # Before the rows: a note that nobody needs is harmless, one that is missing loses a parent.
    awaited.add({child: wanted[child] for child in wanted.keys() - both.keys()})
    db.executemany(
        "UPDATE sessions SET parent_session_id = ? WHERE id = ? AND parent_session_id IS NULL",
        [(parent, child) for child, parent in both.items()],
    )


def insert(
    db: sqlite3.Connection, schema: Schema, table: str, place: int, row: Mapping[str, Any]
) -> None:
    """Insert a row under its old number if that is free. What has taken the key of a row beside
    sessions and messages stays."""
    columns = [column for column in schema.columns[table] if column in row]
    values = [row[column] for column in columns]
    taken = db.execute(
        f"SELECT 1 FROM {quoted(table)} WHERE rowid = ?",  # noqa: S608 - quoted name
        (place,),
    ).fetchone()
    if taken and table == _MESSAGES:
        columns.remove("id")  # in a database that was made anew since: the next number
        values = [row[column] for column in columns]
    elif not taken and table != _MESSAGES:
        columns, values = ["rowid", *columns], [place, *values]
    marks = ", ".join("?" * len(columns))
    verb = "INSERT" if table in ("sessions", _MESSAGES) else "INSERT OR IGNORE"
    db.execute(
        f"{verb} INTO {quoted(table)} ({names(columns)}) VALUES ({marks})",
        values,
    )


def is_same(db: sqlite3.Connection, found: Found, *, started_at: float, first: int | None) -> bool:
    """Whether a session is the one that was copied, and not another that took its id since."""
    [begun, number] = db.execute(
        """
        SELECT started_at, (SELECT min(m.id) FROM messages m WHERE m.session_id = sessions.id)
        FROM sessions WHERE rowid = ?
        """,
        (found.number,),
    ).fetchone()
    return bool(begun == started_at and number == first)


def _obstacle(db: sqlite3.Connection, row: Mapping[str, Any]) -> str | None:
    """Titles are unique in Hermes."""
    if row.get("title") is None:
        return None
    other = db.execute("SELECT id FROM sessions WHERE title = ?", (row["title"],)).fetchone()
    if other is None:
        return None
    return f"its title is that of session {other[0]} now; rename that one and undo again"
