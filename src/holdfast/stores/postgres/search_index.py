"""The full-text index, kept in step with the messages.

Indexing every message on its own would cost more than storing it. So messages wait in a list until
enough have gathered, and one process at a time indexes them, after its own commit. A search reads
the pending messages itself, by the same rules, so its results are always complete.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import array
from holdfast.stores.postgres.search_words import vector
from holdfast.stores.sessions.searchable_text import message_text

BATCH = 256
#: Storing a message must never take long.
_MOST_AT_ONCE = 2 * BATCH
#: Limit of words remembered as known: larger than any vocabulary in use.
_MOST_KNOWN = 200_000
#: The key of the advisory lock for indexing.
_LOCK = 0x696E6478


def wait(db: Db, numbers: Sequence[int]) -> None:
    """Leave messages to the next `catch_up`."""
    db.execute(
        "INSERT INTO unindexed (message, session) SELECT number, session FROM messages "
        "WHERE number = ANY(%s::bigint[]) ON CONFLICT DO NOTHING",
        (list(numbers),),
    )


def wait_sessions(db: Db, sessions: Sequence[int]) -> None:
    db.execute(
        "INSERT INTO unindexed (message, session) SELECT number, session FROM messages "
        "WHERE session = ANY(%s::bigint[]) ON CONFLICT DO NOTHING",
        (list(sessions),),
    )


def forget(db: Db, numbers: Sequence[int]) -> None:
    """Remove messages from the index, in the transaction that deletes or changes them."""
    for table in ("unindexed", "message_words"):
        db.execute(
            f"DELETE FROM {table} WHERE message = ANY(%s::bigint[])",  # noqa: S608 - our own name
            (list(numbers),),
        )


def forget_sessions(db: Db, sessions: Sequence[int]) -> None:
    """The same for all messages of sessions."""
    # Pending messages first: this statement waits for a process that is indexing them, so the next
    # one sees what that process added.
    db.execute(
        "DELETE FROM unindexed u USING messages m "
        "WHERE m.number = u.message AND m.session = ANY(%s::bigint[])",
        (list(sessions),),
    )
    db.execute("DELETE FROM message_words WHERE session = ANY(%s::bigint[])", (list(sessions),))


def catch_up(database: Database) -> bool:
    """Index one batch of pending messages unless another process is doing so; return whether more
    remain."""
    return _run(database, "SELECT pg_try_advisory_xact_lock(%s)")


def catch_up_all(database: Database) -> None:
    """Index all pending messages, batch by batch. Waits for another process that is indexing: if
    that is an append, it does one batch and leaves the rest."""
    while _run(database, "SELECT true FROM pg_advisory_xact_lock(%s)"):
        pass


def _run(database: Database, lock: str) -> bool:
    words, is_more = database.run(lambda db: _index_some(db, lock, database.known_words))
    if len(database.known_words) > _MOST_KNOWN:
        database.known_words.clear()
    database.known_words.update(words)  # only once committed
    return is_more


def _index_some(db: Db, lock: str, known: AbstractSet[str]) -> tuple[Collection[str], bool]:
    """Index a batch. Return the words that were added to the vocabulary, and whether more
    remains."""
    if db.execute(lock, (_LOCK,)).rows != [(True,)]:
        return (), False
    # Locked, so that messages that are being replaced or removed right now are skipped.
    rows = db.execute(
        """
        SELECT m.number, m.session, m.form, m.body, m.fields
        FROM unindexed u JOIN messages m ON m.number = u.message
        ORDER BY u.message LIMIT %s FOR UPDATE OF u SKIP LOCKED
        """,
        (_MOST_AT_ONCE,),
    ).rows
    if not rows:
        return (), False
    vectors = [vector(message_text(*row[2:])) for row in rows]
    numbers = array(row[0] for row in rows)
    db.execute(
        r"""
        INSERT INTO message_words (message, session, words, exact, whole)
        SELECT message, session, coalesce(words, '')::tsvector, exact, whole
        FROM unnest(%s::bigint[], %s::bigint[], string_to_array(%s, E'\n'), %s::bool[], %s::bool[])
            AS g (message, session, words, exact, whole)
        ON CONFLICT (message) DO UPDATE
            SET words = excluded.words, exact = excluded.exact, whole = excluded.whole
        """,
        (
            numbers,
            array(row[1] for row in rows),
            # One line for each: formatting a list would take longer than indexing.
            "\n".join(each.text for each in vectors),
            array(each.exact for each in vectors),
            array(each.whole for each in vectors),
        ),
    )
    new = {word for each in vectors for word in each.words if word not in known}
    _learn(db, sorted(new))
    db.execute("DELETE FROM unindexed WHERE message = ANY(%s::bigint[])", (numbers,))
    return new, len(rows) == _MOST_AT_ONCE


def _learn(db: Db, words: Sequence[str]) -> None:
    """Add new words to the vocabulary. They are sorted, because an insert waits for a transaction
    that adds the same word, and two must not wait for each other."""
    if not words:
        return
    db.execute(
        """
        INSERT INTO vocabulary (word, parts)
        SELECT w, ARRAY(
            SELECT DISTINCT substr(w, i, 3) FROM generate_series(1, length(w) - 2) AS i)
        FROM unnest(string_to_array(%s, ' ')) AS w
        WHERE NOT EXISTS (SELECT 1 FROM vocabulary v WHERE v.word = w)
        ORDER BY w ON CONFLICT DO NOTHING
        """,
        (" ".join(words),),
    )
