"""Sessions and their messages. Every call is one transaction, or part of the caller's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import (
    HoldfastError,
    UnknownSessionError,
)
from holdfast.model.arguments import check_id, unknown_session
from holdfast.model.item import Item
from holdfast.model.plan import Action
from holdfast.model.session import (
    OWN_FIELDS,
    UNCHANGED,
    Addition,
    Hit,
    Message,
    Relation,
    Search,
    Session,
    SessionChange,
    SessionFilter,
)
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Share, StoreStats, UsageEntry
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions import content
from holdfast.stores.sessions import messages as pure
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.session_rows import (
    AMONG,
    COLUMNS,
    NEW_COLUMNS,
    TABLES,
    exists,
    has_ended,
    holder_columns,
    new_values,
    session,
    within_64_bits,
)
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite import ledger, search_index, survey
from holdfast.stores.sqlite import messages as message_rows
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.sql_sessions import SqlSessions

_ONE = f"SELECT s.number, {COLUMNS} FROM {TABLES} WHERE s.id = ?"  # noqa: S608 - our own names


#: Delegates of sessions, and their delegates. UNION drops rows already found, so a cycle ends.
_DELEGATES = """
    WITH RECURSIVE masters (number) AS (
        SELECT number FROM sessions WHERE id IN (SELECT value FROM json_each(?1))
        UNION
        SELECT s.number FROM sessions s JOIN masters m ON s.parent = m.number
        WHERE s.relation = ?2
    )
    SELECT s.id FROM sessions s JOIN masters USING (number)
    WHERE s.id NOT IN (SELECT value FROM json_each(?1)) ORDER BY s.number
"""
_INSERT = f"""
    INSERT INTO sessions ({NEW_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608 - our own names


def insert_session(db: sqlite3.Connection, new: Session, parent: int | None) -> int:
    """Store a session that has no messages yet. Returns its number."""
    return db.execute(_INSERT, new_values(new, parent)).lastrowid or 0


class SqliteSessionStore(SqlSessions):
    """The session store in one SQLite file. Safe for many threads and many processes."""

    deletes_every_delegate = False
    edits = frozenset({Action.RENAME, Action.PIN, Action.END})

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.database = Database(path, create=create)

    def close(self) -> None:
        """Close the store. Messages not yet in the search index are added, if no other process
        writes."""
        with suppress(HoldfastError):
            self.database.when_free(search_index.catch_up_some)
        self.database.close()

    def create(self, new: Session) -> Session:
        """Store a session that has no messages yet."""
        check_id(new.id)
        with self.database.write() as db:
            taken = db.execute(
                "SELECT id FROM sessions WHERE id = ? COLLATE NOCASE", (new.id,)
            ).fetchone()
            if taken:
                raise exists(new.id, taken[0])
            parent = None if new.parent_id is None else self._row(db, new.parent_id)[0]
            insert_session(db, new, parent)
            if new.routing_key is not None:
                self.route(new.routing_key, new.id)
            return self.get(new.id)

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
        # Do everything slow first: while this process holds the lock, other writers wait.
        rows = [(pure.checked(message), content.encode(message)) for message in messages]
        with self.database.write() as db:
            number, before = self._open(db, session_id)
            numbers = tuple(
                message_rows.insert(db, number, message, row, now) for message, row in rows
            )
            after = pure.with_totals(before, rows, now)
            message_rows.update_totals(db, number, after)
            if book and pure.used(before, after):
                ledger.book(db, before, messages, now)
            if numbers:
                search_index.catch_up(db, numbers[-1])
            added = Addition(numbers=numbers, before=before, after=after)
            if then is not None:
                then(added)
            return added

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        """Replace all messages after the one with this number.

        Nothing is deleted: old messages that are not among the new ones stay, marked with `mark` in
        their extra fields, together with their usage. Ledger and budgets still count it.
        """
        rows = [(pure.checked(each), content.encode(each)) for each in messages]
        with self.database.write() as db:
            number, before = self._open(db, session_id)
            stored = message_rows.current(db, number, within_64_bits(after))
            known = message_rows.numbers_among(db, number, rows)
            change = pure.replacement(known, stored, rows)
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
                ledger.book(db, before, [message for message, _ in change.new], now)
            if change.rest:
                search_index.catch_up(db, numbers[-1])
            return done

    def update(self, session_id: str, change: SessionChange) -> Session:
        """Change the model, the folder or the extra fields of a session."""
        with self.database.write() as db:
            number, before = self._numbered(db, session_id)
            values: dict[str, object] = {}
            if change.model is not UNCHANGED and storable(change.model) != before.model:
                grown = message_rows.mark_model(db, number, before.model)
                values |= {"model": storable(change.model), "bytes": before.bytes + grown}
            if change.cwd is not UNCHANGED:
                values["cwd"] = storable(change.cwd)
            if change.extra is not UNCHANGED:
                own = {k: v for k, v in before.extra.items() if k.startswith(OWN_FIELDS)}
                values["extra"] = content.dump_extra(own | dict(change.extra))
            if values:
                names = ", ".join(f"{name} = ?" for name in values)
                db.execute(
                    f"UPDATE sessions SET {names} WHERE number = ?",  # noqa: S608 - our own names
                    [*values.values(), number],
                )
            return self.get(session_id)

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        """End a session. A session that has already ended keeps its first end."""
        with self.database.write() as db:
            number, ended_at, _ = self._row(db, session_id)
            if ended_at is None:
                db.execute(
                    "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE number = ?",
                    (at, storable(reason), number),
                )
            return self.get(session_id)

    def reopen(self, session_id: str, *, at: float) -> Session:
        """Reopen an ended session; that counts as activity."""
        with self.database.write() as db:
            number, _, last_active_at = self._row(db, session_id)
            db.execute(
                """
                UPDATE sessions SET ended_at = NULL, end_reason = NULL, last_active_at = ?
                WHERE number = ?
                """,
                (max(last_active_at, at), number),
            )
            return self.get(session_id)

    def rename(self, session_id: str, title: str | None) -> Session:
        return self._set(session_id, "title", storable(title))

    def as_title(self, title: str | None) -> str | None:
        return storable(title)

    def pins_of(self, session_id: str) -> tuple[bool, str]:
        return self.get(session_id).pinned, ""

    def pin(self, session_id: str, pinned: bool) -> Session:
        return self._set(session_id, "pinned", int(pinned))

    def route(self, key: str, session_id: str) -> None:
        """Point a routing key to a session. The session loses any other key."""
        with self.database.write() as db:
            number, _, _ = self._row(db, session_id)
            db.execute("DELETE FROM routes WHERE session = ?", (number,))
            db.execute(
                """
                INSERT INTO routes (key, session) VALUES (?, ?)
                ON CONFLICT (key) DO UPDATE SET session = excluded.session
                """,
                (key, number),
            )

    def get(self, session_id: str) -> Session:
        with self.database.read() as db:
            return self._numbered(db, session_id)[1]

    def _found(
        self, db: sqlite3.Connection, chosen: str, by: str, parameters: Sequence[Any]
    ) -> list[Session]:
        rows = db.execute(
            f"SELECT {COLUMNS} FROM {TABLES} WHERE s.number IN ({chosen}) ORDER BY {by}",  # noqa: S608 - no user text
            parameters,
        )
        return [session(row) for row in rows]

    def weigh(self, wanted: SessionFilter) -> Share:
        """How many sessions match, and their share of the database file."""
        return survey.weigh(self.database, wanted)

    def extent(self) -> tuple[int, int]:
        """How many messages there are, and how many bytes of the file are in use."""
        with self.database.read() as db:
            return survey.message_count(db), survey.used_bytes(db)

    def survey(self, wanted: SessionFilter, *, now: float, life: LifeSigns) -> list[Item]:
        """The sessions as items of a plan."""
        return survey.sessions(self.database, wanted, now=now, life=life)

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        with self.database.read() as db:
            rows = db.execute(_DELEGATES, (json.dumps(ids), Relation.DELEGATE.value))
            return [name for (name,) in rows]

    def _pages(self, session_id: str, *, newest_first: bool) -> pure.Pages:
        with self.database.read() as db:
            session, _, _ = self._row(db, session_id)

        def read(after: int, before: int, most: int) -> Sequence[Sequence[Any]]:
            with self.database.read() as db:
                return message_rows.page(
                    db, session, after, before, most, newest_first=newest_first
                )

        return read

    def _message(self, row: Sequence[Any]) -> Message:
        return content.decode(*row)

    def search(self, asked: Search) -> Sequence[Hit]:
        # Imported here: most commands never search, and loading it takes as long as a listing.
        from holdfast.stores.sqlite.search import search  # noqa: PLC0415

        return search(self.database, asked)

    def close_words(self, text: str) -> Sequence[str]:
        from holdfast.stores.sqlite.search import suggestion  # noqa: PLC0415 - as above

        return suggestion(self.database, text)

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        """Take or renew a lease on an open session; False if there is no such session, or it has
        ended. Several processes may hold a lease on the same session."""
        with self.database.write() as db:
            done = db.execute(
                """
                INSERT INTO leases (session, host, boot, process, started, heartbeat)
                SELECT number, ?, ?, ?, ?, ? FROM sessions WHERE id = ? AND ended_at IS NULL
                ON CONFLICT DO UPDATE SET heartbeat = excluded.heartbeat, released = 0
                """,
                (*holder_columns(holder), now, session_id),
            )
            return done.rowcount > 0

    def release(self, session_id: str, holder: Holder) -> None:
        """Release a lease. The row stays: the process may come back as long as it lives, and its
        death can be proved only if the process is known."""
        with self.database.write() as db:
            db.execute(
                """
                UPDATE leases SET released = 1
                WHERE session = (SELECT number FROM sessions WHERE id = ?)
                  AND host = ? AND boot = ? AND process = ? AND started = ?
                """,
                (session_id, *holder_columns(holder)),
            )

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        with self.database.read() as db:
            return ledger.entries(db, None if on is None else utc_day(on))

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats:
        return survey.statistics(self.database, now=now, ages=ages)

    def _set(self, session_id: str, column: str, value: object) -> Session:
        with self.database.write() as db:
            number, _, _ = self._row(db, session_id)
            db.execute(
                f"UPDATE sessions SET {column} = ? WHERE number = ?",  # noqa: S608 - our own name
                (value, number),
            )
            return self.get(session_id)

    def _row(self, db: sqlite3.Connection, session_id: str) -> tuple[int, float | None, float]:
        row: tuple[int, float | None, float] | None = db.execute(
            "SELECT number, ended_at, last_active_at FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if row is None:
            raise self._unknown(session_id)
        return row

    def _numbered(self, db: sqlite3.Connection, session_id: str) -> tuple[int, Session]:
        row = db.execute(_ONE, (session_id,)).fetchone()
        if row is None:
            raise self._unknown(session_id)
        return row[0], session(row[1:])

    def _open(self, db: sqlite3.Connection, session_id: str) -> tuple[int, Session]:
        number, found = self._numbered(db, session_id)
        if found.ended:
            raise has_ended(session_id)
        return number, found

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return unknown_session(session_id, self._beginning)

    def _beginning(self, prefix: str) -> Sequence[str]:
        with self.database.read() as db:
            rows = db.execute(
                "SELECT id FROM sessions WHERE id LIKE ? ESCAPE '\\' ORDER BY id LIMIT 2",
                (_like_prefix(prefix),),
            )
            return [name for (name,) in rows]


def delete(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete sessions with their messages, index entries, routes and leases. Their children stay
    and lose their parents in the same step."""
    search_index.forget(db, numbers)  # the reference before the data
    chosen = (json.dumps(numbers),)
    db.execute(f"DELETE FROM messages WHERE session {AMONG}", chosen)  # noqa: S608 - our own text
    db.execute(f"DELETE FROM sessions WHERE number {AMONG}", chosen)  # noqa: S608 - our own text


def descends(db: sqlite3.Connection, session_id: str, ancestor: str) -> bool:
    """True if one session descends from another, over any number of steps, or is the same."""
    found = db.execute(
        """
        WITH RECURSIVE line (number) AS (
            SELECT number FROM sessions WHERE id = ? COLLATE NOCASE
            UNION
            SELECT s.parent FROM sessions s JOIN line ON line.number = s.number
            WHERE s.parent IS NOT NULL
        )
        SELECT 1 FROM line JOIN sessions s ON s.number = line.number
        WHERE s.id = ? COLLATE NOCASE
        """,
        (session_id, ancestor),
    ).fetchone()
    return found is not None


def _like_prefix(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped + "%"


def number_of(db: sqlite3.Connection, session_id: str) -> int:
    """The number of an existing session, whatever the case of its id."""
    [number] = db.execute(
        "SELECT number FROM sessions WHERE id = ? COLLATE NOCASE", (session_id,)
    ).fetchone()
    return int(number)
