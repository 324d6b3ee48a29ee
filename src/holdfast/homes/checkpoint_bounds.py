"""The checkpoint folder of a home, put together: who moves, who reclaims, who looks after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from holdfast.homes.checkpoint_doers import CheckpointSpace
from holdfast.homes.checkpoint_movers import CheckpointMover, LegacyMover
from holdfast.homes.checkpoint_scan import CheckpointFolder
from holdfast.homes.checkpoints import FOLDER
from holdfast.model.item import CHECKPOINT, LEGACY
from holdfast.model.operation import LogView
from holdfast.ports import Space
from holdfast.spine.keeper import Keeper
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.trash_folder import TrashFolder


class CheckpointBounds:
    """`keepers` are those of what leaves the checkpoint folder, by kind; `space` gives back its
    space. `limit` is the cap on its bytes."""

    def __init__(
        self,
        root: Path,
        trash: TrashFolder,
        log: Callable[[], LogView],
        limit: int | None = None,
    ) -> None:
        self._root = root
        self._log = log
        self._limit = limit
        self._layout = Layout(folder=root / FOLDER)
        self.keepers: Mapping[str, Keeper] = {
            CHECKPOINT: Keeper(CheckpointMover(self._layout)),
            LEGACY: Keeper(LegacyMover(self._layout, trash)),
        }
        self.space: Space = CheckpointSpace(self._layout, limit)

    @cached_property
    def upkeep(self) -> CheckpointFolder:
        return CheckpointFolder(self._root, self._layout, self._log, self._limit)
