"""The check-up of a Hermes home: its database and configuration, and our own folder.

Hermes's database is only read. It is never repaired from here: Hermes knows its own format best,
and tries to repair damage when it starts. The only change is to finish what a killed run of ours
left undone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.homes.checkup import HomeCheckup
from holdfast.homes.hermes import config_check
from holdfast.homes.hermes.kind import DATABASE
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.moves import HermesEngine
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.usage import NAME as USAGE
from holdfast.homes.home import Ground
from holdfast.homes.lost_database import PUT_IT_BACK, why_lost
from holdfast.model.checkup import Finding, Repair, Severity
from holdfast.model.text import format_count
from holdfast.ports.archive import Archive
from holdfast.ports.runs import Progress
from holdfast.stores.sqlite.database import sqlite_errors

STORE = "Hermes's database"
PAGES = "pages"
REFERENCES = "references"
SEARCH = "search tables"

_HERMES_REPAIRS = (
    "Holdfast never repairs Hermes's database. Close Hermes, copy state.db aside, and start Hermes:"
    " it repairs what it can by itself."
)


class HermesCheckup(HomeCheckup):
    """The check-up of a Hermes home."""

    def __init__(
        self, ground: Ground, engine: Callable[[], HermesEngine | None], archive: Archive
    ) -> None:
        super().__init__(ground, USAGE, archive)
        self._of = ground.root / DATABASE
        self._engine = engine

    def _look_at_store(self, progress: Progress) -> Iterator[Finding]:
        progress.step("looking at Hermes's database", 0, None)
        if (why := why_lost(self._of)) is not None:
            said = f"{self._of.name} {why}"
            warning = Severity.WARNING
            yield Finding(check=STORE, severity=warning, message=said, advice=PUT_IT_BACK)
        else:
            yield from check(self._of)
        yield from config_check.check(self._of.parent)

    def _mend_store(self, wanted: set[str], now: float, progress: Progress) -> Iterator[Repair]:
        engine = self._engine() if SEARCH in wanted else None
        if engine is not None:
            engine.search.complete()
            yield Repair(steps=("put messages back into Hermes's search tables",))


def check(path: Path) -> Iterator[Finding]:
    """One finding for each check of the database."""
    if not path.exists():
        yield Finding(check=STORE, message="no store exists yet")
        return
    try:
        with sqlite_errors(path), contextlib.closing(HermesDatabase(path)) as database:
            yield from _look(database)
    except HoldfastError as error:
        yield _damage(PAGES, error.message)


def _look(database: HermesDatabase) -> Iterator[Finding]:
    if not database.schema.columns:
        yield Finding(check=STORE, message="nothing was stored yet")
        return
    yield _schema(database.schema)
    with database.read() as db:
        [pages] = db.execute("PRAGMA integrity_check(1)").fetchone()
        yield Finding(check=PAGES) if pages == "ok" else _damage(PAGES, str(pages))
        broken = len(db.execute("PRAGMA foreign_key_check").fetchall())
        rows = f"{format_count(broken, 'row')} refer to sessions or messages that are not there"
        yield _damage(REFERENCES, rows) if broken else Finding(check=REFERENCES)
        for table in database.schema.search_tables:
            [missing] = db.execute(
                f"""
                SELECT count(*) FROM messages m
                WHERE NOT EXISTS (SELECT 1 FROM {table}_docsize d WHERE d.id = m.id)
                """  # noqa: S608 - our own constants
            ).fetchone()
            if missing:
                yield _missing(table, missing)
                return
    yield Finding(check=SEARCH)


def _schema(schema: Schema) -> Finding:
    if schema.unknown is None:
        release = f" of Hermes {schema.release}" if schema.release else ""
        return Finding(check=STORE, message=f"schema {schema.version}{release}")
    return Finding(
        check=STORE,
        severity=Severity.WARNING,
        message=f"{schema.unknown}; it can be read, but is never changed",
        advice="Upgrade Holdfast to change this home.",
    )


def _missing(table: str, messages: int) -> Finding:
    return Finding(
        check=SEARCH,
        severity=Severity.WARNING,
        message=f"{format_count(messages, 'message')} cannot be found in {table}",
        advice="If a run of Holdfast was killed, the next one that changes this home, or "
        "`holdfast doctor --repair`, puts them back.",
        repairable=True,
    )


def _damage(what: str, message: str) -> Finding:
    return Finding(check=what, severity=Severity.DAMAGE, message=message, advice=_HERMES_REPAIRS)
