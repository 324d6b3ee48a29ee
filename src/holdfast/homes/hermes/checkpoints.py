"""The checkpoints of a Hermes home, put together: who keeps them, who bounds them, their store.

Loaded on first use: git's library takes a tenth of a second, and most runs do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.homes.checkpoint_bounds import LateKeeper
from holdfast.homes.checkpoints import FOLDER, checkpoint_store
from holdfast.model.checkpoint import Capturing
from holdfast.model.item import CHECKPOINT, LEGACY
from holdfast.model.operation import LogView, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome
from holdfast.ports import CheckpointStore, CheckpointUpkeep, Clock, Keeper
from holdfast.stores.trash_folder import TrashFolder

if TYPE_CHECKING:
    from holdfast.homes.hermes.repository.layout import HermesLayout
    from holdfast.stores.checkpoints.repository import Layout

_NOTES = "hermes"
_PREFIX = "hermes-"


class HermesCheckpoints:
    """`root` is the home of Hermes, `state` the folder in it that is ours. `keepers` are those of
    what leaves the checkpoint folders, `space` gives back their space."""

    def __init__(
        self,
        root: Path,
        state: Path,
        trash: TrashFolder,
        log: Callable[[], LogView],
        clock: Clock,
        limit: int | None = None,
    ) -> None:
        self._root = root
        self._limit = limit
        self._state = state
        self._log = log
        self._clock = clock
        self._trash = trash
        self.keepers: Mapping[tuple[str, Action], Keeper] = {
            (CHECKPOINT, Action.REMOVE): LateKeeper(self._checkpoint_keeper),
            (LEGACY, Action.REMOVE): LateKeeper(self._legacy_keeper),
        }
        self.space: Keeper = LateKeeper(self._space_keeper)

    def exists(self) -> bool:
        """Whether there is anything to bound."""
        return (self._root / FOLDER).is_dir() or (self._state / FOLDER).is_dir()

    def check_writable(self) -> None:
        """Raise `SchemaError` for a checkpoint store that may only be read."""
        layout = self._layout()
        if layout.exists():
            _loaded("homes.hermes.repository.doubts", "check_known")(layout)

    @cached_property
    def upkeep(self) -> CheckpointUpkeep:
        own = _loaded("homes.checkpoint_scan", "CheckpointFolder")
        both = _loaded("homes.hermes.checkpoints_scan", "HermesCheckpointFolder")
        mine = own(self._root, self._own_layout(), self._log, self._limit)
        store = _loaded("stores.checkpoints.store", "ShadowGitStore")(self._state / FOLDER)
        upkeep: CheckpointUpkeep = both(self._layout(), mine, store, self._log, self._clock)
        return upkeep

    @cached_property
    def own_upkeep(self) -> CheckpointUpkeep:
        """Without what is Hermes's."""
        make = _loaded("homes.checkpoint_scan", "CheckpointFolder")
        upkeep: CheckpointUpkeep = make(
            self._root, self._own_layout(), lambda: _ours(self._log()), self._limit
        )
        return upkeep

    def store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoints of Hermes and of Holdfast in this home; None when there are none."""
        if not self.exists():
            return None
        wanted = how or Capturing()
        own = checkpoint_store(self._state, wanted, home=self._root)
        store: CheckpointStore = _loaded("homes.hermes.repository.store", "HermesCheckpointStore")(
            self._layout(), own, here=wanted.here
        )
        return store

    def _checkpoint_keeper(self) -> Keeper:
        theirs: Keeper = _loaded("homes.hermes.checkpoints_keeper", "HermesCheckpointKeeper")(
            self._layout(), self._running
        )
        ours: Keeper = _loaded("homes.checkpoint_keeper", "CheckpointKeeper")(self._own_layout())
        return _Both(theirs, ours)

    def _legacy_keeper(self) -> Keeper:
        layout = self._layout()
        folders = _loaded("homes.legacy_keeper", "LegacyKeeper")(layout.shape, self._trash)
        made: Keeper = _loaded("homes.hermes.checkpoints_legacy", "HermesLegacyKeeper")(
            layout, folders, self._running
        )
        return made

    def _running(self) -> str | None:
        who: str | None = _loaded("homes.hermes.repository.doubts", "who_runs")(self._layout())
        return who

    def _space_keeper(self) -> Keeper:
        own = _loaded("homes.checkpoint_space", "CheckpointSpaceKeeper")(
            self._own_layout(), self._limit
        )
        made: Keeper = _loaded("homes.hermes.checkpoints_space", "HermesSpaceKeeper")(
            self._layout(), own, self._clock
        )
        return made

    def _layout(self) -> HermesLayout:
        make: type[HermesLayout] = _loaded("homes.hermes.repository.layout", "HermesLayout")
        return make(folder=self._root / FOLDER, notes=self._state / FOLDER / _NOTES)

    def _own_layout(self) -> Layout:
        make: type[Layout] = _loaded("stores.checkpoints.repository", "Layout")
        return make(folder=self._state / FOLDER)


class _Both:
    """Checkpoints of Hermes and of Holdfast in one plan: each to its keeper."""

    def __init__(self, theirs: Keeper, ours: Keeper) -> None:
        self._theirs = theirs
        self._ours = ours

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._theirs.prepare([item for item in items if item.source.startswith(_PREFIX)])
        self._ours.prepare([item for item in items if not item.source.startswith(_PREFIX)])

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda keeper, some: keeper.remove(some))

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda keeper, some: keeper.settle(some))

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda keeper, some: keeper.discard(some))

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda keeper, some: keeper.bring_back(some))

    def _each(
        self,
        batch: Sequence[Removal],
        act: Callable[[Keeper, Sequence[Removal]], Sequence[Outcome]],
    ) -> Sequence[Outcome]:
        outcomes: dict[int, Outcome] = {}
        theirs = [each for each in batch if each.item.source.startswith(_PREFIX)]
        ours = [each for each in batch if not each.item.source.startswith(_PREFIX)]
        for keeper, some in ((self._theirs, theirs), (self._ours, ours)):
            if some:
                done = act(keeper, some)
                outcomes |= {each.number: one for each, one in zip(some, done, strict=True)}
        return [outcomes[each.number] for each in batch]


def _ours(log: LogView) -> LogView:
    """The log without the trash of Hermes's checkpoints."""
    mine = [
        each
        for each in log.trash
        if each.removal.item.kind == CHECKPOINT and not each.removal.item.source.startswith(_PREFIX)
    ]
    return replace(log, trash=tuple(mine))


def _loaded(module: str, name: str) -> Any:
    return getattr(import_module(f"holdfast.{module}"), name)
