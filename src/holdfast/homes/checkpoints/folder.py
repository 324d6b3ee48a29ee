"""The checkpoint folder of a home: its contents, its size, and its maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.homes.checkpoints.movers import CheckpointMover, CheckpointSpace, LegacyMover
from holdfast.homes.checkpoints.open_store import FOLDER, checkpoint_store
from holdfast.homes.home import Ground
from holdfast.homes.home_bytes import beside_checkpoints
from holdfast.model.checkpoint import Capturing, Project
from holdfast.model.checkpoint_inventory import CheckpointInventory, Weights
from holdfast.model.checkup import Verification
from holdfast.model.item import (
    CHECKPOINT,
    CHECKPOINT_KINDS,
    CHECKPOINT_SPACE,
    LEGACY,
    SPACE,
    UNKNOWN_SOURCE,
    Item,
    Problem,
)
from holdfast.model.operation import LogView, TrashEntry
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Space
from holdfast.spine.keeper import Keeper
from holdfast.stores.checkpoints import finder, join_packs, older_layout, reclaim, verify
from holdfast.stores.checkpoints.checkpoint_commit import Ref, all_refs
from holdfast.stores.checkpoints.checkpoint_items import items
from holdfast.stores.checkpoints.object_graph import Measured, measure
from holdfast.stores.checkpoints.projects import (
    ProjectRecord,
    kept_for_runs,
    recorded,
    state_without_record,
)
from holdfast.stores.checkpoints.repository import LEGACY_PREFIX, Layout, opened, used
from holdfast.stores.checkpoints.size_cap import store_bytes
from holdfast.stores.files import allocated_below
from holdfast.value import replace

_HOLDER = "checkpoints prune"


class OwnCheckpoints:
    """The checkpoints that Holdfast takes in a home: their keepers, reclaiming, and maintenance."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        limit = ground.options.checkpoint_bytes
        layout = Layout(folder=ground.state / FOLDER)
        self.keepers: Mapping[str, Keeper] = {
            CHECKPOINT: Keeper(CheckpointMover(layout)),
            LEGACY: Keeper(LegacyMover(layout, ground.trash)),
        }
        self.space: Space = CheckpointSpace(layout, limit)
        self.upkeep = self.own_upkeep = CheckpointFolder(
            ground.root, layout, ground.log.read, limit
        )

    def check_writable(self) -> None:
        """A store of ours may always be changed."""

    def store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """Return the store; None if there is neither a checkpoint nor an older layout."""
        ground = self._ground
        if not (ground.state / FOLDER).is_dir():
            return None
        store = checkpoint_store(ground.state, how or Capturing(), home=ground.root)
        return store if store.layout.exists() or store.list() else None


class CheckpointFolder:
    """The bounds of a checkpoint folder. Reading it creates nothing. `limit` is the cap on its
    bytes: packing never takes more than twice that."""

    def __init__(
        self,
        home: Path,
        layout: Layout,
        log: Callable[[], LogView],
        limit: int | None = None,
    ) -> None:
        self._home = home
        self._layout = layout
        self._log = log
        self._limit = limit

    def scan(self, now: float) -> CheckpointInventory:
        log = self._log()
        older = older_layout.items(self._layout)
        trash = [entry for entry in log.trash if entry.removal.item.kind in CHECKPOINT_KINDS]
        found = CheckpointInventory(
            home=str(self._home),
            projects={},
            checkpoints=(),
            trash=tuple(entry.as_item() for entry in trash),
            legacy=tuple(older),
            older=older_projects(older),
            total_bytes=beside_checkpoints(trash),
            weights=Weights((), (), {}),
        )
        if not self._layout.exists():
            beside = allocated_below(self._layout.folder)
            return replace(found, total_bytes=found.total_bytes + beside)
        with used(self._layout):
            refs = all_refs(self._layout)
            objects = opened(self._layout)
            measured = measure(self._layout, objects, refs)
            records = recorded(self._layout)
            projects = finder.projects(self._layout)
        shown = [ref for ref in refs if not ref.operation]
        ids = {ref.checkpoint for ref in shown}
        # A checkpoint with both names was about to be hidden; it is still listed.
        rotated = [ref for ref in refs if ref.rotated and ref.checkpoint not in ids]
        weights = measured.weights
        return replace(
            found,
            projects={project.id: project for project in projects},
            checkpoints=tuple(items(self._layout, objects, shown, records, weights)),
            rotated=tuple(items(self._layout, objects, rotated, {}, weights)),
            space=(_space(measured, now),),
            names=_names(records.values()),
            needed=_needed(log.rolled_back),
            ways_back=frozenset().union(
                *(kept_for_runs(self._layout.private(project)) for project in records)
            ),
            total_bytes=found.total_bytes + measured.total_bytes,
            garbage=measured.garbage,
            weights=weights,
            problems=(*_unknown(refs, trash), *_damage(measured)),
        )

    def note(self, now: float) -> None:
        """Nothing to do: everything is noted when a checkpoint is taken."""

    def pack(self) -> int:
        """Make the store as small as possible without dropping anything; return the bytes freed."""
        if not self._layout.exists():
            return 0
        done = reclaim.reclaim(self._layout, holder=_HOLDER, thorough=True, limit=self._limit)
        return done.freed

    def tidy(self) -> bool:
        """Do the cheap part of packing if it is due."""
        if not self._layout.exists():
            return False
        if self._limit is not None and store_bytes(self._layout) > self._limit:
            return False  # joining copies packs, and there is no room for that
        return join_packs.join_if_many(self._layout)

    def verify(self) -> Verification:
        return verify.verify(self._layout)


def older_projects(found: Iterable[Item]) -> Mapping[str, Project]:
    """Return the projects of older repositories that were not moved aside yet."""
    return {
        each.id: Project(
            id=each.id,
            workdir=workdir,
            state=state_without_record(workdir),
            checkpoints=0,
            last_touch=each.last_active_at,
        )
        for each in found
        if not each.id.startswith(LEGACY_PREFIX)
        for workdir in ["" if each.source == UNKNOWN_SOURCE else each.source]
    }


def _space(measured: Measured, now: float) -> Item:
    return Item(
        kind=SPACE,
        id=CHECKPOINT_SPACE,
        bytes=reclaim.expected(measured),
        last_active_at=now,
        version=CHECKPOINT_SPACE,
    )


def _names(records: Iterable[ProjectRecord]) -> Mapping[str, str]:
    return {checkpoint: name for record in records for checkpoint, name in record.names.items()}


def _needed(rolled_back: Sequence[TrashEntry]) -> Mapping[str, float]:
    """Return the two checkpoints of the latest rollback of each project, with its time."""
    latest = {entry.removal.item.id: entry for entry in rolled_back}
    return {
        checkpoint: entry.removed_at
        for entry in latest.values()
        for checkpoint in (entry.removal.item.version, entry.removal.item.target)
    }


def _unknown(refs: Iterable[Ref], trash: Sequence[TrashEntry]) -> Iterator[Problem]:
    known = {(entry.removal.operation, entry.removal.number) for entry in trash}
    for ref in refs:
        if ref.operation and not ref.rotated and (ref.operation, ref.number) not in known:
            yield Problem(
                path=ref.path, reason="in the trash of an operation that is not in the log"
            )


def _damage(measured: Measured) -> Iterator[Problem]:
    for oid in measured.damaged:
        yield Problem(path=oid, reason="missing from the checkpoint store, or damaged")
