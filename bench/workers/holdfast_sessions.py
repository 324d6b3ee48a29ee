"""One measured piece of work on Holdfast's session store, in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus

import holdfast
from holdfast.api.sessions import open_sessions
from holdfast.model.session import Message
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.session_limits import SessionLimits
from holdfast.services.sessions import Sessions
from holdfast.stores.sqlite.store_copy import SqliteSource

PER_SESSION = 20


def opened(home: str) -> Sessions:
    options = SessionOptions(limits=SessionLimits(max_messages=0, max_bytes=0))
    return open_sessions(Path(home), options=options, clock=time.time)


def append(home: str, count: str, seed: str) -> dict[str, float]:
    """`count` appends, each durable by itself."""
    texts = list(corpus.messages(int(count), int(seed)))
    with opened(home) as sessions:
        began, before = time.perf_counter(), time.process_time()
        for number, text in enumerate(texts):
            if number % PER_SESSION == 0:
                session = sessions.create(source="cli", id=f"bench_{seed}_{number}")
            sessions.append(session.id, Message(role="user", content=text))
        return {
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - before,
        }


def fill(home: str, count: str) -> dict[str, float]:
    """Messages that are there before anything is measured: imported, because that is quicker."""
    lines = Path(f"{home}.jsonl")
    made = corpus.sessions(int(count) // PER_SESSION, PER_SESSION, time.time())
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in made))
    with holdfast.open(home, create=True) as opened_home:
        opened_home.import_(lines)
    lines.unlink()
    return {}


def search(home: str) -> dict[str, float]:
    with opened(home) as sessions:
        sessions.search("warm")
        began = time.perf_counter()
        found = sum(len(sessions.search(query)) for query in corpus.QUERIES)
        return {"seconds": time.perf_counter() - began, "found": found}


def rare(home: str, number: str) -> dict[str, float]:
    """A search for a part of a word that one message has: the one that was just stored. The search
    before it is the process's first."""
    with opened(home) as sessions:
        session = sessions.create(source="cli")
        sessions.append(session.id, Message(role="user", content=f"the spiel{number}zeugmacher"))
        began = time.perf_counter()
        sessions.search("qqcoldqq", substring=True)
        cold = time.perf_counter() - began
        began, before = time.perf_counter(), time.process_time()
        found = len(sessions.search(f"piel{number}zeug", substring=True))
        seconds, processor = time.perf_counter() - began, time.process_time() - before
        return {"seconds": seconds, "processor": processor, "found": found, "cold": cold}


def listing(home: str) -> dict[str, float]:
    with opened(home) as sessions:
        sessions.find(limit=1)
        began = time.perf_counter()
        found = sum(len(sessions.find(limit=20, offset=20 * page)) for page in range(10))
        return {"seconds": time.perf_counter() - began, "found": found}


def size(home: str) -> dict[str, float]:
    """The bytes of the database once nothing is left in its log."""
    opened(home).close()
    return {"bytes": Path(home, "sessions.db").stat().st_size}


def write(file: str, count: str) -> dict[str, float]:
    """A file for `sessions import`, in sessions of 1,000 messages."""
    texts = list(corpus.messages(20_000))
    with Path(file).open("w", encoding="utf-8") as lines:
        for number in range(0, int(count), 1_000):
            said = [
                {"role": "user", "content": f"{number + n} {texts[(number + n) % len(texts)]}"}
                for n in range(1_000)
            ]
            session = {"id": f"s{number}", "source": "cli", "started_at": number, "messages": said}
            lines.write(json.dumps(session) + "\n")
    return {"bytes": Path(file).stat().st_size}


def copy(home: str, url: str) -> dict[str, float]:
    """All rows of a file into an empty store, with COPY; they are neither compared nor indexed."""
    from holdfast.stores.postgres.store_copy import PostgresTarget  # noqa: PLC0415 - for this alone

    file = SqliteSource(Path(home, "sessions.db"))
    with closing(file) as source, closing(PostgresTarget(url)) as target:
        began, before = time.perf_counter(), time.process_time()
        heads = source.heads()
        while batch := list(islice(heads, 5)):
            target.put(batch, source.messages([head[0] for head in batch]))
        return {
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - before,
        }


def opening(home: str) -> dict[str, float]:
    began = time.perf_counter()
    sessions = opened(home)
    sessions.find(limit=1)
    seconds = time.perf_counter() - began
    sessions.close()
    return {"seconds": seconds}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))
