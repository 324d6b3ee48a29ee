"""The full-text index, kept in step with the messages.

Indexing every message on its own would cost more than storing it. So an append indexes only when
enough have gathered. A search reads the few that have not been indexed itself, with the same rules,
and is therefore always complete.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence

from holdfast.stores.sessions.session_rows import AMONG

BATCH = 256
#: The fact that says how old a list of the words may be; see word_list.py.
AGE = "words_age"
#: The fact that messages left the index for good since its parts were merged.
_FOR_GOOD = "index_garbage_for_good"
#: An append that finds more than this behind the index leaves the rest to the next one: nobody
#: should wait long for a message to be stored.
_MOST_AT_ONCE = 2 * BATCH

#: How many bytes FTS5 gathers before it writes a part of the index: by default, and where many
#: messages come or go at once. Fewer and larger parts have to be merged less often.
_GATHERED, _GATHERED_OF_MANY = 1024 * 1024, 16 * 1024 * 1024

# An index that was replaced. FTS5 keeps what it needs to open one in the first rows of its data.
_OLD = "old_message_index"
_FIRST_PAGE = 11
_ROWS_OF_OLD = 8_000
_SMALL = 25_000


def catch_up(
    db: sqlite3.Connection, newest: int, *, batch: int = BATCH, most: int = _MOST_AT_ONCE
) -> None:
    """Index what is not indexed yet, if that is at least `batch` messages, and `most` of them.
    Inside a write transaction."""
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
    """Index some of what is not indexed yet, however little; says whether there is more. Inside a
    write transaction."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    catch_up(db, newest, batch=1)
    return bool(newest > indexed(db))


def catch_up_many(db: sqlite3.Connection, most: int) -> None:
    """Index what is not indexed yet, up to so many messages, as a few large parts. Inside a write
    transaction."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    with set_to(db, "hashsize", _GATHERED_OF_MANY, usual=_GATHERED):
        catch_up(db, newest, most=most)


@contextlib.contextmanager
def set_to(db: sqlite3.Connection, name: str, value: int, *, usual: int) -> Iterator[None]:
    """Give a setting of FTS5 another value. In the caller's transaction, at the end of which it is
    what it was: neither another process nor a kill leaves it behind."""
    asked = "SELECT v FROM message_index_config WHERE k = ?"
    row = db.execute(asked, (name,)).fetchone()
    command(db, name, value)
    yield
    db.execute("SAVEPOINT written")  # FTS5 writes out what it has, by this setting
    db.execute("RELEASE written")
    command(db, name, usual if row is None else row[0])
    if row is None:
        db.execute("DELETE FROM message_index_config WHERE k = ?", (name,))


def command(db: sqlite3.Connection, name: str, value: int) -> None:
    """Tell FTS5 to do something, or to work in another way."""
    db.execute("INSERT INTO message_index (message_index, rank) VALUES (?, ?)", (name, value))


def forget(db: sqlite3.Connection, chosen: Sequence[int], column: str = "session") -> None:
    """Take messages out of the index: those of sessions, or with the column `number` the messages
    themselves. In the transaction that deletes or changes them, and before it does: the index needs
    their text to find their words."""
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
    """Index messages that came back or were changed, as far as the index has got; it will come to
    the others. The parameters are those of `forget`."""
    if column == "session":  # a message that was changed has no other words than before
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
    """How many messages left the index since its parts were merged."""
    row = db.execute("SELECT value FROM facts WHERE name = 'index_garbage'").fetchone()
    return int(row[0]) if row else 0


def left_for_good(db: sqlite3.Connection) -> None:
    """Note that messages which left the index have no copy in the trash or the archive. In their
    transaction, so that a run which is killed before it merges the index leaves that to the next
    one."""
    if garbage(db):
        db.execute("INSERT OR IGNORE INTO facts (name, value) VALUES (?, 1)", (_FOR_GOOD,))


def has_left_for_good(db: sqlite3.Connection) -> bool:
    """Whether the index may have words of messages that nothing can bring back."""
    return bool(db.execute("SELECT 1 FROM facts WHERE name = ?", (_FOR_GOOD,)).fetchone())


def forget_garbage(db: sqlite3.Connection) -> None:
    """Nothing in the index is of messages that left it. The list of its words may not be either."""
    db.execute("DELETE FROM facts WHERE name IN ('index_garbage', ?)", (_FOR_GOOD,))
    db.execute("DELETE FROM word_list")
    _outdate_words(db)  # another process may be making one


def _outdate_words(db: sqlite3.Connection) -> None:
    db.execute("UPDATE facts SET value = value + 1 WHERE name = ?", (AGE,))


def start_over(db: sqlite3.Connection) -> None:
    """Replace the index by an empty one; `drop_some_of_old` then removes the old one.

    Emptying it in its place would keep other writers waiting, for a large one many seconds.
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
    """Remove some of an old index; says whether there is more.

    In a small store it goes at once, which hardly writes anything: its pages become free as they
    are. Of a large one the pages alone take long to find.
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
    """The last message in the index."""
    [number] = db.execute("SELECT value FROM facts WHERE name = 'indexed_to'").fetchone()
    return int(number)
