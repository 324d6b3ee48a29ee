"""Imports the checkpoints of a Hermes home into one of Holdfast's stores, with times and reasons.

Nothing in the Hermes home is changed. A checkpoint that the store already has is left alone, even
if Hermes has given it a new id since. So an import can be repeated at any time, and repeating it
finishes a killed run.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError, GitFailedError, HoldfastError, UsageError
from holdfast.homes.hermes.repository import listing
from holdfast.homes.hermes.repository.adoption import bring_in, size_limit
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.layout import FOLDER, HermesLayout
from holdfast.model.checkpoint import Checkpoint, Imported, ImportState, Sight, origin_parts
from holdfast.ports.runs import Progress
from holdfast.stores.checkpoints import projects
from holdfast.stores.checkpoints.older_layout import repositories
from holdfast.stores.checkpoints.repository import project_lock, project_of, used
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.value import dataclass, field, replace

_TICK, _DIGITS = 0.001, 3


@dataclass(frozen=True, slots=True)
class _Source:
    """A checkpoint of Hermes, and the repository that holds it."""

    checkpoint: Checkpoint
    repository: Path


def import_checkpoints(
    home: Path,
    store: ShadowGitStore,
    *,
    workdir: Path | None,
    now: float,
    dry_run: bool,
    progress: Progress,
) -> Sequence[Imported]:
    """Import the checkpoints of one or all projects of a Hermes home, oldest first."""
    found = [each for each in _sources(home) if _is_wanted(each.checkpoint, workdir)]
    if workdir is not None and not found:
        raise UsageError(
            f"Hermes has no checkpoints of {workdir} in {home}.",
            hint="Without a directory, those of all projects are imported.",
        )
    by_place: dict[str, list[_Source]] = defaultdict(list)
    for each in reversed(found):
        by_place[each.checkpoint.workdir].append(each)
    limit = size_limit(home)
    done: list[Imported] = []
    for place, unordered in by_place.items():
        sources = _in_order(unordered)
        if progress.stop_requested():
            break
        done += _project(store, place, sources, limit=limit, now=now, dry_run=dry_run)
        progress.step("importing", len(done), len(found))
    return done


def _in_order(oldest_first: Sequence[_Source]) -> Sequence[_Source]:
    """Sort by time. Hermes records whole seconds. Checkpoints of the same second get milliseconds
    that preserve the order of the chain, because our store orders by time alone."""
    last = float("-inf")
    ordered = []
    for each in sorted(oldest_first, key=lambda each: each.checkpoint.time):
        last = max(each.checkpoint.time, round(last + _TICK, _DIGITS))
        ordered.append(replace(each, checkpoint=replace(each.checkpoint, time=last)))
    return ordered


def _project(
    store: ShadowGitStore,
    place: str,
    sources: Sequence[_Source],
    *,
    limit: int,
    now: float,
    dry_run: bool,
) -> Iterator[Imported]:
    if not Path(place).is_absolute():
        why = "it does not record its directory"
        yield from (_told(each, ImportState.SKIPPED, why=why) for each in sources)
        return
    known = _known(store, Path(place), sources)
    new = [each for each in sources if each.checkpoint.id not in known]
    brought = _Brought()
    if new and not dry_run:
        try:
            _bring(store, Path(place), new, brought, limit=limit, now=now)
        except HoldfastError as error:
            # The project cannot be read, or the disk is full: the remaining ones would fail the
            # same way.
            left = (each.checkpoint.id for each in new)
            brought.failed.update({one: error.message for one in left if one not in brought.ids})
    for each in sources:
        mine = each.checkpoint.id
        if mine in known:
            yield _told(each, ImportState.KNOWN, known[mine])
        elif mine in brought.failed:
            yield _told(each, ImportState.SKIPPED, why=brought.failed[mine])
        else:
            yield _told(each, ImportState.IMPORTED, brought.ids.get(mine, ""))


@dataclass(frozen=True, slots=True)
class _Brought:
    """New ids by their ids in Hermes, and the reasons why others could not be imported."""

    ids: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def _bring(
    store: ShadowGitStore,
    workdir: Path,
    new: Sequence[_Source],
    brought: _Brought,
    *,
    limit: int,
    now: float,
) -> None:
    """Import one checkpoint after the other. A damaged one is skipped and reported."""
    store.prepare()
    with store.reading():  # nothing else protects the objects of a look
        present: Sight | None = store.look(workdir) if workdir.is_dir() else None
        # Before the checkpoints: after a kill the next run may find nothing new to import, and the
        # project's last use would be as old as its checkpoints, so it would count as stale.
        _touch(store, workdir, first=new[0].checkpoint.time, now=now)
        for each in new:
            old = each.checkpoint
            try:
                made = bring_in(store.layout, each.repository, old, present, limit=limit)
            except (DamageError, GitFailedError) as error:
                if isinstance(error, GitFailedError) and error.disk_full:
                    raise
                brought.failed[old.id] = error.message
            else:
                brought.ids[old.id] = made.id


def _touch(store: ShadowGitStore, workdir: Path, *, first: float, now: float) -> None:
    """Note that the project is in use, however old its checkpoints are."""
    place = Path(os.path.realpath(workdir))
    project = project_of(place)
    mount, disk = projects.whereabouts(place) if place.is_dir() else ("", "")
    with used(store.layout), project_lock(store.layout, project, str(place)):
        record = projects.read_record(store.layout, project) or projects.ProjectRecord(
            project=project, workdir=str(place), created_at=first, last_touch=now
        )
        seen = replace(record, last_touch=now)
        seen = replace(seen, mount=mount, disk=disk) if place.is_dir() else seen
        projects.write_record(store.layout, seen)


def _known(store: ShadowGitStore, workdir: Path, sources: Sequence[_Source]) -> Mapping[str, str]:
    """The checkpoints that the store already has, with their ids there. When Hermes drops old
    checkpoints, the others get new ids, but tree and reason still identify them."""
    there = [(each, *origin_parts(each.origin)) for each in store.list(workdir) if each.origin]
    by_id = {commit: each.id for each, commit, _ in there}
    found = {
        each.checkpoint.id: by_id[each.checkpoint.id]
        for each in sources
        if each.checkpoint.id in by_id
    }
    left = Counter((tree, each.reason) for each, commit, tree in there if commit not in found)
    ids = {(tree, each.reason): each.id for each, commit, tree in there if commit not in found}
    for each in sources:
        key = (each.checkpoint.tree, each.checkpoint.reason)
        if each.checkpoint.id not in found and left[key]:
            left[key] -= 1
            found[each.checkpoint.id] = ids[key]
    return found


def _sources(home: Path) -> Iterator[_Source]:
    layout = HermesLayout(folder=home / FOLDER, notes=home / FOLDER)
    if layout.exists():
        for each in listing.checkpoints(layout, Chains.look(layout)):
            yield _Source(each, layout.store)
    for legacy in repositories(layout):
        for each in listing.older([legacy]):
            yield _Source(each, legacy.path)


def _is_wanted(checkpoint: Checkpoint, workdir: Path | None) -> bool:
    return workdir is None or os.path.realpath(checkpoint.workdir) == str(workdir)


def _told(source: _Source, state: ImportState, own: str = "", *, why: str = "") -> Imported:
    checkpoint = source.checkpoint
    return Imported(
        origin=checkpoint.id,
        workdir=checkpoint.workdir,
        time=checkpoint.time,
        reason=checkpoint.reason,
        state=state,
        id=own,
        why=why,
    )
