"""Who changes a Holdfast home, and who reads its archive.

`homes/holdfast.py` loads this on first use: to look at a home takes half of these modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.homes.abandoned_keeper import AbandonedKeeper
from holdfast.homes.archive import HomeArchive
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_rows import StoreRows
from holdfast.homes.artifact_scan import Life
from holdfast.homes.artifacts import ArtifactKeeper
from holdfast.homes.checkpoint_bounds import CheckpointBounds
from holdfast.homes.checkpoints import existing_store
from holdfast.homes.options import ArchiveOptions
from holdfast.homes.rollback_keeper import RollbackKeeper
from holdfast.homes.session_engine import SqliteEngine
from holdfast.homes.session_keeper import SessionKeeper, bundles
from holdfast.homes.space_keeper import SpaceKeeper
from holdfast.homes.space_keepers import SpaceKeepers
from holdfast.homes.trash_keeper import TrashKeeper
from holdfast.model.item import (
    CHECKPOINT_SPACE,
    PROJECT,
    REQUEST_DUMP,
    SESSION,
    SPACE,
    TRANSCRIPT,
    TRASH,
)
from holdfast.model.plan import Action
from holdfast.ports import Clock, Keeper, OperationLog
from holdfast.stores.sqlite.leases import LifeSigns
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.trash_folder import TrashFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the keepers of a home share. `store` is None for a home that has none; `database` is
    the name of its file."""

    root: Path
    clock: Clock
    log: OperationLog
    trash: TrashFolder
    store: Callable[[], SqliteSessionStore | None]
    database: str
    files: Life
    life: LifeSigns
    archive: ArchiveOptions
    bounds: CheckpointBounds
    keeper: Callable[[str], Keeper]


class HoldfastKeepers:
    """`reader` is that of the archive; `keepers` are by kind and action."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        files = ArtifactKeeper(parts.root, parts.trash, parts.clock, parts.files)
        self.archive = HomeArchive(
            SessionFolder(parts.root),
            files,
            parts.root,
            parts.archive,
            self._rows,
            parts.clock,
        )
        self.reader = self.archive.reader
        self.keepers = {**self._made(files), **self.archive.keepers}

    def _made(self, files: ArtifactKeeper) -> Mapping[tuple[str, Action], Keeper]:
        parts, trash = self._parts, self._parts.trash
        space = SpaceKeeper(self._engine, lambda name: bundles(trash, name))
        return {
            (SESSION, Action.REMOVE): SessionKeeper(self._engine, trash),
            (SESSION, Action.END): AbandonedKeeper(self._engine, parts.clock),
            (SPACE, Action.RECLAIM): SpaceKeepers(
                {parts.database: space, CHECKPOINT_SPACE: parts.bounds.space}
            ),
            (TRANSCRIPT, Action.REMOVE): files,
            (REQUEST_DUMP, Action.REMOVE): files,
            (PROJECT, Action.ROLL_BACK): RollbackKeeper(
                lambda: existing_store(parts.root), parts.clock
            ),
            (TRASH, Action.REMOVE): TrashKeeper(lambda: parts.log.read().trash, parts.keeper),
            **parts.bounds.keepers,
        }

    def _engine(self) -> SqliteEngine | None:
        store = self._parts.store()
        return None if store is None else SqliteEngine(store, self._parts.clock, self._parts.life)

    def _rows(self) -> StoreRows | None:
        store, engine = self._parts.store(), self._engine()
        if store is None or engine is None:
            return None
        return StoreRows(store, engine, self._parts.clock)
