"""Leases in the store: taken, renewed, given back, and what they say of the life of a session."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.model.stored_session import Holder, Lease
from holdfast.policy.lifecycle import LeaseCount, SessionLife, session_life
from holdfast.stores.sqlite.database import Database
from holdfast.value import dataclass

#: Who holds or held a session, and whether the lease was given back.
Held = tuple[Holder, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeSigns:
    """How to tell whether a session lives."""

    is_dead: Callable[[Holder], bool]
    abandoned_after: float

    def judge(self, *, ended: bool, idle: float, leases: Collection[Held]) -> SessionLife:
        living = [released for holder, released in leases if not self.is_dead(holder)]
        return session_life(
            ended=ended,
            idle=idle,
            leases=LeaseCount(all=len(leases), living=len(living), held=len(living) - sum(living)),
            abandoned_after=self.abandoned_after,
        )


def hold(database: Database, session_id: str, holder: Holder, *, now: float) -> bool:
    """Take a lease on an open session, or renew one; False when there is no such session, or it has
    ended. Several processes may hold the same."""
    with database.write() as db:
        done = db.execute(
            """
            INSERT INTO leases (session, host, boot, process, started, heartbeat)
            SELECT number, ?, ?, ?, ?, ? FROM sessions WHERE id = ? AND ended_at IS NULL
            ON CONFLICT DO UPDATE SET heartbeat = excluded.heartbeat, released = 0
            """,
            (holder.host, holder.boot, holder.process, holder.started, now, session_id),
        )
        return done.rowcount > 0


def release(database: Database, session_id: str, holder: Holder) -> None:
    """Give a lease back. It stays on record: the process may come back as long as it lives, and
    that it died can be proved only of one that is known."""
    with database.write() as db:
        db.execute(
            """
            UPDATE leases SET released = 1
            WHERE session = (SELECT number FROM sessions WHERE id = ?)
              AND host = ? AND boot = ? AND process = ? AND started = ?
            """,
            (session_id, holder.host, holder.boot, holder.process, holder.started),
        )


def of_session(database: Database, session_id: str) -> Sequence[Lease]:
    with database.read() as db:
        rows = db.execute(
            """
            SELECT s.id, l.host, l.boot, l.process, l.started, l.heartbeat, l.released
            FROM sessions s JOIN leases l ON l.session = s.number
            WHERE s.id = ?
            """,
            (session_id,),
        ).fetchall()
    return [
        Lease(
            session_id=row[0],
            holder=Holder(host=row[1], boot=row[2], process=row[3], started=row[4]),
            heartbeat=row[5],
            released=bool(row[6]),
        )
        for row in rows
    ]


def of_all(db: sqlite3.Connection) -> Mapping[int, list[Held]]:
    """The leases of all sessions that somebody holds or that have no end. Those that were given
    back tell nothing of a session that has ended, and there are many."""
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
