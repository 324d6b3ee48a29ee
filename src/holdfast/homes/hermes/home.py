"""A home of Hermes: its sessions and their files, bounded and left as Hermes wants them.

state.db             Hermes's sessions
sessions/            its transcripts and request dumps
checkpoints/         its checkpoints
.holdfast/           all that is ours: configuration, operation log, trash, archive
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.homes import artifact_scan
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.artifact_scan import Life
from holdfast.homes.hermes import file_names, signs
from holdfast.homes.hermes.checkup import HermesCheckup
from holdfast.homes.hermes.log import HermesLog
from holdfast.homes.hermes.state_db import survey
from holdfast.homes.hermes.state_db.archive_rows import HermesRows
from holdfast.homes.hermes.state_db.engine import HermesEngine
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.homes.hermes.state_db.space import is_search_due
from holdfast.homes.home_bytes import Places, beside_checkpoints, counted, trash_of
from holdfast.homes.options import USUAL, HomeOptions, archive_folder
from holdfast.model.arguments import check_foreign_id
from holdfast.model.checkpoint import Capturing
from holdfast.model.item import (
    CHECKPOINT,
    CHECKPOINT_KINDS,
    PROJECT,
    Inventory,
    Item,
    Problem,
)
from holdfast.model.plan import Action
from holdfast.model.session import SessionFilter
from holdfast.ports import Archive, CheckpointStore, CheckpointUpkeep, Clock, Doer, Progress
from holdfast.stores.sqlite.survey import Owner
from holdfast.stores.trash_folder import TrashFolder

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.doers import HomeDoers
    from holdfast.homes.hermes.checkpoints import HermesCheckpoints


class HermesHome:
    """A home of kind `hermes`. Opening and scanning it create nothing in it."""

    kind = signs.HERMES.name

    def __init__(self, root: Path, *, clock: Clock, options: HomeOptions = USUAL) -> None:
        self.root = root
        self.state = signs.state_folder(root)
        self._clock = clock
        self._abandoned_after = options.abandoned_after
        self._store: HermesSessionStore | None = None
        self._made: HermesEngine | None = None
        self._trash = trash = TrashFolder(self.state / "trash")
        self.log = HermesLog(self.state / "operations", trash.root, self._finish_search)
        self._files = Life(idle=options.idle, owners=self._owners, parse=file_names.parse)
        self._archive_options = options.archive
        self._archive_folder = archive_folder(self.state, options.archive)
        self._checkpoint_bytes = options.checkpoint_bytes

    @cached_property
    def _checkpoints(self) -> HermesCheckpoints:
        from holdfast.homes.hermes.checkpoints import HermesCheckpoints

        return HermesCheckpoints(
            self.root, self.state, self._trash, self.log.read, self._clock, self._checkpoint_bytes
        )

    @cached_property
    def _doers(self) -> HomeDoers:
        from holdfast.homes.doers import HomeDoers, HomeParts

        return HomeDoers(
            HomeParts(
                root=self.root,
                state=self.state,
                clock=self._clock,
                log=self.log,
                trash=self._trash,
                database=signs.DATABASE,
                engine=self._engine,
                rows=self._rows,
                life=self._files,
                files=SessionFolder(self.root, file_names.parse, file_names.stems),
                archive=self._archive_options,
                checkpoints=self._checkpoints.keepers,
                checkpoint_space=self._checkpoints.space,
                checkpoint_store=self.checkpoint_store,
                check_id=check_foreign_id,
            )
        )

    @property
    def archive(self) -> Archive:
        """The sessions that left the store for the archive."""
        return self._doers.archive.reader

    def checkup(self) -> HermesCheckup:
        """For who wants to know whether all is well."""
        return HermesCheckup(self.root, self.log, self._trash, self._engine)

    @property
    def version(self) -> str | None:
        """The release of Hermes that its database is from, as far as that can be told."""
        store = self.session_store()
        return None if store is None else store.database.schema.release

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """Raises `SchemaError` for a home that may only be read."""
        # Checkpoints know their own format, and need no database.
        engine = None if kind in (*CHECKPOINT_KINDS, PROJECT) else self._engine()
        if engine is not None:
            engine.database.check_writable()
        if kind == CHECKPOINT:
            self._checkpoints.check_writable()
        return self._doers.doer(kind, action)

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        found = artifact_scan.scan(self.root, now, self._files, progress)
        log = self.log.read()
        store = self.session_store()
        bundles, problems = self._archived()
        inventory = Inventory(
            home=str(self.root),
            scanned_at=now,
            items=(*self._stored(wanted, now), *found.items),
            trash=trash_of(log.trash),
            space=() if store is None else (survey.space(store.database, signs.DATABASE),),
            problems=(*found.problems, *problems, *log.problems, *self._doubts(store)),
            other_bytes=found.other_bytes,
            archived=bundles,
            rest_is_foreign=True,
        )
        return counted(
            inventory,
            self._places(),
            whole=wanted is None,
            checkpoint_trash=beside_checkpoints(log.trash),
        )

    def has_checkpoints(self) -> bool:
        return any((folder / signs.CHECKPOINTS).is_dir() for folder in (self.root, self.state))

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        return self._checkpoints.store(how) if self.has_checkpoints() else None

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._checkpoints.upkeep

    @property
    def own_checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._checkpoints.own_upkeep

    def session_store(self) -> HermesSessionStore | None:
        """The sessions, opened once; None when there are none. Creates nothing."""
        path = self.root / signs.DATABASE
        if self._store is None and path.exists():
            opened = HermesSessionStore(path, self.state)
            if not opened.database.schema.columns:
                opened.close()  # not one table: Hermes is just being set up
                return None
            self._store = opened
        return self._store

    def close(self) -> None:
        """Close Hermes's database, if it was opened. It opens again when somebody asks for it."""
        store, self._store, self._made = self._store, None, None
        if store is not None:
            store.close()

    def _engine(self) -> HermesEngine | None:
        store = self.session_store()
        if self._made is None and store is not None:
            self._made = HermesEngine(
                store, self.root, self.state, self._clock, self._abandoned_after
            )
        return self._made

    def _finish_search(self) -> None:
        if is_search_due(self.state):
            engine = self._engine()
            if engine is not None:
                engine.finish_search()

    def _rows(self) -> HermesRows | None:
        store, engine = self.session_store(), self._engine()
        return None if store is None or engine is None else HermesRows(store, engine)

    def _stored(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        engine = self._engine()
        if engine is None:
            return ()
        alive = engine.signs()
        return survey.sessions(engine.database, wanted or SessionFilter(), now=now, signs=alive)

    def _archived(self) -> tuple[int, Sequence[Problem]]:
        """How many bundles there are, and why that could not be looked at."""
        if not self._archive_folder.is_dir():
            return 0, ()
        try:
            return len(self.archive.items()), ()
        except StorageError as error:
            return 0, (Problem(path=str(self._archive_folder), reason=error.message),)

    def _places(self) -> Places:
        return Places(
            root=self.root,
            sessions=self.root / artifact_scan.FOLDER,
            database=self.root / signs.DATABASE,
            trash=self.state / "trash",
            log=self.state / "operations",
            archive=self._archive_folder,
            checkpoints=(self.root / signs.CHECKPOINTS, self.state / signs.CHECKPOINTS),
            elsewhere=signs.profiles(self.root),  # homes of their own
        )

    def _owners(self, stems: Sequence[str]) -> Mapping[str, Owner]:
        store = self.session_store()
        return {} if store is None or not stems else survey.owners(store.database, stems)

    def _doubts(self, store: HermesSessionStore | None) -> Sequence[Problem]:
        """Why nothing here may be changed, said before anybody tries."""
        if store is None or store.database.schema.unknown is None:
            return ()
        reason = f"{store.database.schema.unknown}; it is read, and never changed"
        return (Problem(path=str(store.database.path), reason=reason),)
