"""Leases in the store: taken, renewed, given back, listed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.lease import Holder, Lease
from holdfast.stores.sqlite.database import Database


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
