"""The full-text index, kept in step with the messages.

Indexing every message on its own would cost more than storing it. So an append indexes only once
enough messages have gathered. A search reads the few unindexed ones itself, by the same rules, so
its results are always complete.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence

from holdfast.stores.sessions.session_rows import AMONG

BATCH = 256
#: The fact with the age that a word list must have to be valid; see word_list.py.
AGE = "words_age"
#: Name of the fact that messages left the index for good since its parts were last merged.
_FOR_GOOD = "index_garbage_for_good"
#: An append that finds more than this unindexed leaves the rest to the next one, so that storing a
#: message never takes long.
_MOST_AT_ONCE = 2 * BATCH

#: Bytes that FTS5 gathers before it writes a part of the index: by default, and when many messages
#: are added or removed at once. Fewer and larger parts have to be merged less often.
_GATHERED, _GATHERED_OF_MANY = 1024 * 1024, 16 * 1024 * 1024

# An index that was replaced. FTS5 keeps what it needs to open one in the first rows of its data.
_OLD = "old_message_index"
_FIRST_PAGE = 11
_ROWS_OF_OLD = 8_000
_SMALL = 25_000


def catch_up(
    db: sqlite3.Connection, newest: int, *, batch: int = BATCH, most: int = _MOST_AT_ONCE
) -> None:
    """Index up to `most` unindexed messages, if there are at least `batch`. Call it inside a write
    transaction."""
    indexed_to = indexed(db)
    if newest - indexed_to < batch:
        return
    [newest] = db.execute(
        """
        SELECT coalesce(max(number), ?2) FROM
            (SELECT number FROM messages WHERE number BETWEEN ?1 + 1 AND ?2 ORDER BY 1 LIMIT ?3)
        """,
        (indexed_to, newest, most),
    ).fetchone()
    db.execute("UPDATE facts SET value = ? WHERE name = 'indexed_to'", (newest,))
    db.execute(
        """
        INSERT INTO message_index (rowid, text)
        SELECT number, search_text(form, body, fields) FROM messages
        WHERE number > ? AND number <= ?
        """,
        (indexed_to, newest),
    )


def catch_up_some(db: sqlite3.Connection) -> bool:
    """Index one batch of unindexed messages, however small; return whether more remain. Call it
    inside a write transaction."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    catch_up(db, newest, batch=1)
    return bool(newest > indexed(db))


def catch_up_many(db: sqlite3.Connection, most: int) -> None:
    """Index up to `most` unindexed messages as a few large parts. Call it inside a write
    transaction."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    with set_to(db, "hashsize", _GATHERED_OF_MANY, usual=_GATHERED):
        catch_up(db, newest, most=most)


@contextlib.contextmanager
def set_to(db: sqlite3.Connection, name: str, value: int, *, usual: int) -> Iterator[None]:
    """Change a setting of FTS5 for a while. It is restored before the caller's transaction ends, so
    neither another process nor a kill leaves it changed."""
    asked = "SELECT v FROM message_index_config WHERE k = ?"
    row = db.execute(asked, (name,)).fetchone()
    command(db, name, value)
    yield
    db.execute("SAVEPOINT written")  # makes FTS5 write what it has gathered while the setting holds
    db.execute("RELEASE written")
    command(db, name, usual if row is None else row[0])
    if row is None:
        db.execute("DELETE FROM message_index_config WHERE k = ?", (name,))


def command(db: sqlite3.Connection, name: str, value: int) -> None:
    """Give FTS5 a command, or change a setting."""
    db.execute("INSERT INTO message_index (message_index, rank) VALUES (?, ?)", (name, value))


def forget(db: sqlite3.Connection, chosen: Sequence[int], column: str = "session") -> None:
    """Remove messages from the index: those of the chosen sessions, or with the column `number` the
    chosen messages. Call it in the transaction that deletes or changes them, but before that: the
    index needs their text to find their words."""
    indexed_to = indexed(db)
    if not indexed_to:
        return
    gone = db.execute(
        f"""
        INSERT INTO message_index (message_index, rowid, text)
        SELECT 'delete', number, search_text(form, body, fields) FROM messages
        WHERE {column} {AMONG} AND number <= ?
        """,  # noqa: S608 - our own text
        (json.dumps(chosen), indexed_to),
    ).rowcount
    if gone > 0:  # their words stay in the index until its parts are merged
        db.execute(
            """
            INSERT INTO facts (name, value) VALUES ('index_garbage', ?)
            ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
            """,
            (gone,),
        )


def remember(db: sqlite3.Connection, chosen: Sequence[int], column: str = "session") -> None:
    """Index messages that came back or changed, if the index has got as far as their numbers; it
    will reach the others. The parameters are those of `forget`."""
    if column == "session":  # a changed message has the same words as before
        _outdate_words(db)
    db.execute(
        f"""
        INSERT INTO message_index (rowid, text)
        SELECT number, search_text(form, body, fields) FROM messages
        WHERE {column} {AMONG} AND number <= ? ORDER BY number
        """,  # noqa: S608 - our own text
        (json.dumps(chosen), indexed(db)),
    )


def garbage(db: sqlite3.Connection) -> int:
    """The number of messages that left the index since its parts were last merged."""
    row = db.execute("SELECT value FROM facts WHERE name = 'index_garbage'").fetchone()
    return int(row[0]) if row else 0


def left_for_good(db: sqlite3.Connection) -> None:
    """Record that messages which left the index have no copy in the trash or the archive. Call it
    in their transaction: if the run is killed before it merges the index, the next one does
    that."""
    if garbage(db):
        db.execute("INSERT OR IGNORE INTO facts (name, value) VALUES (?, 1)", (_FOR_GOOD,))


def has_left_for_good(db: sqlite3.Connection) -> bool:
    """True if the index may have words of messages that nothing can bring back."""
    return bool(db.execute("SELECT 1 FROM facts WHERE name = ?", (_FOR_GOOD,)).fetchone())


def forget_garbage(db: sqlite3.Connection) -> None:
    """Record that the index has no words of removed messages left. Drop the word list, which may
    have some."""
    db.execute("DELETE FROM facts WHERE name IN ('index_garbage', ?)", (_FOR_GOOD,))
    db.execute("DELETE FROM word_list")
    _outdate_words(db)  # another process may be making a list


def _outdate_words(db: sqlite3.Connection) -> None:
    db.execute("UPDATE facts SET value = value + 1 WHERE name = ?", (AGE,))


def start_over(db: sqlite3.Connection) -> None:
    """Replace the index with an empty one; `drop_some_of_old` then removes the old one.

    Emptying it in place would keep other writers waiting, for many seconds if it is large.
    """
    definitions = dict(
        db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE name IN ('message_index', 'index_words')"
        ).fetchall()
    )
    db.execute("DROP TABLE index_words")
    db.execute(f"ALTER TABLE message_index RENAME TO {_OLD}")
    for name in ("message_index", "index_words"):
        db.execute(definitions[name])
    db.execute("UPDATE facts SET value = 0 WHERE name = 'indexed_to'")
    forget_garbage(db)


def has_old(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_OLD,)).fetchone())


def drop_some_of_old(db: sqlite3.Connection) -> bool:
    """Remove part of an old index; return whether more remains.

    In a small store it is dropped at once, which writes almost nothing: its pages are freed without
    being changed. In a large store, finding the pages alone takes long.
    """
    [pages] = db.execute("PRAGMA page_count").fetchone()
    [free] = db.execute("PRAGMA freelist_count").fetchone()
    if pages - free > _SMALL:
        gone = db.execute(
            f"DELETE FROM {_OLD}_data WHERE id IN"  # noqa: S608 - our own name
            f" (SELECT id FROM {_OLD}_data WHERE id >= ? LIMIT ?)",
            (_FIRST_PAGE, _ROWS_OF_OLD),
        ).rowcount
        if gone:
            return True
    db.execute(f"DROP TABLE {_OLD}")
    return False


def indexed(db: sqlite3.Connection) -> int:
    """The number of the last message in the index."""
    [number] = db.execute("SELECT value FROM facts WHERE name = 'indexed_to'").fetchone()
    return int(number)
