"""The checkpoints of a Hermes home, put together: who moves them, who bounds them, their store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from holdfast.homes.checkpoint_folder import CheckpointFolder
from holdfast.homes.checkpoint_movers import CheckpointMover, CheckpointSpace, LegacyMover
from holdfast.homes.checkpoints import FOLDER, checkpoint_store
from holdfast.homes.hermes.checkpoints_mover import BothCheckpoints, HermesCheckpointMover
from holdfast.homes.hermes.checkpoints_scan import HermesCheckpointFolder, HermesCheckpointSpace
from holdfast.homes.hermes.repository.doubts import check_known, who_runs
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout
from holdfast.homes.hermes.repository.store import HermesCheckpointStore
from holdfast.homes.home import Ground
from holdfast.model.checkpoint import Capturing
from holdfast.model.item import CHECKPOINT, LEGACY
from holdfast.model.operation import LogView
from holdfast.model.plan import PlanItem
from holdfast.ports import CheckpointStore, CheckpointUpkeep, Space
from holdfast.spine.keeper import Keeper
from holdfast.stores.checkpoints.repository import LEGACY_PREFIX, Layout
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.value import replace

_NOTES = "hermes"
_IN_USE = "it may write into repositories of the older layout"


class HermesCheckpoints:
    """Hermes's checkpoints and those that Holdfast takes for it. `keepers` are those of what leaves
    the checkpoint folders, by kind; `space` gives back their space."""

    def __init__(self, ground: Ground) -> None:
        self._root = root = ground.root
        self._state = state = ground.state
        self._limit = limit = ground.options.checkpoint_bytes
        self._log = ground.log.read
        self._clock = ground.clock
        self._layout = HermesLayout(folder=root / FOLDER, notes=state / FOLDER / _NOTES)
        self._own_layout = Layout(folder=state / FOLDER)
        theirs = HermesCheckpointMover(self._layout, self._running)
        older = LegacyMover(self._layout.shape, ground.trash, self._protects)
        self.keepers: Mapping[str, Keeper] = {
            CHECKPOINT: Keeper(BothCheckpoints(theirs, CheckpointMover(self._own_layout))),
            LEGACY: Keeper(older),
        }
        own_space = CheckpointSpace(self._own_layout, limit)
        self.space: Space = HermesCheckpointSpace(self._layout, own_space, ground.clock)

    def check_writable(self) -> None:
        """Raise `SchemaError` for a checkpoint store that may only be read."""
        if self._layout.exists():
            check_known(self._layout)

    @cached_property
    def upkeep(self) -> CheckpointUpkeep:
        mine = CheckpointFolder(self._root, self._own_layout, self._log, self._limit)
        store = ShadowGitStore(self._state / FOLDER)
        return HermesCheckpointFolder(self._layout, mine, store, self._log, self._clock)

    @cached_property
    def own_upkeep(self) -> CheckpointUpkeep:
        """Without what is Hermes's."""
        return CheckpointFolder(
            self._root, self._own_layout, lambda: _ours(self._log()), self._limit
        )

    def store(self, how: Capturing | None = None) -> CheckpointStore:
        """The checkpoints of Hermes and of Holdfast in this home."""
        wanted = how or Capturing()
        own = checkpoint_store(self._state, wanted, home=self._root)
        return HermesCheckpointStore(self._layout, own, here=wanted.here)

    def _running(self) -> str | None:
        return who_runs(self._layout)

    def _protects(self, item: PlanItem) -> str | None:
        """An older Hermes writes into older repositories that nobody moved aside. So they stay
        while a Hermes runs that may be so old."""
        if item.id.startswith(LEGACY_PREFIX) or self._layout.exists():
            return None  # no Hermes writes there any more
        why = self._running()
        return None if why is None else f"{why}; {_IN_USE}"


def _ours(log: LogView) -> LogView:
    """The log without the trash of Hermes's checkpoints."""
    mine = [
        each
        for each in log.trash
        if each.removal.item.kind == CHECKPOINT
        and not each.removal.item.source.startswith(PROJECT_PREFIX)
    ]
    return replace(log, trash=tuple(mine))
