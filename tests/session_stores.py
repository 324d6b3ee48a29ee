"""Every store of sessions, for the tests that hold for all of them, and what those must do to a
store besides calling its port."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.session import Message, Session
from holdfast.ports.sessions import GuardBook, SessionStore
from holdfast.services.exchange.session_import import ImportStore
from holdfast.stores.postgres import search_index as postgres_index
from holdfast.stores.postgres import sessions as postgres_rows
from holdfast.stores.postgres.guard_book import PostgresGuardBook
from holdfast.stores.postgres.session_import import PostgresImport
from holdfast.stores.postgres.sessions import PostgresSessionStore
from holdfast.stores.sqlite import search_index as sqlite_index
from holdfast.stores.sqlite.guard_book import SqliteGuardBook
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import postgres, stored

Keep = Callable[[Session, Iterable[Message]], None]


@dataclass(frozen=True)
class StoreKind:
    """A kind of store. `open` takes what `place` gave, and can be called again."""

    place: Callable[[Path], Any]
    open: Callable[[Any], Any]
    importing: Callable[..., ImportStore]
    guard_book: Callable[[Any], GuardBook]
    #: Take the rows of a session out, as if it had its copy elsewhere.
    remove: Callable[[Any, str], None]
    #: Index messages that are not in the search index yet, the oldest first: so many, or all.
    index: Callable[..., None]


def _place_sqlite(folder: Path) -> Path:
    return folder / "sessions.db"


def _index_sqlite(store: SqliteSessionStore, count: int | None = None) -> None:
    with store.database.write() as db:
        [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
        sqlite_index.catch_up(db, newest if count is None else count, batch=1)


def _remove_postgres(store: PostgresSessionStore, session_id: str) -> None:
    with store.database.write() as db:
        rows = db.execute("SELECT number FROM sessions WHERE id = %s", (session_id,))
        postgres_rows.delete(db, [number for (number,) in rows])


def _index_postgres(store: PostgresSessionStore, count: int | None = None) -> None:
    if count is None:
        while postgres_index.catch_up(store.database):
            pass
        return
    # Those behind wait elsewhere for a moment.
    with store.database.write() as db:
        held = db.execute(
            "DELETE FROM unindexed WHERE message > (SELECT coalesce(min(message), 0) + %s - 1 "
            "FROM unindexed) RETURNING message",
            (count,),
        ).rows
    postgres_index.catch_up(store.database)
    with store.database.write() as db:
        postgres_index.wait(db, [number for (number,) in held])


KINDS = {
    "sqlite": StoreKind(
        place=_place_sqlite,
        open=SqliteSessionStore,
        importing=SqliteImport,
        guard_book=SqliteGuardBook,
        remove=stored.remove_rows,
        index=_index_sqlite,
    ),
    "postgres": StoreKind(
        place=lambda _: postgres.a_database(),
        open=PostgresSessionStore,
        importing=PostgresImport,
        guard_book=PostgresGuardBook,
        remove=_remove_postgres,
        index=_index_postgres,
    ),
}
#: For fixtures: PostgreSQL in the long tests.
BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.deep)]
over_all = pytest.mark.parametrize("kind", KINDS)
#: The same where PostgreSQL is left to the long tests.
over_all_deep = pytest.mark.parametrize("kind", BOTH)


def in_file(store: SessionStore) -> SqliteSessionStore:
    """For a test that looks inside a SQLite store, and says nothing of others."""
    if not isinstance(store, SqliteSessionStore):
        pytest.skip("it looks into the file of a SQLite store")
    return store


def opened_for(request: pytest.FixtureRequest, folder: Path) -> Iterator[SessionStore]:
    """What a fixture over `BOTH` yields."""
    kind = KINDS[request.param]
    store = kind.open(kind.place(folder))
    yield store
    store.close()


def config_for(kind: str, root: Path) -> None:
    """Give a home that is to be made the store of a kind."""
    if kind == "postgres":
        root.mkdir(parents=True)
        (root / "config.toml").write_text(f'[store]\nurl = "{postgres.a_database()}"\n')


@contextmanager
def a_store(kind: str) -> Iterator[Any]:
    """An empty store that is gone afterwards: for one of many examples."""
    with tempfile.TemporaryDirectory(prefix="holdfast-store-") as folder:
        shared = postgres.borrow() if kind == "postgres" else None
        store = KINDS[kind].open(shared or KINDS[kind].place(Path(folder)))
        try:
            yield store
        finally:
            store.close()
            if shared is not None:
                postgres.reuse(shared)


def kind_of(store: SessionStore) -> StoreKind:
    return KINDS["postgres" if isinstance(store, PostgresSessionStore) else "sqlite"]
