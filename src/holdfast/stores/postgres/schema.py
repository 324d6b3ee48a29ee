"""The tables of a store in PostgreSQL: numbered migrations, which only `store init` runs.

Normal work creates and alters nothing, so its user needs no right to. All tables are in the schema
`holdfast` of their database.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from psycopg import errors

from holdfast.errors import SchemaError, StorageError
from holdfast.stores.postgres import address
from holdfast.stores.postgres.database import Database, Result, SyncWire, Wire
from holdfast.stores.postgres.failure import as_ours

LATEST = 2
SCHEMA = "holdfast"
#: The oldest PostgreSQL release that is still maintained anywhere.
OLDEST_SERVER = 130_000
#: Key of the advisory lock held while migrating: two machines must not migrate at once.
_LOCK = 0x686F6C64
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_MOST_NAMES = 3
_FIRST = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations (
    number     integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


def script() -> str:
    """Everything that `create` does to an empty database, as a script for running with `psql`."""
    return f"BEGIN;\n{_statements(0)}COMMIT;\n"


def _statements(after: int) -> str:
    parts = [_FIRST, f"SET search_path = {SCHEMA}, pg_catalog;\n"]
    for number in range(after + 1, LATEST + 1):
        parts.append(_migration(number))
        parts.append(f"INSERT INTO migrations (number) VALUES ({number});\n")  # noqa: S608
    return "\n".join(parts)


def grants(role: str) -> str:
    """The rights that the user of normal work needs, and no more."""
    name = '"' + role.replace('"', '""') + '"'
    return f"""
GRANT USAGE ON SCHEMA {SCHEMA} TO {name};
GRANT SELECT ON {SCHEMA}.migrations TO {name};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {name};
REVOKE INSERT, UPDATE, DELETE ON {SCHEMA}.migrations FROM {name};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {name};
"""  # noqa: S608 - a name in quotes


def place_of(url: str) -> str:
    """The address for messages."""
    return address.shown(url)


def create(url: str, *, role: str | None = None) -> int:
    """Create the tables, or bring them up to date; with `role`, grant that user access. Return the
    schema number. All of it happens, or nothing."""
    place = address.shown(url)
    with as_ours(place), contextlib.closing(SyncWire(address.conninfo(url))) as wire:
        [[server]] = wire.execute("SELECT current_setting('server_version_num')::int", []).rows
        if server < OLDEST_SERVER:
            raise SchemaError(
                f"{place} runs PostgreSQL {server // 10_000}; Holdfast needs 13 or later."
            )
        with _alone(wire):
            found = _version(wire.execute, place) or 0
            with _whole(wire):
                if found < LATEST:
                    _check_room(wire, found, place)
                    wire.execute(_statements(found))
                if role is not None:
                    _grant(wire, role, place)
    return LATEST


def _check_room(wire: Wire, after: int, place: str) -> None:
    """Raise if a table that is to be created exists: another program's, or one of ours whose
    migration is not recorded, as after a partial restore of a backup."""
    rows = wire.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]).rows
    there = {str(name) for (name,) in rows}
    whole: list[int] = []
    found: list[str] = []
    is_torn = False
    for number in range(after + 1, LATEST + 1):
        tables = set(_TABLE.findall(_migration(number)))
        found += sorted(tables & there)
        if tables <= there and len(whole) == number - after - 1:
            whole.append(number)
        elif tables & there:
            is_torn = True
    if not found:
        return
    names = ", ".join(f"{SCHEMA}.{name}" for name in found[:_MOST_NAMES])
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    rows_to_add = ", ".join(f"({number})" for number in whole)
    raise SchemaError(
        f"{place} already has tables that `store init` creates ({names}{more}), but "
        f"{SCHEMA}.migrations has no record of creating them. Nothing was changed.",
        hint=(
            f"If Holdfast created them: INSERT INTO {SCHEMA}.migrations (number) VALUES "  # noqa: S608
            f"{rows_to_add}; and run it again. If not, use another database."
            if not is_torn
            else "Some are missing: restore a whole backup, or use another database."
        ),
    )


def _grant(wire: Wire, role: str, place: str) -> None:
    try:
        wire.execute(grants(role))
    except errors.UndefinedObject as error:  # everything else named there was just created
        raise StorageError(
            f"There is no user {role!r} in {place}; nothing was changed.",
            hint="Create the user first (`createuser`), or name one that exists.",
        ) from error


def check(database: Database) -> None:
    """Raise unless there is a store that this version can use."""
    version = _version(database.query, database.place)
    if version is None:
        raise StorageError(
            f"There is no session store in {database.place}.",
            hint="`holdfast store init` creates one.",
        )
    if version < LATEST:
        raise SchemaError(
            f"The store in {database.place} has an older schema ({version}; this version of "
            f"Holdfast needs {LATEST}).",
            hint="Stop what writes to it, then run `holdfast store init`.",
        )


@contextlib.contextmanager
def _alone(wire: Wire) -> Iterator[None]:
    wire.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        yield
    finally:
        if wire.is_open:
            wire.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


@contextlib.contextmanager
def _whole(wire: Wire) -> Iterator[None]:
    wire.execute("BEGIN")
    try:
        yield
    except BaseException:
        if wire.is_open:
            wire.execute("ROLLBACK")
        raise
    wire.execute("COMMIT")


def _version(ask: Callable[[str, Sequence[str]], Result], place: str) -> int | None:
    """The schema number, which must be known to this version; None if there is no schema."""
    [[there]] = ask("SELECT to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.migrations"])
    if not there:
        return None
    [[version]] = ask(f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.migrations", [])  # noqa: S608 - our own name
    if version > LATEST:
        raise SchemaError(
            f"The store in {place} was created by a newer version of Holdfast (schema {version}, "
            f"this one knows {LATEST}).",
            hint="Upgrade Holdfast.",
        )
    return int(version)


def _migration(number: int) -> str:
    return Path(__file__).with_name(f"schema_{number}.sql").read_text("utf-8")
