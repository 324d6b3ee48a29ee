"""Tokens that came without a cost, counted from messages where nobody had counted them.

For what is read as a whole anyhow: a store that is made anew, a session that comes back. A store
that is opened says it by its sums, see schema_3.sql.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.stores.sqlite import ledger, totals


def count_stored(db: sqlite3.Connection) -> None:
    """Count them, from the messages that are there. Inside a transaction."""
    by_session: dict[int, Tokens] = {}
    by_key: dict[ledger.Key, Usage] = {}
    before, db.text_factory = db.text_factory, totals.text_or_torn
    try:
        for session, key, usage in ledger.stored(db):
            if usage.unpriced != Tokens():
                known = by_session.get(session, Tokens())
                by_session[session] = known.plus(usage.unpriced)
            by_key[key] = by_key.get(key, Usage()).plus(usage)
    finally:
        db.text_factory = before
    set_sessions(db, by_session)
    _set_ledger(db, by_key)


def recount(db: sqlite3.Connection, session: int) -> None:
    """Count those of one session that comes back from a copy which does not say."""
    sums = Tokens()
    for _, _, usage in ledger.stored(db, session):
        sums = sums.plus(usage.unpriced)
    set_sessions(db, {session: sums})


def set_sessions(db: sqlite3.Connection, by_session: Mapping[int, Tokens]) -> None:
    db.executemany(
        "UPDATE sessions SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
        "WHERE number = ?",
        (
            (tokens.input, tokens.output, tokens.cached, session)
            for session, tokens in by_session.items()
        ),
    )


def _set_ledger(db: sqlite3.Connection, by_key: Mapping[ledger.Key, Usage]) -> None:
    """What is there says it of itself. Of what is gone, only the sums are left: nearly right, they
    came without a cost if all of them together have none."""
    names = ", ".join((*ledger.KEYS, *ledger.COUNTS))
    for day, source, model, *counts in db.execute(f"SELECT {names} FROM ledger").fetchall():  # noqa: S608 - our own names
        key = day, source, model
        here = by_key.get(key, Usage())
        gone = ledger.from_counts(counts).plus(ledger.minus(here))
        unpriced = here.unpriced
        if abs(gone.cost) < ledger.NO_COST:
            unpriced = unpriced.plus(gone.tokens)
        db.execute(
            "UPDATE ledger SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
            "WHERE day = ? AND source = ? AND model = ?",
            (
                max(0, unpriced.input),
                max(0, unpriced.output),
                max(0, unpriced.cached),
                *key,
            ),
        )
