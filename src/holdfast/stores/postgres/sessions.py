"""Sessions and their messages in PostgreSQL: every call is one transaction, or a part of the
caller's.

A write locks the row of each session that it reads. That is what SQLite's one lock for writers
does there: two machines that append to one session, end it, prune it or hold it go one after the
other, and machines that work on different sessions do not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from holdfast.errors import (
    HoldfastError,
    SessionEndedError,
    SessionExistsError,
    UnknownSessionError,
)
from holdfast.model.arguments import MOST_NAMED, check_id, named
from holdfast.model.item import Problem
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.plan import Action
from holdfast.model.session import (
    OWN_FIELDS,
    TAKEN_BACK,
    UNCHANGED,
    USED_MODEL,
    Addition,
    Hit,
    Message,
    Relation,
    Search,
    Session,
    SessionChange,
    SessionFilter,
    SessionOrder,
)
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Share, StoreStats, UsageEntry
from holdfast.policy.prices import Prices
from holdfast.ports.sessions import LoopRunner
from holdfast.stores.postgres import ledger, schema, search_index, survey
from holdfast.stores.postgres import messages as message_rows
from holdfast.stores.postgres.database import Connect, Database, Db, Result, SyncWire
from holdfast.stores.postgres.machines import Heard
from holdfast.stores.postgres.rows import COLUMNS, LAST_ACTIVE, TABLES, page, priced, tables, where
from holdfast.stores.postgres.rows import SPELLED as _SPELLED
from holdfast.stores.sessions import content
from holdfast.stores.sessions import messages as pure
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.ledger import used_by
from holdfast.stores.sessions.session_rows import (
    LARGEST,
    holder_columns,
    order,
    session,
    within_64_bits,
)
from holdfast.value import replace

#: What a session that was just stored is, without what is joined to it: it has none of that yet.
_NEW = re.sub(r"\b[prg]\.\w+", "NULL", COLUMNS)
_ONE = f"SELECT s.number, {COLUMNS} FROM {TABLES} WHERE s.id = %s"  # noqa: S608 - our own names
#: Delegates of sessions, and theirs. UNION drops what was found before, so a cycle ends.
_DELEGATES = """
    WITH RECURSIVE masters (number) AS (
        SELECT number FROM sessions WHERE id = ANY(%(ids)s::text[])
        UNION
        SELECT s.number FROM sessions s JOIN masters m ON s.parent = m.number
        WHERE s.relation = %(relation)s
    )
    SELECT s.id FROM sessions s JOIN masters USING (number)
    WHERE s.id <> ALL(%(ids)s::text[]) ORDER BY s.number
"""


class PostgresSessionStore:
    """The session store in one PostgreSQL database. Safe for many threads, processes and
    machines."""

    deletes_every_delegate = False
    edits = frozenset({Action.RENAME, Action.PIN, Action.END})
    keeps_usage = True

    def __init__(self, url: str, *, connect: Connect = SyncWire) -> None:
        self.database = Database(url, connect=connect)
        self._heard = Heard(self.database)
        self._written = 0
        try:
            schema.check(self.database)
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the store. What is not yet in the search index goes there, if nobody else is at
        it."""
        if self._written and not self.database.is_closed:
            with suppress(HoldfastError):
                search_index.catch_up(self.database)
        self.database.close()

    def loop_runner(self) -> LoopRunner:
        """Runs calls of this store on an event loop, without a thread."""
        from holdfast.stores.postgres import on_loop  # noqa: PLC0415 - few hosts have a loop

        self.database.wait_on(on_loop.Waiting())
        return on_loop.LoopRunner()

    def transaction(self) -> AbstractContextManager[object]:
        """Several calls as one: all of them happen, or none."""
        return self.database.write()

    # --- Writing ----------------------------------------------------------------------------------

    def create(self, new: Session) -> Session:
        """Store a session that has no messages yet."""
        check_id(new.id)
        return self.database.run(lambda db: self._create(db, new))

    def _create(self, db: Db, new: Session) -> Session:
        parent = None if new.parent_id is None else self._row(db, new.parent_id)[0]
        values = (
            new.id,
            storable(new.source),
            parent,
            new.relation.value if new.relation else None,
            storable(new.title),
            storable(new.cwd),
            storable(new.model),
            new.started_at,
            new.last_active_at,
            new.ended_at,
            storable(new.end_reason),
            new.pinned,
            content.dump_extra(new.extra),
        )
        # Whoever else stores this id now is waited for: one of the two gets it.
        made = db.execute(
            f"""
            INSERT INTO sessions AS s (id, source, parent, relation, title, cwd, model, started_at,
                                       last_active_at, ended_at, end_reason, pinned, extra)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
            RETURNING {_NEW}
            """,  # noqa: S608 - our own names
            values,
        ).first
        if made is None:
            raise _exists(db, new.id)
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

        Without `book`, what they used is in the ledger already: they were here before. `then` is a
        part of the transaction.
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
                raise _ended(session_id)
            after = pure.with_totals(before, rows, now)
            return Addition(numbers=tuple(numbers), before=before, after=after)

        def recover(numbers: Sequence[int]) -> Addition:
            """The session as it is now: others may have added to it since."""
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
        summed = pure.with_totals(before, change.new, now)
        unsaid = len(change.dropped) if mark == TAKEN_BACK else 0
        after_all = replace(
            summed,
            message_count=summed.message_count - unsaid,
            bytes=summed.bytes + grown,
            last_active_at=pure.later(before.last_active_at, now),
        )
        message_rows.update_totals(db, number, after_all)
        if pure.used(before, after_all):
            ledger.add(db, used_by(before, [message for message, _ in change.new], now))
        return Addition(
            numbers=tuple(numbers),
            before=before,
            after=after_all,
            kept=change.kept,
            replaced=change.replaced,
        )

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
        """End a session. One that has ended keeps its first end."""

        def end(db: Db) -> Session:
            number, ended_at, _ = self._row(db, session_id)
            if ended_at is None:
                self._set(db, number, {"ended_at": at, "end_reason": storable(reason)})
            return self._numbered(db, session_id)[1]

        return self.database.run(end)

    def reopen(self, session_id: str, *, at: float) -> Session:
        """Reopen an ended session; that counts as activity."""

        def reopen(db: Db) -> Session:
            number, _, last_active_at = self._row(db, session_id)
            active = max(last_active_at, at)
            self._set(db, number, {"ended_at": None, "end_reason": None, "last_active_at": active})
            return self._numbered(db, session_id)[1]

        return self.database.run(reopen)

    def rename(self, session_id: str, title: str | None) -> Session:
        return self._changed(session_id, {"title": storable(title)})

    def as_title(self, title: str | None) -> str | None:
        return storable(title)

    def pin(self, session_id: str, pinned: bool) -> Session:
        return self._changed(session_id, {"pinned": bool(pinned)})

    def route(self, key: str, session_id: str) -> None:
        """Point a routing key to a session, and to no other."""

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
        """Take a lease on an open session, or renew one; False when there is no such session, or
        it has ended. Several processes may hold the same."""
        self._heard.note()
        # The row is locked first: whoever removes the session sees the lease, or this sees that it
        # is gone.
        return self.database.run(
            lambda db: (
                db.execute(
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
                ).count
                > 0
            )
        )

    def release(self, session_id: str, holder: Holder) -> None:
        """Release a lease. It stays on record: the process may come back as long as it lives, and
        its death can be proved only if the process is known."""
        self.database.run(
            lambda db: db.execute(
                """
                UPDATE leases SET released = true
                WHERE session = (SELECT number FROM sessions WHERE id = %s)
                  AND host = %s AND boot = %s AND process = %s AND started = %s
                """,
                (storable(session_id), *holder_columns(holder)),
            )
        )

    # --- Reading ----------------------------------------------------------------------------------

    def get(self, session_id: str) -> Session:
        if self.database.is_writing:
            with self.database.write() as db:
                return self._numbered(db, session_id)[1]
        row = self.database.query(_ONE, [storable(session_id)]).first
        if row is None:
            raise self._unknown(session_id)
        return session(row[1:])

    def resolve(self, prefix: str) -> str:
        """The id that starts with `prefix`, whole or unique; what is ambiguous is listed."""
        wanted = SessionFilter(id_prefix=check_id(prefix))
        condition, values = where(wanted)
        rows = self.database.query(
            f"""
            SELECT s.id, count(*) OVER () FROM {tables(wanted)} WHERE {condition}
            ORDER BY s.id = %s DESC, {LAST_ACTIVE} DESC, s.id LIMIT %s
            """,  # noqa: S608 - no user text
            (*values, prefix, MOST_NAMED),
        ).rows
        total = rows[0][1] if rows else 0
        return named(prefix, [found for found, _ in rows], self._unknown(prefix), total=total)

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[Session]:
        condition, values = where(wanted)
        cost = None
        if prices is not None and order_by is SessionOrder.COST:
            with self.database.read() as db:
                cost = priced(db, prices)
        by = order(order_by, cost, _SPELLED)
        # The numbers first: what is joined to a session is looked up for its page only.
        rows = self.database.query(
            f"""
            SELECT {COLUMNS}
            FROM unnest(ARRAY(
                SELECT s.number FROM {tables(wanted)} WHERE {condition} ORDER BY {by}
                LIMIT %s OFFSET %s
            )) WITH ORDINALITY AS chosen (number, place)
            JOIN ({TABLES}) ON s.number = chosen.number ORDER BY chosen.place
            """,  # noqa: S608 - no user text
            [*values, *page(limit, offset)],
        )
        return [session(row) for row in rows]

    def routed(self, key: str) -> Session | None:
        """The session that a routing key points to now. Within a transaction nobody else can give
        the key to another one before its end."""
        if self.database.is_writing:
            with self.database.write() as db:
                self._lock_key(db, key)
        found = self.find(SessionFilter(routing_key=key), limit=1)
        return found[0] if found else None

    def count(self, wanted: SessionFilter) -> int:
        condition, values = where(wanted)
        [[number]] = self.database.query(
            f"SELECT count(*) FROM {tables(wanted)} WHERE {condition}",  # noqa: S608 - no user text
            values,
        ).rows
        return int(number)

    def sources(self) -> Sequence[str]:
        rows = self.database.query("SELECT DISTINCT source FROM sessions ORDER BY source")
        return [source for (source,) in rows]

    def folders(self) -> Mapping[str, str]:
        return dict(self.database.query("SELECT id, cwd FROM sessions WHERE cwd <> ''").rows)

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        with self.database.read() as db:
            rows = db.execute(
                _DELEGATES,
                {"ids": [storable(each) for each in ids], "relation": Relation.DELEGATE.value},
            )
            return [name for (name,) in rows]

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        number, _, _ = self._row_of(session_id)

        def read(after: int, before: int, most: int) -> Sequence[Sequence[Any]]:
            return message_rows.page(
                self.database, number, after, before, most, newest_first=newest_first
            )

        rows = pure.paged(
            read,
            after=within_64_bits(after),
            before=within_64_bits(LARGEST if before is None else before),
            limit=limit,
            newest_first=newest_first,
        )
        return (content.decode(*row) for row in rows)

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        return {each: opening_of(self.messages(each, limit=LOOKED_AT)) for each in ids}

    def search(self, asked: Search) -> Sequence[Hit]:
        # Here, because most commands never search.
        from holdfast.stores.postgres.search import search  # noqa: PLC0415

        return search(self.database, asked)

    def close_words(self, text: str) -> Sequence[str]:
        from holdfast.stores.postgres.search import suggestion  # noqa: PLC0415 - as above

        return suggestion(self.database, text)

    def unlisted(self) -> Sequence[Problem]:
        return ()

    def unsearched(self) -> Sequence[Problem]:
        return ()

    def weigh(self, wanted: SessionFilter) -> Share:
        """How many sessions these are, and their share of the tables."""
        return survey.weigh(self.database, wanted)

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats:
        return survey.statistics(self.database, now=now, ages=ages)

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        with self.database.read() as db:
            return ledger.entries(db, on)

    def count_messages(self) -> None: ...

    def refresh(self) -> None: ...

    # --- Rows -------------------------------------------------------------------------------------

    def _count(self, messages: int) -> None:
        """Index when enough has gathered, after the commit: nobody waits for that but this call."""
        self._written += messages
        if self._written >= search_index.BATCH and not self.database.is_writing:
            self._written = 1
            with suppress(HoldfastError):
                search_index.catch_up(self.database)

    def _changed(self, session_id: str, values: Mapping[str, object]) -> Session:
        def change(db: Db) -> Session:
            self._set(db, self._row(db, session_id)[0], values)
            return self._numbered(db, session_id)[1]

        return self.database.run(change)

    def _set(self, db: Db, number: int, values: Mapping[str, object]) -> None:
        if values:
            names = ", ".join(f"{name} = %s" for name in values)
            db.execute(
                f"UPDATE sessions SET {names} WHERE number = %s",  # noqa: S608 - our own names
                [*values.values(), number],
            )

    def _lock_key(self, db: Db, key: str) -> None:
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (key,))

    def _row(self, db: Db, session_id: str) -> tuple[int, float | None, float]:
        lock = " FOR UPDATE" if db.writing else ""
        row = db.execute(
            f"SELECT number, ended_at, last_active_at FROM sessions WHERE id = %s{lock}",  # noqa: S608
            (storable(session_id),),
        ).first
        if row is None:
            raise self._unknown(session_id)
        return row[0], row[1], row[2]

    def _row_of(self, session_id: str) -> tuple[int, float | None, float]:
        if self.database.is_writing:
            with self.database.write() as db:
                return self._row(db, session_id)
        with self.database.read() as db:
            return self._row(db, session_id)

    def _numbered(self, db: Db, session_id: str) -> tuple[int, Session]:
        if db.writing:
            # First: a statement that waits for a lock sees that row as it is then, and what is
            # joined to it as it was before.
            self._row(db, session_id)
        row = db.execute(_ONE, (storable(session_id),)).first
        if row is None:
            raise self._unknown(session_id)
        return row[0], session(row[1:])

    def _open(self, db: Db, session_id: str) -> tuple[int, Session]:
        """The row of an open session, locked. In one step, because an append needs no more: its
        totals and its end are right, its routing key may be a moment old."""
        row = db.execute(f"{_ONE} FOR UPDATE OF s", (storable(session_id),)).first
        if row is None:
            raise self._unknown(session_id)
        number, found = row[0], session(row[1:])
        if found.ended:
            raise _ended(session_id)
        return number, found

    def _unknown(self, session_id: str) -> UnknownSessionError:
        beginning = storable(session_id[: max(8, len(session_id) - 4)]) or ""
        near = self.database.query(
            "SELECT id FROM sessions WHERE lower(substr(id, 1, %s)) = lower(%s) "
            "ORDER BY id LIMIT 1",
            (len(beginning), beginning),
        ).first
        hint = (
            "`holdfast sessions list` shows them." if near is None else f"Did you mean {near[0]}?"
        )
        return UnknownSessionError(f"There is no session {session_id!r}.", hint=hint)


def _ended(session_id: str) -> SessionEndedError:
    return SessionEndedError(
        f"Session {session_id} has ended.", hint="Reopen it before adding to it."
    )


def _exists(db: Db, wanted: str) -> SessionExistsError:
    row = db.execute("SELECT id FROM sessions WHERE lower(id) = lower(%s)", (wanted,)).first
    if row is None or row[0] == wanted:
        return SessionExistsError(f"Session {wanted} already exists.")
    return SessionExistsError(
        f"Session {row[0]} already exists; it differs from {wanted} only in case."
    )


def delete(db: Db, numbers: Sequence[int]) -> None:
    """Delete sessions with their messages, index entries, routes and leases; their children stay
    and lose their parents, all in one step."""
    chosen = (list(numbers),)
    search_index.forget_sessions(db, numbers)  # the reference before the data
    db.execute("DELETE FROM messages WHERE session = ANY(%s::bigint[])", chosen)
    db.execute("DELETE FROM sessions WHERE number = ANY(%s::bigint[])", chosen)


def descends(db: Db, session_id: str, ancestor: str) -> bool:
    """Whether one session comes from another, over any number of steps, or is the same."""
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
