"""What Holdfast knows about Hermes's database, and whether it knows the schema of a given one.

A database is known when all of this holds:

- its table `schema_version` has a number between those of releases 0.13.0 and 0.19.0, and
  `user_version` is not in use;
- `sessions` and `messages` have the columns that every one of these releases has;
- no table that refers to sessions, or has a column `session_id`, is unknown;
- no trigger on a table that is written to is unknown, and each one known does what it did.

Unknown columns are fine: rows are copied with all columns that are there. Anything else unknown may
mean that a removal leaves rows behind that Hermes trips over: such a database is read, never
written.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.stores.files import check_database
from holdfast.value import dataclass

#: Schema versions, and the first and last release that used them.
RELEASES = {
    11: "0.13 to 0.14",
    13: "0.15",
    14: "0.16",
    16: "0.17",
    17: "0.18.0",
    19: "0.18.1 to 0.18.2",
    22: "0.19",
}
OLDEST, NEWEST = min(RELEASES), max(RELEASES)

#: Tables whose rows belong to one session and are removed with it.
BELONGING = ("messages", "session_model_usage", "compression_locks", "telegram_dm_topic_bindings")
#: Tables that name sessions and outlive them: Hermes's own removal does not touch them either.
OUTLIVING = ("gateway_routing", "async_delegations", "delivery_obligations")

#: The columns that every known release has.
NEEDED = {
    "sessions": [
        "id",
        "source",
        "model",
        "parent_session_id",
        "started_at",
        "ended_at",
        "end_reason",
        "message_count",
        "tool_call_count",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "title",
    ],
    "messages": [
        "id",
        "session_id",
        "role",
        "content",
        "tool_call_id",
        "tool_calls",
        "tool_name",
        "timestamp",
        "token_count",
    ],
}
_SEARCHED = (
    "coalesce(new.content,'')||' '||coalesce(new.tool_name,'')||' '||coalesce(new.tool_calls,'')"
)
_SEARCH_TABLES = ("messages_fts", "messages_fts_trigram")
_EVENTS = ("insert", "delete", "update")
_BUSY_MILLISECONDS = 5_000


def _known_triggers() -> dict[str, str]:
    """The bodies of the triggers of the known releases, by name, without spaces and in lower
    case."""
    known = {}
    for table in _SEARCH_TABLES:
        gone = f"deletefrom{table}whererowid=old.id;"
        there = f"insertinto{table}(rowid,content)values(new.id,{_SEARCHED.replace(' ', '')});"
        for event, does in zip(_EVENTS, (there, gone, gone + there), strict=True):
            known[f"{table}_{event}"] = f"after{event}onmessagesbegin{does}end"
    return known


_TRIGGERS = _known_triggers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema of a database. `unknown` is the reason why it must not be written; None if it may
    be."""

    version: int | None
    unknown: str | None
    columns: dict[str, tuple[str, ...]]
    search_tables: tuple[str, ...]

    @property
    def release(self) -> str | None:
        """The releases with this schema version, if known."""
        if self.version is None or self.version > NEWEST or self.version < OLDEST:
            return None
        return RELEASES[max(number for number in RELEASES if number <= self.version)]

    def has(self, table: str, column: str) -> bool:
        return column in self.columns.get(table, ())

    @property
    def belonging(self) -> tuple[str, ...]:
        """The tables of this database whose rows are removed with their session."""
        return tuple(name for name in BELONGING if self.has(name, "session_id"))


def is_hermes(path: Path) -> bool | None:
    """True if this is a database of Hermes; None if the file is missing or cannot be read."""
    if not path.is_file():
        return None
    uri = path.absolute().as_uri() + "?mode=rw"
    try:
        check_database(path)
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
            db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            found = read(db)
    except (sqlite3.Error, OSError, StorageError):
        return None
    if not found.columns:
        return None  # empty: Hermes is still setting it up, or it is not in use yet
    return all(
        found.has(table, column)
        for table, column in (
            ("schema_version", "version"),
            ("sessions", "parent_session_id"),
            ("sessions", "started_at"),
            ("messages", "session_id"),
        )
    )


def read(db: sqlite3.Connection) -> Schema:
    """Read the schema of a database."""
    entries = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    tables = [name for kind, name, _, _ in entries if kind == "table"]
    columns = {name: _columns(db, name) for name in tables}
    version = _version(db, columns)
    search = tuple(
        name
        for kind, name, _, sql in entries
        if kind == "table" and name in _SEARCH_TABLES and _is_own_index(sql)
    )
    triggers = {
        name: (table, sql) for kind, name, table, sql in entries if kind == "trigger" and sql
    }
    unknown = (
        _unknown_version(db, version)
        or _unknown_tables(db, columns)
        or _unknown_triggers(triggers, columns)
    )
    return Schema(version=version, unknown=unknown, columns=columns, search_tables=search)


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = db.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return tuple(name for (name,) in rows)


def _version(db: sqlite3.Connection, columns: dict[str, tuple[str, ...]]) -> int | None:
    if "version" not in columns.get("schema_version", ()):
        return None
    rows = db.execute("SELECT version FROM schema_version").fetchall()
    number = rows[0][0] if len(rows) == 1 else None
    return number if isinstance(number, int) else None


def _unknown_version(db: sqlite3.Connection, version: int | None) -> str | None:
    if version is None:
        return "it does not record its schema version"
    if version > NEWEST:
        return f"its schema version is {version}, and this Holdfast knows versions up to {NEWEST}"
    if version < OLDEST:
        return f"its schema version is {version}, older than every known release"
    [used] = db.execute("PRAGMA user_version").fetchone()
    return f"its user_version was set to {used}" if used else None


def _unknown_tables(db: sqlite3.Connection, columns: dict[str, tuple[str, ...]]) -> str | None:
    for table, needed in NEEDED.items():
        missing = [column for column in needed if column not in columns.get(table, ())]
        if missing:
            return f"its table {table} has no column {missing[0]}"
    known = {"sessions", *BELONGING, *OUTLIVING}
    for table, found in columns.items():
        if table in known or table.startswith(_SEARCH_TABLES):
            continue
        refers = db.execute(
            "SELECT 1 FROM pragma_foreign_key_list(?) WHERE \"table\" IN ('sessions', 'messages')",
            (table,),
        ).fetchone()
        if refers or "session_id" in found:
            return f"it has an unknown table {table}, which refers to sessions"
    return None


def _unknown_triggers(
    triggers: dict[str, tuple[str, str]], columns: dict[str, tuple[str, ...]]
) -> str | None:
    written = {"sessions", *(name for name in BELONGING if name in columns)}
    for name, (table, sql) in triggers.items():
        if table in written and _TRIGGERS.get(name) != _does(name, sql):
            return f"it has an unknown trigger {name} on {table}"
    for table in _SEARCH_TABLES:
        there = [event for event in _EVENTS if f"{table}_{event}" in triggers]
        if there and (len(there) != len(_EVENTS) or table not in columns):
            return f"the triggers of {table} are incomplete; start Hermes once to repair it"
    return None


def _does(name: str, sql: str) -> str:
    """The text of a trigger after its name, without spaces and in lower case."""
    text = re.sub(r"\s+", "", sql).casefold()
    return text.removeprefix(f"createtrigger{name.casefold()}").removesuffix(";")


def _is_own_index(sql: str) -> bool:
    """True if a search table has its own copy of the text. Only then may rows be missing."""
    return "content=" not in re.sub(r"\s+", "", sql).casefold()
