"""Rows of a SQLite file of another agent. SQLite copies them itself; no value passes through
Python.

A part names some rows; its closure adds all rows that refer to them by a foreign key, so that
tables that the format does not know are moved too. Foreign keys are off on our connections: a
cascade would delete rows without a copy.

The copies of a batch share one SQLite file in the trash. Reading takes the WAL into account and
leaves it alone.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.errors import BusyError, FullDiskError, HoldfastError, StorageError
from holdfast.model.part import Sight, Slot, digest
from holdfast.parts.row_closure import Closure, Table, make_copies, part_of, q
from holdfast.parts.row_return import RefusedError, RowReturn, count_rows, point_rows
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN
from holdfast.stores.files import DISK_FULL, check_database, is_disk_full, sync_dir
from holdfast.stores.sqlite.foreign import (
    add_newer_functions,
    patience,
    reading_mode,
    stayed_locked,
)

_WAIT = 5.0
#: SQLite errors for a write that failed for any reason.
_NO_WRITE = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
#: How often a trigger may bring rows back before the removal is given up.
_ROUNDS = 4
_OWN_TRIGGER = "a trigger of its database brings its rows back"
_OTHER_ROWS = "a trigger of its database removes rows that no copy holds"


class RowsMover:
    """Moves `RowsPart`. A batch is one transaction."""

    def look(self, batch: Sequence[Slot]) -> Sequence[Sight]:
        copies = _Copies(batch[0])
        try:
            shares = copies.shares()
            stamps: Mapping[str, tuple[str, int]] = {}
            if _store(batch[0]).exists():
                with _reading(_store(batch[0])) as db:
                    stamps = Closure(db, batch).stamps()
        except (sqlite3.Error, HoldfastError, OSError):
            return [Sight(here=None) for _ in batch]
        return [
            Sight(
                here=slot.name in stamps,
                stamp=stamps.get(slot.name, ("", 0))[0],
                bytes=stamps.get(slot.name, ("", 0))[1],
                copied=slot.name in shares,
                copy_bytes=shares.get(slot.name, 0),
            )
            for slot in batch
        ]

    def copy(self, batch: Sequence[Slot]) -> None:
        copies = _Copies(batch[0])
        new = [slot for slot in batch if slot.name not in copies.shares()]
        if not new:
            return
        with _database_errors(copies.path), _reading(_store(batch[0])) as db:
            db.execute("ATTACH ? AS b", (_uri(copies.path, "rwc"),))
            with _transaction(db, "BEGIN"):
                Closure(db, new).copy()
        sync_dir(copies.path.parent)

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        with _database_errors(_store(batch[0])), _writing(batch[0]) as db:
            try:
                with _transaction(db, "BEGIN IMMEDIATE"):
                    why = _Removal(db, batch).run()
            except RefusedError as refused:
                return [str(refused)] * len(batch)
        return [why[slot.name] for slot in batch]

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        copied = _Copies(batch[0]).shares()
        with (
            _database_errors(_store(batch[0])),
            _writing(batch[0]) as db,
            _transaction(db, "BEGIN IMMEDIATE"),
        ):
            return [_put_back(db, slot, is_copied=slot.name in copied) for slot in batch]

    def discard(self, batch: Sequence[Slot]) -> int:
        return _Copies(batch[0]).discard([slot.name for slot in batch])


def _store(slot: Slot) -> Path:
    return part_of(slot).store


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?mode={mode}"


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the agent's database for reading; leave no files next to it."""
    check_database(path)
    mode = reading_mode(path).removeprefix("mode=")
    try:
        with _opened(path, mode, wait=patience(path)) as db:
            yield db
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            stayed_locked(path)
            raise BusyError(f"{path} is locked by another process.") from error
        raise


@contextlib.contextmanager
def _opened(path: Path, mode: str, *, wait: float | None = None) -> Iterator[sqlite3.Connection]:
    check_database(path)
    patience = _WAIT if wait is None else wait
    db = sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None, timeout=patience)
    try:
        db.execute("PRAGMA foreign_keys = OFF")
        add_newer_functions(db)
        yield db
    finally:
        db.close()


@contextlib.contextmanager
def _writing(slot: Slot) -> Iterator[sqlite3.Connection]:
    """Open the agent's database for writing, with the copies attached as `b`, if there are any."""
    copies = _Copies(slot)
    has_copies = bool(copies.shares())
    with _opened(_store(slot), "rw") as db:
        db.execute("ATTACH ? AS b", (_uri(copies.path, "ro") if has_copies else ":memory:",))
        if not has_copies:
            make_copies(db)
        yield db


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
    except BaseException:
        if db.in_transaction:  # on a full disk SQLite has already rolled back
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextlib.contextmanager
def _database_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError(f"{path} is in use by another process.") from error
        if code == sqlite3.SQLITE_FULL or (code in _NO_WRITE and is_disk_full(path)):
            raise FullDiskError(f"{path}: {error}.", hint=DISK_FULL) from error
        raise StorageError(f"{path}: {error}") from error


class _Copies:
    """The file in the trash that holds the rows of a batch."""

    def __init__(self, slot: Slot) -> None:
        self.path = slot.folder / f"rows-{digest(str(_store(slot)))}.db"

    def shares(self) -> Mapping[str, int]:
        """Return the slots that have a copy, and the approximate share of the file for each."""
        if not self.path.exists():
            return {}
        with _opened(self.path, "rw") as db:  # `rw` rolls back what a killed run left
            if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'slots'").fetchone():
                return {}
            slots = [slot for (slot,) in db.execute("SELECT slot FROM slots")]
        size = self.path.stat().st_size
        return {slot: size // len(slots) for slot in slots}

    def discard(self, slots: Sequence[str]) -> int:
        """Delete the rows of these slots; the file stays while other slots need it."""
        if not self.path.exists():
            return 0
        before = self.path.stat().st_size
        with _database_errors(self.path), _opened(self.path, "rw") as db:
            tables = [
                name
                for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
                if name != "tables"
            ]
            with _transaction(db, "BEGIN"):
                for table in tables:
                    db.execute(
                        f"DELETE FROM {q(table)} WHERE slot IN (SELECT value FROM json_each(?))",
                        (json.dumps(slots),),
                    )
            is_empty = not tables or not db.execute("SELECT 1 FROM slots").fetchone()
            if not is_empty:
                db.execute("VACUUM")
        if is_empty:
            self.path.unlink()
            sync_dir(self.path.parent)
            return before
        return max(0, before - self.path.stat().st_size)


class _Removal:
    """One transaction that removes the rows of some slots: exactly those that were copied."""

    def __init__(self, db: sqlite3.Connection, batch: Sequence[Slot]) -> None:
        self._db = db
        self._batch = batch

    def run(self) -> Mapping[str, str | None]:
        stamps = Closure(self._db, self._batch).stamps()
        copied = {slot for (slot,) in self._db.execute("SELECT slot FROM b.slots")}
        why: dict[str, str | None] = {}
        going = []
        for slot in self._batch:
            stamp = stamps.get(slot.name, ("", 0))[0]
            why[slot.name] = None
            if not stamp:
                why[slot.name] = None if slot.name in copied else ALREADY_GONE
            elif stamp != slot.stamp or slot.name not in copied:
                why[slot.name] = CHANGED
            else:
                going.append(slot)
        while going:
            closure = Closure(self._db, going)
            refused = dict(closure.find())
            refused |= dict.fromkeys(self._changed(closure, going), CHANGED)
            if not refused:
                self._delete(closure, going)
                break
            why |= refused
            going = [slot for slot in going if slot.name not in refused]
        return why

    def _changed(self, closure: Closure, going: Sequence[Slot]) -> set[str]:
        """Return slots whose rows differ from the copies: a stamp does not cover everything."""
        changed: set[str] = set()
        copied = dict(self._db.execute("SELECT name, columns FROM b.tables"))
        for table in closure.schema.tables.values():
            there = self._counts(f"SELECT slot, count(*) FROM {table.found} GROUP BY 1")
            kept = same = {}
            if copied.get(table.name) == json.dumps(table.columns):
                kept = self._counts(f"SELECT slot, count(*) FROM {table.copies} GROUP BY 1")
                same = self._counts(
                    f"SELECT f.slot, count(*) FROM {table.found} f "
                    f"JOIN main.{q(table.name)} m ON {table.is_row('m', 'f')} "
                    f"JOIN {table.copies} r ON r.slot = f.slot AND {table.is_row('m', 'r')} "
                    f"WHERE {table.same('m', 'r')} GROUP BY 1"
                )
            for slot in going:
                counts = {each.get(slot.name, 0) for each in (there, kept, same)}
                if len(counts) > 1:
                    changed.add(slot.name)
        now, then = defaultdict(list), defaultdict(list)
        for slot_name, *rest in closure.detached():
            now[slot_name].append(tuple(rest))
        for slot_name, *rest in self._db.execute("SELECT * FROM b.detached ORDER BY slot, keys"):
            then[slot_name].append(tuple(rest))
        names = (slot.name for slot in going)
        return changed | {
            name for name in names if sorted(now[name], key=str) != sorted(then[name], key=str)
        }

    def _counts(self, sql: str) -> dict[str, int]:
        return dict(self._db.execute(sql))

    def _delete(self, closure: Closure, going: Sequence[Slot]) -> None:
        schema = closure.schema
        # Only a trigger can change rows that were not asked for.
        counted = schema.ordinary if schema.has_triggers else ()
        before = {name: count_rows(self._db, name) for name in counted}
        gone = {
            table.name: self._db.execute(
                f"SELECT count(*) FROM main.{q(table.name)} m "
                f"WHERE EXISTS (SELECT 1 FROM {table.found} f WHERE {table.is_row('m', 'f')})"
            ).fetchone()[0]
            for table in closure.reached()
        }
        for _, name, keys, column, value in closure.detached():
            point_rows(self._db, schema.tables[name], keys, column, None, value)
        for _ in range(_ROUNDS):
            for table in closure.reached():
                self._delete_found(table)
            closure.find()
            if not closure.reached():
                break
        else:
            raise RefusedError(_OWN_TRIGGER)
        for name, count in before.items():
            if count_rows(self._db, name) < count - gone.get(name, 0):
                raise RefusedError(_OTHER_ROWS)

    def _delete_found(self, table: Table) -> None:
        keys = table.key_list(q(table.name))
        found = ", ".join(f"k{place}" for place, _ in enumerate(table.keys))
        self._db.execute(
            f"DELETE FROM main.{q(table.name)} "
            f"WHERE ({keys}) IN (SELECT {found} FROM {table.found})"
        )


def _put_back(db: sqlite3.Connection, slot: Slot, *, is_copied: bool) -> str | None:
    """Insert the rows of one slot as they were, or none of them."""
    if not is_copied:
        there = slot.name in Closure(db, [slot]).stamps()
        return None if there else COPY_MISSING
    db.execute("SAVEPOINT one")
    try:
        RowReturn(db, slot).run()
    except (sqlite3.IntegrityError, RefusedError) as error:
        db.execute("ROLLBACK TO one")
        db.execute("RELEASE one")
        return f"{PLACE_TAKEN} ({error})"
    db.execute("RELEASE one")
    return None
