"""Holdfast's own home.

config.toml          settings
sessions/            transcripts and request dumps
operations/          the operation log, and the lock of whoever changes the home
trash/               undo copies, by operation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.homes import artifact_scan, checkpoints
from holdfast.homes.artifact_scan import Life
from holdfast.homes.checkpoints import checkpoint_store, existing_store
from holdfast.homes.home_bytes import Places, beside_checkpoints, counted, trash_of
from holdfast.homes.options import USUAL, HomeOptions, archive_folder
from holdfast.homes.signs import DATABASE, KIND
from holdfast.model.checkpoint import Capturing
from holdfast.model.item import ARCHIVED_FILES, Inventory, Item, Problem
from holdfast.model.plan import Action
from holdfast.model.session import SessionFilter
from holdfast.ports import Archive, CheckpointStore, CheckpointUpkeep, Clock, Doer, Progress
from holdfast.stores.operation_log import FileOperationLog
from holdfast.stores.processes import is_dead
from holdfast.stores.sqlite import survey
from holdfast.stores.sqlite.leases import LifeSigns
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.sqlite.survey import Owner
from holdfast.stores.trash_folder import TrashFolder
from holdfast.value import replace

# Loaded on first use: who only lists sessions does without them.
if TYPE_CHECKING:
    from holdfast.homes.checkpoint_bounds import CheckpointBounds
    from holdfast.homes.checkup import HomeCheckup
    from holdfast.homes.doers import HomeDoers
    from holdfast.homes.replacing import Replacing


class HoldfastHome:
    """A home of kind `holdfast`. Opening and scanning it create nothing."""

    kind = KIND
    version = None

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        idle: float | None = None,
        options: HomeOptions = USUAL,
    ) -> None:
        self.root = self.state = root
        self._clock = clock
        self._store: SqliteSessionStore | None = None
        self._idle = options.idle if idle is None else idle
        self._life = LifeSigns(is_dead=is_dead, abandoned_after=options.abandoned_after)
        self._archive = options.archive
        self._checkpoint_bytes = options.checkpoint_bytes

    @cached_property
    def log(self) -> FileOperationLog:
        """What was removed and brought back here."""
        return FileOperationLog(self.root / "operations", self.root / "trash")

    @cached_property
    def _trash(self) -> TrashFolder:
        return TrashFolder(self.root / "trash")

    @cached_property
    def _bounds(self) -> CheckpointBounds:
        from holdfast.homes.checkpoint_bounds import CheckpointBounds

        return CheckpointBounds(self.root, self._trash, self.log.read, self._checkpoint_bytes)

    @cached_property
    def _doers(self) -> HomeDoers:
        from holdfast.homes.archive_files import SessionFolder
        from holdfast.homes.archive_rows import StoreRows
        from holdfast.homes.doers import HomeDoers, HomeParts
        from holdfast.stores.sqlite.moves import SqliteEngine

        def engine() -> SqliteEngine | None:
            store = self.session_store()
            return None if store is None else SqliteEngine(store, self._clock, self._life)

        def rows() -> StoreRows | None:
            store, made = self.session_store(), engine()
            return None if store is None or made is None else StoreRows(store, made, self._clock)

        return HomeDoers(
            HomeParts(
                root=self.root,
                state=self.root,
                clock=self._clock,
                log=self.log,
                trash=self._trash,
                database=DATABASE,
                engine=engine,
                rows=rows,
                life=Life(idle=self._idle, owners=self._owners),
                files=SessionFolder(self.root),
                archive=self._archive,
                checkpoints=self._bounds.keepers,
                checkpoint_space=self._bounds.space,
                checkpoint_store=lambda: existing_store(self.root),
            )
        )

    @property
    def archive(self) -> Archive:
        """The sessions that left the store for the archive."""
        return self._doers.archive.reader

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        return self._doers.doer(kind, action)

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        life = Life(idle=self._idle, owners=self._owners)
        found = artifact_scan.scan(self.root, now, life, progress)
        log = self.log.read()
        store = self.session_store()
        files, bundles, problems = self._archived()
        inventory = Inventory(
            home=str(self.root),
            scanned_at=now,
            items=(*self._stored(store, wanted, now), *found.items, *files),
            trash=trash_of(log.trash),
            space=() if store is None else (survey.space(store.database, DATABASE),),
            problems=(*found.problems, *problems, *log.problems),
            other_bytes=found.other_bytes,
            archived=bundles,
        )
        return counted(
            inventory,
            self._places(),
            whole=wanted is None,
            checkpoint_trash=beside_checkpoints(log.trash),
        )

    def has_checkpoints(self) -> bool:
        return (self.root / checkpoints.FOLDER).is_dir()

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoint store; None when there is neither one nor an older layout."""
        if not self.has_checkpoints():
            return None
        store = checkpoint_store(self.root) if how is None else checkpoint_store(self.root, how)
        return store if store.layout.exists() or store.list() else None

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._bounds.upkeep

    own_checkpoint_upkeep = checkpoint_upkeep

    def session_store(self) -> SqliteSessionStore | None:
        """The session store, opened once; None when there is none. Creates nothing."""
        path = self.root / DATABASE
        if self._store is None and path.exists():
            self._store = SqliteSessionStore(path, create=False)
        return self._store

    def create_session_store(self) -> SqliteSessionStore:
        """The session store, made when there is none."""
        if self._store is None:
            self._store = SqliteSessionStore(self.root / DATABASE)
        return self._store

    def replacing(self, command: str) -> AbstractContextManager[Replacing]:
        """For an import that replaces sessions: what it replaces goes into the archive."""
        from holdfast.homes.replacing import replacing

        archive = self._doers.archive
        return replacing(self, archive.folder, archive.packer, command=command, clock=self._clock)

    def close(self) -> None:
        """Close the session store, if it was opened. It opens again when somebody asks for it."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def checkup(self) -> HomeCheckup:
        """How to look this home over, and to mend it."""
        from holdfast.homes.checkup import HomeCheckup

        return HomeCheckup(self.root, DATABASE, self.log, self._trash, self.archive)

    def _stored(
        self, store: SqliteSessionStore | None, wanted: SessionFilter | None, now: float
    ) -> Sequence[Item]:
        if store is None:
            return ()
        return store.survey(wanted or SessionFilter(), now=now, life=self._life)

    def _archived(self) -> tuple[Sequence[Item], int, Sequence[Problem]]:
        """Archived files of sessions that are in the store, which stay and go with those; how many
        bundles there are beside them; and why it could not be looked at."""
        folder = archive_folder(self.root, self._archive)
        if not folder.is_dir() or folder.is_symlink():
            return (), 0, ()
        try:
            bundles = self.archive.items()
        except StorageError as error:
            return (), 0, (Problem(path=str(folder), reason=error.message),)
        files = [item for item in bundles if item.kind == ARCHIVED_FILES]
        owners = self._owners([item.session for item in files])
        owned = [
            replace(item, owned=True, capped_elsewhere=True)
            for item in files
            if item.session in owners
        ]
        return owned, len(bundles) - len(owned), ()

    def _places(self) -> Places:
        root = self.root
        return Places(
            root=root,
            sessions=root / artifact_scan.FOLDER,
            database=root / DATABASE,
            trash=root / "trash",
            log=root / "operations",
            archive=archive_folder(root, self._archive),
            checkpoints=(root / checkpoints.FOLDER,),
        )

    def _owners(self, ids: Sequence[str]) -> Mapping[str, Owner]:
        """The sessions in the store among those that files name."""
        store = self.session_store()
        return {} if store is None or not ids else survey.owners(store.database, ids)
