"""The same work through Hermes's own `SessionDB`; runs in the environment of the baseline."""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus
from hermes_state import SessionDB

PER_SESSION = 20
# Hermes takes at most 500 sessions and 25 MB in one import.
_AT_ONCE = 200


def opened(home: str) -> SessionDB:
    Path(home).mkdir(parents=True, exist_ok=True)
    return SessionDB(Path(home, "state.db"))


def append(home: str, count: str, seed: str) -> dict[str, float]:
    texts = list(corpus.messages(int(count), int(seed)))
    sessions = opened(home)
    began, before = time.perf_counter(), time.process_time()
    for number, text in enumerate(texts):
        if number % PER_SESSION == 0:
            session_id = sessions.create_session(f"bench_{seed}_{number}", "cli")
        sessions.append_message(session_id, "user", text)
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - before,
    }


def fill(home: str, count: str) -> dict[str, float]:
    """Messages that are there before anything is measured: imported, because that is quicker."""
    sessions = opened(home)
    every = corpus.sessions(int(count) // PER_SESSION, PER_SESSION, time.time())
    while some := list(itertools.islice(every, _AT_ONCE)):
        for message in itertools.chain.from_iterable(each["messages"] for each in some):
            message["token_count"] = message.pop("tokens")  # its own name for it
        sessions.import_sessions(some)
    return {}


def search(home: str) -> dict[str, float]:
    sessions = opened(home)
    sessions.search_messages("warm")
    began = time.perf_counter()
    found = sum(len(sessions.search_messages(query)) for query in corpus.QUERIES)
    return {"seconds": time.perf_counter() - began, "found": found}


def listing(home: str) -> dict[str, float]:
    sessions = opened(home)
    sessions.list_sessions_rich(limit=1)
    began = time.perf_counter()
    found = sum(len(sessions.list_sessions_rich(limit=20, offset=20 * page)) for page in range(10))
    return {"seconds": time.perf_counter() - began, "found": found}


def size(home: str) -> dict[str, float]:
    database = sqlite3.connect(Path(home, "state.db"))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return {"bytes": Path(home, "state.db").stat().st_size}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))
