"""Many sessions out of the store, and back in: the rows of it, and the engine that moves them.

Whoever moves sessions knows order, copies and kills; an engine knows rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.model.plan import PlanItem
from holdfast.model.session import AWAITED_PARENT, session_version
from holdfast.model.stored_session import MOST_MESSAGES, Copied, End, Found, Returned
from holdfast.stores.sqlite import guard_rows, ledger, lineage, search_index, space
from holdfast.stores.sqlite.bundle import (
    LEASE_COLUMNS,
    MESSAGE_COLUMNS,
    SESSION_COLUMNS,
    BundleFolder,
    has,
    opened,
    session_columns,
    uncounted,
)
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.leases import LifeSigns, leases_by_session
from holdfast.stores.sqlite.session_rows import LAST_ACTIVE
from holdfast.stores.sqlite.sessions import SqliteSessionStore

_AMONG = "IN (SELECT value FROM json_each(?))"
#: Messages in one transaction where the search index is begun anew, and has none of them.
_MOST_UNINDEXED = 5_000
#: The search index is begun anew when more than this share of the messages goes, and what stays
#: is indexed again in a moment.
_MOST_GOES = 2 / 3
_FEW_STAY = 20_000


def look(
    db: sqlite3.Connection, ids: Sequence[str], *, now: float, life: LifeSigns
) -> Mapping[str, Found]:
    """Those of these sessions that are there. Inside a write transaction nobody can come in
    between this look and what is done then."""
    rows = db.execute(
        f"""
        SELECT s.number, s.id, s.message_count, {LAST_ACTIVE}, s.ended_at, s.pinned, s.bytes,
               s.title, s.cwd, s.model
        FROM sessions s WHERE s.id {_AMONG}
        """,  # noqa: S608 - our own text
        (json.dumps(ids),),
    ).fetchall()
    leases = leases_by_session(db, f"session {_AMONG}", json.dumps([row[0] for row in rows]))
    found = {}
    for number, name, messages, active, ended_at, pinned, size, *texts in rows:
        title, cwd, model = texts
        lives = life.judge(
            ended=ended_at is not None, idle=now - active, leases=leases.get(number, ())
        )
        found[name] = Found(
            id=name,
            number=number,
            version=session_version(messages, active, ended_at, pinned, (title, cwd, model)),
            messages=messages,
            bytes=size,
            alive=lives.alive,
            abandoned=lives.abandoned,
        )
    return found


def delete(db: sqlite3.Connection, numbers: Sequence[int], *, awaiting: str | None = None) -> None:
    """Take sessions out, with their messages, index entries, routes and leases; their children
    stay and lose their parents, all in one step. With `awaiting`, the children note under this name
    whom they lost, until those come back."""
    if awaiting is not None:
        lineage.part(db, numbers, awaiting)
    search_index.forget(db, numbers)  # the reference before the data
    chosen = (json.dumps(numbers),)
    db.execute(f"DELETE FROM messages WHERE session {_AMONG}", chosen)  # noqa: S608 - our own text
    db.execute(f"DELETE FROM sessions WHERE number {_AMONG}", chosen)  # noqa: S608 - our own text


def ends(db: sqlite3.Connection, ids: Sequence[str]) -> Mapping[str, End]:
    """Those of these sessions that are there, with their ends."""
    rows = db.execute(
        f"SELECT id, number, last_active_at, ended_at, end_reason FROM sessions WHERE id {_AMONG}",  # noqa: S608 - our own text
        (json.dumps(ids),),
    )
    return {
        name: End(number=number, last_active_at=active, ended_at=ended, reason=reason)
        for name, number, active, ended, reason in rows
    }


def set_end(
    db: sqlite3.Connection, numbers: Sequence[int], at: float | None, reason: str | None
) -> None:
    """Give sessions an end, or take it from them; nothing else of them changes."""
    db.execute(
        f"UPDATE sessions SET ended_at = ?, end_reason = ? WHERE number {_AMONG}",  # noqa: S608 - our own text
        (at, reason, json.dumps(numbers)),
    )


def put_back(
    db: sqlite3.Connection, bundle: sqlite3.Connection, ids: Collection[str], *, awaiting: str
) -> Mapping[str, str]:
    """Put sessions back from their copies: rows, totals, lineage, routes, leases, what guards
    counted, search.

    A parent that is not there is noted under `awaiting` in the session's extra fields, until it
    comes back too. Inside a write transaction. Returns what could not be as it was, by id.
    """
    rows = bundle.execute(
        f"""
        SELECT number, parent_id, routing_key, children, {session_columns(bundle)}
        FROM sessions WHERE id {_AMONG} ORDER BY number
        """,  # noqa: S608 - our own names
        (json.dumps(list(ids)),),
    ).fetchall()
    numbers = {row[0]: _insert_session(db, row[0], row[4:]) for row in rows}
    without_all_counts = uncounted(bundle)
    for old, new in numbers.items():
        _insert_messages(db, bundle, old, new)
        _insert_leases(db, bundle, old, new)
        _insert_guarded(db, bundle, old, new)
        if old in without_all_counts:
            ledger.recount_unpriced(db, new)
    notes: dict[str, str] = {}
    for old, parent, key, _, name, *_ in rows:
        if parent is not None:
            lineage.note(db, numbers[old], awaiting, parent)
        taken_by = None if key is None else _route(db, key, numbers[old])
        if taken_by is not None:
            notes[name] = key_stays(taken_by)
    for old, _, _, children, *_ in rows:  # copies of earlier versions have no notes
        lineage.adopt(db, numbers[old], json.loads(children), awaiting)
    lineage.join(db, list(ids), awaiting)
    search_index.remember(db, list(numbers.values()))
    return notes


def key_stays(taken_by: str) -> str:
    """What to say of a routing key that somebody else has by now."""
    return f"its routing key leads to {taken_by} now and stays there"


def _route(db: sqlite3.Connection, key: str, number: int) -> str | None:
    """Lead a key to a session. The one that has taken it meanwhile keeps it, and is returned."""
    db.execute("INSERT OR IGNORE INTO routes (key, session) VALUES (?, ?)", (key, number))
    row = db.execute(
        "SELECT s.id FROM routes r JOIN sessions s ON s.number = r.session "
        "WHERE r.key = ? AND s.number != ?",
        (key, number),
    ).fetchone()
    return None if row is None else str(row[0])


def is_same(db: sqlite3.Connection, found: Found, *, started_at: float, first: int | None) -> bool:
    """Whether a session is the one that was copied, and not another that took its id since:
    numbers of messages are never used twice."""
    [begun, number] = db.execute(
        """
        SELECT started_at, (SELECT min(number) FROM messages WHERE session = sessions.number)
        FROM sessions WHERE number = ?
        """,
        (found.number,),
    ).fetchone()
    return bool(begun == started_at and number == first)


def _insert_session(db: sqlite3.Connection, number: int, values: Sequence[object]) -> int:
    """Under its old number if that is free."""
    taken = db.execute("SELECT 1 FROM sessions WHERE number = ?", (number,)).fetchone()
    columns = ("number", *SESSION_COLUMNS)
    marks = ", ".join("?" * len(columns))
    cursor = db.execute(
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({marks})",  # noqa: S608 - our own names
        (None if taken else number, *values),
    )
    return int(cursor.lastrowid or 0)


def _insert_messages(
    db: sqlite3.Connection, bundle: sqlite3.Connection, old: int, new: int
) -> None:
    """Under their old numbers, which are never used twice. Only in a store that was made anew
    since can they be taken: then they get new ones, in the same order."""
    insert = f"INSERT INTO messages ({', '.join(MESSAGE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - our own names

    def rows(*, renumbered: bool) -> Iterator[tuple[object, ...]]:
        found = bundle.execute("SELECT * FROM messages WHERE session = ? ORDER BY number", (old,))
        for number, _, *rest in found:
            yield (None if renumbered else number, new, *rest)

    db.execute("SAVEPOINT numbers")
    try:
        db.executemany(insert, rows(renumbered=False))
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK TO numbers")
        db.executemany(insert, rows(renumbered=True))
    db.execute("RELEASE numbers")


def _insert_leases(db: sqlite3.Connection, bundle: sqlite3.Connection, old: int, new: int) -> None:
    rows = bundle.execute("SELECT * FROM leases WHERE session = ?", (old,))
    db.executemany(
        f"INSERT INTO leases ({', '.join(LEASE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own names
        ((new, *rest) for _, *rest in rows),
    )


def _insert_guarded(db: sqlite3.Connection, bundle: sqlite3.Connection, old: int, new: int) -> None:
    if not has(bundle, guard_rows.TABLE):
        return
    columns = ", ".join(guard_rows.COLUMNS)
    marks = ", ".join("?" * len(guard_rows.COLUMNS))
    rows = bundle.execute(f"SELECT {columns} FROM guarded WHERE session = ?", (old,))  # noqa: S608 - our own names
    db.executemany(
        f"INSERT INTO guarded ({columns}) VALUES ({marks})",  # noqa: S608 - our own names
        ((new, *rest) for _, *rest in rows),
    )


# --- The engine -----------------------------------------------------------------------------------


class DatabaseEngine:
    """What every engine does that moves the rows of one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def place(self) -> Path:
        return self._database.path

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _storage_errors(), self._database.write():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with _storage_errors(), self._database.read():
            yield

    def footprint(self) -> int:
        return space.footprint(self._database)

    def truncate_log(self) -> None:
        self._database.truncate_log()


class SqliteEngine(DatabaseEngine):
    """Moves the sessions of Holdfast's own store."""

    def __init__(
        self, store: SqliteSessionStore, clock: Callable[[], float], life: LifeSigns
    ) -> None:
        super().__init__(store.database)
        self._store = store
        self._clock = clock
        self._life = life

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Begin the search index anew where nearly everything goes."""
        most = MOST_MESSAGES
        messages, used = self._store.extent()
        share = sum(item.bytes for item in items) / max(1, used)
        if share > _MOST_GOES and messages * (1 - share) < _FEW_STAY:
            with suppress(StorageError):  # a full disk has no room for it; it only saves time
                space.renew_index(self._database)
                most = _MOST_UNINDEXED
        # What is in the log must be in the file before a transaction can fill the disk: otherwise
        # the file could not grow, nor the log be emptied.
        self.rest()
        return most

    def copies(self, folder: Path) -> BundleFolder:
        return BundleFolder(folder)

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        with self._database.read() as db:
            return BundleFolder(folder).write(db, [each.number for each in going], first, last)

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        with self._database.read() as db:
            return look(db, ids, now=self._clock(), life=self._life)

    def delete(self, going: Sequence[Found]) -> None:
        with self._database.write() as db:
            delete(db, [each.number for each in going], awaiting=AWAITED_PARENT)

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        with self._database.write() as db, opened(bundle) as copies:
            return Returned(notes=put_back(db, copies, ids, awaiting=AWAITED_PARENT))

    def is_copied(self, found: Found, copied: Copied) -> bool:
        with self._database.read() as db:
            return is_same(db, found, started_at=copied.started_at, first=copied.first_message)

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        with self._database.read() as db:
            return ends(db, ids)

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        with self._database.write() as db:
            set_end(db, [each.number for each in chosen], at, reason)

    def rest(self) -> None:
        space.rest(self._database)

    def give_back(self) -> None:
        space.give_back(self._database)


@contextmanager
def _storage_errors() -> Iterator[None]:
    """What SQLite says and nobody has words for, as an error of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error
