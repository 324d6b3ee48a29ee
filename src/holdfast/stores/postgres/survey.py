"""Facts about stored sessions for plans and reports: signs of life, share of the tables, and counts
by kind. The equivalent of stores/sqlite/survey.py for PostgreSQL."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.model.item import Item
from holdfast.model.session import SessionFilter
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Share, StoreStats
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import LAST_ACTIVE, TABLES, tables, where
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
from holdfast.value import replace

_PARENTS = "sessions s LEFT JOIN sessions p ON p.number = s.parent"
#: The tables that grow with sessions.
_STORED = (
    "sessions",
    "messages",
    "message_words",
    "unindexed",
    "vocabulary",
    "leases",
    "routes",
    "guarded",
)
_PAGE = 8_192


# --- Life -----------------------------------------------------------------------------------------


def leases(db: Db, condition: str, *values: object) -> Mapping[int, list[Held]]:
    found: dict[int, list[Held]] = {}
    rows = db.execute(
        f"SELECT session, host, boot, process, started, released FROM leases WHERE {condition}",  # noqa: S608 - our own text
        values,
    )
    for session, host, boot, process, started, released in rows:
        holder = Holder(host=host, boot=boot, process=process, started=started)
        found.setdefault(session, []).append((holder, released))
    return found


# --- Items ----------------------------------------------------------------------------------------


def sessions(
    database: Database, wanted: SessionFilter, *, now: float, life: LifeSigns
) -> list[Item]:
    """Every session that the filter matches, with its share of the tables as its size."""
    condition, values = where(wanted)
    joined = TABLES if tables(wanted) == TABLES else _PARENTS
    known = functools.cache(life.is_dead)  # a few processes hold many sessions
    life = LifeSigns(is_dead=known, abandoned_after=life.abandoned_after)
    with database.read() as db:
        share = _share(db)
        # Not the released leases of ended sessions: those prove nothing, and there are many of
        # them.
        held = leases(
            db,
            "NOT released OR session IN (SELECT number FROM sessions WHERE ended_at IS NULL)",
        )
        rows = db.execute(
            f"""
            SELECT s.number, s.id, s.source, s.bytes, {LAST_ACTIVE}, s.message_count,
                   s.ended_at, s.title, s.cwd, s.model, s.pinned, p.id, s.relation
            FROM {joined} WHERE {condition} ORDER BY s.number
            """,  # noqa: S608 - no user text
            values,
        )
        sources: dict[str, str] = {}
        return [item_of(row, share, held, sources, now, life) for row in rows]


def weigh(database: Database, wanted: SessionFilter) -> Share:
    """How many sessions match, and their share of the tables."""
    condition, values = where(wanted)
    with database.read() as db:
        [[count, size]] = db.execute(
            f"SELECT count(*), coalesce(sum(s.bytes), 0)::bigint "  # noqa: S608 - no user text
            f"FROM {tables(wanted)} WHERE {condition}",
            values,
        ).rows
        weight = (size + count * ROW_WEIGHT) * _share(db)
    return Share(name="", count=count, bytes=round(weight))


def owners(database: Database, ids: Sequence[str]) -> Mapping[str, Owner]:
    """Those of these sessions that are in the store, by id."""
    condition, values = where(SessionFilter(ids=tuple(ids)))
    rows = database.query(
        f"SELECT s.id, s.ended_at IS NOT NULL, s.source FROM sessions s WHERE {condition}",  # noqa: S608 - no user text
        values,
    )
    return {found: Owner(ended, source) for found, ended, source in rows}


# --- Sizes ----------------------------------------------------------------------------------------


def footprint(database: Database) -> int:
    """The space that the sessions take on the server's disk, with their indexes."""
    with database.read() as db:
        return _bytes(db, _STORED)[0]


def _bytes(db: Db, names: Sequence[str]) -> tuple[int, int]:
    """The size of tables with their indexes, and their size when empty."""
    [[used, relations]] = db.execute(
        """
        SELECT sum(pg_total_relation_size(c.oid))::bigint,
               (count(*) + sum((SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid)))::bigint
        FROM pg_class c WHERE c.oid = ANY(%s::text[]::regclass[]::oid[])
        """,
        (list(names),),
    ).rows
    return used, 2 * relations * _PAGE


def _share(db: Db) -> float:
    """Bytes on the disk for each byte of messages."""
    [[count, size]] = db.execute(
        "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM sessions"
    ).rows
    used, fixed = _bytes(db, _STORED)
    weight = max(1, size + count * ROW_WEIGHT)
    # In a small store, the pages of empty tables hide the size of the sessions.
    return float((used - fixed) / weight) if used > 2 * fixed else 1.0


# --- Statistics -----------------------------------------------------------------------------------


def statistics(database: Database, *, now: float, ages: Classes) -> StoreStats:
    with database.read() as db:
        groups = _groups(db, now, ages)
        rows = db.execute(
            """
            SELECT source, count(*), sum(bytes)::bigint FROM sessions
            GROUP BY source ORDER BY sum(bytes) DESC, source
            """
        )
        by_source = tuple(Share(name=name, count=n, bytes=total) for name, n, total in rows)
        used, _ = _bytes(db, _STORED)
    return replace(summed(groups, ages, by_source), database_bytes=used)


def _groups(db: Db, now: float, ages: Classes) -> list[Group]:
    age = class_of(f"? - {LAST_ACTIVE} < ?", ages)
    size = class_of("message_count <= ?", SIZES)
    average = class_of("bytes / greatest(1, message_count) < ?", AVERAGES)
    bounds: list[Any] = [
        *(value for _, bound in ages for value in (now, bound)),
        *(bound for _, bound in SIZES),
        *(bound for _, bound in AVERAGES),
    ]
    statement = f"""
        SELECT ({age} * {len(SIZES)} + {size}) * {len(AVERAGES)} + {average} AS classes, count(*),
               count(ended_at), sum(message_count)::bigint, sum(tokens_in + tokens_out)::bigint,
               sum(cost), sum(bytes)::bigint
        FROM sessions s GROUP BY classes
    """.replace("?", "%s::float8")  # noqa: S608 - our own text
    return [Group(*row) for row in db.execute(statement, bounds)]
