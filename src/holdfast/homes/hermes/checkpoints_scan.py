"""The checkpoints of a Hermes home: what is there, what it weighs, and how it is looked after.

Two folders are bounded together: that of Hermes, and that of Holdfast in the same home, which holds
safety checkpoints and what was brought in to be restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.checkpoint_folder import CheckpointFolder, legacy_items, older_projects
from holdfast.homes.hermes.repository import listing, reclaim
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.doubts import doubt
from holdfast.homes.hermes.repository.layout import (
    REFS,
    HermesLayout,
    read_record,
    read_records,
    unreadable,
)
from holdfast.homes.hermes.repository.locks import changing
from holdfast.homes.hermes.repository.notes import Notes, items, marks, read_notes, write_notes
from holdfast.homes.hermes.repository.quarantine import Quarantine
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.checkup import Verification
from holdfast.model.item import CHECKPOINT_SPACE, SPACE, Item, Problem
from holdfast.model.operation import LogView, Removal
from holdfast.model.report import Outcome, Result
from holdfast.ports import Clock, Space
from holdfast.spine.keeper import in_a_word
from holdfast.stores.checkpoints import older_layout
from holdfast.stores.checkpoints.projects import whereabouts
from holdfast.stores.checkpoints.sizes import Measured, measure
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.files import allocated_below
from holdfast.value import dataclass, replace

_HOLDER = "checkpoints prune"
_OURS = "Holdfast"
#: What a run may leave beyond what objects weigh: the file of cuts, the last block of a new pack
#: and that of its index.
_ROUNDING = 3 * 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Hermes's store at one moment."""

    chains: Chains
    measured: Measured


class HermesCheckpointFolder:
    """The bounds of both folders. Looking at them creates nothing."""

    def __init__(
        self,
        layout: HermesLayout,
        own: CheckpointFolder,
        store: ShadowGitStore,
        log: Callable[[], LogView],
        clock: Clock,
    ) -> None:
        self._layout = layout
        self._own = own
        self._store = store
        self._log = log
        self._clock = clock
        self._reserved = 0

    def scan(self, now: float) -> CheckpointInventory:
        own = self._own.scan(now)
        single = older_layout.singles(self._layout.shape)
        copies = Counter(each.project for each in self._store.list() if each.origin is not None)
        beside = replace(
            own,
            projects={
                # What was brought in to be compared or restored is Hermes's, and listed as such.
                key: replace(each, by=_OURS, checkpoints=each.checkpoints - copies[key])
                for key, each in own.projects.items()
            },
            legacy=(*own.legacy, *legacy_items(self._layout.shape, single)),
            older={**own.older, **older_projects(single)},
            total_bytes=own.total_bytes + allocated_below(self._layout.folder) + self._reserved,
        )
        return self._with_store(beside, now) if self._layout.exists() else beside

    def note(self, now: float) -> None:
        """Which disk each project of Hermes lies on, and what its record says."""
        if self._layout.exists() and doubt(self._layout) is None:
            self._reserved = _ROUNDING
            if Quarantine(self._layout.store).is_left:
                with changing(self._layout, holder=_HOLDER):
                    pass  # it has brought back what a killed run had moved aside
            seen = {project: self._seen(project, now) for project in read_records(self._layout)}
            if any(notes != read_notes(self._layout, each) for each, notes in seen.items()):
                with changing(self._layout, holder=_HOLDER):
                    for project in seen:
                        write_notes(self._layout, project, self._seen(project, now))

    def pack(self) -> int:
        """Bring both stores into their smallest form without dropping anything."""
        freed = self._own.pack()
        if self._layout.exists() and doubt(self._layout) is None:
            done = reclaim.reclaim(self._layout, now=self._clock(), holder=_HOLDER, thorough=True)
            freed += done.freed
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
        found = self._look()
        projects = listing.projects(self._layout, found.chains)
        named = marks(self._layout, found.chains)
        weights = own.weights.beside(found.measured.weights)
        return replace(
            own,
            projects={**own.projects, **{each.id: each for each in projects}},
            checkpoints=(*own.checkpoints, *items(self._layout, found.chains, weights)),
            space=(_space(own.space, found.measured, now),),
            garbage=own.garbage + found.measured.garbage,
            names={**own.names, **{key: each.name for key, each in named.items() if each.name}},
            weights=weights,
            problems=(*own.problems, *self._problems(found)),
        )

    def _look(self) -> _Found:
        chains = Chains.look(self._layout)
        refs = list(chains.refs())
        return _Found(
            chains=chains, measured=measure(self._layout.shape, chains.trees.objects, refs)
        )

    def _seen(self, project: str, now: float) -> Notes:
        """The notes on a project, with what can be seen of it now."""
        notes, record = read_notes(self._layout, project), read_record(self._layout, project)
        if record is None or record.last_touch > now or not Path(record.workdir).is_dir():
            return notes
        mount, disk = whereabouts(Path(record.workdir).resolve())
        return replace(notes, record=record, mount=mount, disk=disk)

    def _problems(self, found: _Found) -> Iterator[Problem]:
        why = doubt(self._layout)
        if why is not None:
            reason = f"{why}; it is read, and never changed"
            yield Problem(path=str(self._layout.store), reason=reason)
        for project in unreadable(self._layout):
            yield Problem(path=f"{REFS}{project}", reason="this reference cannot be read")
        known = {(each.removal.operation, each.removal.number) for each in self._log().trash}
        for ref in found.chains.trash:
            if (ref.operation, ref.number) not in known:
                reason = "in the trash of an operation that the log lacks"
                yield Problem(path=ref.path, reason=reason)
        for oid in found.measured.damaged:
            reason = "missing from Hermes's checkpoint store, or damaged"
            yield Problem(path=oid, reason=reason)


def _space(own: Sequence[Item], measured: Measured, now: float) -> Item:
    return Item(
        kind=SPACE,
        id=CHECKPOINT_SPACE,
        bytes=measured.garbage + sum(item.bytes for item in own),
        last_active_at=now,
        version=CHECKPOINT_SPACE,
    )


# --- Space ----------------------------------------------------------------------------------------


class HermesCheckpointSpace:
    """Gives back space of both stores; `own` is that of ours."""

    def __init__(self, layout: HermesLayout, own: Space, clock: Clock) -> None:
        self._layout = layout
        self._own = own
        self._clock = clock

    def measure(self) -> None:
        """Reclaiming measures by itself."""

    def give_back(self, removal: Removal) -> Outcome:
        own = self._own.give_back(removal)
        if not self._layout.exists():
            return own
        try:
            done = reclaim.reclaim(self._layout, now=self._clock(), holder="checkpoints prune")
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message, freed=own.bytes_freed)
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error), freed=own.bytes_freed)
        ours = own.reason if own.result is not Result.SKIPPED else ""
        note = "; ".join(each for each in (done.note, ours) if each)
        if own.result is Result.FAILED:
            return removal.end(Result.FAILED, note, freed=done.freed + own.bytes_freed)
        return removal.end(Result.RECLAIMED, note, freed=done.freed + own.bytes_freed)
