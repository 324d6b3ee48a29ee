"""Facts about stored sessions for plans and reports: signs of life, share of the file, and counts
by kind.

A store may hold hundreds of thousands; an item is a tenth of a `Session`. Statistics take two
passes over the sessions and none over the messages. One pass is by source. The other counts every
combination of classes that occurs, of which there are few: totals and distributions are sums of
those. One query for each class would take longer. So would a single pass for everything, because
SQLite would then sort by text.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Mapping, Sequence

from holdfast.model.item import SPACE, Item
from holdfast.model.session import SessionFilter
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Share, StoreStats
from holdfast.stores.sessions.session_rows import LAST_ACTIVE, TABLES, tables, where
from holdfast.stores.sessions.survey import (
    AVERAGES,
    ROW_WEIGHT,
    SIZES,
    Classes,
    Group,
    Held,
    LifeSigns,
    Owner,
    class_of,
    item_of,
    summed,
)
from holdfast.stores.sqlite.database import Database, pragma
from holdfast.value import replace

#: Name of the fact that rows left the store whose space has not been given back since.
OWED = "space_owed"

_PARENTS = "sessions s LEFT JOIN sessions p ON p.number = s.parent"


# --- Life -----------------------------------------------------------------------------------------


def _leases(db: sqlite3.Connection) -> Mapping[int, list[Held]]:
    """The leases of all sessions, except released leases of ended sessions: those prove nothing,
    and there are many of them."""
    return leases_by_session(
        db,
        "NOT released OR session IN (SELECT number FROM sessions WHERE ended_at IS NULL)",
    )


def leases_by_session(
    db: sqlite3.Connection, condition: str, *values: str
) -> Mapping[int, list[Held]]:
    found: dict[int, list[Held]] = {}
    rows = db.execute(
        f"SELECT session, host, boot, process, started, released FROM leases WHERE {condition}",  # noqa: S608 - our own text
        values,
    )
    for session, host, boot, process, started, released in rows:
        holder = Holder(host=host, boot=boot, process=process, started=started)
        found.setdefault(session, []).append((holder, bool(released)))
    return found


# --- Items ----------------------------------------------------------------------------------------


def sessions(
    database: Database, wanted: SessionFilter, *, now: float, life: LifeSigns
) -> list[Item]:
    """Every session that the filter matches, with its share of the database file as its size."""
    condition, parameters = where(wanted)
    joined = TABLES if tables(wanted) == TABLES else _PARENTS
    known = functools.cache(life.is_dead)  # a few processes hold many sessions
    life = LifeSigns(is_dead=known, abandoned_after=life.abandoned_after)
    with database.read() as db:
        share = _share(db)
        leases = _leases(db)
        rows = db.execute(
            f"""
            SELECT s.number, s.id, s.source, s.bytes, {LAST_ACTIVE}, s.message_count,
                   s.ended_at, s.title, s.cwd, s.model, s.pinned, p.id, s.relation
            FROM {joined} WHERE {condition}
            """,  # noqa: S608 - no user text
            parameters,
        )
        sources: dict[str, str] = {}
        return [item_of(row, share, leases, sources, now, life) for row in rows]


def weigh(database: Database, wanted: SessionFilter) -> Share:
    """How many sessions match, and their share of the database file."""
    condition, parameters = where(wanted)
    with database.read() as db:
        count, size = db.execute(
            f"""
            SELECT count(*), coalesce(sum(s.bytes), 0) FROM {tables(wanted)} WHERE {condition}
            """,  # noqa: S608 - no user text
            parameters,
        ).fetchone()
        weight = (size + count * ROW_WEIGHT) * _share(db)
    return Share(name="", count=count, bytes=round(weight))


def space(database: Database, name: str) -> Item:
    """Bytes that the file could free: unused pages and its write-ahead log."""
    with database.read() as db:
        free = pragma(db, "page_size") * pragma(db, "freelist_count")
    return Item(
        kind=SPACE, id=name, bytes=free + database.log_bytes(), last_active_at=0.0, version=""
    )


def is_owed(database: Database) -> bool:
    """True if a run was stopped before it gave back the space of what it removed."""
    with database.read() as db:
        return owes(db)


def owes(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT 1 FROM facts WHERE name = ?", (OWED,)).fetchone())


def owners(database: Database, ids: Sequence[str]) -> Mapping[str, Owner]:
    """Those of these sessions that are in the store, by id."""
    condition, parameters = where(SessionFilter(ids=tuple(ids)))
    with database.read() as db:
        rows = db.execute(
            f"SELECT s.id, s.ended_at IS NOT NULL, s.source FROM sessions s WHERE {condition}",  # noqa: S608 - no user text
            parameters,
        )
        return {found: Owner(bool(ended), source) for found, ended, source in rows}


def fixed_bytes(db: sqlite3.Connection) -> int:
    """The bytes of even an empty store: the first page of every table and index, their definitions,
    the map of pages. They are part of no session's size, which is what its removal frees."""
    trees, text = db.execute(
        """
        SELECT count(*) FILTER (WHERE rootpage > 0),
               coalesce(sum(length(type || name || tbl_name || coalesce(sql, ''))), 0)
        FROM sqlite_schema
        """
    ).fetchone()
    page = pragma(db, "page_size")
    # If the definitions do not fit on the first page of the file, only pointers remain there.
    definitions = 0 if text < page else -(-text // page)
    maps = 1 if pragma(db, "auto_vacuum") else 0
    return int(trees + 1 + definitions + maps) * page


def _share(db: sqlite3.Connection) -> float:
    """Bytes on the disk for each byte of messages, so that all shares plus the fixed bytes add up
    to the pages in use."""
    count, size = db.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM sessions").fetchone()
    weight: int = max(1, size + count * ROW_WEIGHT)
    return max(0, used_bytes(db) - fixed_bytes(db)) / weight


def message_count(db: sqlite3.Connection) -> int:
    [count] = db.execute("SELECT coalesce(sum(message_count), 0) FROM sessions").fetchone()
    return int(count)


def used_bytes(db: sqlite3.Connection) -> int:
    """The bytes of the pages in use."""
    pages = pragma(db, "page_count") - pragma(db, "freelist_count")
    return pages * pragma(db, "page_size")


# --- Statistics -----------------------------------------------------------------------------------


def statistics(
    database: Database, *, now: float, ages: Classes, table: str = "sessions"
) -> StoreStats:
    """Statistics of the rows in `table`, which has our columns for each session."""
    with database.read() as db:
        groups = _groups(db, table, now, ages)
        by_source = _by_source(db, table)
        page, pages, free = (
            pragma(db, name) for name in ("page_size", "page_count", "freelist_count")
        )
    return replace(
        summed(groups, ages, by_source),
        database_bytes=page * pages,
        free_bytes=page * free,
        wal_bytes=database.log_bytes(),
    )


def _groups(db: sqlite3.Connection, table: str, now: float, ages: Classes) -> list[Group]:
    age = class_of(f"? - {LAST_ACTIVE} < ?", ages)
    size = class_of("message_count <= ?", SIZES)
    average = class_of("bytes / max(1, message_count) < ?", AVERAGES)
    rows = db.execute(
        f"""
        SELECT ({age} * {len(SIZES)} + {size}) * {len(AVERAGES)} + {average} AS classes, count(*),
               count(ended_at), sum(message_count), sum(tokens_in + tokens_out), sum(cost),
               sum(bytes)
        FROM {table} s GROUP BY classes
        """,  # noqa: S608 - our own text
        [
            *(value for _, bound in ages for value in (now, bound)),
            *(bound for _, bound in SIZES),
            *(bound for _, bound in AVERAGES),
        ],
    )
    return [Group(*row) for row in rows]


def _by_source(db: sqlite3.Connection, table: str) -> tuple[Share, ...]:
    # Not by the index on the source: that would fetch every row from a different page.
    rows = db.execute(
        f"""
        SELECT source, count(*), sum(bytes) FROM {table} NOT INDEXED
        GROUP BY source ORDER BY sum(bytes) DESC, source
        """  # noqa: S608 - our own names
    )
    return tuple(Share(name=name, count=count, bytes=total) for name, count, total in rows)
