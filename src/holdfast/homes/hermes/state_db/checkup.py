"""Looking Hermes's database over: schema, pages, references, search tables.

It only reads. Nothing of it is ever mended from here: Hermes knows its own format best, and tries
to mend what it finds damaged when it starts.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.checkup import Finding, Severity
from holdfast.model.text import format_count
from holdfast.stores.sqlite.database import sqlite_errors

STORE = "Hermes's database"
PAGES = "pages"
REFERENCES = "references"
SEARCH = "search tables"

_HERMES_MENDS = (
    "Holdfast never mends Hermes's database. Close Hermes, copy state.db aside, and start Hermes: "
    "it mends what it can by itself."
)
_MOST_SAID = 1


def check(path: Path) -> Iterator[Finding]:
    """One finding for each thing that was looked at."""
    if not path.exists():
        yield Finding(check=STORE, message="there is none yet")
        return
    try:
        with sqlite_errors(path), contextlib.closing(HermesDatabase(path)) as database:
            yield from _look(database)
    except (HoldfastError, sqlite3.Error) as error:
        message = error.message if isinstance(error, HoldfastError) else str(error)
        yield _damage(PAGES, message)


def _look(database: HermesDatabase) -> Iterator[Finding]:
    if not database.schema.columns:
        yield Finding(check=STORE, message="nothing was stored yet")
        return
    yield _schema(database.schema)
    with database.read() as db:
        pages = db.execute(f"PRAGMA integrity_check({_MOST_SAID})").fetchone()[0]
        yield Finding(check=PAGES) if pages == "ok" else _damage(PAGES, str(pages))
        yield _references(db)
        yield from _search(db, database.schema)


def _schema(schema: Schema) -> Finding:
    if schema.unknown is None:
        release = f" of Hermes {schema.release}" if schema.release else ""
        return Finding(check=STORE, message=f"schema {schema.version}{release}")
    return Finding(
        check=STORE,
        severity=Severity.WARNING,
        message=f"{schema.unknown}; it is read, and never changed",
        advice="Upgrade Holdfast to change this home.",
    )


def _references(db: sqlite3.Connection) -> Finding:
    broken = len(db.execute("PRAGMA foreign_key_check").fetchall())
    if not broken:
        return Finding(check=REFERENCES)
    rows = format_count(broken, "row")
    return _damage(REFERENCES, f"{rows} refer to sessions or messages that are not there")


def _search(db: sqlite3.Connection, schema: Schema) -> Iterator[Finding]:
    for table in schema.search_tables:
        [missing] = db.execute(
            f"""
            SELECT count(*) FROM messages m
            WHERE NOT EXISTS (SELECT 1 FROM {table}_docsize d WHERE d.id = m.id)
            """  # noqa: S608 - known names
        ).fetchone()
        if missing:
            yield Finding(
                check=SEARCH,
                severity=Severity.WARNING,
                message=f"{format_count(missing, 'message')} cannot be found in {table}",
                advice="If a run of Holdfast was killed, the next one that changes this home, or "
                "`holdfast doctor --repair`, puts them back.",
                repairable=True,
            )
            return
    yield Finding(check=SEARCH)


def _damage(check: str, message: str) -> Finding:
    return Finding(check=check, severity=Severity.DAMAGE, message=message, advice=_HERMES_MENDS)
