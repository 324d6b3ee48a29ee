"""A list of very many sessions in a file, to be shown page by page.

To sort the sessions of a whole machine, a process would have to hold all of them in memory. Here
they are in a private file of the process that shows them, a new file for each look: to show a page
it reads only the rows of that page. No other process uses the file, so it needs no journal and no
flush.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.model.session import Relation, Session, SessionFilter, SessionOrder, Tokens
from holdfast.stores.sqlite.database import sqlite_errors
from holdfast.value import dataclass

_COLUMNS = (
    *("home", "id", "source", "started", "active", "parent", "relation", "title", "cwd", "model"),
    *("ended", "end_reason", "pinned", "messages", "calls", "input", "output", "cached", "cost"),
    *("unpriced_input", "unpriced_output", "unpriced_cached", "bytes", "counted", "vaulted"),
    *("opening", "opened", "unit", "tokens", "price", "title_key"),
)
#: Known only once a session has been read.
_READ = (
    *("messages", "calls", "input", "output", "cached", "cost", "unpriced_input"),
    *("unpriced_output", "unpriced_cached", "counted", "opening", "opened", "tokens", "price"),
)
_TABLE = f"CREATE TABLE sessions ({', '.join(_COLUMNS)}, UNIQUE (home, id))"
_ORDERS = {
    SessionOrder.LAST_ACTIVE: "active DESC",
    SessionOrder.STARTED: "started DESC",
    SessionOrder.BYTES: "bytes DESC",
    SessionOrder.MESSAGES: "messages DESC",
    SessionOrder.TOKENS: "tokens DESC",
    SessionOrder.COST: "price DESC",
    # A session without a title comes last, as in every list.
    SessionOrder.TITLE: "title_key IS NULL, title_key, active DESC",
}
_INDEXES = (
    *(
        f"CREATE INDEX by_{order.value} ON sessions ({by}, id DESC)"
        for order, by in _ORDERS.items()
    ),
    # Enough to count the sessions that pass a filter without reading whole rows.
    "CREATE INDEX for_filters ON sessions (home, ended, pinned, active, cwd, title_key)",
    "CREATE INDEX by_parent ON sessions (home, parent) WHERE parent IS NOT NULL",
)
_MANY = 1_000
#: The limit of SQLite's page cache, in KiB.
_CACHE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A session in the list, of the home with that number. `unit` finds it again without a scan of
    its home. `opening` is how it begins; None if that has not been read. `price` is the sort key of
    the order by cost."""

    home: int
    session: Session
    unit: bytes | None = None
    opening: str | None = None
    price: float = 0.0


def write(path: Path, entries: Iterable[Entry]) -> None:
    """Create the file."""
    with sqlite_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        db.execute(_TABLE)
        places = ", ".join("?" * len(_COLUMNS))
        db.executemany(f"INSERT OR IGNORE INTO sessions VALUES ({places})", map(_row, entries))  # noqa: S608 - no text of others
        for each in _INDEXES:
            db.execute(each)
        db.execute("COMMIT")


class CatalogueFile:
    """The file, open for one reader."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE}")

    def close(self) -> None:
        self._db.close()

    def page(
        self,
        wanted: SessionFilter,
        homes: Sequence[int] | None,
        *,
        order_by: SessionOrder,
        limit: int,
        offset: int,
    ) -> tuple[Sequence[Entry], int]:
        """The entries of one page, and how many there are on all pages. Only the parts of a filter
        that a page can set are used: see `_conditions`."""
        where, values = _conditions(wanted, homes)
        among = f"FROM sessions INDEXED BY for_filters WHERE {where}"
        [total] = self._db.execute(f"SELECT count(*) {among}", values).fetchone()
        by = f"INDEXED BY by_{order_by.value}"
        if total <= _MANY:  # sorting a few is faster than finding them in order
            by, where = "", f"rowid IN (SELECT rowid {among})"
        rows = self._db.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM sessions {by} WHERE {where} "  # noqa: S608 - as above
            f"ORDER BY {_ORDERS[order_by]}, id DESC LIMIT ? OFFSET ?",
            [*values, limit, offset],
        )
        return [_entry(row) for row in rows], total

    def named(self, home: int, ids: Iterable[str]) -> Iterator[Entry]:
        """Those of these sessions that are in the list."""
        asked = f"SELECT {', '.join(_COLUMNS)} FROM sessions WHERE home = ? AND id = ?"  # noqa: S608 - as above
        for each in ids:
            if (row := self._db.execute(asked, (home, _stored(each))).fetchone()) is not None:
                yield _entry(row)

    def children(self, home: int, parent: str, *, limit: int) -> Sequence[Entry]:
        rows = self._db.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM sessions WHERE home = ? AND parent = ? "  # noqa: S608 - as above
            "ORDER BY active DESC, id DESC LIMIT ?",
            (home, _stored(parent), limit),
        )
        return [_entry(row) for row in rows]

    def learn(self, entries: Iterable[Entry]) -> None:
        """Store what was read of these sessions."""
        names = ", ".join(f"{name} = ?" for name in _READ)
        places = [_COLUMNS.index(name) for name in _READ]
        rows = [(_row(each), each) for each in entries]
        self._db.execute("BEGIN")
        self._db.executemany(
            f"UPDATE sessions SET {names} WHERE home = ? AND id = ?",  # noqa: S608 - as above
            [
                (*(row[each] for each in places), entry.home, _stored(entry.session.id))
                for row, entry in rows
            ],
        )
        self._db.execute("COMMIT")


def _conditions(wanted: SessionFilter, homes: Sequence[int] | None) -> tuple[str, list[Any]]:
    found: list[tuple[str, list[Any]]] = []
    if homes is not None:
        found.append((f"home IN ({', '.join('?' * len(homes))})", [*homes]))
    if wanted.ended is not None:
        found.append(("ended IS NOT NULL" if wanted.ended else "ended IS NULL", []))
    if wanted.pinned is not None:
        found.append(("pinned = ?", [int(wanted.pinned)]))
    if wanted.vaulted is not None:
        found.append(("vaulted = ?", [int(wanted.vaulted)]))
    if wanted.active_after is not None:
        found.append(("active > ?", [wanted.active_after]))
    if wanted.active_before is not None:
        found.append(("active < ?", [wanted.active_before]))
    if wanted.cwd is not None:
        folder = _stored(str(wanted.cwd).rstrip("/")) or b""
        inside = "(cwd = ? OR (cwd >= ? AND cwd < ?))"  # "0" comes right after "/"
        found.append((inside, [folder or b"/", folder + b"/", folder + b"0"]))
    if wanted.title is not None:
        found.append(("instr(title_key, ?) > 0", [_key(wanted.title)]))
    where = " AND ".join(condition for condition, _ in found) or "1"
    return where, [value for _, values in found for value in values]


def _stored(text: str | None) -> bytes | None:
    """Strings are stored as bytes: a file name need not be valid text."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _text(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode("utf-8", "surrogatepass")


def _key(title: str | None) -> bytes | None:
    """Compare titles like other stores do: by bytes, ignoring the case of ASCII letters."""
    return (title or "").encode("utf-8", "surrogatepass").lower() or None


def _row(entry: Entry) -> tuple[Any, ...]:
    session = entry.session
    return (
        entry.home,
        _stored(session.id),
        _stored(session.source),
        session.started_at,
        session.last_active_at,
        _stored(session.parent_id),
        session.relation.value if session.relation else None,
        _stored(session.title),
        _stored(session.cwd),
        _stored(session.model),
        session.ended_at,
        _stored(session.end_reason),
        int(session.pinned),
        session.message_count,
        session.tool_call_count,
        session.tokens.input,
        session.tokens.output,
        session.tokens.cached,
        session.cost,
        session.unpriced.input,
        session.unpriced.output,
        session.unpriced.cached,
        session.bytes,
        int(session.counted),
        int(session.vaulted),
        _stored(entry.opening or ""),
        int(entry.opening is not None),
        entry.unit,
        session.tokens.total,
        entry.price,
        _key(session.title),
    )


def _entry(row: Sequence[Any]) -> Entry:
    home, name, source, started, active, parent, relation, title, cwd, model, *rest = row
    ended, end_reason, pinned, messages, calls, read, written, cached, cost, *rest = rest
    no_price_in, no_price_out, no_price_cached, size, counted, vaulted, *rest = rest
    opening, opened, unit, _, price, _ = rest
    return Entry(
        home=home,
        session=Session(
            id=_text(name) or "",
            source=_text(source) or "",
            started_at=started,
            last_active_at=active,
            parent_id=_text(parent),
            relation=Relation(relation) if relation else None,
            title=_text(title),
            cwd=_text(cwd),
            model=_text(model),
            ended_at=ended,
            end_reason=_text(end_reason),
            pinned=bool(pinned),
            message_count=messages,
            tool_call_count=calls,
            tokens=Tokens(input=read, output=written, cached=cached),
            cost=cost,
            unpriced=Tokens(input=no_price_in, output=no_price_out, cached=no_price_cached),
            bytes=size,
            counted=bool(counted),
            vaulted=bool(vaulted),
        ),
        unit=unit,
        opening=_text(opening) if opened else None,
        price=price,
    )
