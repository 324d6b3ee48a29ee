"""A large store, quickly: rows straight into the tables, then the index. Ages are spread evenly.

    large_store.py HOME SESSIONS MESSAGES_OF_EACH

Nothing but a benchmark may do this: it goes past everything that keeps a store whole. The totals,
the ledger and the index are those that appending the same messages would have made.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from holdfast.model.session import Message
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions import content
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.sessions import SqliteSessionStore

OLDEST_DAYS = 400
_TEXTS = 5_000
_AT_ONCE = 1_000
_TOKENS = 5
_SOURCES = ("cli", "cron", "telegram")
_SESSION = """
    INSERT INTO sessions (number, id, source, started_at, last_active_at, ended_at, end_reason,
                          message_count, bytes, tokens_in, tokens_out)
    VALUES (?, ?, ?, ?, ?, ?, 'ended', ?, ?, ?, ?)
"""
_MESSAGE = """
    INSERT INTO messages (session, role, timestamp, form, body, fields) VALUES (?, ?, ?, ?, ?, ?)
"""
_LEDGER = """
    INSERT INTO ledger (day, source, model, tokens_in, tokens_out, tokens_cached, cost)
    VALUES (?, ?, '', ?, ?, 0, 0)
"""


def main(home: Path, count: int, each: int) -> None:
    home.mkdir(parents=True)
    store = SqliteSessionStore(home / "sessions.db")
    db = store.database.connection()
    db.execute("PRAGMA synchronous = OFF")
    fill(db, count, each, time.time())
    more = True
    while more:
        with store.database.write() as writing:
            for _ in range(40):
                more = more and search_index.catch_up_some(writing)
    store.close()


def fill(db: sqlite3.Connection, count: int, each: int, now: float) -> None:
    texts = list(rows())
    used: Counter[tuple[str, str, str]] = Counter()
    for first in range(0, count, _AT_ONCE):
        db.execute("BEGIN IMMEDIATE")
        for number in range(first, min(count, first + _AT_ONCE)):
            began = now - OLDEST_DAYS * 86_400 * (1 - number / count)
            said = [texts[(number * each + n) % len(texts)] for n in range(each)]
            add(db, number, began, said, used)
        db.execute("COMMIT")
    db.execute("BEGIN IMMEDIATE")
    db.executemany(
        _LEDGER,
        (
            (day, source, used[day, source, "user"], used[day, source, "assistant"])
            for day, source in {key[:2] for key in used}
        ),
    )
    db.execute("COMMIT")


def add(
    db: sqlite3.Connection,
    number: int,
    began: float,
    said: list[content.Row],
    used: Counter[tuple[str, str, str]],
) -> None:
    """One session: half of its messages of either side."""
    source = _SOURCES[number % len(_SOURCES)]
    size = sum(row.size for row in said)
    each_side = _TOKENS * len(said) // 2
    ended = began + len(said)
    counted = (len(said), size, each_side, each_side)
    session_id = f"20260101_{number:06d}_{number:06x}"
    db.execute(_SESSION, (number + 1, session_id, source, began, ended - 1, ended, *counted))
    roles = ("user", "assistant")
    db.executemany(
        _MESSAGE,
        (
            (number + 1, roles[n % 2], began + n, row.form, row.body, row.fields)
            for n, row in enumerate(said)
        ),
    )
    for n in range(len(said)):
        used[utc_day(began + n), source, roles[n % 2]] += _TOKENS


def rows() -> Iterator[content.Row]:
    """Short texts of 20,000 words, as they lie in the table."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(20_000)]
    for _ in range(_TEXTS):
        text = " ".join(chance.choices(words, k=25))
        yield content.encode(Message(role="user", content=text, tokens=_TOKENS))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
