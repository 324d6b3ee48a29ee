"""The store of Holdfast's own sessions: a SQLite file in the home, or a database that machines
share. This module chooses between them; callers do not know which one it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import HoldfastError, StorageError, to_install_extra
from holdfast.homes.kind import DATABASE, KIND, LOG
from holdfast.homes.lost_database import why_lost
from holdfast.homes.sessions.stored import StoredContents
from holdfast.model.session import SessionFilter
from holdfast.ports.sessions import SessionEngine, SessionStore
from holdfast.stores.figures_file import FiguresFile
from holdfast.stores.operation_log import names_sessions
from holdfast.stores.processes import is_dead
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite import survey
from holdfast.stores.sqlite.guard_book import SqliteGuardBook
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.threads import BackgroundCall
from holdfast.value import replace

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive.session_rows import StoreRows
    from holdfast.homes.checkup import HomeCheckup
    from holdfast.homes.home import Ground
    from holdfast.model.item import Item
    from holdfast.model.session import Message, Session
    from holdfast.model.stored_session import Coming, Holder
    from holdfast.ports.archive import Archive
    from holdfast.ports.sessions import GuardBook
    from holdfast.services.exchange.session_import import ImportStore
    from holdfast.stores.postgres.sessions import PostgresSessionStore
    from holdfast.stores.sessions.survey import Owner

    #: Keeps a session, with its messages, before an import replaces it.
    KeepReplaced = Callable[[Session, Iterable[Message]], None]

#: The name that the store's trash uses for the log that all its homes share.
_SHARED_LOG = ""


class OwnEngine(SessionEngine, Protocol):
    """Removes and restores Holdfast's own sessions."""

    def adopt(self, session_id: str, children: Collection[str], last_active_at: float) -> None:
        """Give a session restored from the archive its children and its last activity."""

    def bring(self, coming: Sequence[Coming], now: float, then: Callable[[], None]) -> bool:
        """Store sessions from the archive, all or none; `then` runs in the same transaction. Return
        False if this engine restores sessions one by one."""


class OwnContents(StoredContents):
    """Sessions in one of our own stores, with the operations of a home on it. Opened once."""

    kind = KIND

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._signs = LifeSigns(is_dead=is_dead, abandoned_after=ground.options.abandoned_after)

    @abstractmethod
    def create(self) -> SessionStore:
        """The store. It is created if there is none and creating it is up to us."""

    @abstractmethod
    def engine(self) -> OwnEngine | None: ...

    @abstractmethod
    def importing(
        self, keep_replaced: KeepReplaced | None = None, *, count_usage: bool = True
    ) -> ImportStore:
        """The store that imports whole sessions. Requires a store."""

    @abstractmethod
    def guard_book(self) -> GuardBook:
        """Requires a store."""

    def rows(self) -> StoreRows | None:
        from holdfast.homes.archive.session_rows import StoreRows

        store, engine = self.store(), self.engine()
        if store is None or engine is None:
            return None
        importing = partial(self.importing, count_usage=False)
        return StoreRows(store, engine, importing, self.ground.clock)


def own_contents(ground: Ground) -> OwnContents:
    return PostgresContents(ground) if ground.options.store else SqliteContents(ground)


class SqliteContents(OwnContents):
    """A SQLite file in the home."""

    database = DATABASE

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._path: Path = ground.root / DATABASE
        self._store: SqliteSessionStore | None = None
        #: Space that a thread gives back. It outlives the engine that began it.
        self._giving_back = BackgroundCall()

    def store(self) -> SqliteSessionStore | None:
        """An empty file is not opened: that would make it a store without sessions, and the files
        of all sessions would count as left behind."""
        if self._store is None and _has_bytes(self._path):
            self._store = SqliteSessionStore(self._path, create=False)
        return self._store

    def create(self) -> SqliteSessionStore:
        if self._store is None:
            self._store = SqliteSessionStore(self._path)
        return self._store

    def close(self) -> None:
        try:
            with suppress(HoldfastError):
                self.finish()
        finally:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def finish(self) -> None:
        """Wait for the thread that gives space back: a run that ended early did not."""
        self._giving_back.end()

    def engine(self) -> OwnEngine | None:
        from holdfast.stores.sqlite.moves import SqliteEngine

        store = self.store()
        if store is None:
            return None
        return SqliteEngine(store, self.ground.clock, self._signs, self._giving_back)

    def importing(
        self, keep_replaced: KeepReplaced | None = None, *, count_usage: bool = True
    ) -> ImportStore:
        return SqliteImport(self.create(), keep_replaced, count_usage=count_usage)

    def guard_book(self) -> GuardBook:
        return SqliteGuardBook(self.create())

    def sessions(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        store, asked = self.store(), wanted or SessionFilter()
        return () if store is None else store.survey(asked, now=now, life=self._signs)

    def owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        store = self.store()
        return {} if store is None else survey.owners(store.database, names)

    def had_database(self, path: Path) -> str | None:
        """The files through which writers take turns stay for ever. Without them, the figures and
        the operation log tell whether there were sessions."""
        if why := why_lost(path, ours=True):
            return why
        had = any(each.sessions for each in FiguresFile(self.ground.state).read())
        if had or names_sessions(self.ground.state / LOG):
            return "is missing, but this home had sessions"
        return None

    def space(self) -> Sequence[Item]:
        store = self.store()
        if store is None:
            return ()
        found = survey.space(store.database, DATABASE)
        return (replace(found, owed=survey.is_owed(store.database)),)

    def owed(self) -> Sequence[Item]:
        return [each for each in self.space() if each.owed]

    def checkup(self, archive: Archive) -> HomeCheckup:
        from holdfast.homes.checkup import HomeCheckup

        return HomeCheckup(self.ground, DATABASE, archive)


def _has_bytes(path: Path) -> bool:
    try:
        return path.exists() and path.stat().st_size > 0
    except FileNotFoundError:  # removed in between
        return False


class PostgresContents(OwnContents):
    """A PostgreSQL database, which other machines use too."""

    database = None

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._store: PostgresSessionStore | None = None
        self._signs = replace(self._signs, is_dead=self._is_dead)

    def _is_dead(self, holder: Holder) -> bool:
        from holdfast.stores.postgres.machines import Machines

        silence = self.ground.options.machine_silence
        return Machines(self.store().database, silence).is_dead(holder)

    def store(self) -> PostgresSessionStore:
        """The store. It always exists: failing to reach it is an error, not an empty home."""
        if self._store is None:
            self._store = postgres_store(self.ground.options.store)
        return self._store

    def create(self) -> PostgresSessionStore:
        return self.store()

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def engine(self) -> OwnEngine:
        from holdfast.stores.postgres.moves import PostgresEngine

        return PostgresEngine(self.store(), self.ground.clock, self._signs, origin=_SHARED_LOG)

    def importing(
        self, keep_replaced: KeepReplaced | None = None, *, count_usage: bool = True
    ) -> ImportStore:
        from holdfast.stores.postgres.session_import import PostgresImport

        return PostgresImport(self.store(), keep_replaced, count_usage=count_usage)

    def guard_book(self) -> GuardBook:
        from holdfast.stores.postgres.guard_book import PostgresGuardBook

        return PostgresGuardBook(self.store())

    def sessions(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        from holdfast.stores.postgres import survey as rows

        asked = wanted or SessionFilter()
        return rows.sessions(self.store().database, asked, now=now, life=self._signs)

    def owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        from holdfast.stores.postgres import survey as rows

        return rows.owners(self.store().database, names)

    def trash_bytes(self) -> int:
        from holdfast.stores.postgres.trash import bytes_of

        return bytes_of(self.store().database, _SHARED_LOG)

    def checkup(self, archive: Archive) -> HomeCheckup:
        from holdfast.homes.checkup import PostgresCheckup

        return PostgresCheckup(self.ground, archive, self.store, self.engine)


def postgres_store(url: str) -> PostgresSessionStore:
    """Raises `StorageError` if the driver is not installed."""
    try:
        from holdfast.stores.postgres.sessions import PostgresSessionStore
    except ImportError as error:
        raise no_driver() from error
    return PostgresSessionStore(url)


def no_driver() -> Exception:
    """The error for a machine where the packages for PostgreSQL are not installed."""
    return StorageError(
        "Sessions in PostgreSQL need psycopg and greenlet; at least one is missing.",
        hint=to_install_extra("postgres"),
    )
