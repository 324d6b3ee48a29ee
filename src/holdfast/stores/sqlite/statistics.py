"""Counting a session store: a few passes over the sessions, none over the messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from holdfast.model.stats import Share, StoreStats
from holdfast.stores.sqlite.database import Database

AgeClasses = Sequence[tuple[str, float]]

#: Sessions by their number of messages: a name, and the most they have.
SIZES: Sequence[tuple[str, float]] = (
    ("empty", 0),
    ("1 to 5", 5),
    ("6 to 20", 20),
    ("21 to 100", 100),
    ("101 to 1,000", 1_000),
    ("more", float("inf")),
)


def statistics(database: Database, *, now: float, ages: AgeClasses) -> StoreStats:
    with database.read() as db:
        sessions, opened, messages, tokens, cost, size = db.execute(
            """
            SELECT count(*), count(*) - count(ended_at), coalesce(sum(message_count), 0),
                   coalesce(sum(tokens_in + tokens_out), 0), coalesce(sum(cost), 0.0),
                   coalesce(sum(bytes), 0)
            FROM sessions
            """
        ).fetchone()
        page, pages, free = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        return StoreStats(
            sessions=sessions,
            open_sessions=opened,
            messages=messages,
            tokens=tokens,
            cost=cost,
            message_bytes=size,
            database_bytes=page * pages,
            free_bytes=page * free,
            wal_bytes=_size(database.path.with_name(database.path.name + "-wal")),
            by_source=tuple(
                Share(name=name, count=count, bytes=total)
                for name, count, total in db.execute(
                    """
                    SELECT source, count(*), sum(bytes) FROM sessions
                    GROUP BY source ORDER BY sum(bytes) DESC, source
                    """
                )
            ),
            by_age=_classes(db, "? - last_active_at < ?", [(n, (now, a)) for n, a in ages]),
            by_size=_classes(db, "message_count <= ?", [(n, (most,)) for n, most in SIZES]),
        )


def _classes(
    db: sqlite3.Connection, below: str, classes: Sequence[tuple[str, tuple[float, ...]]]
) -> tuple[Share, ...]:
    """Shares of classes that end at rising bounds: each is what is below its bound and no other."""
    shares: list[Share] = []
    counted = total = 0
    for name, bound in classes:
        count, size = db.execute(
            f"SELECT count(*), coalesce(sum(bytes), 0) FROM sessions WHERE {below}",  # noqa: S608 - our own text
            bound,
        ).fetchone()
        shares.append(Share(name=name, count=count - counted, bytes=size - total))
        counted, total = count, size
    return tuple(shares)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
