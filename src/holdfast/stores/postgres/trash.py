"""Undo copies of sessions: their rows, in tables of the same database.

So the copy and the removal cannot be on different disks, and any machine can bring back what
another one removed. A bundle is what one step of an operation removed. To the rest of Holdfast it
is a path in the trash of its operation, like the bundle files of a SQLite store, but no such file
exists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.model.stored_session import Copied
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.sessions.session_rows import GUARDED_COLUMNS, LEASE_COLUMNS, SESSION_COLUMNS

_NAME = re.compile(r"(\d+)-(\d+)\.(\d+)\.rows")
_MESSAGES = "session, number, role, timestamp, form, body, fields"
#: Tables whose rows belong to sessions, with their columns; the first is the session.
BELONGING = (
    ("messages", _MESSAGES),
    ("leases", ", ".join(LEASE_COLUMNS)),
    ("guarded", ", ".join(GUARDED_COLUMNS)),
)
#: Bytes of a row besides the content of its message.
_ROW_BYTES = 64
_SESSION_BYTES = 256


class TrashTables:
    """The undo copies of one operation."""

    def __init__(self, database: Database, origin: str, folder: Path) -> None:
        self._database = database
        self._origin = origin
        self._folder = folder
        self._operation = folder.parent.name

    def write(self, numbers: Sequence[int], first: int, last: int) -> Path:
        """Copy one snapshot of all these sessions."""

        def copy(db: Db) -> int:
            chosen = list(numbers)
            # Locked, so that nothing is added to a session between its row and its messages.
            db.execute(
                "SELECT 1 FROM sessions WHERE number = ANY(%s::bigint[]) ORDER BY number FOR SHARE",
                (chosen,),
            )
            [[bundle]] = db.execute(
                "INSERT INTO trash_bundles (origin, operation, first, last) "
                "VALUES (%s, %s, %s, %s) RETURNING number",
                (self._origin, self._operation, first, last),
            ).rows
            _copy(db, bundle, chosen)
            return int(bundle)

        return self._folder / f"{first}-{last}.{self._database.run(copy)}.rows"

    def holding(self, numbers: Sequence[int]) -> Mapping[Path, list[int]]:
        rows = self._database.query(
            "SELECT number, first, last FROM trash_bundles WHERE origin = %s AND operation = %s "
            "ORDER BY first, number",
            (self._origin, self._operation),
        )
        found: dict[Path, list[int]] = {}
        for bundle, first, last in rows:
            inside = [number for number in numbers if first <= number <= last]
            if inside:
                found[self._folder / f"{first}-{last}.{bundle}.rows"] = inside
        return found

    def contents(self, path: Path) -> Sequence[Copied]:
        rows = self._database.query(
            "SELECT id, number, started_at, first_message FROM trash_sessions WHERE bundle = %s "
            "ORDER BY number",
            (bundle_of(path),),
        ).rows
        if not rows:
            raise DamageError(f"its copy is not in the trash of {self._database.place} any more")
        return [Copied(*row) for row in rows]

    def check(self, path: Path) -> None:
        """Check that every copied message is there; PostgreSQL takes care of their bytes."""
        wrong = self._database.query(
            """
            SELECT 1 FROM trash_sessions s WHERE s.bundle = %s AND s.copied <> (
                SELECT count(*) FROM trash_messages m
                WHERE m.bundle = s.bundle AND m.session = s.number)
            """,
            (bundle_of(path),),
        ).first
        if wrong is not None:
            raise DamageError(f"its copy in the trash of {self._database.place} is not complete")

    def without(self, path: Path, ids: Collection[str]) -> Path | None:
        def remove(db: Db) -> bool:
            bundle = bundle_of(path)
            db.execute(
                "DELETE FROM trash_sessions WHERE bundle = %s AND id = ANY(%s::text[])",
                (bundle, list(ids)),
            )
            left = db.execute("SELECT 1 FROM trash_sessions WHERE bundle = %s LIMIT 1", (bundle,))
            if left.first is None:
                db.execute("DELETE FROM trash_bundles WHERE number = %s", (bundle,))
            return left.first is not None

        return path if self._database.run(remove) else None

    def drop(self, path: Path) -> None:
        self._database.change("DELETE FROM trash_bundles WHERE number = %s", (bundle_of(path),))

    def size(self, path: Path) -> int:
        return _bytes(self._database, "s.bundle = %s", bundle_of(path))

    def bytes(self) -> int:
        return _bytes(
            self._database,
            "s.bundle IN (SELECT number FROM trash_bundles WHERE origin = %s AND operation = %s)",
            self._origin,
            self._operation,
        )

    def clear_unfinished(self) -> None:
        """Do nothing: a transaction leaves nothing unfinished."""

    def drop_if_empty(self) -> None:
        """Do nothing: an empty bundle has been deleted already."""


def bytes_of(database: Database, origin: str) -> int:
    """The size of all undo copies of one operation log."""
    condition = "s.bundle IN (SELECT number FROM trash_bundles WHERE origin = %s)"
    return _bytes(database, condition, origin)


def _bytes(database: Database, condition: str, *values: object) -> int:
    [[size]] = database.query(
        f"""
        SELECT coalesce(sum({_SESSION_BYTES} + (
            SELECT coalesce(sum({_ROW_BYTES} + coalesce(octet_length(m.body), 0)
                                + coalesce(octet_length(m.fields), 0)), 0)
            FROM trash_messages m WHERE m.bundle = s.bundle AND m.session = s.number)), 0
        )::bigint
        FROM trash_sessions s WHERE {condition}
        """,  # noqa: S608 - our own text
        values,
    ).rows
    return int(size)


def bundle_of(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise DamageError(f"{path.name} is no bundle of a PostgreSQL store")
    return int(found[3])


def _copy(db: Db, bundle: int, numbers: Sequence[int]) -> None:
    columns = ", ".join(SESSION_COLUMNS)
    db.execute(
        f"""
        INSERT INTO trash_sessions
            (bundle, number, parent_id, routing_key, copied, first_message, {columns})
        SELECT %s, s.number, p.id, r.key,
               (SELECT count(*) FROM messages m WHERE m.session = s.number),
               (SELECT min(m.number) FROM messages m WHERE m.session = s.number),
               {", ".join(f"s.{column}" for column in SESSION_COLUMNS)}
        FROM sessions s
        LEFT JOIN sessions p ON p.number = s.parent
        LEFT JOIN routes r ON r.session = s.number
        WHERE s.number = ANY(%s::bigint[])
        """,  # noqa: S608 - our own names
        (bundle, list(numbers)),
    )
    for table, names in BELONGING:
        db.execute(
            f"INSERT INTO trash_{table} (bundle, {names}) "  # noqa: S608 - our own names
            f"SELECT %s, {names} FROM {table} WHERE session = ANY(%s::bigint[])",
            (bundle, list(numbers)),
        )
