"""The checkpoints of a Hermes home: their movers, their sizes, and the upkeep of their limits.

Two folders share the limits: that of Hermes, and that of Holdfast in the same home, which holds
safety checkpoints and copies of Hermes's checkpoints that were compared or restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.checkpoints.folder import CheckpointFolder, OwnCheckpoints, older_projects
from holdfast.homes.checkpoints.movers import CheckpointMover, LegacyMover
from holdfast.homes.checkpoints.open_store import FOLDER, checkpoint_store
from holdfast.homes.hermes.checkpoints_mover import BothCheckpoints, HermesCheckpointMover
from holdfast.homes.hermes.repository import listing, reclaim
from holdfast.homes.hermes.repository.adoption import is_copy
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.layout import (
    PROJECT_PREFIX,
    REFS,
    HermesLayout,
    read_record,
    read_records,
    unreadable,
)
from holdfast.homes.hermes.repository.locks import changing
from holdfast.homes.hermes.repository.notes import (
    Notes,
    is_unreadable,
    items,
    marks,
    read_notes,
    write_notes,
)
from holdfast.homes.hermes.repository.quarantine import Quarantine
from holdfast.homes.hermes.repository.store import HermesCheckpointStore
from holdfast.homes.hermes.repository.why_read_only import check_known, doubt, who_runs
from holdfast.homes.home import Ground
from holdfast.model.checkpoint import Capturing
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.checkup import Verification
from holdfast.model.item import CHECKPOINT, CHECKPOINT_SPACE, LEGACY, SPACE, Item, Problem
from holdfast.model.operation import LogView, Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports.checkpoints import CheckpointStore, CheckpointUpkeep
from holdfast.ports.runs import Clock, Space
from holdfast.spine.keeper import Keeper, in_a_word
from holdfast.stores.checkpoints import older_layout
from holdfast.stores.checkpoints.object_graph import Measured, measure
from holdfast.stores.checkpoints.projects import whereabouts
from holdfast.stores.checkpoints.repository import LEGACY_PREFIX, Layout
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.files import allocated_below
from holdfast.value import replace

_NOTES = "hermes"
_HOLDER = "checkpoints prune"
_OURS = "Holdfast"
_IN_USE = "it may write into repositories of the older layout"
#: Bytes that a run may add besides objects: the file of cuts, and the last blocks of a new pack and
#: its index.
_ROUNDING = 3 * 4_096


class HermesCheckpoints:
    """Hermes's checkpoints, and those that Holdfast takes for it. `keepers`, by kind, remove items
    from the checkpoint folders; `space` reclaims their space."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        notes = ground.state / FOLDER / _NOTES
        self._layout = HermesLayout(folder=ground.root / FOLDER, notes=notes)
        self._own_layout = Layout(folder=ground.state / FOLDER)
        self._own = OwnCheckpoints(ground)
        theirs = HermesCheckpointMover(self._layout, self._running)
        older = LegacyMover(self._layout, ground.trash, self._protects)
        self.keepers: Mapping[str, Keeper] = {
            CHECKPOINT: Keeper(BothCheckpoints(theirs, CheckpointMover(self._own_layout))),
            LEGACY: Keeper(older),
        }
        self.space: Space = HermesCheckpointSpace(self._layout, self._own.space, ground.clock)

    def check_writable(self) -> None:
        """Raise `SchemaError` if the checkpoint store may only be read."""
        if self._layout.exists():
            check_known(self._layout)

    @cached_property
    def upkeep(self) -> CheckpointUpkeep:
        return HermesCheckpointFolder(self._layout, self._own.upkeep, self._ground)

    @cached_property
    def own_upkeep(self) -> CheckpointUpkeep:
        """The upkeep of Holdfast's folder alone."""
        ground = self._ground
        limit = ground.options.checkpoint_bytes
        return CheckpointFolder(
            ground.root, self._own_layout, lambda: _ours(ground.log.read()), limit
        )

    def store(self, how: Capturing | None = None) -> CheckpointStore:
        """The checkpoints of Hermes and of Holdfast in this home."""
        wanted = how or Capturing()
        own = checkpoint_store(self._ground.state, wanted, home=self._ground.root)
        return HermesCheckpointStore(self._layout, own, here=wanted.here)

    def _running(self) -> str | None:
        return who_runs(self._layout)

    def _protects(self, item: PlanItem) -> str | None:
        """A Hermes from before the current layout writes into older repositories that were not
        moved aside. They stay while a Hermes is running that may be that old."""
        if item.id.startswith(LEGACY_PREFIX) or self._layout.exists():
            return None  # Hermes no longer writes there
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


class HermesCheckpointFolder:
    """The upkeep of both folders. Looking at them creates nothing."""

    def __init__(self, layout: HermesLayout, own: CheckpointFolder, ground: Ground) -> None:
        self._layout = layout
        self._own = own
        self._ground = ground
        self._reserved = 0

    def scan(self, now: float) -> CheckpointInventory:
        own = self._own.scan(now)
        older = older_layout.items(self._layout)
        stored = ShadowGitStore(self._ground.state / FOLDER).list()
        copies = Counter(each.project for each in stored if is_copy(each))
        both = replace(
            own,
            projects={
                # A copy of a Hermes checkpoint, made to compare or restore it, is listed with
                # Hermes's project.
                key: replace(each, by=_OURS, checkpoints=each.checkpoints - copies[key])
                for key, each in own.projects.items()
            },
            legacy=(*own.legacy, *older),
            older={**own.older, **older_projects(older)},
            total_bytes=own.total_bytes + allocated_below(self._layout.folder) + self._reserved,
        )
        return self._with_store(both, now) if self._layout.exists() else both

    def note(self, now: float) -> None:
        """Note the disk and the record of each Hermes project."""
        if self._layout.exists() and doubt(self._layout) is None:
            self._reserved = _ROUNDING
            if Quarantine(self._layout.store).is_left:
                with changing(self._layout, holder=_HOLDER):
                    pass  # taking the lock restores what a killed run had moved aside
            readable = (p for p in read_records(self._layout) if not is_unreadable(self._layout, p))
            seen = {project: self._seen(project, now) for project in readable}
            if any(notes != read_notes(self._layout, each) for each, notes in seen.items()):
                with changing(self._layout, holder=_HOLDER):
                    for project in seen:
                        write_notes(self._layout, project, self._seen(project, now))

    def pack(self) -> int:
        """Repack both stores to their smallest form without dropping anything."""
        freed = self._own.pack()
        if self._layout.exists() and doubt(self._layout) is None:
            now = self._ground.clock()
            freed += reclaim.reclaim(self._layout, now=now, holder=_HOLDER, thorough=True).freed
        return freed

    def tidy(self) -> bool:
        return self._own.tidy()

    def verify(self) -> Verification:
        theirs, ours = listing.verify(self._layout), self._own.verify()
        return Verification(
            checkpoints=theirs.checkpoints + ours.checkpoints,
            problems=(*theirs.problems, *ours.problems),
        )

    def _with_store(self, own: CheckpointInventory, now: float) -> CheckpointInventory:
        chains = Chains.look(self._layout)
        measured = measure(self._layout, chains.trees.objects, list(chains.refs()))
        projects = listing.projects(self._layout, chains)
        named = marks(self._layout, chains)
        weights = own.weights.union(measured.weights)
        space = Item(
            kind=SPACE,
            id=CHECKPOINT_SPACE,
            bytes=measured.garbage + sum(item.bytes for item in own.space),
            last_active_at=now,
            version=CHECKPOINT_SPACE,
        )
        return replace(
            own,
            projects={**own.projects, **{each.id: each for each in projects}},
            checkpoints=(*own.checkpoints, *items(self._layout, chains, weights)),
            space=(space,),
            garbage=own.garbage + measured.garbage,
            names={**own.names, **{key: each.name for key, each in named.items() if each.name}},
            weights=weights,
            problems=(*own.problems, *self._problems(chains, measured)),
        )

    def _seen(self, project: str, now: float) -> Notes:
        """The notes on a project, updated from what can be seen now."""
        notes, record = read_notes(self._layout, project), read_record(self._layout, project)
        if record is None or record.last_touch > now or not Path(record.workdir).is_dir():
            return notes
        mount, disk = whereabouts(Path(record.workdir).resolve())
        return replace(notes, record=record, mount=mount, disk=disk)

    def _problems(self, chains: Chains, measured: Measured) -> Iterator[Problem]:
        why = doubt(self._layout)
        if why is not None:
            reason = f"{why}; it can be read, but is never changed"
            yield Problem(path=str(self._layout.store), reason=reason)
        for project in unreadable(self._layout):
            yield Problem(path=f"{REFS}{project}", reason="this reference cannot be read")
        log = self._ground.log.read()
        known = {(each.removal.operation, each.removal.number) for each in log.trash}
        for ref in chains.trash:
            if (ref.operation, ref.number) not in known:
                reason = "in the trash of an operation that is not in the log"
                yield Problem(path=ref.path, reason=reason)
        for oid in measured.damaged:
            reason = "missing from Hermes's checkpoint store, or damaged"
            yield Problem(path=oid, reason=reason)


class HermesCheckpointSpace:
    """Reclaims what neither Hermes's checkpoint store nor ours needs; `own` reclaims ours."""

    def __init__(self, layout: HermesLayout, own: Space, clock: Clock) -> None:
        self._layout = layout
        self._own = own
        self._clock = clock

    def measure(self) -> None:
        """Nothing to do: reclaiming measures on its own."""

    def give_back(self, removal: Removal) -> Outcome:
        own = self._own.give_back(removal)
        if not self._layout.exists():
            return own
        try:
            done = reclaim.reclaim(self._layout, now=self._clock(), holder=_HOLDER)
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message, freed=own.bytes_freed)
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error), freed=own.bytes_freed)
        ours = own.reason if own.result is not Result.SKIPPED else ""
        note = "; ".join(each for each in (done.note, ours) if each)
        result = Result.FAILED if own.result is Result.FAILED else Result.RECLAIMED
        return removal.end(result, note, freed=done.freed + own.bytes_freed)
