"""Stored sessions as items: what a plan needs to know of each, and no more.

A store may hold hundreds of thousands; an item is a tenth of a `Session`.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.model.item import SESSION, SPACE, Item
from holdfast.model.session import Relation, SessionFilter, session_version
from holdfast.model.usage import Share
from holdfast.policy.lifecycle import SessionLife
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.leases import Held, LifeSigns, of_all
from holdfast.stores.sqlite.session_rows import LAST_ACTIVE, TABLES, tables, where
from holdfast.value import dataclass, replace

#: What a session takes beside its messages: its row, its places in indexes.
_ROW_WEIGHT = 512
_DEAD = SessionLife()
_PARENTS = "sessions s LEFT JOIN sessions p ON p.number = s.parent"


def sessions(
    database: Database, wanted: SessionFilter, *, now: float, life: LifeSigns
) -> list[Item]:
    """Every session that is wanted, with its share of the database file as its size."""
    condition, parameters = where(wanted)
    known = functools.cache(life.is_dead)  # a few processes hold many sessions
    life = LifeSigns(is_dead=known, abandoned_after=life.abandoned_after)
    with database.read() as db:
        share = _share(db)
        leases = of_all(db)
        rows = db.execute(
            f"""
            SELECT s.number, s.id, s.source, s.bytes, {LAST_ACTIVE}, s.message_count,
                   s.ended_at, s.title, s.cwd, s.model, s.pinned, p.id, s.relation
            FROM {_with_parents(wanted)} WHERE {condition}
            """,  # noqa: S608 - no user text
            parameters,
        )
        sources: dict[str, str] = {}
        items = [_item(row, share, leases, sources, now, life) for row in rows]
        return _with_fixed(items, db)


def weigh(database: Database, wanted: SessionFilter) -> Share:
    """How many sessions these are, and their share of the database file."""
    condition, parameters = where(wanted)
    with database.read() as db:
        count, size, latest = db.execute(
            f"""
            SELECT count(*), coalesce(sum(s.bytes), 0), max({LAST_ACTIVE})
            FROM {tables(wanted)} WHERE {condition}
            """,  # noqa: S608 - no user text
            parameters,
        ).fetchone()
        weight = (size + count * _ROW_WEIGHT) * _share(db)
        if count and latest == _newest(db):
            weight += fixed_bytes(db)
    return Share(name="", count=count, bytes=round(weight))


def space(database: Database, name: str) -> Item:
    """What the file could give back: pages nobody uses, and its write-ahead log."""
    with database.read() as db:
        free = _pragma(db, "page_size") * _pragma(db, "freelist_count")
    return Item(
        kind=SPACE, id=name, bytes=free + log_bytes(database), last_active_at=0.0, version=""
    )


def log_bytes(database: Database) -> int:
    try:
        return database.path.with_name(database.path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


@dataclass(frozen=True, slots=True)
class Owner:
    """What the files of a session need to know of it. `session` is its id where the names of its
    files do not have that."""

    ended: bool
    source: str
    session: str = ""


def owners(database: Database, ids: Sequence[str]) -> Mapping[str, Owner]:
    """Those of these sessions that are in the store, by id."""
    condition, parameters = where(SessionFilter(ids=tuple(ids)))
    with database.read() as db:
        rows = db.execute(
            f"SELECT s.id, s.ended_at IS NOT NULL, s.source FROM sessions s WHERE {condition}",  # noqa: S608 - no user text
            parameters,
        )
        return {found: Owner(bool(ended), source) for found, ended, source in rows}


def _item(
    row: tuple[Any, ...],
    share: float,
    leases: Mapping[int, list[Held]],
    sources: dict[str, str],
    now: float,
    life: LifeSigns,
) -> Item:
    number, name, source, size, active, messages, ended, *texts, pinned, parent, relation = row
    title, cwd, model = texts
    lives = _DEAD
    if ended is None or number in leases:  # most have ended, and nobody holds them
        lives = life.judge(
            ended=ended is not None, idle=now - active, leases=leases.get(number, ())
        )
    return Item(
        kind=SESSION,
        id=name,
        source=sources.setdefault(source, source),
        session=name,
        bytes=round((size + _ROW_WEIGHT) * share),
        last_active_at=active,
        version=session_version(messages, active, ended, pinned, (title, cwd, model)),
        pinned=bool(pinned),
        alive=lives.alive,
        abandoned=lives.abandoned,
        messages=messages,
        titled=title is not None,
        parent=parent or "",
        delegate=relation == Relation.DELEGATE,
    )


def _with_parents(wanted: SessionFilter) -> str:
    return TABLES if tables(wanted) == TABLES else _PARENTS


def _with_fixed(items: list[Item], db: sqlite3.Connection) -> list[Item]:
    """What stays whichever sessions go is the newest one's to hold, since that is the last to go:
    so the size of every other is what its removal frees, and a cap is reached exactly."""
    newest = _newest(db)
    place = next((n for n, item in enumerate(items) if item.last_active_at == newest), None)
    if place is not None:
        holder = items[place]
        items[place] = replace(holder, bytes=holder.bytes + fixed_bytes(db))
    return items


def _newest(db: sqlite3.Connection) -> float | None:
    newest: float | None = db.execute(f"SELECT max({LAST_ACTIVE}) FROM sessions s").fetchone()[0]  # noqa: S608 - our own text
    return newest


def fixed_bytes(db: sqlite3.Connection) -> int:
    """The first page of every table and index: there, however little they hold."""
    [trees] = db.execute("SELECT count(*) FROM sqlite_schema WHERE rootpage > 0").fetchone()
    return int(trees + 1) * _pragma(db, "page_size")


def _share(db: sqlite3.Connection) -> float:
    """Bytes on the disk for each byte of messages: shares and what is fixed add up to the pages in
    use."""
    count, size = db.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM sessions").fetchone()
    weight: int = max(1, size + count * _ROW_WEIGHT)
    return max(0, used_bytes(db) - fixed_bytes(db)) / weight


def used_bytes(db: sqlite3.Connection) -> int:
    """The pages of the file that hold something."""
    pages = _pragma(db, "page_count") - _pragma(db, "freelist_count")
    return pages * _pragma(db, "page_size")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
