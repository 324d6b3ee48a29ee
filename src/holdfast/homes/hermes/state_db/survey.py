"""Hermes's sessions as items of a plan, and counted for statistics."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from holdfast.homes.hermes.file_names import stems
from holdfast.homes.hermes.life import Signs
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.rows import Row, message_bytes, sessions_table, where
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.values import delegated_by
from holdfast.model.item import SESSION, Item
from holdfast.model.session import Relation, SessionFilter, session_version
from holdfast.model.usage import Share, StoreStats
from holdfast.stores.sessions.survey import Classes, Owner
from holdfast.stores.sqlite import survey
from holdfast.stores.sqlite.foreign import dicts
from holdfast.stores.sqlite.survey import fixed_bytes, used_bytes

#: The bytes of a session apart from its messages: its row, and its index entries.
_ROW_WEIGHT = 512
_LONGEST_PLAIN = 96
_AGENT = "Hermes"
_WANTED = """
    s.id, s.source, s.last_active_at, s.message_count, s.stored_count, s.ended_at, s.title,
    s.parent_id, s.relation, s.agent_archived, s.model_config, s.cwd, s.model
"""


def sessions(
    database: HermesDatabase, wanted: SessionFilter, *, now: float, signs: Signs
) -> list[Item]:
    """Every session that matches, with its share of the database file as its size."""
    condition, parameters = where(wanted)
    with database.read() as db:
        schema = database.schema
        rows = dicts(
            db.execute(
                f"SELECT {_WANTED} FROM {sessions_table(schema)} WHERE {condition}",  # noqa: S608 - no user text
                parameters,
            )
        )
        if not rows:
            return []
        weights = sizes(db, schema)
        share = _share(db, weights)
    return [_item(row, weights.get(row["id"], 0), share, now, signs) for row in rows]


def weigh(database: HermesDatabase, wanted: SessionFilter) -> Share:
    """The number of these sessions, and their share of the database file."""
    condition, parameters = where(wanted)
    with database.read() as db:
        ids = [
            name
            for (name,) in db.execute(
                f"SELECT s.id FROM {sessions_table(database.schema)} WHERE {condition}",  # noqa: S608 - no user text
                parameters,
            )
        ]
        weights = sizes(db, database.schema)
        share = _share(db, weights)
    size = sum(weights.get(name, 0) + _ROW_WEIGHT for name in ids) * share
    return Share(name="", count=len(ids), bytes=round(size))


def owners(database: HermesDatabase, wanted: Sequence[str]) -> Mapping[str, Owner]:
    """The sessions that own files, by their names in file names. Nearly all file names contain the
    id itself. For the others, every id that could be changed in a file name is checked."""
    found = dict(_named(database, wanted))
    asked = set(wanted) - found.keys()
    if not asked:
        return found
    called = {stem: name for name in _odd_ids(database) for stem in stems(name)}
    names = {stem: called[stem] for stem in asked if stem in called}
    known = _named(database, list(names.values())) if names else {}
    return found | {stem: known[name] for stem, name in names.items() if name in known}


def _named(database: HermesDatabase, ids: Sequence[str]) -> Mapping[str, Owner]:
    """The sessions with these ids that are in the store."""
    with database.read() as db:
        rows = db.execute(
            f"""
            SELECT s.id, s.ended_at IS NOT NULL, s.source FROM {sessions_table(database.schema)}
            WHERE s.id IN (SELECT value FROM json_each(?))
            """,  # noqa: S608 - our own names
            (json.dumps(list(ids)),),
        )
        return {found: Owner(bool(ended), source, found) for found, ended, source in rows}


def _odd_ids(database: HermesDatabase) -> list[str]:
    """Ids that may have to be changed in a file name; a few too many do no harm."""
    with database.read() as db:
        rows = db.execute(
            """
            SELECT id FROM sessions
            WHERE id GLOB '*[^A-Za-z0-9_-]*' OR id GLOB '_*' OR id GLOB '*_' OR length(id) > ?
            """,
            (_LONGEST_PLAIN,),
        )
        return [name for (name,) in rows]


def sizes(db: sqlite3.Connection, schema: Schema) -> Mapping[str, int]:
    """The size of each session's messages, in one pass over them."""
    found: dict[str, int] = {}
    rows = db.execute(f"SELECT m.session_id, {message_bytes(schema)} FROM messages m NOT INDEXED")  # noqa: S608 - our own names
    for name, size in rows:
        found[name] = found.get(name, 0) + size
    return found


def _share(db: sqlite3.Connection, weights: Mapping[str, int]) -> float:
    """Disk bytes per byte of messages: the shares plus the fixed part add up to the used pages."""
    [count] = db.execute("SELECT count(*) FROM sessions").fetchone()
    used = max(0, used_bytes(db) - fixed_bytes(db))
    return float(used / max(1, sum(weights.values()) + count * _ROW_WEIGHT))


def _item(row: Row, size: int, share: float, now: float, signs: Signs) -> Item:
    ended, active = row["ended_at"], row["last_active_at"]
    master = delegated_by(row["model_config"])
    lives = signs.judge(row["id"], ended=ended is not None, idle=now - active)
    return Item(
        kind=SESSION,
        id=row["id"],
        source=row["source"],
        session=row["id"],
        bytes=round((size + _ROW_WEIGHT) * share),
        last_active_at=active,
        version=session_version(
            row["message_count"],
            active,
            ended,
            row["agent_archived"],
            (row["title"], row["cwd"], row["model"]),
        ),
        alive=lives.alive,
        abandoned=lives.abandoned,
        # Including messages that were taken back: a long session is not trivial because of them.
        messages=row["stored_count"],
        titled=row["title"] is not None,
        archived_in=_AGENT if row["agent_archived"] else "",
        parent=master or row["parent_id"] or "",
        delegate=master is not None or row["relation"] == Relation.DELEGATE,
    )


# --- Statistics -----------------------------------------------------------------------------------

#: The columns that the statistics of our own store need.
_COUNTED = (
    "source",
    "last_active_at",
    "ended_at",
    "message_count",
    "tokens_in",
    "tokens_out",
    "cost",
)


def statistics(database: HermesDatabase, *, now: float, ages: Classes) -> StoreStats:
    """Runs the queries of our own store on a temporary table with its columns: one pass over the
    messages gives all sizes, while one query per session would take far longer."""
    columns = ", ".join(_COUNTED)
    with database.read() as db:
        weights = sizes(db, database.schema)
        wanted = ", ".join(f"s.{column}" for column in _COUNTED)
        table = sessions_table(database.schema)
        rows = db.execute(f"SELECT s.id, {wanted} FROM {table}").fetchall()  # noqa: S608 - our own names
        db.execute(f"CREATE TEMP TABLE counted ({columns}, bytes)")
        try:
            db.executemany(
                f"INSERT INTO temp.counted VALUES ({'?, ' * len(_COUNTED)}?)",  # noqa: S608 - our own names
                [(*row, weights.get(name, 0)) for name, *row in rows],
            )
            return survey.statistics(database, now=now, ages=ages, table="temp.counted")
        finally:
            db.execute("DROP TABLE temp.counted")
