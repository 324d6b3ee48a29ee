"""The least work that SQLite must do for an append to Holdfast's store: the same schema, rows,
totals, index and flush, the same queue of writers, and nothing around it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus

from holdfast.stores.sessions.content import BODY_IS_PACKED
from holdfast.stores.sqlite.search_index import BATCH
from holdfast.stores.sqlite.write_queue import Gate

PER_SESSION = 20
_PATIENCE = 60.0
_SESSION = "INSERT INTO sessions (id, source, started_at, last_active_at) VALUES (?, 'cli', ?, ?)"
_MESSAGE = "INSERT INTO messages (session, role, timestamp, form, body) VALUES (?, 'user', ?, ?, ?)"
_TOTALS = """
    UPDATE sessions SET last_active_at = ?, message_count = message_count + 1, bytes = bytes + ?
    WHERE number = ?
"""
_INDEX = """
    INSERT INTO message_index (rowid, text)
    SELECT number, search_text(form, body, fields) FROM messages WHERE number > ? AND number <= ?
"""


def append(home: str, count: str, seed: str) -> dict[str, float]:
    """`count` appends, each durable by itself."""
    texts = list(corpus.messages(int(count), int(seed)))
    database = Path(home, "sessions.db")
    db = sqlite3.connect(database, isolation_level=None, timeout=_PATIENCE)
    db.execute("PRAGMA synchronous = NORMAL")  # the log is flushed below, once the lock is free
    db.create_function("search_text", 3, _text, deterministic=True)
    db.execute("SELECT count(*) FROM facts").fetchone()
    log = os.open(f"{database}-wal", os.O_RDWR)
    gate = Gate(database)
    session = None
    began, before = time.perf_counter(), time.process_time()
    for number, text in enumerate(texts):
        body, now = zlib.compress(text.encode(), 1), time.time()
        with gate.passed(_PATIENCE):
            db.execute("BEGIN IMMEDIATE")
            if number % PER_SESSION == 0:
                named = f"bench_{seed}_{number}"
                session = db.execute(_SESSION, (named, now, now)).lastrowid
            newest = db.execute(_MESSAGE, (session, now, BODY_IS_PACKED, body)).lastrowid or 0
            db.execute(_TOTALS, (now, len(text), session))
            _index(db, newest)
            db.execute("COMMIT")
        os.fdatasync(log)
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - before,
    }


def _index(db: sqlite3.Connection, newest: int) -> None:
    [indexed] = db.execute("SELECT value FROM facts WHERE name = 'indexed_to'").fetchone()
    if newest - indexed >= BATCH:
        db.execute("UPDATE facts SET value = ? WHERE name = 'indexed_to'", (newest,))
        db.execute(_INDEX, (indexed, newest))


def _text(_: int, body: str | bytes, __: object) -> str:
    return zlib.decompress(body).decode() if isinstance(body, bytes) else body


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))
