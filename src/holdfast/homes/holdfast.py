"""Holdfast's own home.

config.toml          settings
sessions.db          sessions and messages
sessions/            transcripts and request dumps
checkpoints/         states of projects
archive/             sessions that left the store
operations/          the operation log, and the lock for changing the home
trash/               undo copies, by operation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.home import Home
from holdfast.homes.kind import DATABASE, KIND
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.homes.stored import StoredContents
from holdfast.model.session import SessionFilter
from holdfast.stores.processes import is_dead
from holdfast.stores.sqlite import survey
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.sqlite.survey import LifeSigns
from holdfast.value import replace

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive_bundles import Replacing
    from holdfast.homes.archive_rows import StoreRows
    from holdfast.homes.checkup import HomeCheckup
    from holdfast.homes.home import Ground
    from holdfast.model.item import Item
    from holdfast.ports import Archive, Clock
    from holdfast.stores.sqlite.moves import SqliteEngine
    from holdfast.stores.sqlite.survey import Owner


class HoldfastContents(StoredContents):
    """Sessions in a store of our own."""

    kind = KIND
    database = DATABASE

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._path = ground.root / DATABASE
        self._store: SqliteSessionStore | None = None
        self._signs = LifeSigns(is_dead=is_dead, abandoned_after=ground.options.abandoned_after)

    def store(self) -> SqliteSessionStore | None:
        if self._store is None and self._path.exists():
            self._store = SqliteSessionStore(self._path, create=False)
        return self._store

    def create_store(self) -> SqliteSessionStore:
        if self._store is None:
            self._store = SqliteSessionStore(self._path)
        return self._store

    def engine(self) -> SqliteEngine | None:
        from holdfast.stores.sqlite.moves import SqliteEngine

        store = self.store()
        return None if store is None else SqliteEngine(store, self.ground.clock, self._signs)

    def rows(self) -> StoreRows | None:
        from holdfast.homes.archive_rows import StoreRows

        store, engine = self.store(), self.engine()
        if store is None or engine is None:
            return None
        return StoreRows(store, engine, self.ground.clock)

    def sessions(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        store = self.store()
        if store is None:
            return ()
        return store.survey(wanted or SessionFilter(), now=now, life=self._signs)

    def space(self) -> Sequence[Item]:
        store = self.store()
        return () if store is None else (survey.space(store.database, DATABASE),)

    def owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        store = self.store()
        return {} if store is None else survey.owners(store.database, names)

    def checkup(self, archive: Archive) -> HomeCheckup:
        from holdfast.homes.checkup import HomeCheckup

        return HomeCheckup(self.ground, DATABASE, archive)

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


class HoldfastHome(Home):
    """A home of kind `holdfast`: the one that hosts write their sessions into."""

    kind = KIND
    _contents: HoldfastContents

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        idle: float | None = None,
        options: HomeOptions = USUAL,
    ) -> None:
        if idle is not None:
            options = replace(options, idle=idle)
        super().__init__(root, HoldfastContents, clock=clock, options=options)

    def session_store(self) -> SqliteSessionStore | None:
        """The session store, opened once; None when there is none. Creates nothing."""
        return self._contents.store()

    def create_session_store(self) -> SqliteSessionStore:
        """The session store, made when there is none."""
        return self._contents.create_store()

    def replacing(self, command: str) -> AbstractContextManager[Replacing]:
        """For an import that replaces sessions: what it replaces goes into the archive."""
        from holdfast.homes.archive_bundles import replacing

        archive = self.changes.archive
        clock = self.ground.clock
        return replacing(self, archive.folder, archive.packer, command=command, clock=clock)
