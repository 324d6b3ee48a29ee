"""Who changes a home: the doers by kind and action, and the archive. The same for every home.

A home loads this module on first use: looking at a home takes half of what this one imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.homes.archive import HomeArchive
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_rows import Rows
from holdfast.homes.artifact_scan import Life
from holdfast.homes.artifacts import ArtifactMover
from holdfast.homes.checkpoint_doers import RollBack
from holdfast.homes.options import ArchiveOptions
from holdfast.homes.session_doers import EndAbandoned, SessionSpace
from holdfast.homes.session_mover import SessionMover, bundles
from holdfast.model.arguments import check_id
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
from holdfast.ports import CheckpointStore, Clock, Doer, OperationLog, SessionEngines, Space
from holdfast.spine.doers import EmptyTrash, Reclaim
from holdfast.spine.keeper import Keeper
from holdfast.stores.trash_folder import TrashFolder
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeParts:
    """What a home is made of, for those that change it. `engine` and `rows` give None for a home
    without a session store; `database` is the name of its file. `checkpoints` are the keepers of
    what leaves the checkpoint folder."""

    root: Path
    state: Path
    clock: Clock
    log: OperationLog
    trash: TrashFolder
    database: str
    engine: SessionEngines
    rows: Callable[[], Rows | None]
    life: Life
    files: SessionFolder
    archive: ArchiveOptions
    checkpoints: Mapping[str, Keeper]
    checkpoint_space: Space
    checkpoint_store: Callable[[], CheckpointStore | None]
    check_id: Callable[[str], str] = check_id


class HomeDoers:
    """The doers of one home, and its archive."""

    def __init__(self, parts: HomeParts) -> None:
        self._root = parts.root
        loose = Keeper(ArtifactMover(parts.root, parts.trash, parts.clock, parts.life))
        self.archive = HomeArchive(
            parts.files,
            loose,
            parts.trash,
            parts.state,
            parts.archive,
            parts.rows,
            parts.clock,
            parts.check_id,
        )
        keepers: Mapping[str, Keeper] = {
            SESSION: Keeper(SessionMover(parts.engine, parts.trash)),
            TRANSCRIPT: loose,
            REQUEST_DUMP: loose,
            **parts.checkpoints,
            **self.archive.keepers,
        }
        space = SessionSpace(parts.engine, lambda name: bundles(parts.trash, name))
        spaces = {parts.database: space, CHECKPOINT_SPACE: parts.checkpoint_space}
        self._doers: Mapping[tuple[str, Action], Doer] = {
            **{(kind, Action.REMOVE): keeper for kind, keeper in keepers.items()},
            (SESSION, Action.END): EndAbandoned(parts.engine, parts.clock),
            (SPACE, Action.RECLAIM): Reclaim(spaces),
            (PROJECT, Action.ROLL_BACK): RollBack(parts.checkpoint_store, parts.clock),
            (TRASH, Action.REMOVE): EmptyTrash(lambda: parts.log.read().trash, keepers),
            **self.archive.doers,
        }

    def doer(self, kind: str, action: Action) -> Doer:
        try:
            return self._doers[kind, action]
        except KeyError:
            raise UsageError(
                f"{self._root} has nothing of kind {kind!r} to {action.value}."
            ) from None
