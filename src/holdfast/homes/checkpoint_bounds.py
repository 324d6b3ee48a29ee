"""Who keeps checkpoints and their space, loaded on first use.

git's library takes a tenth of a second, and most runs do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.homes.checkpoints import FOLDER
from holdfast.model.item import CHECKPOINT, LEGACY
from holdfast.model.operation import LogView, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome
from holdfast.ports import Keeper
from holdfast.stores.trash_folder import TrashFolder

if TYPE_CHECKING:
    from holdfast.homes.checkpoint_scan import CheckpointFolder
    from holdfast.stores.checkpoints.repository import Layout


class LateKeeper:
    """A keeper that is made when it is first asked for something."""

    def __init__(self, make: Callable[[], Keeper]) -> None:
        self._make = make

    @cached_property
    def _keeper(self) -> Keeper:
        return self._make()

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._keeper.prepare(items)

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.remove(batch)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.settle(batch)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.discard(batch)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.bring_back(batch)


class CheckpointBounds:
    """`keepers` are those of what leaves the checkpoint folder, `space` gives back its space.
    `limit` is the cap on its bytes."""

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
        self.keepers: Mapping[tuple[str, Action], Keeper] = {
            (CHECKPOINT, Action.REMOVE): LateKeeper(
                lambda: self._made("checkpoint_keeper", "CheckpointKeeper")
            ),
            (LEGACY, Action.REMOVE): LateKeeper(
                lambda: self._made("legacy_keeper", "LegacyKeeper", trash)
            ),
        }
        self.space: Keeper = LateKeeper(
            lambda: self._made("checkpoint_space", "CheckpointSpaceKeeper", self._limit)
        )

    def exists(self) -> bool:
        """Whether there is anything to bound."""
        return (self._root / FOLDER).is_dir()

    @cached_property
    def upkeep(self) -> CheckpointFolder:
        made: type[CheckpointFolder] = _loaded("homes.checkpoint_scan", "CheckpointFolder")
        return made(self._root, self._layout(), self._log, self._limit)

    def _made(self, module: str, name: str, *more: TrashFolder | int | None) -> Keeper:
        make: Callable[..., Keeper] = _loaded(f"homes.{module}", name)
        return make(self._layout(), *more)

    def _layout(self) -> Layout:
        make: type[Layout] = _loaded("stores.checkpoints.repository", "Layout")
        return make(folder=self._root / FOLDER)


def _loaded(module: str, name: str) -> Any:
    return getattr(import_module(f"holdfast.{module}"), name)
