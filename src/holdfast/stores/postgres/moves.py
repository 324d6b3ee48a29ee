"""Sessions out of the store and back in. Removed rows stay in the database, in tables of their own,
until the trash of their operation is emptied.

Lineage is kept like in the SQLite store: a child that stays notes the parent that left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

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
from holdfast.stores.postgres import search_index, survey
from holdfast.stores.postgres.database import Db, Row
from holdfast.stores.postgres.guard_book import number_of
from holdfast.stores.postgres.rows import LAST_ACTIVE
from holdfast.stores.postgres.sessions import PostgresSessionStore, delete, descends
from holdfast.stores.postgres.trash import BELONGING, TrashTables, bundle_of
from holdfast.stores.sessions.content import dump_extra, load_extra, storable
from holdfast.stores.sessions.session_rows import SESSION_COLUMNS, key_stays
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.value import replace

#: Other writers wait at most for a session, not for a whole transaction, so it may be larger.
_MOST = 10 * MOST_MESSAGES


class PostgresEngine:
    """Moves the sessions of a store in PostgreSQL. `origin` names the operation log that numbers
    its operations."""

    #: The rows take no space on any disk of this machine.
    place = None

    most_copied = EVERYTHING
    copiers = 1

    def __init__(
        self,
        store: PostgresSessionStore,
        clock: Callable[[], float],
        life: LifeSigns,
        *,
        origin: str,
    ) -> None:
        self._store = store
        self._database = store.database
        self._clock = clock
        self._life = life
        self._origin = origin

    @contextmanager
    def transaction(self, *, empties: bool = False) -> Iterator[None]:
        with self._database.write():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._database.read():
            yield

    def prepare(self, items: Sequence[PlanItem]) -> int:
        return _MOST

    def state(self) -> object:
        return None

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        """Those of these sessions that exist. Inside a write transaction their rows are locked, so
        no other process can change them between this look and what the caller does next."""
        with self._database.read() as db:
            rows = _rows(
                db,
                f"s.number, s.id, s.message_count, {LAST_ACTIVE}, s.ended_at, s.pinned, s.bytes, "
                "s.title, s.cwd, s.model",
                ids,
            )
            # A separate statement after the lock, so that it sees leases taken meanwhile.
            held = survey.leases(db, "session = ANY(%s::bigint[])", [row[0] for row in rows])
        now = self._clock()
        # Cached: a few processes hold many sessions.
        judging = replace(self._life, is_dead=functools.cache(self._life.is_dead))
        found = {}
        for number, name, messages, active, ended_at, pinned, size, *texts in rows:
            title, cwd, model = texts
            life = judging.judge(
                ended=ended_at is not None, idle=now - active, leases=held.get(number, ())
            )
            found[name] = Found(
                id=name,
                number=number,
                version=session_version(messages, active, ended_at, pinned, (title, cwd, model)),
                messages=messages,
                bytes=size,
                alive=life.alive,
                abandoned=life.abandoned,
            )
        return found

    def copies(self, folder: Path) -> TrashTables:
        return TrashTables(self._database, self._origin, folder)

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        return self.copies(folder).write([each.number for each in going], first, last)

    def delete(self, going: Sequence[Found], *, for_good: bool = False) -> None:
        numbers = [each.number for each in going]
        if numbers:
            with self._database.write() as db:
                _part(db, numbers)
                delete(db, numbers)

    def left_for_good(self) -> None:
        """Do nothing: the server's next vacuum removes deleted rows from its indexes."""

    def made_ready(self, bundles: Mapping[Path, Sequence[str]]) -> Generator[Path]:
        yield from bundles

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        with self._database.write() as db:
            return Returned(notes=_put_back(db, bundle_of(bundle), ids))

    def is_copied(self, found: Found, copied: Copied) -> bool:
        """True if this is the session that was copied, not a later one with the same id: the
        numbers of messages are never reused."""
        row = self._database.query(
            "SELECT s.started_at, (SELECT min(m.number) FROM messages m WHERE m.session = s.number)"
            " FROM sessions s WHERE s.number = %s",
            (found.number,),
        ).first
        return row == (copied.started_at, copied.first_message)

    def bring(self, coming: Sequence[Coming], now: float, then: Callable[[], None]) -> bool:
        return False

    def adopt(self, session_id: str, children: Collection[str], last_active_at: float) -> None:
        """Give a session that came back its children, except those that have another parent by
        now."""
        with self._database.write() as db:
            number = number_of(db, session_id)
            db.execute(
                "UPDATE sessions SET last_active_at = %s WHERE number = %s",
                (last_active_at, number),
            )
            rows = db.execute(
                """
                SELECT child.number, child.id, parent.number, parent.id
                FROM sessions child JOIN sessions parent ON parent.number = %s
                WHERE child.parent IS NULL AND child.relation IS NOT NULL
                  AND child.id = ANY(%s::text[])
                """,
                (number, list(children)),
            ).rows
            for row in rows:
                _relate(db, *row)

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        with self._database.read() as db:
            columns = "s.id, s.number, s.last_active_at, s.ended_at, s.end_reason"
            return {
                name: End(number=number, last_active_at=active, ended_at=ended, reason=reason)
                for name, number, active, ended, reason in _rows(db, columns, ids)
            }

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        with self._database.write() as db:
            db.execute(
                "UPDATE sessions SET ended_at = %s, end_reason = %s "
                "WHERE number = ANY(%s::bigint[])",
                (at, storable(reason), [each.number for each in chosen]),
            )

    def rest(self) -> None:
        """Do nothing: other processes wait for rows, not for this process."""

    def begin_to_give_back(self) -> None:
        """See `give_back`."""

    def give_back(self) -> None:
        """Index pending messages. Space needs no step: autovacuum makes that of deleted rows
        reusable."""
        search_index.catch_up_all(self._database)

    def footprint(self) -> int:
        return survey.footprint(self._database)

    def truncate_log(self) -> None:
        """Do nothing: the server manages its own log."""


def _rows(db: Db, columns: str, ids: Sequence[str]) -> Sequence[Row]:
    """Columns of those of these sessions that exist; inside a write transaction they are locked."""
    lock = "FOR UPDATE" if db.writing else ""
    return db.execute(
        f"SELECT {columns} FROM sessions s WHERE s.id = ANY(%s::text[]) ORDER BY s.number {lock}",  # noqa: S608 - our own text
        ([storable(each) for each in ids],),
    ).rows


# --- Back -----------------------------------------------------------------------------------------


def _put_back(db: Db, bundle: int, ids: Collection[str]) -> Mapping[str, str]:
    """Restore sessions: rows, totals, lineage, routes, leases, what guards counted, and the search
    index. Returns what could not be restored exactly, by id."""
    rows = db.execute(
        "SELECT number, id, parent_id, routing_key, "
        "EXISTS (SELECT 1 FROM sessions s WHERE s.number = t.number) "
        "FROM trash_sessions t WHERE bundle = %s AND id = ANY(%s::text[]) ORDER BY number",
        (bundle, list(ids)),
    ).rows
    numbers = {row[0]: _free_number(db) if row[4] else row[0] for row in rows}
    _insert(db, bundle, list(numbers), list(numbers.values()))
    notes: dict[str, str] = {}
    for old, name, parent, key, _ in rows:
        if parent is not None:
            _note(db, numbers[old], parent)
        taken_by = None if key is None else _route(db, key, numbers[old])
        if taken_by is not None:
            notes[name] = key_stays(taken_by)
    _join(db, list(ids))
    search_index.wait_sessions(db, list(numbers.values()))
    return notes


def _free_number(db: Db) -> int:
    """A new number, for a store created since in which another session has the old one."""
    [[number]] = db.execute("SELECT nextval(pg_get_serial_sequence('sessions', 'number'))").rows
    return int(number)


def _insert(db: Db, bundle: int, old: list[int], new: list[int]) -> None:
    moved = "unnest(%s::bigint[], %s::bigint[]) AS n (old, new)"
    columns = ", ".join(SESSION_COLUMNS)
    db.execute(
        f"INSERT INTO sessions (number, {columns}) "  # noqa: S608 - our own names
        f"SELECT n.new, {', '.join(f't.{column}' for column in SESSION_COLUMNS)} "
        f"FROM {moved} JOIN trash_sessions t ON t.bundle = %s AND t.number = n.old",
        (old, new, bundle),
    )
    for table, names in BELONGING:
        _, *rest = names.split(", ")
        if table == "messages" and _are_taken(db, bundle, old):
            rest.remove("number")  # new numbers, in the same order
        order = " ORDER BY t.number" if table == "messages" else ""
        db.execute(
            f"INSERT INTO {table} (session, {', '.join(rest)}) "  # noqa: S608 - our own names
            f"SELECT n.new, {', '.join(f't.{name}' for name in rest)} "
            f"FROM {moved} JOIN trash_{table} t ON t.bundle = %s AND t.session = n.old{order}",
            (old, new, bundle),
        )


def _are_taken(db: Db, bundle: int, sessions: list[int]) -> bool:
    """True if other messages have their numbers, which happens only in a store created since."""
    found = db.execute(
        "SELECT 1 FROM trash_messages t JOIN messages m ON m.number = t.number "
        "WHERE t.bundle = %s AND t.session = ANY(%s::bigint[]) LIMIT 1",
        (bundle, sessions),
    )
    return found.first is not None


def _route(db: Db, key: str, number: int) -> str | None:
    """Point a key to a session. If another session has the key by now, leave it there and return
    that session's id."""
    db.execute(
        "INSERT INTO routes (key, session) VALUES (%s, %s) ON CONFLICT DO NOTHING", (key, number)
    )
    row = db.execute(
        "SELECT s.id FROM routes r JOIN sessions s ON s.number = r.session "
        "WHERE r.key = %s AND s.number <> %s",
        (key, number),
    ).first
    return None if row is None else str(row[0])


# --- Lineage --------------------------------------------------------------------------------------


def _part(db: Db, leaving: Sequence[int]) -> None:
    """Note in each child that stays which parent it loses. Call it before the parents go."""
    rows = db.execute(
        """
        SELECT child.number, parent.id FROM sessions child
        JOIN sessions parent ON parent.number = child.parent
        WHERE child.parent = ANY(%s::bigint[]) AND child.number <> ALL(%s::bigint[])
        ORDER BY child.number FOR UPDATE OF child
        """,
        (list(leaving), list(leaving)),
    )
    for child, parent_id in rows:
        _note(db, child, parent_id)


def _join(db: Db, came_back: Collection[str]) -> None:
    """Reconnect parents and children of which at least one came back."""
    waiting = db.execute(
        "SELECT number, id, extra FROM sessions "  # noqa: S608 - our own name
        f"WHERE parent IS NULL AND position('{AWAITED_PARENT}' IN extra) > 0"
    )
    for number, child, extra in waiting:
        wanted = load_extra(extra).get(AWAITED_PARENT)
        if not isinstance(wanted, str) or not {child, wanted} & set(came_back):
            continue
        parent = db.execute("SELECT number, id FROM sessions WHERE id = %s", (wanted,)).first
        if parent is not None:
            _relate(db, number, child, *parent)


def _relate(db: Db, number: int, child_id: str, parent: int, parent_id: str) -> None:
    """Give a child its parent, unless an import has reversed them meanwhile."""
    if not descends(db, parent_id, child_id):
        db.execute("UPDATE sessions SET parent = %s WHERE number = %s", (parent, number))
        _note(db, number, None)


def _note(db: Db, number: int, parent: str | None) -> None:
    """Record which parent a session waits for; None clears the note."""
    [[text]] = db.execute("SELECT extra FROM sessions WHERE number = %s", (number,)).rows
    extra = load_extra(text)
    if extra.get(AWAITED_PARENT) == parent:
        return
    extra.pop(AWAITED_PARENT, None)
    if parent is not None:
        extra[AWAITED_PARENT] = parent
    db.execute("UPDATE sessions SET extra = %s WHERE number = %s", (dump_extra(extra), number))
