"""The usage of Hermes's sessions, including removed ones.

Hermes counts the sessions in its database. Before Holdfast removes a session, it records the
session's usage under its id: so a session that is restored is not counted twice, even after a kill.

The usage of auxiliary models (vision, compression, titles) is in a separate table of Hermes, by
task, and not in the session's row. It is counted here as well, each task under its name.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.homes.hermes.state_db.rows import sessions_table
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.model.usage import Usage, UsageEntry
from holdfast.model.utc_day import utc_day
from holdfast.stores.files import PRIVATE_FILE, make_private_dir, storage_errors
from holdfast.stores.sessions.session_rows import COUNTS, usage_of

NAME = "usage.db"
_BUSY = 30.0
_COLUMNS = ("id", "started_at", "source", "model", *COUNTS)
_NAMES = ", ".join(_COLUMNS)
_TASKS = "session_model_usage"
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS gone (
        id TEXT, started_at REAL, source TEXT, model TEXT, tokens_in INTEGER, tokens_out INTEGER,
        tokens_cached INTEGER, cost REAL, unpriced_in INTEGER, unpriced_out INTEGER,
        unpriced_cached INTEGER, PRIMARY KEY (id, started_at)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS gone_tasks (
        id TEXT, started_at REAL, source TEXT, model TEXT, tokens_in INTEGER, tokens_out INTEGER,
        tokens_cached INTEGER, cost REAL, unpriced_in INTEGER, unpriced_out INTEGER,
        unpriced_cached INTEGER, task TEXT, PRIMARY KEY (id, started_at, model, task)
    ) WITHOUT ROWID;
"""
_Row = tuple[str, float, str, str | None, int, int, int, float, int, int, int, str | None]


class UsageLedger:
    """The usage of the sessions of a Hermes home, including those that Holdfast removed."""

    def __init__(self, state: Path) -> None:
        self._path = state / NAME

    def note(self, db: sqlite3.Connection, schema: Schema, condition: str, chosen: str) -> None:
        """Record the usage of sessions before they are removed. `condition` is a condition on
        `s`."""
        rows = self._stored(db, schema, condition, (chosen,))
        if not rows:
            return
        make_private_dir(self._path.parent)
        self._create()
        with contextlib.closing(sqlite3.connect(self._path, timeout=_BUSY)) as ledger, ledger:
            ledger.executescript(_SCHEMA)
            for table, names, noted in (
                ("gone", _NAMES, [row[:-1] for row in rows if row[-1] is None]),
                ("gone_tasks", f"{_NAMES}, task", [row for row in rows if row[-1] is not None]),
            ):
                marks = ", ".join("?" * (names.count(",") + 1))
                ledger.executemany(
                    f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - our own names
                    noted,
                )

    def _create(self) -> None:
        """Create a private file, which SQLite would not. An existing file is not opened: closing it
        again would drop the locks that this process holds on it."""
        with storage_errors(f"create {self._path}"), contextlib.suppress(FileExistsError):
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
            os.close(os.open(self._path, flags, PRIVATE_FILE))

    def entries(
        self, db: sqlite3.Connection, schema: Schema, *, on: float | None = None
    ) -> Sequence[UsageEntry]:
        sums: dict[tuple[str | None, str, str | None, str | None], Usage] = {}
        for row in self._rows(db, schema):
            key = (utc_day(row[1]) or None, row[2], row[3] or None, row[-1])
            used = usage_of(row[4:-1])
            if used != Usage() and (on is None or key[0] == utc_day(on)):
                sums[key] = sums.get(key, Usage()).plus(used)
        return [
            UsageEntry(day=on_day, source=source, model=model, usage=used, task=task)
            for (on_day, source, model, task), used in sums.items()
        ]

    def _rows(self, db: sqlite3.Connection, schema: Schema) -> Iterator[_Row]:
        there = set()
        for row in self._stored(db, schema, "1", ()):
            there.add(row[:2])
            yield row
        if self._path.is_file():
            uri = self._path.absolute().as_uri() + "?mode=ro"
            with (
                contextlib.suppress(sqlite3.Error),
                contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_BUSY)) as ledger,
            ):
                # A ledger of an older version has no table of tasks.
                for table, task in (("gone", "NULL"), ("gone_tasks", "task")):
                    for row in ledger.execute(f"SELECT {_NAMES}, {task} FROM {table}"):  # noqa: S608 - our own names
                        if row[:2] not in there:
                            yield row

    def _stored(
        self, db: sqlite3.Connection, schema: Schema, condition: str, parameters: Sequence[str]
    ) -> list[_Row]:
        columns = ", ".join(f"s.{name}" for name in _COLUMNS)
        rows = db.execute(
            f"SELECT {columns}, NULL FROM {sessions_table(schema)} WHERE {condition}",  # noqa: S608 - our own names
            parameters,
        ).fetchall()
        if schema.has(_TASKS, "task"):
            rows += db.execute(_of_tasks(schema, condition), parameters).fetchall()
        return rows


def _of_tasks(schema: Schema, condition: str) -> str:
    """The same columns for auxiliary models. A cost of 0 means that the cost is unknown."""
    tokens = ("u.input_tokens", "u.output_tokens", "u.cache_read_tokens")
    untold = "(u.actual_cost_usd = 0 AND u.estimated_cost_usd = 0)"
    sums = ", ".join(f"sum({each})" for each in tokens)
    unpriced = ", ".join(f"sum({untold} * {each})" for each in tokens)
    return f"""
        SELECT s.id, s.started_at, s.source, u.model, {sums},
               sum(coalesce(nullif(u.actual_cost_usd, 0), u.estimated_cost_usd)), {unpriced}, u.task
        FROM {sessions_table(schema)} JOIN {_TASKS} u ON u.session_id = s.id
        WHERE u.task <> '' AND {condition} GROUP BY s.number, u.model, u.task
    """  # noqa: S608 - our own names
