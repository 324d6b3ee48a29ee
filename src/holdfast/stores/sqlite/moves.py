"""Many sessions out of a store and back in: the engine that moves their rows, and what Holdfast's
own store adds to it.

The caller knows about order, copies and being killed; an engine knows about rows.

Parents and children may leave and come back in any order. When a parent leaves, a child that stays
keeps its id in its extra fields. That note is part of the child's row: it goes with the child into
the trash or the archive and comes back with it. So whichever of the two comes back second finds the
other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.model.plan import PlanItem
from holdfast.model.session import AWAITED_PARENT, session_version
from holdfast.model.stored_session import (
    EVERYTHING,
    MOST_MESSAGES,
    Coming,
    Copied,
    End,
    Found,
    Returned,
)
from holdfast.policy.lifecycle import SessionLife
from holdfast.stores.sessions.content import dump_extra, load_extra
from holdfast.stores.sessions.session_rows import (
    AMONG,
    GUARDED,
    GUARDED_COLUMNS,
    LAST_ACTIVE,
    LEASE_COLUMNS,
    SESSION_COLUMNS,
    key_stays,
)
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite import emptying, ledger, search_index, session_return, space
from holdfast.stores.sqlite.bundle import (
    MESSAGE_COLUMNS,
    BundleFolder,
    has,
    opened,
    session_columns,
    unchanging,
    uncounted,
)
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete, descends, number_of
from holdfast.stores.sqlite.survey import leases_by_session
from holdfast.stores.threads import BackgroundCall
from holdfast.value import dataclass

#: Messages in one transaction while the search index, started over, is empty.
_MOST_UNINDEXED = 5_000
#: The search index is started over when more than this share of the messages is removed and so few
#: stay that indexing them again takes a moment.
_MOST_GOES = 2 / 3
_FEW_STAY = 20_000
#: After removing this many bytes of messages, the log is written into the file at once.
_MUCH = 1_000_000
#: The name under which the bundle is attached that sessions are restored from.
_COPIES = "copies"


# --- The engine of any store ----------------------------------------------------------------------

#: Returns whether a session is alive, given its number, id, whether it ended, and idle seconds.
Judge = Callable[[int, str, bool, float], SessionLife]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSql:
    """SQL expressions for what an engine reads of a session, which is row `s` of `tables`.

    The table `sessions` itself has the columns `ended_at` and `end_reason`, and `s.number` is its
    rowid. `last_active` includes the end of a session, `last_said` does not. `flag` is part of the
    session's version, `weight` its size relative to other sessions.
    """

    tables: str = "sessions s"
    last_active: str = LAST_ACTIVE
    last_said: str = "s.last_active_at"
    flag: str = "s.pinned"
    weight: str = "s.bytes"
    first_message: str = "(SELECT min(m.number) FROM messages m WHERE m.session = s.number)"


class DatabaseEngine:
    """Moves the sessions of one SQLite file. Subclasses supply the SQL expressions and judge which
    sessions are alive."""

    most_copied = EVERYTHING
    copiers = 1

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def sql(self) -> SessionSql:
        """Called each time: an agent may change the schema of its database while it is open."""
        return SessionSql()

    def judge(self, db: sqlite3.Connection, numbers: Sequence[int]) -> Judge:
        """A function that judges whether each of these sessions is alive."""
        raise NotImplementedError

    def copies(self, folder: Path) -> BundleFolder:
        return BundleFolder(folder)

    @property
    def place(self) -> Path:
        return self._database.path

    @contextmanager
    def transaction(self, *, empties: bool = False) -> Iterator[None]:
        with _storage_errors(), self._database.write():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with _storage_errors(), self._database.read():
            yield

    def state(self) -> object:
        return None

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        """Those of these sessions that exist. Inside a write transaction no other process can
        change them between this look and what the caller does next."""
        with self._database.read() as db:
            sql = self.sql()
            rows = db.execute(
                f"""
                SELECT s.number, s.id, s.message_count, {sql.last_active}, s.ended_at, {sql.flag},
                       {sql.weight}, s.title, s.cwd, s.model
                FROM {sql.tables} WHERE s.id {AMONG}
                """,  # noqa: S608 - our own text
                (json.dumps(ids),),
            ).fetchall()
            judge = self.judge(db, [row[0] for row in rows])
            now = self._clock()
        found = {}
        for number, name, messages, active, ended_at, flag, weight, *texts in rows:
            title, cwd, model = texts
            life = judge(number, name, ended_at is not None, now - active)
            found[name] = Found(
                id=name,
                number=number,
                version=session_version(messages, active, ended_at, flag, (title, cwd, model)),
                messages=messages,
                bytes=weight,
                alive=life.alive,
                abandoned=life.abandoned,
            )
        return found

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        with self._database.read() as db:
            numbers = [each.number for each in going]
            messages = sum(each.messages for each in going)
            return self.copies(folder).write(db, numbers, first, last, messages=messages)

    def left_for_good(self) -> None:
        """Do nothing: the search index of this store, if it has one, is not ours to merge."""

    def begin_to_give_back(self) -> None:
        """`give_back` does all of it."""

    def made_ready(self, bundles: Mapping[Path, Sequence[str]]) -> Generator[Path]:
        yield from bundles

    def is_copied(self, found: Found, copied: Copied) -> bool:
        """True if this is the session that was copied, not a later one with the same id: the
        numbers of messages are never reused."""
        with self._database.read() as db:
            sql = self.sql()
            [started_at, first] = db.execute(
                f"SELECT s.started_at, {sql.first_message} FROM {sql.tables} WHERE s.number = ?",  # noqa: S608 - our own text
                (found.number,),
            ).fetchone()
        return bool(started_at == copied.started_at and first == copied.first_message)

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        """Those of these sessions that exist, with their ends."""
        with self._database.read() as db:
            sql = self.sql()
            rows = db.execute(
                f"SELECT s.id, s.number, {sql.last_said}, s.ended_at, s.end_reason "  # noqa: S608 - our own text
                f"FROM {sql.tables} WHERE s.id {AMONG}",
                (json.dumps(ids),),
            )
            return {
                name: End(number=number, last_active_at=active, ended_at=ended, reason=reason)
                for name, number, active, ended, reason in rows
            }

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        """Set or clear the end of sessions; nothing else in them changes."""
        with self._database.write() as db:
            db.execute(
                f"UPDATE sessions SET ended_at = ?, end_reason = ? WHERE rowid {AMONG}",  # noqa: S608 - our own text
                (at, reason, json.dumps([each.number for each in chosen])),
            )

    def footprint(self) -> int:
        return space.footprint(self._database)

    def truncate_log(self) -> None:
        self._database.truncate_log()


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Turn a SQLite error that was not translated into one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error


# --- Holdfast's own store -------------------------------------------------------------------------


class SqliteEngine(DatabaseEngine):
    """Moves the sessions of Holdfast's own store."""

    copiers = 4

    def __init__(
        self,
        store: SqliteSessionStore,
        clock: Callable[[], float],
        life: LifeSigns,
        giving_back: BackgroundCall | None = None,
    ) -> None:
        super().__init__(store.database, clock)
        self._store = store
        self._life = life
        self._giving_back = giving_back or BackgroundCall()
        self._empties = False
        #: Bytes of text in each removal since parts of the index were last merged.
        self._unmerged: list[int] = []

    @contextmanager
    def transaction(self, *, empties: bool = False) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self._let_go)  # at the end: a file in use cannot be detached
            if empties:
                stack.enter_context(self._database.without_foreign_keys())
            stack.enter_context(super().transaction())
            self._empties = empties
            yield

    def state(self) -> object:
        """Changes when another process commits, or when this one changes rows.

        Rows decide whether a session is alive. What changes without them, such as the death of a
        process or the passing of time, can only end a session's life.
        """
        with self._database.read() as db:
            [version] = db.execute("PRAGMA data_version").fetchone()
            return version, db.total_changes

    def judge(self, db: sqlite3.Connection, numbers: Sequence[int]) -> Judge:
        leases = leases_by_session(db, f"session {AMONG}", json.dumps(numbers))
        return lambda number, _, ended, idle: self._life.judge(
            ended=ended, idle=idle, leases=leases.get(number, ())
        )

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Start the search index over if nearly everything is removed."""
        most = MOST_MESSAGES
        messages, used = self._store.extent()
        share = sum(item.bytes for item in items) / max(1, used)
        staying = messages * (1 - share)
        if share > _MOST_GOES and staying < _FEW_STAY:
            with suppress(StorageError):  # a full disk has no room for it, and it only saves time
                space.renew_index(self._database)
                most = _MOST_UNINDEXED
                if emptying.is_short(len(items), used, staying):
                    most = EVERYTHING
        # The log must be in the file before a transaction can fill the disk: otherwise the file
        # could not grow, and the log could not be emptied.
        self.rest()
        return most

    def delete(self, going: Sequence[Found], *, for_good: bool = False) -> None:
        numbers = [each.number for each in going]
        with self._database.write() as db:
            _part(db, numbers)
            if numbers:
                space.owe(db)
            if self._empties:
                emptying.delete(db, numbers)
                return
            removed = sum(each.bytes for each in going)
            if removed < _MUCH:  # otherwise the log would grow too long until the next rest
                space.checkpoint_later(db)
            with space.unmerged(db):
                delete(db, numbers)
            if for_good:
                search_index.left_for_good(db)
            self._unmerged.append(removed)

    def left_for_good(self) -> None:
        with self._database.read() as db:
            if not search_index.garbage(db):
                return
        with self._database.write() as db:
            space.owe(db)
            search_index.left_for_good(db)

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        with self._database.write() as db, opened(bundle) as copies:
            db.execute(f"ATTACH ? AS {_COPIES}", (unchanging(bundle),))
            return Returned(notes=put_back(db, copies, ids))

    def _let_go(self) -> None:
        db = self._database.connection()
        space.checkpoint_at_once(db)
        if (_COPIES,) in db.execute("SELECT name FROM pragma_database_list"):  # no path: any bytes
            db.execute(f"DETACH {_COPIES}")

    def adopt(self, session_id: str, children: Collection[str], last_active_at: float) -> None:
        """Give a session that came back its children, except those that have another parent by
        now."""
        with self._database.write() as db:
            number = number_of(db, session_id)
            db.execute(
                "UPDATE sessions SET last_active_at = ? WHERE number = ?", (last_active_at, number)
            )
            _adopt(db, number, children)

    def bring(self, coming: Sequence[Coming], now: float, then: Callable[[], None]) -> bool:
        ready = [session_return.ready(each, now) for each in coming]
        with self._database.write() as db:
            session_return.insert(db, ready, now)
            _join(db, [each.session.id for each in coming])
            for each in coming:
                if each.children:
                    _adopt(db, number_of(db, each.session.id), each.children)
            then()
        with self._database.write() as db:  # apart: no writer waits for both
            search_index.catch_up_many(db, sum(len(each.messages) for each in coming))
        return True

    def rest(self) -> None:
        space.rest(self._database)
        if len(self._unmerged) >= space.UNMERGED:
            space.merge_some(self._database, sum(self._unmerged))
            self._unmerged.clear()

    def begin_to_give_back(self) -> None:
        if self._database.is_alone:
            return  # the connection of another thread would be locked out
        # Safe whatever comes next: what is owed is in the store since the rows went. Without a
        # thread, `give_back` does all of it.
        with suppress(RuntimeError):
            self._giving_back.begin(lambda: space.give_back(self._database))

    def give_back(self) -> None:
        if self._giving_back.end():
            self._database.truncate_log()  # somebody may have read the store at that moment
        else:
            space.give_back(self._database)


def put_back(
    db: sqlite3.Connection, bundle: sqlite3.Connection, ids: Collection[str]
) -> Mapping[str, str]:
    """Restore sessions from their copies: rows, totals, lineage, routes, leases, what guards
    counted, and the search index.

    A missing parent is noted in the session's extra fields until it comes back too. Call this
    inside a write transaction, with the bundle attached. Returns what could not be restored
    exactly, by id.
    """
    rows = bundle.execute(
        f"""
        SELECT number, parent_id, routing_key, children, {session_columns(bundle)}
        FROM sessions WHERE id {AMONG} ORDER BY number
        """,  # noqa: S608 - our own names
        (json.dumps(list(ids)),),
    ).fetchall()
    numbers = _insert_sessions(db, bundle, [(row[0], *row[4:]) for row in rows])
    without_all_counts = uncounted(bundle)
    _insert_messages(db, numbers)
    _insert_belonging(db, bundle, "leases", LEASE_COLUMNS, numbers)
    _insert_belonging(db, bundle, GUARDED, GUARDED_COLUMNS, numbers)
    for old in without_all_counts.intersection(numbers):
        ledger.recount_unpriced(db, numbers[old])
    notes: dict[str, str] = {}
    for old, parent, key, _, name, *_ in rows:
        if parent is not None:
            _note(db, numbers[old], parent)
        taken_by = None if key is None else _route(db, key, numbers[old])
        if taken_by is not None:
            notes[name] = key_stays(taken_by)
    for old, _, _, children, *_ in rows:  # copies of earlier versions have no notes
        if names := json.loads(children):
            _adopt(db, numbers[old], names)
    _join(db, list(ids))
    search_index.remember(db, list(numbers.values()))
    return notes


def _route(db: sqlite3.Connection, key: str, number: int) -> str | None:
    """Point a key to a session. If another session has the key by now, leave it there and return
    that session's id."""
    db.execute("INSERT OR IGNORE INTO routes (key, session) VALUES (?, ?)", (key, number))
    row = db.execute(
        "SELECT s.id FROM routes r JOIN sessions s ON s.number = r.session "
        "WHERE r.key = ? AND s.number != ?",
        (key, number),
    ).fetchone()
    return None if row is None else str(row[0])


def _insert_sessions(
    db: sqlite3.Connection, bundle: sqlite3.Connection, rows: Sequence[tuple[int, Any]]
) -> Mapping[int, int]:
    """Insert sessions under their old numbers where those are free. Returns a map of old to new
    numbers.

    All of these are inserted by one statement: a trigger on the table makes each statement
    expensive, 23 µs of the 27 µs for a session.
    """
    numbers = {row[0]: row[0] for row in rows}
    query = f"SELECT number FROM sessions WHERE number {AMONG}"  # noqa: S608 - our own text
    taken = {number for (number,) in db.execute(query, (json.dumps([*numbers]),))}
    columns = ("number", *SESSION_COLUMNS)
    db.execute(
        f"""
        INSERT INTO main.sessions ({", ".join(columns)})
        SELECT number, {session_columns(bundle)} FROM {_COPIES}.sessions
        WHERE number {AMONG} ORDER BY number
        """,  # noqa: S608 - our own names
        (json.dumps([old for old in numbers if old not in taken]),),
    )
    insert = f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names
    for old, *values in rows:
        if old in taken:
            numbers[old] = int(db.execute(insert, (None, *values)).lastrowid or 0)
    return numbers


def _insert_messages(db: sqlite3.Connection, numbers: Mapping[int, int]) -> None:
    """Insert messages under their old numbers, which are never reused. A number can be taken only
    in a store that was created since; then the messages of that session get new numbers, in the
    same order."""
    if all(old == new for old, new in numbers.items()) and _inserted(db, list(numbers)):
        return
    for old, new in numbers.items():
        if not _inserted(db, [old], new):
            _inserted(db, [old], new, renumbered=True)


def _inserted(
    db: sqlite3.Connection,
    sessions: Sequence[int],
    under: int | None = None,
    *,
    renumbered: bool = False,
) -> bool:
    """Insert the messages of these sessions, all or none; False if a number is taken. With `under`,
    they are inserted as messages of the session with that number.

    SQLite copies from file to file, in a third of the time of rows that pass through Python. The
    unary plus keeps it from using the index on the session, after which it would have to sort all
    messages.
    """
    names = ", ".join(MESSAGE_COLUMNS)
    number, session, *rest = MESSAGE_COLUMNS
    db.execute("SAVEPOINT numbers")
    try:
        db.execute(
            f"""
            INSERT INTO main.messages ({names})
            SELECT {"NULL" if renumbered else number}, coalesce(?, {session}), {", ".join(rest)}
            FROM {_COPIES}.messages WHERE +{session} {AMONG} ORDER BY {number}
            """,  # noqa: S608 - our own names
            (under, json.dumps(sessions)),
        )
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK TO numbers")
        if renumbered:
            raise
        return False
    finally:
        db.execute("RELEASE numbers")
    return True


def _insert_belonging(
    db: sqlite3.Connection,
    bundle: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    numbers: Mapping[int, int],
) -> None:
    """Insert the rows of a table whose first column is the number of their session."""
    if not has(bundle, table):
        return
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows = bundle.execute(
        f"SELECT {names} FROM {table} WHERE session {AMONG}",  # noqa: S608 - our own names
        (json.dumps(list(numbers)),),
    )
    db.executemany(
        f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - our own names
        ((numbers[session], *rest) for session, *rest in rows),
    )


# --- Lineage --------------------------------------------------------------------------------------


def _part(db: sqlite3.Connection, leaving: Sequence[int]) -> None:
    """Note in each child that stays which parent it loses. Call it before the parents go."""
    chosen = json.dumps(leaving)
    rows = db.execute(
        f"""
        SELECT child.number, parent.id FROM sessions child
        JOIN sessions parent ON parent.number = child.parent
        WHERE child.parent {AMONG} AND child.number NOT {AMONG}
        """,  # noqa: S608 - our own text
        (chosen, chosen),
    ).fetchall()
    for number, parent in rows:
        _note(db, number, parent)


def _join(db: sqlite3.Connection, came_back: Collection[str]) -> None:
    """Reconnect parents and children of which at least one came back."""
    chosen = json.dumps(list(came_back))
    rows = db.execute(
        f"""
        SELECT child.number, child.id, parent.number, parent.id FROM sessions child
        JOIN sessions parent ON parent.id = child.extra ->> ?
        WHERE child.parent IS NULL AND child.extra IS NOT NULL AND instr(child.extra, ?) > 0
          AND (parent.id {AMONG} OR child.id {AMONG})
        """,  # noqa: S608 - our own text
        (f'$."{AWAITED_PARENT}"', AWAITED_PARENT, chosen, chosen),
    ).fetchall()
    _relate(db, rows)


def _adopt(db: sqlite3.Connection, parent: int, children: Collection[str]) -> None:
    """Give a session that came back the children that its copy names, if they have no parent."""
    rows = db.execute(
        f"""
        SELECT child.number, child.id, parent.number, parent.id
        FROM sessions child JOIN sessions parent ON parent.number = ?
        WHERE child.parent IS NULL AND child.relation IS NOT NULL AND child.id {AMONG}
        """,  # noqa: S608 - our own text
        (parent, json.dumps(list(children))),
    ).fetchall()
    _relate(db, rows)


def _relate(db: sqlite3.Connection, pairs: Sequence[tuple[int, str, int, str]]) -> None:
    """Set the parents of children. A pair holds number and id of the child, then of its parent."""
    for number, child_id, parent, parent_id in pairs:
        if not descends(db, parent_id, child_id):  # an import may have reversed them meanwhile
            db.execute("UPDATE sessions SET parent = ? WHERE number = ?", (parent, number))
            _note(db, number, None)


def _note(db: sqlite3.Connection, number: int, parent: str | None) -> None:
    """Record which parent a session waits for; None clears the note."""
    [text] = db.execute("SELECT extra FROM sessions WHERE number = ?", (number,)).fetchone()
    extra = load_extra(text)
    if extra.get(AWAITED_PARENT) == parent:
        return
    extra.pop(AWAITED_PARENT, None)
    if parent is not None:
        extra[AWAITED_PARENT] = parent
    db.execute("UPDATE sessions SET extra = ? WHERE number = ?", (dump_extra(extra), number))
