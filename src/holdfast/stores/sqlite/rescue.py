"""From a damaged store into a new one: every row that can be read, and what became of the rest."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.model.ids import check_id
from holdfast.model.repair import Loss
from holdfast.ports import Progress
from holdfast.stores.sqlite import guard_rows, ledger, totals
from holdfast.stores.sqlite.content import load_extra
from holdfast.stores.sqlite.salvage import Range, Row, both_ends, by_number, joined, without

_TELL_EVERY = 500
#: Rows a page can hold, when nothing else says how far the numbers go.
_ROWS_A_PAGE = 200
#: Small tables, with their keys and what one of their rows is called.
_BESIDE = (
    ("routes", ("key",), "routing key"),
    ("leases", ("session", "host", "boot", "process", "started"), "lease"),
    ("facts", ("name",), "fact"),
    (guard_rows.TABLE, ("session",), "guard's record"),
)
# What the indexes know of messages and sessions, for rows that cannot be read themselves.
_KNOWN = (
    "CREATE TEMP TABLE known (number INTEGER PRIMARY KEY, session INTEGER)",
    "CREATE TEMP TABLE known_id (number INTEGER PRIMARY KEY, id TEXT)",
    "CREATE TEMP TABLE known_source (number INTEGER PRIMARY KEY, source TEXT)",
    "CREATE TEMP TABLE known_active (number INTEGER PRIMARY KEY, active REAL)",
    "CREATE TEMP TABLE known_parent (number INTEGER PRIMARY KEY, parent INTEGER)",
    # Sessions do not count these among their messages.
    "CREATE TEMP TABLE taken_back (number INTEGER PRIMARY KEY)",
)
_INDEXES = (
    ("known", "messages", "messages_by_session", ("number", "session"), ("session", "number")),
    ("known_id", "sessions", "sessions_by_id", ("number", "id"), ("id",)),
    ("known_source", "sessions", "sessions_by_source", ("number", "source"), ("source",)),
    (
        "known_active",
        "sessions",
        "sessions_by_activity",
        ("number", "last_active_at"),
        ("last_active_at",),
    ),
    (
        "known_parent",
        "sessions",
        "sessions_by_parent WHERE parent IS NOT NULL",
        ("number", "parent"),
        ("parent",),
    ),
)
# Lost: in the index, but not saved. Saved, but not in the index. Missing, by what sessions counted.
_GONE = "SELECT number FROM temp.known EXCEPT SELECT number FROM messages"
_UNKNOWN = "SELECT count(*) FROM messages WHERE number NOT IN (SELECT number FROM temp.known)"
_MISSING = """
    SELECT sum(max(0, s.message_count - coalesce(m.saved, 0))) FROM sessions s
    LEFT JOIN (
        SELECT session, count(*) AS saved FROM messages
        WHERE number NOT IN (SELECT number FROM temp.taken_back) GROUP BY session
    ) m ON m.session = s.number
"""


class Rescue:
    """One rescue. Both connections live in one thread; the new store is nobody else's yet."""

    def __init__(
        self, old: sqlite3.Connection, new: sqlite3.Connection, progress: Progress
    ) -> None:
        self._old, self._new, self._progress = old, new, progress
        self._whole: dict[str, bool] = {}
        self._suspect: list[Range] = []
        self._unsound: list[Range] = []
        self._taken_back: list[int] = []
        self.ledger_filled = False
        old.text_factory = totals.text_or_torn

    def run(self) -> Sequence[Loss]:
        """Copy everything that can be read; says what could not."""
        self._new.execute("PRAGMA foreign_keys = OFF")
        self._new.execute("BEGIN")
        for statement in _KNOWN:
            self._new.execute(statement)
        for index in _INDEXES:
            self._read_index(*index)
        self._copy_sessions()
        self._copy_messages()
        lost_sessions = self._recreate_sessions()
        losses = [self._lost_messages(), lost_sessions, *map(self._copy_beside, _BESIDE)]
        self._keep_numbers()
        drop_dangling(self._new)
        losses.append(self._copy_ledger())
        self._new.execute("COMMIT")
        return [loss for loss in losses if loss is not None]

    def _read_index(
        self, known: str, table: str, index: str, columns: Sequence[str], order: Sequence[str]
    ) -> None:
        rows, whole = both_ends(self._old, ", ".join(columns), f"{table} INDEXED BY {index}", order)
        self._insert(f"temp.{known}", rows, len(columns))
        self._whole[known] = whole()

    def _copy_sessions(self) -> None:
        """With the number of messages that each should have; the other totals come later."""
        totals_later = set(totals.COLUMNS) - {"message_count"}
        columns = [name for name in self._columns("sessions") if name not in totals_later]
        highest = self._highest(
            "SELECT max(number) FROM temp.known_id",
            "SELECT max(session) FROM temp.known",
            table="sessions",
        )
        found = by_number(self._old, ", ".join(columns), "sessions", highest, suspect=[])
        rows = (row for row in found if _is_session(dict(zip(columns, row, strict=True))))
        self._insert("sessions", rows, len(columns), columns)

    def _copy_messages(self) -> None:
        columns = self._columns("messages")
        highest = self._highest("SELECT max(number) FROM temp.known", table="messages")
        found = by_number(
            self._old,
            ", ".join(columns),
            "messages",
            highest,
            suspect=self._suspect,
            narrow=self._narrow if self._whole["known"] else None,
        )
        self._insert("messages", self._sound(found, columns), len(columns), columns)
        self._insert("temp.taken_back", ((number,) for number in self._taken_back), 1)

    def _sound(self, found: Iterator[Row], columns: Sequence[str]) -> Iterator[Row]:
        """The rows that hold a message that can be read back."""
        places = [columns.index(n) for n in ("role", "timestamp", "form", "body", "fields")]
        session = columns.index("session")
        for done, row in enumerate(found):
            if done % _TELL_EVERY == 0:
                self._progress.step("saving messages", done, None)
            values = [row[place] for place in places]
            message = totals.readable(row[0], *values)
            if _is_number(row[session]) and message is not None:
                if message.taken_back:
                    self._taken_back.append(row[0])
                yield row
            else:
                self._unsound.append((row[0], row[0]))

    def _recreate_sessions(self) -> Loss | None:
        """Sessions whose row is lost, from what indexes and messages say of them."""
        missing = self._new.execute(
            """
            SELECT number FROM temp.known_id UNION SELECT session FROM messages
            EXCEPT SELECT number FROM sessions
            """
        ).fetchall()
        for (number,) in missing:
            self._recreate_session(number)
        if not missing:
            return None
        numbers = joined((number, number) for (number,) in missing)
        return Loss(what="session row", count=len(missing), ranges=numbers)

    def _recreate_session(self, number: int) -> None:
        known = self._new.execute(
            """
            SELECT (SELECT id FROM temp.known_id WHERE number = :number), source,
                   (SELECT active FROM temp.known_active WHERE number = :number),
                   (SELECT parent FROM temp.known_parent WHERE number = :number),
                   (SELECT min(timestamp) FROM messages WHERE session = :number),
                   (SELECT max(timestamp) FROM messages WHERE session = :number)
            FROM (SELECT 1) LEFT JOIN temp.known_source ON number = :number
            """,
            {"number": number},
        ).fetchone()
        session_id, source, active, parent, first, last = known
        latest = next((time for time in (active, last) if time is not None), 0.0)
        start = latest if first is None else min(first, latest)
        for wanted in (session_id, f"recovered_{number}", f"recovered_{number}_again"):
            if (
                _is_id(wanted)
                and self._new.execute(
                    """
                INSERT OR IGNORE INTO sessions
                    (number, id, source, parent, started_at, last_active_at)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
                    (number, wanted, source or "unknown", parent, start, latest),
                ).rowcount
            ):
                return

    def _lost_messages(self) -> Loss | None:
        """Exact when the index was whole, and knew all the messages that could be read."""
        gone = [(number, number) for (number,) in self._new.execute(_GONE)]
        [unknown] = self._new.execute(_UNKNOWN).fetchone()
        if self._whole["known"] and not unknown:
            return Loss(what="message", count=len(gone), ranges=joined(gone)) if gone else None
        [missing] = self._new.execute(_MISSING).fetchone()
        ranges = joined([*gone, *self._unsound, *self._unsaved()])
        if not missing and not ranges:
            return None
        return Loss(what="message", count=missing or len(gone), exact=False, ranges=ranges)

    def _unsaved(self) -> Iterator[Range]:
        for first, last in self._suspect:
            saved = self._new.execute(
                "SELECT number FROM messages WHERE number BETWEEN ? AND ? ORDER BY number",
                (first, last),
            )
            yield from without(first, last, (number for (number,) in saved))

    def _copy_beside(self, beside: tuple[str, Sequence[str], str]) -> Loss | None:
        table, keys, what = beside
        if not self._has(table):
            return None  # a store of an older version had none to lose
        columns = self._columns(table)
        rows, whole = both_ends(self._old, ", ".join(columns), table, keys)
        # `indexed_to` is a fact about the old index; the new one is made from nothing.
        rows = (row for row in rows if table != "facts" or row[0] != "indexed_to")
        unsound: list[None] = []

        def sound() -> Iterator[Row]:
            for row in rows:
                if table != guard_rows.TABLE or guard_rows.is_sound(row):
                    yield row
                else:
                    unsound.append(None)

        self._insert(table, sound(), len(columns), columns)
        return None if whole() and not unsound else Loss(what=what, count=0, exact=False)

    def _copy_ledger(self) -> Loss | None:
        """What was used, ever. Rows that are lost are made from the messages that are left; those
        of sessions that had been removed before cannot be."""
        columns = self._columns(ledger.TABLE)
        rows, whole = both_ends(self._old, ", ".join(columns), ledger.TABLE, ledger.KEYS)
        unsound: list[None] = []

        def sound() -> Iterator[Row]:
            for row in rows:
                if _is_usage(row):
                    yield row
                else:
                    unsound.append(None)

        self._insert(ledger.TABLE, sound(), len(columns), columns)
        if not set(columns).issuperset(ledger.COUNTS):
            ledger.count_unpriced(self._new)
        if whole() and not unsound:
            return None
        ledger.fill(self._new)
        self.ledger_filled = True
        # A store of an older version had none to lose.
        had_one = self._has(ledger.TABLE)
        return Loss(what="usage total", count=0, exact=False) if had_one else None

    def _has(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_schema WHERE name = ?"
        return bool(self._old.execute(query, (table,)).fetchone())

    def _keep_numbers(self) -> None:
        """No number of a message is ever used twice, not even that of a lost one."""
        highest = self._highest("SELECT max(number) FROM temp.known", table="messages")
        self._new.execute("DELETE FROM sqlite_sequence WHERE name = 'messages'")
        self._new.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', ?)", (highest,)
        )

    def _narrow(self, low: int, high: int) -> tuple[int, int] | None:
        within = self._new.execute(
            "SELECT min(number), max(number) FROM temp.known WHERE number BETWEEN ? AND ?",
            (low, high),
        ).fetchone()
        return None if within[0] is None else (within[0], within[1])

    def _highest(self, *known: str, table: str) -> int:
        """The largest number that a row of a table can have had."""
        found = [self._new.execute(query).fetchone()[0] for query in known]
        for query in (
            f"SELECT max(number) FROM {table}",  # noqa: S608 - our own names
            f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608 - our own names
        ):
            with contextlib.suppress(sqlite3.Error):
                found += [row[0] for row in self._old.execute(query).fetchall()]
        numbers = [number for number in found if isinstance(number, int) and number > 0]
        if numbers:
            return max(numbers)
        return int(self._old.execute("PRAGMA page_count").fetchone()[0]) * _ROWS_A_PAGE

    def _columns(self, table: str) -> list[str]:
        """The columns that both stores have."""
        new, old = (
            [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            for db in (self._new, self._old)
        )
        return [name for name in new if name in old] or new

    def _insert(
        self, table: str, rows: Iterator[Row], width: int, columns: Sequence[str] = ()
    ) -> None:
        named = f"({', '.join(columns)})" if columns else ""
        self._new.executemany(
            f"INSERT OR IGNORE INTO {table} {named} VALUES ({', '.join('?' * width)})",  # noqa: S608 - our own names
            rows,
        )


def drop_dangling(db: sqlite3.Connection) -> int:
    """Remove what refers to sessions that are not there; says how many rows that were."""
    there = "(SELECT number FROM sessions)"
    statements = [
        f"DELETE FROM {table} WHERE session NOT IN {there}"  # noqa: S608 - our own names
        for table in ("messages", "routes", "leases", "guarded", "reservations")
    ]
    statements.append(
        f"UPDATE sessions SET parent = NULL WHERE parent NOT IN {there}"  # noqa: S608 - our own names
    )
    return sum(db.execute(statement).rowcount for statement in statements)


def _is_session(row: Mapping[str, object]) -> bool:
    return (
        _is_id(row["id"])
        and isinstance(row["source"], str)
        and isinstance(row["started_at"], float)
        and isinstance(row["last_active_at"], float)
        and (row["extra"] is None or (isinstance(row["extra"], str) and _is_json(row["extra"])))
    )


def _is_usage(row: Row) -> bool:
    """Whether it can be a row of the ledger: what a damaged page says may be anything."""
    keys = len(ledger.KEYS)
    return all(isinstance(key, str) for key in row[:keys]) and all(
        isinstance(value, int | float) for value in row[keys:]
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and value > 0


def _is_id(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        check_id(value)
    except HoldfastError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        load_extra(text)
    except (ValueError, RecursionError):
        return False
    return True
