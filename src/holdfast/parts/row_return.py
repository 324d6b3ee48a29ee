"""Puts the rows of a session back into their tables. Their keys must be free; numbered rows may get
new numbers. Afterwards the tables are compared with the copies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from holdfast.model.part import Rows, Slot
from holdfast.parts.row_closure import (
    Closure,
    Table,
    is_numbered_by_itself,
    part_of,
    primary_key,
    q,
)
from holdfast.value import replace


class RefusedError(Exception):
    """Why none of a batch may go. Rolls the transaction back."""


def count_rows(db: sqlite3.Connection, table: str) -> int:
    [count] = db.execute(f"SELECT count(*) FROM main.{q(table)}").fetchone()
    return int(count)


def point_rows(
    db: sqlite3.Connection, table: Table, keys: str, column: str, value: object, was: object
) -> None:
    """Change what a row that stays refers to, if it still refers to `was`."""
    found = " AND ".join(f"{q(key) if not table.has_rowid else key} = ?" for key in table.keys)
    db.execute(
        f"UPDATE main.{q(table.name)} SET {q(column)} = ? WHERE {found} AND {q(column)} IS ?",
        (value, *json.loads(keys), was),
    )


class RowReturn:
    def __init__(self, db: sqlite3.Connection, slot: Slot) -> None:
        self._db = db
        self._slot = slot
        self._closure = Closure(db, [slot])
        self._tables = [self._table(name, columns) for name, columns in self._copied()]
        self._keys = {table.name: self._key(table) for table in self._tables}
        self._number_anew()

    def _copied(self) -> list[tuple[str, str]]:
        names = self._db.execute("SELECT name, columns FROM b.tables").fetchall()
        return [
            (name, columns)
            for name, columns in names
            if self._db.execute(
                f"SELECT 1 FROM b.{q('rows ' + name)} WHERE slot = ?", (self._slot.name,)
            ).fetchone()
        ]

    def _table(self, name: str, columns: str) -> Table:
        """Return the table as it was copied; the agent may have added columns since."""
        now = self._closure.schema.tables.get(name)
        kept = tuple(json.loads(columns))
        if now is None or not set(kept) <= set(now.columns):
            raise RefusedError(f"table {name} has changed")
        return Table(name=name, keys=now.keys, columns=kept)

    # Renumbering: the agent reused a number, in tables whose rows are only tied by their numbers.

    def _number_anew(self) -> None:
        """If a number is taken, shift all rows of tied tables past the others by the same step."""
        names = part_of(self._slot).numbered
        tied = [each for each in self._tables if each.name in names and each.has_rowid]
        if not any(self._is_taken(table) for table in tied):
            return
        ends = [self._numbers(table) for table in tied]
        step = max(last for _, last in ends) + 1 - min(first for first, _ in ends)
        for table in tied:
            moved = f"temp.{q('renumbered ' + table.name)}"
            self._db.execute(f"DROP TABLE IF EXISTS {moved}")
            self._db.execute(
                f"CREATE TABLE {moved} AS SELECT * FROM {table.copies} WHERE slot = ?",
                (self._slot.name,),
            )
            column = self._number_column(table)
            also = "" if column is None else f", c{table.columns.index(column)} = k0 + {step}"
            self._db.execute(f"UPDATE {moved} SET k0 = k0 + {step}{also}")
            self._tables[self._tables.index(table)] = replace(table, copied=moved)

    def _is_taken(self, table: Table) -> bool:
        found = self._db.execute(
            f"SELECT 1 FROM {table.copies} r JOIN main.{q(table.name)} m "
            f"ON {table.is_row('m', 'r')} WHERE r.slot = ? AND NOT ({table.same('m', 'r')})",
            (self._slot.name,),
        )
        return found.fetchone() is not None

    def _numbers(self, table: Table) -> tuple[int, int]:
        """Return the lowest number of the copies and the highest of all rows, including rows of
        other sessions that may return."""
        [first] = self._db.execute(
            f"SELECT min(k0) FROM {table.copies} WHERE slot = ?", (self._slot.name,)
        ).fetchone()
        [last] = self._db.execute(f"SELECT max(k0) FROM {table.copies}").fetchone()
        [there] = self._db.execute(
            f"SELECT max({table.keys[0]}) FROM main.{q(table.name)}"
        ).fetchone()
        return int(first), max(int(last), int(there or 0))

    def _number_column(self, table: Table) -> str | None:
        """Return the column that is an alias of the rowid, if there is one."""
        if is_numbered_by_itself(self._db, table.name):
            return None
        return next(iter(primary_key(self._db, table.name)), None)

    def run(self) -> None:
        self._closure.find()
        if self._closure.reached() and self._is_back():
            return
        before = {table.name: count_rows(self._db, table.name) for table in self._tables}
        expected = {table.name: self._expected(table) for table in self._tables}
        empty = [each for each in part_of(self._slot).rows if self._is_empty(each)]
        # Determined before the first insert: later rows with such a key come from a trigger.
        for table in self._tables:
            self._insert(table)
        for table in self._tables:
            # A trigger on a later table may have changed an earlier one; the copy is right.
            for again in (self._insert, self._correct):
                if not self._is_same(table):
                    again(table)
            if not self._is_same(table):
                raise RefusedError(f"a trigger changes rows of {table.name}")
            if count_rows(self._db, table.name) != before[table.name] + expected[table.name]:
                raise RefusedError(f"rows of {table.name} would be replaced")
        self._forget(empty)
        for name, keys, column, value in self._db.execute(
            "SELECT name, keys, col, value FROM b.detached WHERE slot = ?", (self._slot.name,)
        ).fetchall():
            child = self._closure.schema.tables.get(name)
            if child is not None:
                point_rows(self._db, child, keys, column, value, None)

    def _is_back(self) -> bool:
        """True if all rows are exactly as they were: a killed undo got this far."""
        return all(
            self._is_there(table) if table.copied else self._is_same(table)
            for table in self._tables
        )

    def _is_there(self, table: Table) -> bool:
        """True if the rows are the same apart from their numbers."""
        same = table.same("m", "r", but=self._number_column(table))
        [there] = self._db.execute(
            f"SELECT count(*) FROM {table.copies} r WHERE r.slot = ? AND EXISTS "
            f"(SELECT 1 FROM main.{q(table.name)} m WHERE {same})",
            (self._slot.name,),
        ).fetchone()
        return int(there) == self._copies(table)

    def _is_empty(self, rows: Rows) -> bool:
        """True if a table that the part names has no rows of it, neither now nor in the copy."""
        table = self._closure.schema.table(rows.table)
        if table is None or any(each.name == table.name for each in self._tables):
            return False
        return not self._db.execute(
            f"SELECT 1 FROM main.{q(table.name)} WHERE {q(rows.column)} = ?", (rows.value,)
        ).fetchone()

    def _forget(self, noted: Sequence[Rows]) -> None:
        """Delete what a trigger wrote about rows that merely came back."""
        for rows in noted:
            self._db.execute(
                f"DELETE FROM main.{q(rows.table)} WHERE {q(rows.column)} = ?", (rows.value,)
            )

    def _correct(self, table: Table) -> None:
        """Restore values that a trigger changes on every insert. Updates column by column and only
        where they differ, because another trigger may watch the rest."""
        for place, column in enumerate(table.columns):
            mine = f"FROM {table.copies} r WHERE r.slot = ?1 AND {self._is_row(table)}"
            self._db.execute(
                f"UPDATE main.{q(table.name)} AS m SET {q(column)} = (SELECT r.c{place} {mine}) "
                f"WHERE EXISTS (SELECT 1 {mine} AND m.{q(column)} IS NOT r.c{place})",
                (self._slot.name,),
            )

    def _expected(self, table: Table) -> int:
        """Return how many rows will be inserted. Refuse if another row has one of the keys. The
        same row may be there already: another session that shares it brought it back."""
        rows = self._db.execute(
            f"SELECT count(*), coalesce(sum({table.same('m', 'r')}), 0) FROM {table.copies} r "
            f"JOIN main.{q(table.name)} m ON {self._is_row(table)} WHERE r.slot = ?",
            (self._slot.name,),
        )
        there, same = rows.fetchone()
        if there != same:
            raise RefusedError(f"a key of {table.name} was given to another row")
        return self._copies(table) - int(there)

    def _copies(self, table: Table) -> int:
        [count] = self._db.execute(
            f"SELECT count(*) FROM {table.copies} WHERE slot = ?", (self._slot.name,)
        ).fetchone()
        return int(count)

    def _is_row(self, table: Table) -> str:
        """SQL: a row `m` of the table is the one that was copied as `r`."""
        key = self._keys[table.name]
        return table.is_same_key("m", "r", key) if key else table.is_row("m", "r")

    def _key(self, table: Table) -> tuple[str, ...]:
        """Return the key that identifies a row regardless of its rowid; empty if that is the
        key."""
        if not table.has_rowid or not is_numbered_by_itself(self._db, table.name):
            return ()
        key = primary_key(self._db, table.name)
        return key if set(key) <= set(table.columns) else ()

    def _insert(self, table: Table) -> None:
        """Insert rows with their old rowids. If another row has such a rowid by now and it is not
        the key, the row gets a new one, after all others are inserted."""
        numbers = [f"{table.keys[0]}"] if table.has_rowid else []
        into = ", ".join(map(q, table.columns))
        values = ", ".join(f"c{place}" for place, _ in enumerate(table.columns))
        taken = "0"
        if self._keys[table.name]:
            taken = (
                f"EXISTS (SELECT 1 FROM main.{q(table.name)} m "
                f"WHERE {table.is_row('m', 'r')} AND NOT ({self._is_row(table)}))"
            )
        given = self._db.execute(
            f"SELECT k0 FROM {table.copies} r WHERE r.slot = ? AND {taken}", (self._slot.name,)
        ).fetchall()
        moved = json.dumps([number for (number,) in given])
        for number, which in (("k0", "NOT IN"), ("NULL", "IN")):
            self._db.execute(
                f"INSERT OR REPLACE INTO main.{q(table.name)} ({', '.join([*numbers, into])}) "
                f"SELECT {', '.join([*[number] * len(numbers), values])} FROM {table.copies} "
                f"WHERE slot = ? AND k0 {which} (SELECT value FROM json_each(?)) ORDER BY k0",
                (self._slot.name, moved),
            )

    def _is_same(self, table: Table) -> bool:
        [same] = self._db.execute(
            f"SELECT count(*) FROM {table.copies} r JOIN main.{q(table.name)} m "
            f"ON {self._is_row(table)} WHERE r.slot = ? AND {table.same('m', 'r')}",
            (self._slot.name,),
        ).fetchone()
        return int(same) == self._copies(table)
