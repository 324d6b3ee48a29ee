"""A Hermes home: its sessions and their files, kept within limits and as Hermes needs them.

state.db             Hermes's sessions
sessions/            its transcripts and request dumps
checkpoints/         its checkpoints
.holdfast/           our files: configuration, operation log, trash, archive
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.hermes import file_names
from holdfast.homes.hermes.kind import CHECKPOINTS, DATABASE, HERMES, profiles, state_folder
from holdfast.homes.hermes.state_db import survey
from holdfast.homes.hermes.state_db.moves import HermesEngine
from holdfast.homes.hermes.state_db.search_tables import is_search_due
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.homes.home import Ground, Home
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.homes.sessions.folder import FOLDER, SessionFileName
from holdfast.homes.sessions.stored import StoredContents
from holdfast.model.arguments import check_foreign_id
from holdfast.model.item import CHECKPOINT_KINDS, PROJECT, Item, Problem
from holdfast.model.session import SessionFilter
from holdfast.ports.archive import Archive
from holdfast.ports.runs import Clock
from holdfast.stores.sessions.survey import Owner
from holdfast.stores.sqlite.survey import space

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.hermes.checkpoints import HermesCheckpoints
    from holdfast.homes.hermes.checkup import HermesCheckup
    from holdfast.homes.hermes.state_db.archive_rows import HermesRows


class HermesContents(StoredContents):
    """Sessions in Hermes's database."""

    kind = HERMES.name
    database = DATABASE
    foreign = True

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._store: HermesSessionStore | None = None
        self._engine: HermesEngine | None = None

    @property
    def version(self) -> str | None:
        """The release of Hermes that created its database, if known."""
        store = self.store()
        return None if store is None else store.database.schema.release

    def store(self) -> HermesSessionStore | None:
        path = self.ground.root / DATABASE
        if self._store is None and path.exists():
            opened = HermesSessionStore(path, self.ground.state)
            if not opened.database.schema.columns:
                opened.close()  # no tables yet: Hermes is still setting it up
                return None
            self._store = opened
        return self._store

    def engine(self) -> HermesEngine | None:
        store = self.store()
        if self._engine is None and store is not None:
            ground = self.ground
            self._engine = HermesEngine(
                store, ground.root, ground.state, ground.clock, ground.options.abandoned_after
            )
        return self._engine

    def rows(self) -> HermesRows | None:
        from holdfast.homes.hermes.state_db.archive_rows import HermesRows

        store, engine = self.store(), self.engine()
        return None if store is None or engine is None else HermesRows(store, engine)

    def sessions(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        engine = self.engine()
        if engine is None:
            return ()
        alive = engine.signs()
        return survey.sessions(engine.database, wanted or SessionFilter(), now=now, signs=alive)

    def space(self) -> Sequence[Item]:
        store = self.store()
        return () if store is None else (space(store.database, DATABASE),)

    def owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        store = self.store()
        return {} if store is None else survey.owners(store.database, names)

    def had_database(self, path: Path) -> str | None:
        """Every release that we know stores its sessions there before it writes any file."""
        from holdfast.homes.agents.json_lines import names_in

        if not any(map(self.parse, names_in(path.parent / FOLDER))):
            return None  # it has not talked to anybody yet
        return "has no tables" if path.exists() else "is missing"

    def doubts(self) -> Sequence[Problem]:
        store = self.store()
        if store is None or store.database.schema.unknown is None:
            return ()
        reason = f"{store.database.schema.unknown}; it can be read, but is never changed"
        return (Problem(path=str(store.database.path), reason=reason),)

    def check_writable(self, kind: str) -> None:
        # Checkpoints have their own format check, and need no database.
        engine = None if kind in (*CHECKPOINT_KINDS, PROJECT) else self.engine()
        if engine is not None:
            engine.database.check_writable()

    def finish(self) -> None:
        """Put back messages that a run left out of Hermes's search tables."""
        if is_search_due(self.ground.state):
            engine = self.engine()
            if engine is not None:
                engine.finish_search()

    def inside(self) -> Sequence[Path]:
        return profiles(self.ground.root)

    def parse(self, name: str) -> SessionFileName | None:
        return file_names.parse(name)

    def stems(self, session_id: str) -> Collection[str]:
        return file_names.stems(session_id)

    @property
    def check_id(self) -> Callable[[str], str]:
        return check_foreign_id

    @property
    def checkpoint_folders(self) -> Sequence[Path]:
        return [each / CHECKPOINTS for each in (self.ground.root, self.ground.state)]

    def checkpoints(self) -> HermesCheckpoints:
        from holdfast.homes.hermes.checkpoints import HermesCheckpoints

        return HermesCheckpoints(self.ground)

    def checkup(self, archive: Archive) -> HermesCheckup:
        from holdfast.homes.hermes.checkup import HermesCheckup

        return HermesCheckup(self.ground, self.engine, archive)

    def close(self) -> None:
        store, self._store, self._engine = self._store, None, None
        if store is not None:
            store.close()


class HermesHome(Home):
    """A home of kind `hermes`. Opening and scanning it create nothing in it."""

    _contents: HermesContents

    def __init__(self, root: Path, *, clock: Clock, options: HomeOptions = USUAL) -> None:
        state = state_folder(root)
        super().__init__(root, HermesContents, clock=clock, state=state, options=options)

    def session_store(self) -> HermesSessionStore | None:
        """The sessions, opened once; None if there are none. Creates nothing."""
        return self._contents.store()
