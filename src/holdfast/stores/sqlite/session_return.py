"""Sessions that come back from the archive, many in one transaction.

An import checks each session for conflicts. Here there are none, or nothing at all is stored: the
caller then brings them back one by one, and each reports its own error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.errors import UsageError
from holdfast.model.arguments import check_id
from holdfast.model.session import AWAITED_PARENT, Json, Message, Session
from holdfast.model.stored_session import Coming
from holdfast.spine.outcomes import TAKEN
from holdfast.stores.sessions import content
from holdfast.stores.sessions import messages as pure
from holdfast.stores.sqlite import guard_book
from holdfast.stores.sqlite import messages as message_rows
from holdfast.stores.sqlite.sessions import insert_session
from holdfast.value import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A session with its totals, and its messages encoded as rows."""

    session: Session
    rows: Sequence[tuple[Message, content.Row]]


def ready(coming: Coming, now: float) -> Ready:
    """Do everything slow, before the lock is held and other writers wait."""
    session = coming.session
    check_id(session.id)
    rows = [(pure.checked(each), content.encode(each)) for each in coming.messages]
    totals = pure.with_totals(session, rows, now)
    stored = replace(
        totals,
        last_active_at=coming.last_active_at,
        end_reason=None if session.ended_at is None else session.end_reason or "",
        extra=_with_parent(session),
    )
    return Ready(session=stored, rows=rows)


def _with_parent(session: Session) -> dict[str, Json]:
    """The session's extra fields, with the parent that it waits for: the parent may come with
    it."""
    extra = dict(session.extra)
    if session.parent_id is not None:
        if AWAITED_PARENT in extra:
            raise UsageError(f"session {session.id} has a parent but also records a missing one")
        extra[AWAITED_PARENT] = session.parent_id
    return extra


def insert(db: sqlite3.Connection, several: Sequence[Ready], now: float) -> None:
    """Store sessions without parents. Call it inside a write transaction, which must be rolled back
    after an error."""
    try:
        for each in several:
            _insert(db, each, now)
    except sqlite3.IntegrityError as error:  # id or routing key is taken
        raise UsageError(f"{TAKEN}: {error}") from error


def _insert(db: sqlite3.Connection, each: Ready, now: float) -> None:
    session = each.session
    number = insert_session(db, session, None)
    message_rows.insert_all(db, number, each.rows, now)
    # After the row itself: a trigger outdates the word list when a row arrives with totals, but new
    # numbers do not make the list wrong.
    message_rows.update_totals(db, number, session)
    if session.guarded is not None:
        guard_book.bring(db, number, session.guarded)
    if session.routing_key is not None:
        db.execute("INSERT INTO routes (key, session) VALUES (?, ?)", (session.routing_key, number))
