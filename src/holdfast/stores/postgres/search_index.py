"""The full-text index, kept in step with the messages.

Indexing every message on its own would cost more than storing it. So messages wait in a list until
enough have gathered, and one process at a time indexes them, after its own commit. A search reads
those that wait itself, with the same rules, and is therefore always complete.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import array
from holdfast.stores.postgres.search_words import vector
from holdfast.stores.sessions.searchable_text import message_text

BATCH = 256
#: Nobody should wait long for a message to be stored.
_MOST_AT_ONCE = 2 * BATCH
#: So many words are remembered as known: no vocabulary that people speak is larger.
_MOST_KNOWN = 200_000
#: The lock of the one that indexes.
_LOCK = 0x696E6478


def wait(db: Db, numbers: Sequence[int]) -> None:
    """Leave messages to the next run of `catch_up`."""
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
    """Take messages out of the index, in the transaction that deletes or changes them."""
    for table in ("unindexed", "message_words"):
        db.execute(
            f"DELETE FROM {table} WHERE message = ANY(%s::bigint[])",  # noqa: S608 - our own name
            (list(numbers),),
        )


def forget_sessions(db: Db, sessions: Sequence[int]) -> None:
    """The same for all messages of sessions."""
    # First what waits: this waits for the one that indexes it now, and the next statement sees what
    # that one did.
    db.execute(
        "DELETE FROM unindexed u USING messages m "
        "WHERE m.number = u.message AND m.session = ANY(%s::bigint[])",
        (list(sessions),),
    )
    db.execute("DELETE FROM message_words WHERE session = ANY(%s::bigint[])", (list(sessions),))


def catch_up(database: Database) -> bool:
    """Index some of what waits, unless another process is at it; says whether there is more."""
    return _run(database, "SELECT pg_try_advisory_xact_lock(%s)")


def catch_up_all(database: Database) -> None:
    """Index all that waits, a batch at a time. Who is at it now is waited for: a process that
    appends does one batch, and leaves the rest."""
    while _run(database, "SELECT true FROM pg_advisory_xact_lock(%s)"):
        pass


def _run(database: Database, lock: str) -> bool:
    words, is_more = database.run(lambda db: _index_some(db, lock, database.known_words))
    if len(database.known_words) > _MOST_KNOWN:
        database.known_words.clear()
    database.known_words.update(words)  # now that it is committed
    return is_more


def _index_some(db: Db, lock: str, known: AbstractSet[str]) -> tuple[Collection[str], bool]:
    """Returns the words that the vocabulary has got, and whether there is more to index."""
    if db.execute(lock, (_LOCK,)).rows != [(True,)]:
        return (), False
    # Locked, so that a message which is being replaced or removed now is left alone.
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
            # A line for each: as a list it would take longer to write than to index.
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
    """Words that the vocabulary does not have yet. In order: what another transaction is adding is
    waited for."""
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
