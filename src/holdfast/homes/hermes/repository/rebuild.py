"""Change which checkpoints a project has, and rewrite as few of the others as possible.

If the oldest are removed, no commit is rewritten: the chain is cut, and ids, times and reasons
stay. If one is removed from the middle or returned to it, the newer commits are rewritten with
another parent: times, reasons and trees stay, ids change, and the reference moves.

Order of writing: references that keep removed checkpoints, then new commits, then cuts and
references, and last the deletion of what is no longer needed. After a kill in between, every chain
is complete, old or new.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.errors import DamageError
from holdfast.homes.hermes.repository.chains import Chains, Link, read_link, write_after, write_cuts
from holdfast.homes.hermes.repository.layout import (
    REFS,
    HermesLayout,
    bring_back_record,
    remove_record,
)
from holdfast.homes.hermes.repository.notes import read_notes, write_notes
from holdfast.stores.checkpoints.checkpoint_commit import Ref, change
from holdfast.stores.git.refs import RefUpdate, update_refs
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The checkpoints that a project should have, oldest first. If empty, the project is
    removed."""

    project: str
    staying: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebuilt:
    project: str
    links: tuple[Link, ...]
    renewed: tuple[tuple[Link, Link], ...]

    @property
    def tip(self) -> str:
        return self.links[-1].id if self.links else ""


def moves_tip(chains: Chains, wanted: Wanted) -> bool:
    """True if the project's reference has to move for this."""
    if wanted.staying and _cut_elsewhere(chains, wanted):
        return True
    before = ""
    for link in wanted.staying:
        if before and link.parent != before:
            return True
        before = link.id
    return before != chains.tips.get(wanted.project, "")


def rebuild(
    chains: Chains,
    wanted: Sequence[Wanted],
    *,
    hide: Iterable[Ref] = (),
    show: Iterable[Ref] = (),
) -> None:
    """Give the projects these checkpoints. References in `hide` are created first, those in `show`
    are removed last.

    The caller holds the lock and calls `settle` afterwards. Raises `GitFailedError` if Hermes has
    moved a reference since the look: then look again.
    """
    layout = chains.layout
    known = {ref.path for ref in chains.trash}
    change(layout, create=[ref for ref in hide if ref.path not in known])
    rebuilt = [_rebuilt(chains, each) for each in wanted]
    write_cuts(layout.store, _cuts(chains.cuts, rebuilt))
    for each in rebuilt:
        if each.renewed:
            notes = read_notes(layout, each.project)
            staying = {link.id for link in each.links}
            write_notes(layout, each.project, notes.renewed(each.renewed, staying))
    _move_tips(layout, chains.tips, rebuilt)
    change(layout, delete=show)


def settle(layout: HermesLayout, projects: Collection[str]) -> None:
    """Bring records and cuts in line with the references."""
    chains = Chains.look(layout)
    for project in projects:
        record = read_notes(layout, project).record
        if project not in chains.tips:
            remove_record(layout, project, record)
        elif record is not None:
            bring_back_record(layout, project, record)
    write_cuts(layout.store, _needed_cuts(chains))


def cut_off_what_is_gone(layout: HermesLayout) -> None:
    """Cut chains whose next checkpoint is missing. It is already lost, and git refuses to pack or
    list the commits before it. Such stores result when two Hermes processes collect garbage at
    once.

    The caller holds the lock, so no other process removes objects.
    """
    chains = Chains.look(layout)
    ends = [chain[-1] for project in chains.tips if (chain := chains.of(project))]
    gone = {
        link.id
        for link in ends
        if link.parent and bytes.fromhex(link.parent) not in chains.trees.objects
    }
    write_cuts(layout.store, chains.cuts | gone)


def _rebuilt(chains: Chains, wanted: Wanted) -> _Rebuilt:
    links: list[Link] = []
    renewed: list[tuple[Link, Link]] = []
    for link in wanted.staying:
        new = link
        if links and link.parent != links[-1].id:
            new = write_after(chains.trees, link, links[-1].id)
        elif not links and _cut_elsewhere(chains, wanted):
            new = write_after(chains.trees, link, "")
        if new.id != link.id:
            renewed.append((link, new))
        links.append(new)
    return _Rebuilt(project=wanted.project, links=tuple(links), renewed=tuple(renewed))


def _cut_elsewhere(chains: Chains, wanted: Wanted) -> bool:
    """True if a cut of this chain would also cut the chain of another project with the same commit:
    a second worktree, captured in the same second."""
    first = wanted.staying[0]
    if not first.parent or first.id in chains.cuts:
        return False
    return any(link.id == first.id for project, link in chains.all() if project != wanted.project)


def _cuts(cuts: Collection[str], rebuilt: Iterable[_Rebuilt]) -> set[str]:
    """Cut each chain at its end, and nowhere else."""
    found = set(cuts)
    for each in rebuilt:
        found -= {link.id for link in each.links[1:]}
        found |= {link.id for link in each.links[:1] if link.parent}
    return found


def _needed_cuts(chains: Chains) -> set[str]:
    """The cuts at ends of chains, and of commits in the trash whose parent is gone."""
    shown = {link.id for _, link in chains.all()}
    hidden = {ref.checkpoint for ref in chains.trash} - shown
    found = {cut for cut in chains.cuts if cut in shown}
    for commit in hidden:
        with contextlib.suppress(DamageError):
            parent = read_link(chains.trees, commit).parent
            if parent and parent not in shown and parent not in hidden:
                found.add(commit)
    return found


def _move_tips(layout: HermesLayout, tips: Mapping[str, str], rebuilt: Iterable[_Rebuilt]) -> None:
    moved = [
        RefUpdate(name=f"{REFS}{each.project}", old=tips.get(each.project, ""), new=each.tip)
        for each in rebuilt
    ]
    update_refs(layout.git(), [each for each in moved if each.old != each.new])
