"""How a store in PostgreSQL grows: append, search, list and the plan of a prune, from 10^5 messages
to 10^7, in one database that is filled further and further.

The first 10^5 messages are imported. The server then copies their rows, with new ids and numbers:
to import ten million would take hours, most of them for the search index, which is dropped and
built again after each step. The server is a real one with everything durable. What is measured is
processor time of the client and the server together: it hardly depends on what else runs here.

    .venv/bin/python bench/postgres_growth.py                   10^7 messages of 300 characters
    .venv/bin/python bench/postgres_growth.py --upto 6 --length 0    10^6 whole texts, of 1.4 kB
    .venv/bin/python bench/postgres_growth.py --quick           whether it works
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus
import spent
from plotting import Plot, common_options, save
from workers.holdfast_sessions import opened

from holdfast.model.session import Message
from tests.postgres import Server

_HOLDFAST = (sys.executable, "-m", "holdfast")
_SETTINGS = (
    *("shared_buffers=512MB", "max_wal_size=4GB", "maintenance_work_mem=512MB"),
    "autovacuum=off",  # it is done after each step
)
_PER_SESSION = 20
_FIRST = 5
_APPENDS = 200
_INDEX = "CREATE INDEX message_words_by_word ON message_words USING gin (words)"
#: Rows of the first import, once more under other numbers.
_COPY = """
    INSERT INTO sessions (number, id, source, started_at, last_active_at, ended_at, end_reason,
                          message_count, bytes)
    SELECT number + %(n)s * %(sessions)s, id || '_' || %(n)s, source, started_at, last_active_at,
           ended_at, end_reason, message_count, bytes
    FROM sessions WHERE number <= %(sessions)s;
    INSERT INTO messages (number, session, role, timestamp, form, body, fields)
    SELECT number + %(n)s * %(messages)s, session + %(n)s * %(sessions)s, role, timestamp, form,
           body, fields
    FROM messages WHERE number <= %(messages)s;
    INSERT INTO message_words (message, session, words, exact, whole)
    SELECT message + %(n)s * %(messages)s, session + %(n)s * %(sessions)s, words, exact, whole
    FROM message_words WHERE message <= %(messages)s
"""


def write(file: Path, messages: int, length: int) -> None:
    """Sessions for `sessions import`, all of them ended."""
    texts = corpus.messages(messages)
    with file.open("w", encoding="utf-8") as lines:
        for number in range(messages // _PER_SESSION):
            said = [
                {"role": "user", "content": next(texts)[: length or None], "timestamp": number}
                for _ in range(_PER_SESSION)
            ]
            ended = {"started_at": number, "ended_at": number + 1, "end_reason": "cli_close"}
            session = {"id": f"s{number}", "source": "cli", "messages": said, **ended}
            lines.write(json.dumps(session) + "\n")


class Growing:
    """A home whose store is filled further and further."""

    def __init__(self, scratch: Path, server: Server, first: int, length: int) -> None:
        self.home = scratch / "home"
        self.home.mkdir()
        url = server.database()
        (self.home / "config.toml").write_text(f'[store]\nurl = "{url}"\n')
        self.run("store", "init")
        file = scratch / "first.jsonl"
        write(file, first, length)
        self.run("sessions", "import", str(file))
        self._folder = server.folder
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute("SET search_path = holdfast, pg_catalog; SET synchronous_commit = off")
        self._first, self._copies = first, 0
        self._settle()

    def run(self, *words: str) -> None:
        command = [*_HOLDFAST, "--home", str(self.home), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def fill(self, messages: int) -> None:
        self._db.execute("DROP INDEX message_words_by_word")
        sizes = {"messages": self._first, "sessions": self._first // _PER_SESSION}
        # What was appended to measure it is in the way of the numbers to come.
        for table, column, last in (
            ("messages", "number", self._first),
            ("message_words", "message", self._first),
            ("unindexed", "message", self._first),
            ("sessions", "number", self._first // _PER_SESSION),
        ):
            self._db.execute(
                f"DELETE FROM {table} WHERE {column} > %s",  # noqa: S608 - our own names
                [last * (self._copies + 1)],
            )
        for number in range(self._copies + 1, messages // self._first):
            with psycopg.ClientCursor(self._db) as cursor:
                cursor.execute(_COPY, {**sizes, "n": number})
            self._copies = number
            sys.stderr.write(f"\r{(number + 1) * self._first:,} messages")
        sys.stderr.write("\n")
        self._db.execute(_INDEX)
        self._settle()

    def _settle(self) -> None:
        """As autovacuum leaves a store, and with the next number after the last one."""
        for table in ("sessions", "messages"):
            self._db.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), "  # noqa: S608
                f"(SELECT max(number) FROM {table}))"
            )
        self._db.execute("VACUUM ANALYZE")
        self._db.execute("CHECKPOINT")

    @property
    def bytes(self) -> int:
        found = self._db.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(found[0]) if found else 0

    def cost(self, work: Callable[[], object]) -> float:
        """Seconds of processor time: of this process, its children and the server."""
        before = spent.here() + spent.server(self._folder)
        work()
        return spent.here() + spent.server(self._folder) - before


def growth(scratch: Path, server: Server, *, powers: range, length: int) -> Plot:
    plot = Plot(
        name="growth-postgres",
        title="A store in PostgreSQL that grows",
        x="messages",
        y="milliseconds of processor time",
        log_x=True,
        log_y=True,
    )
    growing = Growing(scratch, server, 10 ** powers[0], length)
    print("| messages | on disk | append | search | list, a page | plan of a prune |")
    print("|---:|---:|---:|---:|---:|---:|")
    for power in powers:
        if power > powers[0]:
            growing.fill(10**power)
        size = growing.bytes
        measured = work_on(growing, power)
        for name, seconds in measured.items():
            plot.add(name, 10**power, seconds * 1e3)
        shown = " | ".join(f"{seconds * 1e3:,.1f} ms" for seconds in measured.values())
        print(f"| {10**power:,} | {size / 1e9:,.2f} GB | {shown} |", flush=True)
    return plot


def work_on(growing: Growing, seed: int) -> dict[str, float]:
    with opened(str(growing.home)) as sessions:
        sessions.search("warm")
        sessions.find(limit=1)
        searches = [
            statistics.median(growing.cost(partial(sessions.search, query)) for _ in range(3))
            for query in corpus.QUERIES
        ]
        pages = [
            growing.cost(partial(sessions.find, limit=20, offset=20 * page)) for page in range(10)
        ]
        texts = list(corpus.messages(_APPENDS, seed))
        session = sessions.create(source="cli", id=f"bench_{seed}")

        def append() -> None:
            for text in texts:
                sessions.append(session.id, Message(role="user", content=text))

        added = growing.cost(append) / _APPENDS
    plan = ("sessions", "prune", "--older-than", "1d", "--dry-run")
    return {
        "append": added,
        "search": statistics.mean(searches),
        "list, a page": statistics.median(pages),
        "plan of a prune, whole process": growing.cost(lambda: growing.run(*plan)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--upto", type=int, default=7, metavar="N", help="10^N messages in the end")
    parser.add_argument(
        "--length", type=int, default=300, help="characters of a message; 0 for whole texts"
    )
    common_options(parser)
    arguments = parser.parse_args()
    powers = range(2, 4) if arguments.quick else range(_FIRST, arguments.upto + 1)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    server = Server(folder, settings=_SETTINGS)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        server.start()
        try:
            plot = growth(Path(scratch), server, powers=powers, length=arguments.length)
            save(arguments.json, [plot])
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
