"""What `doctor --repair` saves of damaged session stores, next to `.recover` of the sqlite3 shell.

Stores with messages are damaged in the ways below, each repaired by both, and every row compared
with the row that was there. `.recover` needs a shell whose SQLite has the table `sqlite_dbpage`;
the shell of Debian and Ubuntu has not. Its rows count only if a message in them can be decoded, as
any repair built on it would demand.

    .venv/bin/python bench/rescue.py --shell /path/to/sqlite3 --each 30
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.session import Message, Session
from holdfast.spine.carry_out import Silent
from holdfast.stores.sessions import content
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.sessions import SqliteSessionStore

NOW = 1_800_000_000.0
PAGE = 4096
SESSIONS = 60
MESSAGES = 3_000
_INTERIOR = (2, 5)
_ROWS = {
    "sessions": "SELECT number, id, source, parent, title, started_at FROM sessions",
    "messages": "SELECT number, session, role, timestamp, form, body, fields FROM messages",
}

# A recovered schema may be so wrong that SQLite's message about it is not text.
_FAILURES = (HoldfastError, sqlite3.Error, subprocess.SubprocessError, UnicodeDecodeError)

Rows = dict[str, dict[Any, tuple[Any, ...]]]
Chance = random.Random


def build(path: Path) -> tuple[bytes, bytes]:
    """A store as it was at some moment, and as it is now; rows were removed in between."""
    chance = Chance(14)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        _add(store, chance, 0, SESSIONS * 2 // 3)
    before = path.read_bytes()
    with contextlib.closing(SqliteSessionStore(path, create=False)) as store:
        for number in range(0, SESSIONS * 2 // 3, 8):
            with store.database.write() as db:
                db.execute("DELETE FROM sessions WHERE id = ?", (f"s{number}",))
        _add(store, chance, SESSIONS * 2 // 3, SESSIONS)
    return before, path.read_bytes()


def _add(store: SqliteSessionStore, chance: Chance, first: int, end: int) -> None:
    with store.transaction():
        for number in range(first, end):
            store.create(
                Session(
                    id=f"s{number}",
                    source=chance.choice(("cli", "telegram", "cron")),
                    title=f"title {number}",
                    started_at=NOW + number,
                    last_active_at=NOW + number,
                    parent_id=f"s{number - 1}" if number % 5 and number > first else None,
                )
            )
        for _ in range(MESSAGES * (end - first) // SESSIONS):
            words = chance.choice((3, 20, 150, 2_000 if chance.random() < 0.05 else 40))
            text = " ".join(f"w{chance.randrange(3_000)}" for _ in range(words))
            message = Message(role=chance.choice(("user", "assistant")), content=text, tokens=2)
            store.append(f"s{chance.randrange(first, end)}", [message], now=NOW)


# --- damage ---


def _pages(data: bytearray) -> int:
    return len(data) // PAGE


def _overwrite(data: bytearray, page: int, with_: bytes) -> None:
    data[page * PAGE : (page + 1) * PAGE] = with_


def flips(chance: Chance, data: bytearray, _before: bytes) -> None:
    for _ in range(chance.choice((1, 5, 25, 100))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def zeroed(chance: Chance, data: bytearray, _: bytes) -> None:
    for page in chance.sample(range(1, _pages(data)), chance.choice((1, 3, 10))):
        _overwrite(data, page, bytes(PAGE))


def garbage(chance: Chance, data: bytearray, _: bytes) -> None:
    for page in chance.sample(range(1, _pages(data)), chance.choice((1, 3, 10))):
        _overwrite(data, page, chance.randbytes(PAGE))


def moved(chance: Chance, data: bytearray, _before: bytes) -> None:
    for _ in range(chance.choice((1, 3))):
        source, target = chance.sample(range(1, _pages(data)), 2)
        _overwrite(data, target, bytes(data[source * PAGE : (source + 1) * PAGE]))


def interior(chance: Chance, data: bytearray, _: bytes) -> None:
    inner = [page for page in range(1, _pages(data)) if data[page * PAGE] in _INTERIOR]
    for page in chance.sample(inner, min(len(inner), chance.choice((1, 3)))):
        _overwrite(data, page, chance.choice((bytes(PAGE), chance.randbytes(PAGE))))


def truncated(chance: Chance, data: bytearray, _: bytes) -> None:
    del data[chance.randrange(2 * PAGE, len(data)) :]


def header(chance: Chance, data: bytearray, _: bytes) -> None:
    size = chance.choice((16, 40, 100))
    data[:size] = chance.choice((bytes(size), chance.randbytes(size)))


def first_page(chance: Chance, data: bytearray, _: bytes) -> None:
    _overwrite(data, 0, chance.choice((bytes(PAGE), chance.randbytes(PAGE))))


def freelist(chance: Chance, data: bytearray, _: bytes) -> None:
    trunk = int.from_bytes(data[32:36], "big")
    if trunk and chance.random() < 0.5:
        _overwrite(data, trunk - 1, chance.randbytes(PAGE))
    else:
        data[32:40] = chance.randrange(2, _pages(data)).to_bytes(4, "big") + b"\0\0\0\x09"


def lost_log(chance: Chance, data: bytearray, before: bytes) -> None:
    """A checkpoint that was cut short, and then somebody removed the log."""
    share = chance.random()
    for page in range(len(before) // PAGE):
        if chance.random() < share:
            _overwrite(data, page, before[page * PAGE : (page + 1) * PAGE])


DAMAGE: dict[str, Callable[[Chance, bytearray, bytes], None]] = {
    "bits flipped": flips,
    "pages zeroed": zeroed,
    "pages of noise": garbage,
    "pages in the wrong place": moved,
    "interior pages lost": interior,
    "end cut off": truncated,
    "header torn": header,
    "first page lost": first_page,
    "free list damaged": freelist,
    "checkpoint cut short, log lost": lost_log,
}


# --- both ways ---


def ours(path: Path, _: str) -> Rows:
    repair(path, stamp="bench", progress=Silent())
    return rows(path)


def recover(path: Path, shell: str) -> Rows:
    made = path.with_suffix(".recovered")
    # With the free list, it would bring back what was deleted.
    script = subprocess.run(
        [shell, path, ".recover --ignore-freelist"], capture_output=True, timeout=300, check=False
    )
    subprocess.run([shell, made], input=script.stdout, capture_output=True, check=False)
    found = rows(made)
    for table, row in _lost_and_found(made):
        found[table].setdefault(row[0], row)
    return found


def _lost_and_found(path: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Rows that `.recover` could not give to a table, sorted by how many columns they have. It has
    no better clue, and a repair built on it would do the same."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.text_factory = content.text_or_torn
        for number, session, role, at, *rest in _select(
            db, "SELECT id, c1, c2, c3, c4, c5, c6 FROM lost_and_found WHERE nfield = 7"
        ):
            time = float(at) if isinstance(at, int) else at
            if content.readable(number, role, time, *rest) is not None:
                yield "messages", (number, session, role, time, *rest)
        for *row, started in _select(
            db,
            "SELECT id, c1, c2, c3, c5, c8 FROM lost_and_found WHERE nfield BETWEEN 21 AND 24",
        ):
            yield "sessions", (*row, float(started) if isinstance(started, int) else started)


def _select(db: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    """The rows, or none: the table has as many columns as its longest row, or is not there."""
    try:
        return db.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def rows(path: Path) -> Rows:
    found: Rows = {}
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.text_factory = content.text_or_torn
        for table, query in _ROWS.items():
            try:
                found[table] = {row[0]: row for row in db.execute(query)}
            except sqlite3.OperationalError:  # the table itself is lost
                found[table] = {}
    found["messages"] = {
        number: row
        for number, row in found["messages"].items()
        if content.readable(row[0], *row[2:]) is not None
    }
    return found


@dataclass
class Score:
    """What one way saved of all stores with one kind of damage."""

    stores: int = 0
    failed: int = 0
    whole: int = 0
    exact: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ROWS, 0))
    wrong: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ROWS, 0))
    seconds: float = 0.0

    def add(self, truth: Rows, made: Rows | None, seconds: float) -> None:
        self.stores += 1
        self.seconds += seconds
        if made is None:
            self.failed += 1
            return
        self.whole += made == truth
        for table in _ROWS:
            same = sum(truth[table].get(number) == row for number, row in made[table].items())
            self.exact[table] += same
            self.wrong[table] += len(made[table]) - same
        # A session that was put together from indexes and messages is not whole, but not wrong.
        for number, row in made["sessions"].items():
            was = truth["sessions"].get(number, row)
            if was != row and row[1] in (was[1], f"recovered_{number}"):
                self.wrong["sessions"] -= 1

    def line(self, truth: Rows) -> str:
        shares = (self.exact[table] / (len(truth[table]) * self.stores) for table in _ROWS)
        saved = " | ".join(f"{share:.2%}" for share in shares)
        wrong = " / ".join(str(self.wrong[table]) for table in _ROWS)
        return (
            f"{saved} | {wrong} | {self.whole} | {self.failed} | {self.seconds / self.stores:.2f} s"
        )


def measure(shell: str, each: int, only: str) -> None:
    ways: dict[str, Callable[[Path, str], Rows]] = {"doctor --repair": ours}
    if shell:
        ways[".recover"] = recover
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sessions.db")
        before, now = build(path)
        truth = rows(path)
        print(
            f"{len(truth['sessions'])} sessions, {len(truth['messages'])} messages, "
            f"{len(now):,} bytes; {each} stores for each kind of damage.\n"
        )
        print("| damage | way | sessions | messages | wrong rows | whole | failed | time |")
        print("|---|---|---|---|---|---|---|---|")
        for kind in (kind for kind in DAMAGE if only in kind):
            scores = {way: Score() for way in ways}
            for number in range(each):
                data = bytearray(now)
                DAMAGE[kind](Chance(number), data, before)
                for way, run in ways.items():
                    with tempfile.TemporaryDirectory(dir=folder) as place:
                        damaged = Path(place, "sessions.db")
                        damaged.write_bytes(data)
                        began = time.perf_counter()
                        try:
                            made = run(damaged, shell)
                        except _FAILURES:
                            made = None
                        scores[way].add(truth, made, time.perf_counter() - began)
            for way, score in scores.items():
                print(f"| {kind} | {way} | {score.line(truth)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shell", default="", help="a sqlite3 shell that has .recover")
    parser.add_argument("--each", type=int, default=30, help="stores for each kind of damage")
    parser.add_argument("--only", default="", help="kinds of damage that contain this text")
    options = parser.parse_args()
    measure(options.shell, options.each, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
