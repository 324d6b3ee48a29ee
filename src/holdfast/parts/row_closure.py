"""Which rows of a SQLite file belong to a part: those that it names, and all rows that refer to
them by a foreign key. So tables that the format does not know are moved too."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import StorageError
from holdfast.model.part import Rows, RowsPart, Slot, digest
from holdfast.value import dataclass

#: SQL for the size of a value. `octet_length` is faster: it does not read a long text. Stamps use
#: `length` regardless, because they may be compared after SQLite was upgraded.
_LENGTH = "octet_length" if sqlite3.sqlite_version_info >= (3, 43) else "length"
REFERRED_TO = "another session refers to its rows"


def part_of(slot: Slot) -> RowsPart:
    if not isinstance(slot.part, RowsPart):
        raise TypeError(slot.part)
    return slot.part


def q(name: str) -> str:
    """Quote a name: tables and columns of another agent may be called anything."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the agent. `keys` identify a row: the rowid, or the primary key if there is none.
    `columns` exclude generated ones. `copied`: the table with the copies, if not the original."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    copied: str = ""

    @property
    def has_rowid(self) -> bool:
        return self.keys[0] not in self.columns and len(self.keys) == 1

    @property
    def found(self) -> str:
        return f"temp.{q('found ' + self.name)}"

    @property
    def copies(self) -> str:
        return self.copied or f"b.{q('rows ' + self.name)}"

    def is_row(self, table: str, found: str) -> str:
        """SQL: a row of the table is the one that was found or copied."""
        return " AND ".join(
            f"{table}.{q(key) if not self.has_rowid else key} = {found}.k{place}"
            for place, key in enumerate(self.keys)
        )

    def is_same_key(self, table: str, copy: str, key: Sequence[str]) -> str:
        """SQL: a row of the table has the primary key that was copied."""
        return " AND ".join(
            f"{table}.{q(column)} IS {copy}.c{self.columns.index(column)}" for column in key
        )

    def key_list(self, table: str) -> str:
        return ", ".join(f"{table}.{q(key) if not self.has_rowid else key}" for key in self.keys)

    def size(self, length: str) -> str:
        """SQL: the total length of the values of a row."""
        return " + ".join(f"coalesce({length}({q(each)}), 0)" for each in self.columns) or "0"

    def same(self, table: str, copy: str, *, but: str | None = None) -> str:
        """SQL: all columns are equal, including NULLs."""
        return " AND ".join(
            f"{table}.{q(column)} IS {copy}.c{place}"
            for place, column in enumerate(self.columns)
            if column != but
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    child: str
    columns: tuple[str, ...]
    parent: str
    targets: tuple[str, ...]
    detaches: bool


class Schema:
    """The tables of a database and how they refer to each other."""

    def __init__(self, db: sqlite3.Connection) -> None:
        listed = db.execute(
            "SELECT name, type FROM pragma_table_list "
            "WHERE schema = 'main' AND type IN ('table', 'virtual') "
            "AND substr(name, 1, 7) <> 'sqlite_'"
        ).fetchall()
        self.tables = {name: _table(db, name) for name, _ in listed}
        self.ordinary = [name for name, kind in listed if kind == "table"]
        self.foreign_keys = [key for name in self.ordinary for key in self._keys_of(db, name)]
        self.has_triggers = bool(
            db.execute("SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger'").fetchone()
        )

    def table(self, name: str) -> Table | None:
        """Find a table; SQLite ignores the case of names."""
        return next(
            (each for each in self.tables.values() if each.name.lower() == name.lower()), None
        )

    def _keys_of(self, db: sqlite3.Connection, child: str) -> Iterator[ForeignKey]:
        grouped: dict[int, list[tuple[str, str, str | None, str]]] = defaultdict(list)
        for number, _, parent, column, target, _, on_delete, _ in db.execute(
            f"PRAGMA main.foreign_key_list({q(child)})"
        ):
            grouped[number].append((parent, column, target, on_delete))
        for rows in grouped.values():
            parent = self.table(rows[0][0])
            if parent is not None:
                targets = tuple(target for _, _, target, _ in rows if target is not None)
                yield ForeignKey(
                    child=child,
                    columns=tuple(column for _, column, _, _ in rows),
                    parent=parent.name,
                    targets=targets or primary_key(db, parent.name) or parent.keys,
                    detaches=rows[0][3].upper() in ("SET NULL", "SET DEFAULT"),
                )


def _table(db: sqlite3.Connection, name: str) -> Table:
    rows = db.execute(f"PRAGMA main.table_xinfo({q(name)})").fetchall()
    columns = tuple(column for _, column, _, _, _, _, hidden in rows if hidden == 0)
    [without_rowid] = db.execute(
        "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", (name,)
    ).fetchone()
    if without_rowid:
        return Table(name=name, keys=primary_key(db, name), columns=columns)
    taken = {column.lower() for column in columns}
    rowid = next((each for each in ("rowid", "_rowid_", "oid") if each not in taken), None)
    if rowid is None:
        raise StorageError(
            f"Table {name} has no usable row id: its columns are named rowid, _rowid_ and oid."
        )
    return Table(name=name, keys=(rowid,), columns=columns)


def is_numbered_by_itself(db: sqlite3.Connection, table: str) -> bool:
    """True if the table has a primary key other than the rowid, so the rowid carries no meaning."""
    kinds = dict(
        db.execute("SELECT name, upper(type) FROM pragma_table_info(?) WHERE pk", (table,))
    )
    return bool(kinds) and [*kinds.values()] != ["INTEGER"]


def primary_key(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = db.execute(f"PRAGMA main.table_info({q(table)})").fetchall()
    return tuple(
        name for _, name in sorted((place, name) for _, name, _, _, _, place in rows if place)
    )


# --- Which rows belong to a part ------------------------------------------------------------------


class Closure:
    """The rows of a batch of slots, in temporary tables `found <table>(slot, k0, …)`."""

    def __init__(self, db: sqlite3.Connection, slots: Sequence[Slot]) -> None:
        self._db = db
        self._slots = slots
        self.schema = Schema(db)
        self._wanted: dict[tuple[str, str, str], list[tuple[str, str | int]]] = defaultdict(list)
        for slot in slots:
            for rows in part_of(slot).rows:
                table = self._named(rows)
                if table is not None:
                    key = (table.name, rows.column, rows.stamp)
                    self._wanted[key].append((slot.name, rows.value))
        self._anchors = {table for table, _, _ in self._wanted}

    def _named(self, rows: Rows) -> Table | None:
        """Return the table of these rows; None if this release of the agent does not have it."""
        table = self.schema.table(rows.table)
        if table is not None and rows.column.lower() not in map(str.lower, table.columns):
            # SQLite would take the quoted name of a missing column for a string.
            raise StorageError(f"Table {table.name} has no column {rows.column}.")
        return table

    def stamps(self) -> Mapping[str, tuple[str, int]]:
        """Return stamp and size of the slots that have rows, one query per table and column."""
        said: dict[str, list[str]] = defaultdict(list)
        sizes: dict[str, int] = defaultdict(int)
        for (name, column, stamp), wanted in sorted(self._wanted.items()):
            table = self.schema.tables[name]
            size, weight = table.size("length"), table.size(_LENGTH)
            latest = f"max({table.keys[0]})" if table.has_rowid else "''"
            usual = f"count(*) || ':' || coalesce({latest}, '') || ':' || total({size})"
            names = defaultdict(list)
            for slot, value in wanted:
                names[str(value)].append(slot)
            rows = self._db.execute(
                f"SELECT {q(column)}, {stamp or usual}, total({weight}) FROM main.{q(name)} "
                f"WHERE {q(column)} IN (SELECT value FROM json_each(?)) GROUP BY 1",
                (json.dumps([value for _, value in wanted]),),
            )
            for value, found, bytes_ in rows:
                for slot in names[str(value)]:
                    said[slot].append(f"{name}.{column}={found}")
                    sizes[slot] += int(bytes_)
        return {slot: (digest(each), sizes[slot]) for slot, each in said.items()}

    def find(self) -> Mapping[str, str]:
        """Fill the temporary tables. Returns the slots that may not go, with the reason."""
        self._begin()
        for (name, column, _), wanted in self._wanted.items():
            table = self.schema.tables[name]
            self._db.execute("DELETE FROM temp.wanted")
            self._db.executemany("INSERT INTO temp.wanted VALUES (?, ?)", wanted)
            self._db.execute(
                f"INSERT OR IGNORE INTO {table.found} SELECT w.slot, {table.key_list('m')} "
                f"FROM temp.wanted w CROSS JOIN main.{q(name)} m ON m.{q(column)} = w.value"
            )
        while any(self._follow(key) for key in self.schema.foreign_keys):
            pass
        return {
            slot: REFERRED_TO
            for key in self.schema.foreign_keys
            if key.child in self._anchors and not key.detaches
            for slot in self._strangers(key)
        }

    def _begin(self) -> None:
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (slot, value)")
        for table in self.schema.tables.values():
            self._db.execute(f"DROP TABLE IF EXISTS {table.found}")
            keys = ", ".join(f"k{place}" for place, _ in enumerate(table.keys))
            self._db.execute(
                f"CREATE TABLE {table.found} (slot, {keys}, PRIMARY KEY (slot, {keys}))"
            )

    def _referring(self, key: ForeignKey) -> str:
        """SQL: rows `c` of a child table that refer to rows `p` that were found, as `f`."""
        child, parent = self.schema.tables[key.child], self.schema.tables[key.parent]
        joined = " AND ".join(
            f"c.{q(column)} = p.{q(target) if target in parent.columns else target}"
            for column, target in zip(key.columns, key.targets, strict=True)
        )
        return (
            f"FROM {parent.found} f "
            f"CROSS JOIN main.{q(parent.name)} p ON {parent.is_row('p', 'f')} "
            f"CROSS JOIN main.{q(child.name)} c ON {joined}"
        )

    def _follow(self, key: ForeignKey) -> bool:
        if key.detaches or key.child in self._anchors:
            return False
        child = self.schema.tables[key.child]
        done = self._db.execute(
            f"INSERT OR IGNORE INTO {child.found} SELECT f.slot, {child.key_list('c')} "
            f"{self._referring(key)}"
        )
        return done.rowcount > 0

    def _strangers(self, key: ForeignKey) -> list[str]:
        """Return slots whose rows are referred to by a row of another session, which stays."""
        child = self.schema.tables[key.child]
        rows = self._db.execute(
            f"SELECT DISTINCT f.slot {self._referring(key)} WHERE NOT EXISTS "
            f"(SELECT 1 FROM {child.found} o WHERE {child.is_row('c', 'o')})"
        )
        return [slot for (slot,) in rows]

    def detached(self) -> list[tuple[str, str, str, str, object]]:
        """Return rows that stay and lose what they refer to: slot, table, keys, column, value."""
        found = []
        for key in self.schema.foreign_keys:
            if not key.detaches:
                continue
            child = self.schema.tables[key.child]
            if len(key.columns) > 1:
                raise StorageError(
                    f"Table {child.name} has a foreign key of several columns with ON DELETE SET "
                    "NULL or SET DEFAULT, which is not supported."
                )
            keys = f"json_array({child.key_list('c')})"
            found += self._db.execute(
                f"SELECT f.slot, ?, {keys}, ?, c.{q(key.columns[0])} {self._referring(key)} "
                f"WHERE NOT EXISTS (SELECT 1 FROM {child.found} o WHERE {child.is_row('c', 'o')}) "
                "ORDER BY 1, 3",
                (child.name, key.columns[0]),
            ).fetchall()
        return found

    def copy(self) -> None:
        """Write the rows of all slots to the copies, which are attached as `b`."""
        self.find()
        make_copies(self._db)
        self._db.executemany(
            "INSERT INTO b.slots VALUES (?)", [(each.name,) for each in self._slots]
        )
        self._db.executemany("INSERT INTO b.detached VALUES (?, ?, ?, ?, ?)", self.detached())
        for table in self.reached():
            keys = "".join(f", k{place}" for place, _ in enumerate(table.keys))
            values = "".join(f", c{place}" for place, _ in enumerate(table.columns))
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table.copies} (slot{keys}{values})")
            self._db.execute(
                "INSERT OR IGNORE INTO b.tables VALUES (?, ?)",
                (table.name, json.dumps(table.columns)),
            )
            columns = "".join(f", m.{q(column)}" for column in table.columns)
            self._db.execute(
                f"INSERT INTO {table.copies} SELECT f.slot, {table.key_list('m')}{columns} "
                f"FROM {table.found} f "
                f"CROSS JOIN main.{q(table.name)} m ON {table.is_row('m', 'f')} "
                "ORDER BY 2"
            )

    def reached(self) -> list[Table]:
        return [
            table
            for table in self.schema.tables.values()
            if self._db.execute(f"SELECT 1 FROM {table.found}").fetchone()
        ]


def make_copies(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS b.slots (slot PRIMARY KEY)")
    db.execute("CREATE TABLE IF NOT EXISTS b.tables (name PRIMARY KEY, columns)")
    db.execute("CREATE TABLE IF NOT EXISTS b.detached (slot, name, keys, col, value)")
