"""The book of guards: reads what a decision is based on and writes its effect in one transaction.

The row of the session is locked from before the read until after the write; if a budget of the day
counts, so is a lock that all guards of the store share. So if two calls would together exceed a
budget, the second one sees the first, on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from holdfast.model.guard import DayShare, Estimate, Guarded, Standing, Work
from holdfast.model.session import Session
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.stores.postgres import ledger
from holdfast.stores.postgres.database import Db
from holdfast.stores.postgres.sessions import PostgresSessionStore
from holdfast.stores.sessions.guard_book import (
    CLOCK,
    WARNED_TODAY,
    kept_columns,
    reservation,
    work_of,
)
from holdfast.stores.sessions.session_rows import (
    COUNTS,
    GUARDED_COLUMNS,
    counts,
    holder_columns,
    usage_of,
)
from holdfast.value import replace

#: The key of the advisory lock for the budgets of a day.
_LOCK = 0x6461796C
_RESERVATIONS = """
    SELECT r.number, s.id, s.source, r.host, r.boot, r.process, r.started, r.made_at,
           r.tokens_in, r.tokens_out, r.cost
    FROM reservations r JOIN sessions s ON s.number = r.session
"""
_CLOCK = f"SELECT {', '.join(CLOCK)} FROM guarded WHERE session = %s"  # noqa: S608 - our own names
_ADD = f"""
    UPDATE sessions SET {", ".join(f"{count} = {count} + %s" for count in COUNTS)}
    WHERE number = %s
"""  # noqa: S608 - our own names
_KEEP = f"""
    INSERT INTO guarded ({", ".join(GUARDED_COLUMNS)})
    VALUES ({", ".join(["%s"] * len(GUARDED_COLUMNS))})
    ON CONFLICT (session) DO UPDATE SET
    {", ".join(f"{column} = excluded.{column}" for column in GUARDED_COLUMNS[1:])}
"""  # noqa: S608 - our own names


class PostgresGuardBook:
    """Guards of the sessions in a store in PostgreSQL."""

    def __init__(self, store: PostgresSessionStore) -> None:
        self._store = store
        self._database = store.database

    def transaction(self, *, flushed: bool = True) -> AbstractContextManager[object]:
        return self._store.transaction()

    @contextmanager
    def before_append(self, *, today: float | None) -> Iterator[None]:
        with self._database.write() as db:
            if today is not None:
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield

    def standing(
        self, session_id: str, *, today: float | None, session: Session | None = None
    ) -> Standing:
        with self._database.read() as db:
            if db.writing and today is not None:
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = self._store.get(session_id) if session is None else session
            number = number_of(db, session_id)
            condition, values = (
                ("", ()) if today is not None else (" WHERE r.session = %s", (number,))
            )
            rows = db.execute(_RESERVATIONS + condition, values).rows
            return Standing(
                session=found,
                work=work_of(found.guarded, db.execute(_CLOCK, (number,)).first),
                in_flight=tuple(reservation(row) for row in rows),
                day=() if today is None else _day(db, utc_day(today)),
            )

    def keep(self, session_id: str, work: Work, *, was: Work) -> None:
        self._database.run(lambda db: keep(db, number_of(db, session_id), work))

    def reserve(self, session_id: str, holder: Holder, estimate: Estimate, *, now: float) -> int:
        def reserve(db: Db) -> int:
            [[number]] = db.execute(
                """
                INSERT INTO reservations (session, host, boot, process, started, made_at,
                                          tokens_in, tokens_out, cost)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING number
                """,
                (
                    number_of(db, session_id),
                    *holder_columns(holder),
                    now,
                    estimate.tokens.input,
                    estimate.tokens.output,
                    estimate.cost,
                ),
            ).rows
            return int(number)

        return self._database.run(reserve)

    def give_up(self, reservations: Sequence[int]) -> None:
        self._database.change(
            "DELETE FROM reservations WHERE number = ANY(%s::bigint[])", (list(reservations),)
        )

    def book(self, session: Session, work: Work, usage: Usage, *, model: str, now: float) -> Work:
        """Add to the session's totals and to the ledger; return the work to keep."""
        on = utc_day(now)
        booked = work.guarded.with_usage(on, model, usage)

        def book(db: Db) -> None:
            db.execute(_ADD, (*counts(usage), number_of(db, session.id)))
            ledger.add(db, {(on, session.source, model): usage})

        self._database.run(book)
        return replace(work, guarded=replace(work.guarded, booked=booked))

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        return self._store.end(session_id, reason, at=at)

    def warned_on(self, today: float) -> Sequence[str]:
        row = self._database.query("SELECT value FROM facts WHERE name = %s", (WARNED_TODAY,)).first
        on, *told = json.loads(row[0]) if row else ("",)
        return told if on == utc_day(today) else ()

    def warn_on(self, today: float, told: Sequence[str]) -> None:
        self._database.change(
            "INSERT INTO facts (name, value) VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (WARNED_TODAY, json.dumps([utc_day(today), *told])),
        )


def bring(db: Db, number: int, guarded: Guarded) -> None:
    """Give a session from another store the counts that a guard kept for it there."""
    keep(db, number, Work(guarded=guarded))
    db.execute(_ADD, (*counts(guarded.usage), number))


def keep(db: Db, session: int, work: Work) -> None:
    db.execute(_KEEP, (session, *kept_columns(work)))


def number_of(db: Db, session_id: str) -> int:
    """The number of an existing session, whatever the case of its id."""
    [[number]] = db.execute(
        "SELECT number FROM sessions WHERE lower(id) = lower(%s)", (session_id,)
    ).rows
    return int(number)


def _day(db: Db, on: str) -> tuple[DayShare, ...]:
    rows = db.execute(
        f"SELECT source, model, {ledger.SUMS} FROM ledger WHERE day = %s "  # noqa: S608 - our own names
        f"GROUP BY source, model HAVING {ledger.ANYTHING}",
        (on,),
    )
    return tuple(
        DayShare(source=source, model=model, usage=usage_of(sums)) for source, model, *sums in rows
    )
