"""Holdfast's own home.

config.toml          settings
sessions/            transcripts and request dumps
operations/          the operation log, and the lock of whoever changes the home
trash/               undo copies, by operation
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.homes import artifact_scan, checkpoints
from holdfast.homes.abandoned_keeper import AbandonedKeeper
from holdfast.homes.archive import HomeArchive
from holdfast.homes.archive_rows import StoreRows
from holdfast.homes.artifact_scan import Life
from holdfast.homes.artifacts import ArtifactKeeper
from holdfast.homes.checkpoint_bounds import CheckpointBounds
from holdfast.homes.checkpoints import existing_store
from holdfast.homes.checkup import HomeCheckup
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.homes.rollback_keeper import RollbackKeeper
from holdfast.homes.session_keeper import SessionKeeper, bundles
from holdfast.homes.space_keeper import SpaceKeeper
from holdfast.homes.space_keepers import SpaceKeepers
from holdfast.homes.trash_keeper import TrashKeeper
from holdfast.model.inventory import Inventory, Problem
from holdfast.model.item import (
    CHECKPOINT_KINDS,
    CHECKPOINT_SPACE,
    PROJECT,
    REQUEST_DUMP,
    SESSION,
    SPACE,
    TRANSCRIPT,
    TRASH,
    Item,
)
from holdfast.model.plan import Action
from holdfast.model.session import SessionFilter
from holdfast.ports import CheckpointUpkeep, Clock, Keeper, Progress
from holdfast.stores import processes
from holdfast.stores.files import allocated_bytes
from holdfast.stores.operation_log import FileOperationLog
from holdfast.stores.sqlite import survey
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.sqlite.survey import LifeSigns, Owner
from holdfast.stores.trash_folder import TrashFolder

KIND = "holdfast"
DEFAULT_FOLDER = ".holdfast"
DATABASE = "sessions.db"
SIGNS = (DATABASE, "operations", "config.toml", artifact_scan.FOLDER, checkpoints.FOLDER)


def recognise(root: Path) -> bool:
    return any((root / sign).exists() for sign in SIGNS)


class HoldfastHome:
    """A home of kind `holdfast`. Opening and scanning it create nothing."""

    kind = KIND

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        idle: float | None = None,
        options: HomeOptions = USUAL,
    ) -> None:
        self.root = root
        self._clock = clock
        self._store: SqliteSessionStore | None = None
        trash = root / "trash"
        self.log = FileOperationLog(root / "operations", trash)
        self._idle = options.idle if idle is None else idle
        self._life = LifeSigns(is_dead=processes.is_dead, abandoned_after=options.abandoned_after)
        self._bounds = CheckpointBounds(root, TrashFolder(trash), self.log.read)
        archive = HomeArchive(root, options.archive, self._rows, clock)
        self.archive = archive.reader
        self._keepers = {**self._make_keepers(TrashFolder(trash)), **archive.keepers}

    def _make_keepers(self, trash: TrashFolder) -> Mapping[tuple[str, Action], Keeper]:
        clock, store, life = self._clock, self.session_store, self._life
        files = ArtifactKeeper(self.root, trash, clock, Life(idle=self._idle, owners=self._owners))
        return {
            (SESSION, Action.REMOVE): SessionKeeper(store, trash, clock, life),
            (SESSION, Action.END): AbandonedKeeper(store, clock, life),
            (SPACE, Action.RECLAIM): SpaceKeepers(
                {
                    DATABASE: SpaceKeeper(store, lambda name: bundles(trash, name)),
                    CHECKPOINT_SPACE: self._bounds.space,
                }
            ),
            (TRANSCRIPT, Action.REMOVE): files,
            (REQUEST_DUMP, Action.REMOVE): files,
            (PROJECT, Action.ROLL_BACK): RollbackKeeper(lambda: existing_store(self.root), clock),
            (TRASH, Action.REMOVE): TrashKeeper(lambda: self.log.read().trash, self.keeper),
            **self._bounds.keepers,
        }

    def keeper(self, kind: str, action: Action = Action.REMOVE) -> Keeper:
        try:
            return self._keepers[kind, action]
        except KeyError:
            raise UsageError(
                f"{self.root} has nothing of kind {kind!r} to {action.value}."
            ) from None

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
        beside, problems = _beside(self.root)
        store = self.session_store()
        return Inventory(
            home=str(self.root),
            scanned_at=now,
            items=(*self._stored(store, wanted, now), *found.items),
            # That of checkpoints is bounded with them.
            trash=tuple(
                entry.as_item()
                for entry in log.trash
                if entry.removal.item.kind not in CHECKPOINT_KINDS
            ),
            space=() if store is None else (survey.space(store.database, DATABASE),),
            problems=(*found.problems, *problems, *log.problems),
            other_bytes=found.other_bytes + beside,
        )

    def has_checkpoints(self) -> bool:
        return self._bounds.exists()

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._bounds.upkeep

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

    def checkup(self) -> HomeCheckup:
        """How to look this home over, and to mend it."""
        return HomeCheckup(self.root, DATABASE, self.log, TrashFolder(self.root / "trash"))

    def _rows(self) -> StoreRows | None:
        store = self.session_store()
        return None if store is None else StoreRows(store, self._clock, self._life)

    def _stored(
        self, store: SqliteSessionStore | None, wanted: SessionFilter | None, now: float
    ) -> Sequence[Item]:
        if store is None:
            return ()
        return store.survey(wanted or SessionFilter(), now=now, life=self._life)

    def _owners(self, ids: Sequence[str]) -> Mapping[str, Owner]:
        """The sessions in the store among those that files name."""
        store = self.session_store()
        return {} if store is None or not ids else survey.owners(store.database, ids)


def _beside(root: Path) -> tuple[int, list[Problem]]:
    """The bytes of everything that no item stands for."""
    total = 0
    problems: list[Problem] = []

    def unreadable(error: OSError) -> None:
        problems.append(Problem(path=str(error.filename), reason=str(error.strerror)))

    for folder, folders, files in os.walk(root, onerror=unreadable):
        if Path(folder) == root:
            # Counted by their own scans; a link of that name is not followed.
            folders[:] = [name for name in folders if name not in (artifact_scan.FOLDER, "trash")]
            files[:] = [name for name in files if name not in (DATABASE, f"{DATABASE}-wal")]
        for name in files:
            try:
                total += allocated_bytes(Path(folder, name).lstat())
            except FileNotFoundError:
                continue
    return total, problems
