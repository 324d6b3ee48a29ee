"""Sessions and their messages in PostgreSQL. Every call is one transaction, or part of the
caller's.

A write locks the row of each session that it reads. That replaces SQLite's single write lock:
machines that append to the same session, end it, prune it or hold it take turns, and machines that
work on different sessions do not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from holdfast.errors import HoldfastError
from holdfast.model.arguments import check_id
from holdfast.model.plan import Action
from holdfast.model.session import (
    OWN_FIELDS,
    UNCHANGED,
    USED_MODEL,
    Addition,
    Message,
    Session,
    SessionChange,
)
from holdfast.model.stored_session import Holder
from holdfast.ports.sessions import LoopRunner
from holdfast.stores.postgres import async_calls, ledger, schema, search_index
from holdfast.stores.postgres import messages as message_rows
from holdfast.stores.postgres.database import Connect, Database, Db, Result, SyncWire
from holdfast.stores.postgres.machines import Heard
from holdfast.stores.postgres.rows import COLUMNS
from holdfast.stores.postgres.session_reader import ONE, PostgresSessionReader
from holdfast.stores.sessions import content
from holdfast.stores.sessions import messages as pure
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.ledger import used_by
from holdfast.stores.sessions.session_rows import (
    NEW_COLUMNS,
    exists,
    has_ended,
    holder_columns,
    new_values,
    session,
    within_64_bits,
)
from holdfast.value import replace

#: The columns of a session that was just stored, with NULL for joined ones: it has no such rows
#: yet.
_NEW = re.sub(r"\b[prg]\.\w+", "NULL", COLUMNS)


class PostgresSessionStore(PostgresSessionReader):
    """The session store in one PostgreSQL database. Safe for many threads, processes and
    machines."""

    deletes_every_delegate = False
    edits = frozenset({Action.RENAME, Action.PIN, Action.END})
    keeps_usage = True

    def __init__(self, url: str, *, connect: Connect = SyncWire) -> None:
        super().__init__(Database(url, connect=connect))
        self._heard = Heard(self.database)
        self._written = 0
        try:
            schema.check(self.database)
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the store. Messages not yet in the search index are added, unless another process
        is doing so."""
        if self._written and not self.database.is_closed:
            with suppress(HoldfastError):
                search_index.catch_up(self.database)
        self.database.close()

    def loop_runner(self) -> LoopRunner:
        """A runner for calls of this store on an event loop, without a thread."""
        self.database.wait_on(async_calls)
        return async_calls.LoopRunner()

    def transaction(self) -> AbstractContextManager[object]:
        """Several calls as one transaction: all of them take effect, or none."""
        return self.database.write()

    # --- Writing ----------------------------------------------------------------------------------

    def create(self, new: Session) -> Session:
        """Store a session that has no messages yet."""
        check_id(new.id)
        return self.database.run(lambda db: self._create(db, new))

    def _create(self, db: Db, new: Session) -> Session:
        parent = None if new.parent_id is None else self._row(db, new.parent_id)[0]

        # Waits for another transaction that is storing the same id: one of the two gets it.
        made = db.execute(
            f"""
            INSERT INTO sessions AS s ({NEW_COLUMNS})
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
            RETURNING {_NEW}
            """,  # noqa: S608 - our own names
            new_values(new, parent),
        ).first
        if made is None:
            row = db.execute("SELECT id FROM sessions WHERE lower(id) = lower(%s)", (new.id,)).first
            raise exists(new.id, row[0] if row else new.id)
        if new.routing_key is not None:
            self.route(new.routing_key, new.id)
        return replace(session(made), parent_id=new.parent_id, routing_key=new.routing_key)

    def append(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        book: bool = True,
        then: Callable[[Addition], None] | None = None,
    ) -> Addition:
        """Add messages to an open session. Durable when it returns.

        Without `book`, nothing is booked: the ledger already has what these messages used. `then`
        runs inside the transaction.
        """
        if then is not None:
            with self.database.write():
                added = self.append(session_id, messages, now=now, book=book)
                then(added)
            return added
        rows = [(pure.checked(message), content.encode(message)) for message in messages]
        if not rows:
            with self.database.write() as db:
                _, found = self._open(db, session_id)
                return Addition(numbers=(), before=found, after=found)
        statement, given = message_rows.appended(storable(session_id) or "", rows, now, book=book)

        def read(result: Result) -> Addition:
            row = result.first
            if row is None:
                raise self._unknown(session_id)
            numbers, before = row[0], session(row[1:])
            if numbers is None:
                raise has_ended(session_id)
            after = pure.with_totals(before, rows, now)
            return Addition(numbers=tuple(numbers), before=before, after=after)

        def recover(numbers: Sequence[int]) -> Addition:
            """The result, computed from the current session: others may have added to it since."""
            after = self.get(session_id)
            return Addition(numbers=tuple(numbers), before=pure.without(after, rows), after=after)

        added = self.database.call(
            statement, lambda *who: (*who, *given), recover=recover, read=read
        )
        self._heard.note()
        self._count(len(added.numbers))
        return added

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        """Replace all messages after the one with this number; nothing is deleted."""
        rows = [(pure.checked(each), content.encode(each)) for each in messages]
        done = self.database.run(lambda db: self._replace(db, session_id, rows, after, mark, now))
        self._count(len(done.numbers))
        return done

    def _replace(
        self,
        db: Db,
        session_id: str,
        rows: Sequence[message_rows.Encoded],
        after: int,
        mark: str,
        now: float,
    ) -> Addition:
        number, before = self._open(db, session_id)
        stored = pure.not_replaced(message_rows.current(db, number, within_64_bits(after)))
        change = pure.replacement(message_rows.numbers_among(db, number, rows), stored, rows)
        if not change.rest and not change.dropped:
            kept = tuple(stored)[: change.kept]
            return Addition(numbers=kept, before=before, after=before, kept=change.kept)
        grown = message_rows.mark(db, change.dropped.values(), mark, True)
        numbers = [*stored][: change.kept]
        for each in change.rest:
            if isinstance(each, int):
                numbers.append(message_rows.move(db, each))
            else:
                numbers.append(message_rows.insert(db, number, *each, now))
        done = pure.replaced(before, change, numbers, grown=grown, mark=mark, now=now)
        message_rows.update_totals(db, number, done.after)
        if pure.used(before, done.after):
            ledger.add(db, used_by(before, [message for message, _ in change.new], now))
        return done

    def update(self, session_id: str, change: SessionChange) -> Session:
        """Change the model, the folder or the extra fields of a session."""
        return self.database.run(lambda db: self._update(db, session_id, change))

    def _update(self, db: Db, session_id: str, change: SessionChange) -> Session:
        number, before = self._numbered(db, session_id)
        values: dict[str, object] = {}
        if change.model is not UNCHANGED and storable(change.model) != before.model:
            used = pure.without_model(
                row for row in message_rows.current(db, number, 0) if row[5] is not None
            )
            grown = message_rows.mark(db, used, USED_MODEL, before.model or "")
            values |= {"model": storable(change.model), "bytes": before.bytes + grown}
        if change.cwd is not UNCHANGED:
            values["cwd"] = storable(change.cwd)
        if change.extra is not UNCHANGED:
            own = {k: v for k, v in before.extra.items() if k.startswith(OWN_FIELDS)}
            values["extra"] = content.dump_extra(own | dict(change.extra))
        self._set(db, number, values)
        return self._numbered(db, session_id)[1]

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        """End a session. A session that has already ended keeps its first end."""
        first = {"ended_at": at, "end_reason": storable(reason)}
        return self._changed(session_id, lambda ended_at, _: first if ended_at is None else {})

    def reopen(self, session_id: str, *, at: float) -> Session:
        """Reopen an ended session; that counts as activity."""
        none = {"ended_at": None, "end_reason": None}
        return self._changed(
            session_id, lambda _, last_active_at: none | {"last_active_at": max(last_active_at, at)}
        )

    def rename(self, session_id: str, title: str | None) -> Session:
        return self._changed(session_id, lambda *_: {"title": storable(title)})

    def as_title(self, title: str | None) -> str | None:
        return storable(title)

    def pins_of(self, session_id: str) -> tuple[bool, str]:
        return self.get(session_id).pinned, ""

    def pin(self, session_id: str, pinned: bool) -> Session:
        return self._changed(session_id, lambda *_: {"pinned": bool(pinned)})

    def route(self, key: str, session_id: str) -> None:
        """Point a routing key to a session. The session loses any other key."""

        def route(db: Db) -> None:
            self._lock_key(db, key)
            number, _, _ = self._row(db, session_id)
            db.execute("DELETE FROM routes WHERE session = %s AND key <> %s", (number, key))
            db.execute(
                """
                INSERT INTO routes (key, session) VALUES (%s, %s)
                ON CONFLICT (key) DO UPDATE SET session = excluded.session
                """,
                (key, number),
            )

        self.database.run(route)

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        """Take or renew a lease on an open session; False if there is no such session, or it has
        ended. Several processes may hold a lease on the same session."""
        self._heard.note()
        # The row is locked first: either a process that removes the session sees the lease, or this
        # statement sees that the session is gone.
        taken = self.database.change(
            """
            WITH open AS (
                SELECT number FROM sessions WHERE id = %s AND ended_at IS NULL FOR SHARE
            )
            INSERT INTO leases (session, host, boot, process, started, heartbeat)
            SELECT number, %s, %s, %s, %s, %s FROM open
            ON CONFLICT (session, host, boot, process, started)
            DO UPDATE SET heartbeat = excluded.heartbeat, released = false
            """,
            (storable(session_id), *holder_columns(holder), now),
        )
        return taken.count > 0

    def release(self, session_id: str, holder: Holder) -> None:
        """Release a lease. The row stays: the process may come back as long as it lives, and its
        death can be proved only if the process is known."""
        self.database.change(
            """
            UPDATE leases SET released = true
            WHERE session = (SELECT number FROM sessions WHERE id = %s)
              AND host = %s AND boot = %s AND process = %s AND started = %s
            """,
            (storable(session_id), *holder_columns(holder)),
        )

    # --- Rows -------------------------------------------------------------------------------------

    def _count(self, messages: int) -> None:
        """Index once enough messages have gathered, after the commit: only this call waits for
        it."""
        self._written += messages
        if self._written >= search_index.BATCH and not self.database.is_writing:
            self._written = 1
            with suppress(HoldfastError):
                search_index.catch_up(self.database)

    def _changed(
        self, session_id: str, values: Callable[[float | None, float], Mapping[str, object]]
    ) -> Session:
        """Set columns of a session; `values` computes them from its end and its last activity."""

        def change(db: Db) -> Session:
            number, ended_at, last_active_at = self._row(db, session_id)
            self._set(db, number, values(ended_at, last_active_at))
            return self._numbered(db, session_id)[1]

        return self.database.run(change)

    def _set(self, db: Db, number: int, values: Mapping[str, object]) -> None:
        if values:
            names = ", ".join(f"{name} = %s" for name in values)
            db.execute(
                f"UPDATE sessions SET {names} WHERE number = %s",  # noqa: S608 - our own names
                [*values.values(), number],
            )

    def _open(self, db: Db, session_id: str) -> tuple[int, Session]:
        """The row of an open session, locked in a single statement. That is enough for an append:
        totals and end are current, and only the routing key may be a moment old."""
        row = db.execute(f"{ONE} FOR UPDATE OF s", (storable(session_id),)).first
        if row is None:
            raise self._unknown(session_id)
        number, found = row[0], session(row[1:])
        if found.ended:
            raise has_ended(session_id)
        return number, found


def delete(db: Db, numbers: Sequence[int]) -> None:
    """Delete sessions with their messages, index entries, routes and leases. Their children stay
    and lose their parents in the same step."""
    chosen = (list(numbers),)
    search_index.forget_sessions(db, numbers)  # the reference before the data
    db.execute("DELETE FROM messages WHERE session = ANY(%s::bigint[])", chosen)
    db.execute("DELETE FROM sessions WHERE number = ANY(%s::bigint[])", chosen)


def descends(db: Db, session_id: str, ancestor: str) -> bool:
    """True if one session descends from another, over any number of steps, or is the same."""
    found = db.execute(
        """
        WITH RECURSIVE line (number) AS (
            SELECT number FROM sessions WHERE lower(id) = lower(%s)
            UNION
            SELECT s.parent FROM sessions s JOIN line ON line.number = s.number
            WHERE s.parent IS NOT NULL
        )
        SELECT 1 FROM line JOIN sessions s ON s.number = line.number
        WHERE lower(s.id) = lower(%s)
        """,
        (session_id, ancestor),
    ).first
    return found is not None
