"""The book of guards: reads what a decision is based on and writes its effect in one transaction.

The write lock is held from before the read until after the write. So if two calls would together
exceed a budget, the second one sees the first, in any thread or process.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from holdfast.model.guard import DayShare, Estimate, Guarded, Standing, Work
from holdfast.model.session import Session
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions.guard_book import (
    CLOCK,
    COUNTED,
    WARNED_TODAY,
    counted_columns,
    kept_columns,
    reservation,
    work_of,
)
from holdfast.stores.sessions.session_rows import (
    COLUMNS,
    COUNTS,
    GUARDED_COLUMNS,
    TABLES,
    counts,
    holder_columns,
    usage_of,
)
from holdfast.stores.sessions.session_rows import session as session_of
from holdfast.stores.sqlite import ledger
from holdfast.stores.sqlite.sessions import SqliteSessionStore, number_of
from holdfast.value import replace

_RESERVED = """
    v.number, s.id, s.source, v.host, v.boot, v.process, v.started, v.made_at, v.tokens_in,
    v.tokens_out, v.cost
"""
_ALL_RESERVED = f"""
    SELECT {_RESERVED} FROM reservations v JOIN sessions s ON s.number = v.session
"""  # noqa: S608 - our own names
_CLOCKS = len(CLOCK)
_LOOK = f"{', '.join(f'g.{column}' for column in CLOCK)}, {_RESERVED}"
#: Of one session: its clock with each of its reservations, or alone if there are none.
_OF_SESSION = f"""
    SELECT {_LOOK} FROM sessions s
    LEFT JOIN guarded g ON g.session = s.number LEFT JOIN reservations v ON v.session = s.number
    WHERE s.id = ?
"""  # noqa: S608 - our own names
#: The same, followed by the session's columns.
_WITH_SESSION = f"""
    SELECT {_LOOK}, {COLUMNS} FROM {TABLES} LEFT JOIN reservations v ON v.session = s.number
    WHERE s.id = ?
"""  # noqa: S608 - our own names
_LOOKED_AT = _CLOCKS + _RESERVED.count(",") + 1
_ADD = f"""
    UPDATE sessions SET {", ".join(f"{count} = {count} + ?" for count in COUNTS)}
    WHERE number = ?
"""  # noqa: S608 - our own names
_COUNT = f"""
    UPDATE guarded SET {", ".join(f"{column} = ?" for column in COUNTED)}
    WHERE session = (SELECT number FROM sessions WHERE id = ?)
"""  # noqa: S608 - our own names
_KEEP = f"""
    INSERT INTO guarded ({", ".join(GUARDED_COLUMNS)})
    VALUES ({", ".join("?" * len(GUARDED_COLUMNS))})
    ON CONFLICT (session) DO UPDATE SET
    {", ".join(f"{column} = excluded.{column}" for column in GUARDED_COLUMNS[1:])}
"""  # noqa: S608 - our own names


class SqliteGuardBook:
    """Guards of the sessions in a SQLite store."""

    def __init__(self, store: SqliteSessionStore) -> None:
        self._store = store
        self._database = store.database

    def transaction(self, *, flushed: bool = True) -> AbstractContextManager[object]:
        return self._database.write(flushed=flushed)

    def before_append(self, *, today: float | None) -> AbstractContextManager[object]:
        return nullcontext()

    def standing(
        self, session_id: str, *, today: float | None, session: Session | None = None
    ) -> Standing:
        with self._database.read() as db:
            asked = _WITH_SESSION if session is None else _OF_SESSION
            rows = db.execute(asked, (session_id,)).fetchall()
            if session is None:
                session = session_of(rows[0][_LOOKED_AT:]) if rows else self._store.get(session_id)
            clock = rows[0][:_CLOCKS] if session.guarded is not None else None
            if today is None:
                flying = [row[_CLOCKS:_LOOKED_AT] for row in rows if row[_CLOCKS] is not None]
            else:
                flying = db.execute(_ALL_RESERVED).fetchall()
            return Standing(
                session=session,
                work=work_of(session.guarded, clock),
                in_flight=tuple(map(reservation, flying)) if flying else (),
                day=() if today is None else _day(db, utc_day(today)),
            )

    def keep(self, session_id: str, work: Work, *, was: Work) -> None:
        counted = counted_columns(work, was)
        with self._database.write() as db:
            if counted is None:
                _keep(db, number_of(db, session_id), work)
            else:
                db.execute(_COUNT, (*counted, session_id))

    def reserve(self, session_id: str, holder: Holder, estimate: Estimate, *, now: float) -> int:
        with self._database.write() as db:
            cursor = db.execute(
                """
                INSERT INTO reservations (session, host, boot, process, started, made_at,
                                          tokens_in, tokens_out, cost)
                SELECT number, ?, ?, ?, ?, ?, ?, ?, ? FROM sessions WHERE id = ?
                """,
                (
                    *holder_columns(holder),
                    now,
                    estimate.tokens.input,
                    estimate.tokens.output,
                    estimate.cost,
                    session_id,
                ),
            )
            return int(cursor.lastrowid or 0)

    def give_up(self, reservations: Sequence[int]) -> None:
        with self._database.write() as db:
            for number in reservations:
                db.execute("DELETE FROM reservations WHERE number = ?", (number,))

    def book(self, session: Session, work: Work, usage: Usage, *, model: str, now: float) -> Work:
        """Add to the session's totals and to the ledger; return the work to keep."""
        on = utc_day(now)
        booked = work.guarded.with_usage(on, model, usage)
        with self._database.write() as db:
            db.execute(_ADD, (*counts(usage), number_of(db, session.id)))
            ledger.add(db, (on, session.source, model), usage)
        return replace(work, guarded=replace(work.guarded, booked=booked))

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        return self._store.end(session_id, reason, at=at)

    def warned_on(self, today: float) -> Sequence[str]:
        with self._database.read() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (WARNED_TODAY,)).fetchone()
        on, *told = json.loads(row[0]) if row else ("",)
        return told if on == utc_day(today) else ()

    def warn_on(self, today: float, told: Sequence[str]) -> None:
        with self._database.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)",
                (WARNED_TODAY, json.dumps([utc_day(today), *told])),
            )


def bring(db: sqlite3.Connection, number: int, guarded: Guarded) -> None:
    """Give a session from another store the counts that a guard kept for it there."""
    _keep(db, number, Work(guarded=guarded))
    db.execute(_ADD, (*counts(guarded.usage), number))


def _keep(db: sqlite3.Connection, session: int, work: Work) -> None:
    db.execute(_KEEP, (session, *kept_columns(work)))


def _day(db: sqlite3.Connection, day: str) -> tuple[DayShare, ...]:
    rows = db.execute(
        f"SELECT source, model, {', '.join(COUNTS)} FROM ledger WHERE day = ?",  # noqa: S608 - our own names
        (day,),
    )
    return tuple(
        DayShare(source=source, model=model, usage=usage_of(sums)) for source, model, *sums in rows
    )
