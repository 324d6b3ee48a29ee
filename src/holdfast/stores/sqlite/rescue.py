"""Copy every row that can be read from a damaged store into a new one, and report the rest.

A damaged page stops every walk over a table. So a table is read in three ways: in rising order
until the damage, from its leaf pages one by one, and in falling order from its end. Indexes, which
are stored on other pages, show which rows should have been there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.model.arguments import check_id
from holdfast.model.checkup import Loss, LostFrom
from holdfast.ports.runs import Progress
from holdfast.stores.sessions import content
from holdfast.stores.sessions.session_rows import COUNTS, GUARDED, TOTALS, is_guarded_row
from holdfast.stores.sqlite import ledger
from holdfast.stores.sqlite.pages import Pages, Range, Row, Walk, both_ends, in_order, joined

_TELL_EVERY = 500
#: Assumed rows in a page, if nothing else tells how far the numbers go.
_ROWS_A_PAGE = 200
#: Small tables: name, keys, what a row is called in the report, and which rows are sound.
_SMALL: tuple[tuple[str, Sequence[str], str, Callable[[Row], bool]], ...] = (
    ("routes", ("key",), "routing key", lambda _: True),
    ("leases", ("session", "host", "boot", "process", "started"), "lease", lambda _: True),
    ("facts", ("name",), "fact", lambda _: True),
    (GUARDED, ("session",), "guard's record", is_guarded_row),
)
#: What indexes still know about messages and sessions whose own rows cannot be read. For each: a
#: temporary table of numbers and values, the column, the index with its table, and the order.
_KNOWN = (
    ("known", "session", "messages INDEXED BY messages_by_session", ("session", "number")),
    ("known_id", "id", "sessions INDEXED BY sessions_by_id", ("id",)),
    ("known_source", "source", "sessions INDEXED BY sessions_by_source", ("source",)),
    (
        "known_active",
        "last_active_at",
        "sessions INDEXED BY sessions_by_activity",
        ("last_active_at",),
    ),
    (
        "known_parent",
        "parent",
        "sessions INDEXED BY sessions_by_parent WHERE parent IS NOT NULL",
        ("parent",),
    ),
)
# Messages that were taken back: sessions do not count these.
_TAKEN_BACK = "CREATE TEMP TABLE taken_back (number INTEGER PRIMARY KEY)"
# Lost: in the index, but not saved. Unknown: saved, but not in the index. Missing: the difference
# between what sessions counted and what was saved.
_GONE = "SELECT number FROM temp.known EXCEPT SELECT number FROM messages"
_UNKNOWN = "SELECT count(*) FROM messages WHERE number NOT IN (SELECT number FROM temp.known)"
_MISSING = """
    SELECT s.id, max(0, s.message_count - coalesce(m.saved, 0)) AS lost FROM sessions s
    LEFT JOIN (
        SELECT session, count(*) AS saved FROM messages
        WHERE number NOT IN (SELECT number FROM temp.taken_back) GROUP BY session
    ) m ON m.session = s.number
    WHERE lost > 0 ORDER BY lost DESC, s.id
"""
_GONE_FROM = f"""
    SELECT s.id, count(*) AS lost FROM temp.known k JOIN sessions s ON s.number = k.session
    WHERE k.number IN ({_GONE}) GROUP BY s.id ORDER BY lost DESC, s.id
"""  # noqa: S608 - our own names


class Rescue:
    """One rescue. Both connections belong to one thread; no other process has the new store
    open."""

    def __init__(
        self,
        old: sqlite3.Connection,
        new: sqlite3.Connection,
        pages: Pages,
        *,
        free: set[int] | None,
        progress: Progress,
    ) -> None:
        """`free` is the set of pages on the free list of the old store; None if it is unknown."""
        self._old, self._new, self._pages, self._free = old, new, pages, free
        self._progress = progress
        self._whole: dict[str, bool] = {}
        self._suspect: Range | None = None
        self._unsound: list[Range] = []
        self._taken_back: list[int] = []
        self.ledger_filled = False
        old.text_factory = content.text_or_torn

    def run(self) -> Sequence[Loss]:
        """Copy everything that can be read; return what could not be."""
        self._new.execute("PRAGMA foreign_keys = OFF")
        self._new.execute("BEGIN")
        self._new.execute(_TAKEN_BACK)
        for known in _KNOWN:
            self._read_index(*known)
        self._copy_sessions()
        self._copy_messages()
        lost_sessions = self._recreate_sessions()
        losses = [self._lost_messages(), lost_sessions, *self._copy_rest()]
        self._keep_numbers()
        drop_dangling(self._new)
        losses.append(self._copy_ledger())
        self._new.execute("COMMIT")
        return [loss for loss in losses if loss is not None]

    def _read_index(self, known: str, column: str, index: str, order: Sequence[str]) -> None:
        self._new.execute(f"CREATE TEMP TABLE {known} (number INTEGER PRIMARY KEY, {column})")
        rows, whole = both_ends(self._old, f"number, {column}", index, order)
        self._insert(f"temp.{known}", rows, 2)
        self._whole[known] = whole()

    def _copy_sessions(self) -> None:
        """Copy sessions with the number of messages that each should have; the other totals are
        computed later."""
        totals_later = set(TOTALS) - {"message_count"}
        columns = [name for name in self._columns("sessions") if name not in totals_later]

        def sound(rows: Iterator[Row]) -> Iterator[Row]:
            return (row for row in rows if _is_session(dict(zip(columns, row, strict=True))))

        highest = self._highest(
            "SELECT max(number) FROM temp.known_id",
            "SELECT max(session) FROM temp.known",
            table="sessions",
        )
        self._copy_numbered("sessions", columns, highest, sound, self._is_known_session)

    def _copy_messages(self) -> None:
        columns = self._columns("messages")
        highest = self._highest("SELECT max(number) FROM temp.known", table="messages")
        last = self._copy_numbered(
            "messages",
            columns,
            highest,
            lambda rows: self._sound(rows, columns),
            lambda row: self._is_known_message(row[0], row[columns.index("session")]),
        )
        if last is not None:
            self._suspect = (last + 1, highest)
        self._insert("temp.taken_back", ((number,) for number in self._taken_back), 1)

    def _copy_numbered(
        self,
        table: str,
        columns: Sequence[str],
        highest: int,
        sound: Callable[[Iterator[Row]], Iterator[Row]],
        known: Callable[[Row], bool],
    ) -> int | None:
        """Copy the sound rows of a table whose rowid is the first of `columns`. Return the last
        number before the damage; None if there is no damage."""
        query = f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY number"  # noqa: S608 - our own names
        rising = Walk(self._old, query)
        last = 0

        def until_damage() -> Iterator[Row]:
            nonlocal last
            for row in in_order(rising, highest):
                last = row[0]
                yield row

        def missing(rows: Iterator[Row]) -> Iterator[Row]:
            for row in rows:
                if 0 < row[0] <= highest and not self._has_row(f"{table} WHERE number = ?", row[0]):
                    yield row

        self._insert(table, sound(until_damage()), len(columns), columns)
        # Even if the walk reached its end: a lost page can make it skip rows.
        found = missing(self._leaf_rows(table, columns, known))
        self._insert(table, sound(found), len(columns), columns)
        if rising.whole:
            return None
        # Where the free list is lost, the tree is better evidence of which rows were not deleted.
        self._insert(
            table, sound(missing(iter(Walk(self._old, f"{query} DESC")))), len(columns), columns
        )
        return last

    def _leaf_rows(
        self, table: str, columns: Sequence[str], known: Callable[[Row], bool]
    ) -> Iterator[Row]:
        """Rows from leaf pages that are not free. If the free pages are unknown, only rows that are
        also known from elsewhere."""
        info = self._old.execute(f"PRAGMA table_info({table})").fetchall()
        info = info or self._new.execute(f"PRAGMA table_info({table})").fetchall()
        places = {row[1]: row[0] for row in info}
        wanted = [(places[name], info[places[name]][2] == "REAL") for name in columns]
        # Rows from before a column was added have fewer values than the table has columns.
        fewest = 1 + max(place for place, _ in wanted)
        for page, number, values in self._pages.rows(range(fewest, len(info) + 1)):
            if values[0] is not None or (self._free is not None and page in self._free):
                continue
            # SQLite stores a whole real number as an integer.
            row = tuple(
                float(values[place]) if real and isinstance(values[place], int) else values[place]
                for place, real in wanted
            )
            row = (number, *row[1:])
            if self._free is not None or known(row):
                yield row

    def _is_known_session(self, row: Row) -> bool:
        return self._has_row("temp.known_id WHERE number = ?", row[0])

    def _is_known_message(self, number: int, session: object) -> bool:
        return (
            self._has_row("temp.known WHERE number = ? AND session = ?", number, session)
            or self._has_row("sessions WHERE number = ?", session)
            or self._has_row("temp.known_id WHERE number = ?", session)
        )

    def _has_row(self, where: str, *values: object) -> bool:
        return bool(self._new.execute(f"SELECT 1 FROM {where}", values).fetchone())  # noqa: S608 - our own names

    def _sound(self, found: Iterator[Row], columns: Sequence[str]) -> Iterator[Row]:
        """The rows whose message can be decoded."""
        places = [columns.index(n) for n in ("role", "timestamp", "form", "body", "fields")]
        session = columns.index("session")
        for done, row in enumerate(found):
            if done % _TELL_EVERY == 0:
                self._progress.step("saving messages", done, None)
            values = [row[place] for place in places]
            message = content.readable(row[0], *values)
            if _is_number(row[session]) and message is not None:
                if message.taken_back:
                    self._taken_back.append(row[0])
                yield row
            else:
                self._unsound.append((row[0], row[0]))

    def _recreate_sessions(self) -> Loss | None:
        """Recreate sessions whose row is lost from indexes and messages."""
        missing = self._new.execute(
            """
            SELECT number FROM temp.known_id UNION SELECT session FROM messages
            EXCEPT SELECT number FROM sessions
            """
        ).fetchall()
        if not missing:
            return None
        self._new.execute("CREATE TEMP TABLE read_sessions AS SELECT number FROM sessions")
        for (number,) in missing:
            self._recreate_session(number)
        numbers = joined((number, number) for (number,) in missing)
        made = self._lost_from(
            """
            SELECT id, 1 FROM sessions WHERE number NOT IN (SELECT number FROM temp.read_sessions)
            ORDER BY id
            """
        )
        return Loss(what="session row", count=len(missing), ranges=numbers, sessions=made)

    def _recreate_session(self, number: int) -> None:
        known = self._new.execute(
            """
            SELECT (SELECT id FROM temp.known_id WHERE number = :number), source,
                   (SELECT last_active_at FROM temp.known_active WHERE number = :number),
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
        """The lost messages: exact if the index was whole and knew every message that could be
        read."""
        gone = [(number, number) for (number,) in self._new.execute(_GONE)]
        [unknown] = self._new.execute(_UNKNOWN).fetchone()
        if self._whole["known"] and not unknown:
            if not gone:
                return None
            lost = self._lost_from(_GONE_FROM)
            return Loss(what="message", count=len(gone), ranges=joined(gone), sessions=lost)
        lost = self._lost_from(_MISSING)
        missing = sum(each.count for each in lost)
        ranges = joined([*gone, *self._unsound, *self._unsaved()])
        if not missing and not ranges:
            return None
        return Loss(
            what="message",
            count=missing or len(gone),
            exact=False,
            ranges=ranges,
            sessions=lost or self._lost_from(_GONE_FROM),
        )

    def _lost_from(self, query: str) -> tuple[LostFrom, ...]:
        found = self._new.execute(query).fetchall()
        return tuple(LostFrom(session=str(session), count=lost) for session, lost in found)

    def _unsaved(self) -> Iterator[Range]:
        """The numbers beyond the damage under which no message was saved."""
        if self._suspect is None:
            return
        first, last = self._suspect
        saved = self._new.execute(
            "SELECT number FROM messages WHERE number BETWEEN ? AND ? ORDER BY number",
            (first, last),
        )
        for (number,) in saved:
            if first < number:
                yield first, number - 1
            first = number + 1
        if first <= last:
            yield first, last

    def _copy_small(
        self, table: str, keys: Sequence[str], sound: Callable[[Row], bool] = lambda _: True
    ) -> bool:
        """Copy the sound rows of a table; return False if any row is missing."""
        columns = self._columns(table)
        rows, whole = both_ends(self._old, ", ".join(columns), table, keys)
        unsound: list[Row] = []

        def only_sound() -> Iterator[Row]:
            for row in rows:
                if sound(row):
                    yield row
                else:
                    unsound.append(row)

        self._insert(table, only_sound(), len(columns), columns)
        return whole() and not unsound

    def _copy_rest(self) -> Iterator[Loss]:
        """Copy the small tables. An older store may lack one of them; that is no loss."""
        for table, keys, what, sound in _SMALL:
            if self._has(table) and not self._copy_small(table, keys, sound):
                yield Loss(what=what, count=0, exact=False)
        # It describes the old index; the new store's index is built from scratch.
        self._new.execute("DELETE FROM facts WHERE name = 'indexed_to'")

    def _copy_ledger(self) -> Loss | None:
        """Copy the all-time usage. Lost rows are rebuilt from the remaining messages; usage of
        sessions that had been removed cannot be rebuilt."""
        whole = self._copy_small(ledger.TABLE, ledger.KEYS, _is_usage)
        if not set(self._columns(ledger.TABLE)).issuperset(COUNTS):
            ledger.count_unpriced(self._new)
        if whole:
            return None
        ledger.fill(self._new)
        self.ledger_filled = True
        had_one = self._has(ledger.TABLE)
        return Loss(what="usage total", count=0, exact=False) if had_one else None

    def _has(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_schema WHERE name = ?"
        return bool(self._old.execute(query, (table,)).fetchone())

    def _keep_numbers(self) -> None:
        """Make sure that no message number is ever reused, not even that of a lost message."""
        highest = self._highest("SELECT max(number) FROM temp.known", table="messages")
        self._new.execute("DELETE FROM sqlite_sequence WHERE name = 'messages'")
        self._new.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', ?)", (highest,)
        )

    def _highest(self, *known: str, table: str) -> int:
        """The largest number that a row of a table can have."""
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
    """Remove references to sessions that do not exist; return how many rows changed."""
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
    """True if the row can belong to the ledger: a damaged page may contain anything."""
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
        content.load_extra(text)
    except (ValueError, RecursionError):
        return False
    return True
