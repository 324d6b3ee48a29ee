"""A home of Hermes, made by its own `SessionDB`; runs in the environment of the baseline.

hermes_home.py build HOME OLD RECENT PER_SESSION    sessions that a prune takes, and others
hermes_home.py prune HOME                           its own prune with files, then VACUUM
hermes_home.py look HOME                            what it sees, and whether all is whole
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus
from hermes_state import SessionDB

DAYS = 90
# Hermes takes at most 500 sessions and 25 MB in one import.
_AT_ONCE = 200
_DAY = 86_400.0


def build(home: str, old: str, recent: str, per_session: str) -> dict[str, int]:
    store = SessionDB(Path(home, "state.db"))
    folder = Path(home, "sessions")
    folder.mkdir(exist_ok=True)
    made = 0
    sessions = _sessions(int(old), int(recent), int(per_session))
    while some := list(itertools.islice(sessions, _AT_ONCE)):
        for session in some:
            _write_file(folder, session)
            for message in session["messages"]:
                message["token_count"] = message.pop("tokens")  # its own name for it
        made += store.import_sessions(some)["imported"]
    store.close()
    return {"sessions": made}


def prune(home: str) -> dict[str, int]:
    store = SessionDB(Path(home, "state.db"))
    pruned = store.prune_sessions(older_than_days=DAYS, sessions_dir=Path(home, "sessions"))
    store.vacuum()
    store.close()
    return {"sessions": pruned}


def look(home: str) -> dict[str, Any]:
    """Hermes opens its database first: whatever it would trip over, it trips over here."""
    path = Path(home, "state.db")
    SessionDB(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        [whole] = db.execute("PRAGMA integrity_check").fetchone()
        counts = {
            name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - our own
            for name in (
                "sessions",
                "messages",
                "messages_fts_docsize",
                "messages_fts_trigram_docsize",
            )
        }
    return {"whole": whole, **counts}


def _sessions(old: int, recent: int, per_session: int) -> Iterator[dict[str, Any]]:
    """The recent ones among the old ones, as they lie in a database that was used every day."""
    each = (old + recent) // recent if recent else 0
    for number, session in enumerate(corpus.sessions(old + recent, per_session, time.time())):
        if each and number % each == 0:
            later = time.time() - _DAY - session["started_at"]
            session["started_at"] += later
            session["ended_at"] += later
            for message in session["messages"]:
                message["timestamp"] += later
        yield session


def _write_file(folder: Path, session: dict[str, Any]) -> None:
    path = folder / f"session_{session['id']}.json"
    about = {"session_id": session["id"], "platform": session["source"]}
    path.write_text(json.dumps({**about, "messages": session["messages"]}), encoding="utf-8")
    os.utime(path, (session["ended_at"], session["ended_at"]))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))
