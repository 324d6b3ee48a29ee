"""Removes checkpoints from Hermes's chains, and restores them.

The oldest checkpoints of a project are removed by cutting its chain; the others stay unchanged. To
remove one from the middle, the newer ones are rewritten, which moves Hermes's reference: this is
never done while Hermes may be running. A reference of ours keeps the removed checkpoint until it is
discarded from the trash.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from holdfast.errors import DamageError, GitFailedError, HoldfastError
from holdfast.homes.hermes.repository.chains import Chains, Link, placed, read_link, ref_of
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout, read_record
from holdfast.homes.hermes.repository.locks import changing
from holdfast.homes.hermes.repository.notes import (
    Mark,
    is_unreadable,
    read_notes,
    version_of,
    write_notes,
)
from holdfast.homes.hermes.repository.rebuild import Wanted, moves_tip, rebuild, settle
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Presence, damaged, failed, stayed, unseen
from holdfast.ports.runs import Mover
from holdfast.spine.keeper import OneStepMover, told
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, TRASH_TAKEN
from holdfast.stores.checkpoints.checkpoint_commit import Ref
from holdfast.stores.checkpoints.checkpoint_items import UNREADABLE
from holdfast.value import dataclass, field, replace

_HOLDER = "checkpoints prune"
_NO_STORE = "there is no checkpoint store of Hermes in this home"
_NEW_IDS = "the newer checkpoints of its project have new ids now"
_ONLY_ALONE = (
    "a checkpoint between others is removed only while Hermes is not running, because newer ones"
    " get new ids"
)
_BACK_ALONE = (
    "a checkpoint between others comes back only while Hermes is not running, because newer ones"
    " get new ids"
)
#: How often to retry if Hermes moved a reference between the look and the change.
_MORE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The planned changes to checkpoints of one project, and the result for each by key."""

    wanted: Wanted | None = None
    hide: Sequence[Ref] = ()
    show: Sequence[Ref] = ()
    moved: Mapping[str, Moved] = field(default_factory=dict)


_Answer = TypeVar("_Answer")
_Act = Callable[[Sequence[Removal]], Sequence[Moved]]
_Plan = Callable[[Chains, str, Sequence[Removal]], _Change]


class HermesCheckpointMover(OneStepMover):
    """Moves checkpoints of Hermes. `running` returns why Hermes may be running, or None."""

    def __init__(self, layout: HermesLayout, running: Callable[[], str | None]) -> None:
        self._layout = layout
        self._running = running
        #: For projects that are removed as a whole: the newest checkpoint when the plan was made.
        self._tips: dict[str, PlanItem] = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._tips = {item.source: item for item in items if "@" in item.version}

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        if not self._layout.exists():
            return [unseen(_NO_STORE)] * len(batch)
        by_project = _by_project(batch)
        seen: dict[str, Presence] = {}
        with changing(self._layout, holder=_HOLDER):
            chains = Chains.look(self._layout)
            for project, some in by_project.items():
                seen |= self._look(chains, project, some)
            settle(self._layout, by_project)
        return [seen[each.key] for each in batch]

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._in_one_step(batch, self._drop)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._in_one_step(batch, self._put_back)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        if not self._layout.exists():
            return [failed(_NO_STORE)] * len(batch)
        return self._in_one_step(batch, self._discard)

    # --- One project ------------------------------------------------------------------------------

    def _look(
        self, chains: Chains, project: str, batch: Sequence[Removal]
    ) -> Mapping[str, Presence]:
        shown = {link.id for link in chains.of(project)}
        marked = read_notes(self._layout, project).marks_of(chains.of(project))
        unknown = f"in use: {UNREADABLE}" if is_unreadable(self._layout, project) else ""
        taken = {(ref.operation, ref.number) for ref in chains.trash}
        seen = {}
        for each in batch:
            copy, here = _copy(chains, each), each.item.id in shown
            changed = here and self._is_changed(chains, project, each, marked.get(each.item.id))
            seen[each.key] = Presence(
                here=here,
                copied=copy is not None,
                obstacle=unknown or (CHANGED if changed else ""),
                taken=copy is None and (each.operation, each.number) in taken,
                bytes=0 if copy is None else each.item.bytes,
            )
        return seen

    def _is_changed(
        self, chains: Chains, project: str, removal: Removal, mark: Mark | None
    ) -> bool:
        """A checkpoint that is removed with its whole project stays if the project was used
        since."""
        chain = chains.of(project)
        tip = self._tips.get(removal.item.source)
        if tip is not None:
            now = version_of(self._layout, project, chain[0], mark, is_tip=True)
            if chain[0].id == tip.id and now.partition("+")[0] != tip.version.partition("+")[0]:
                return True
            if chain[0].id != tip.id and tip.id in {link.id for link in chain}:
                return True
        kept = mark is not None and (mark.pinned or bool(mark.name))
        return kept is not removal.item.version.endswith("+kept")

    def _drop(self, chains: Chains, project: str, batch: Sequence[Removal]) -> _Change:
        """Looks again: Hermes may have taken a checkpoint since the keeper looked."""
        seen = self._look(chains, project, batch)
        moved: dict[str, Moved] = {}
        going: dict[str, Removal] = {}
        for each in batch:
            saw = seen[each.key]
            if saw.taken:
                moved[each.key] = failed(TRASH_TAKEN)
            elif saw.obstacle or not saw.here:
                moved[each.key] = stayed(saw.obstacle or ALREADY_GONE)
            else:
                going[each.item.id] = each
        return self._without(chains, project, going, moved)

    def _without(
        self,
        chains: Chains,
        project: str,
        going: Mapping[str, Removal],
        moved: dict[str, Moved],
    ) -> _Change:
        leaving = set(going)
        wanted = _staying(chains, project, leaving)
        rewrites = bool(wanted.staying) and moves_tip(chains, wanted)
        why = self._running() if rewrites else None
        if why is not None:
            leaving = _oldest(chains.of(project), leaving)
            wanted = _staying(chains, project, leaving)
            rewrites = bool(wanted.staying) and moves_tip(chains, wanted)
            leaving = set() if rewrites else leaving
            moved |= {
                removal.key: stayed(f"{why}; {_ONLY_ALONE}")
                for commit, removal in going.items()
                if commit not in leaving
            }
        if not leaving:
            return _Change(moved=moved)
        hide = []
        for link in chains.of(project):
            if link.id not in leaving:
                continue
            removal = going[link.id]
            moved[removal.key] = _gone(removal, _NEW_IDS if rewrites else "")
            if removal.item.undoable:
                hide.append(ref_of(project, link).hidden(removal.operation, removal.number))
        if not wanted.staying:
            self._note_record(project)
        return _Change(wanted=wanted, hide=hide, moved=moved)

    def _discard(self, chains: Chains, _: str, batch: Sequence[Removal]) -> _Change:
        copies = {each.key: _copy(chains, each) for each in batch}
        # Their bytes are freed, and counted, when space is reclaimed.
        return _Change(
            show=[copy for copy in copies.values() if copy is not None],
            moved={key: Moved(copied=copy is not None) for key, copy in copies.items()},
        )

    def _put_back(self, chains: Chains, project: str, batch: Sequence[Removal]) -> _Change:
        shown = {link.id for link in chains.of(project)}
        moved: dict[str, Moved] = {}
        returning: list[Link] = []
        show = []
        for each in batch:
            copy = _copy(chains, each)
            if copy is None:
                moved[each.key] = damaged(COPY_MISSING)
                continue
            try:
                link = read_link(chains.trees, copy.checkpoint)
            except DamageError as error:
                moved[each.key] = damaged(error.message)
                continue
            returning += [] if each.item.id in shown else [link]
            show.append(copy)
            moved[each.key] = Moved()
        if not returning:
            return _Change(show=show, moved=moved)
        followed = read_notes(self._layout, project).followed
        order = placed(reversed(chains.of(project)), returning, followed)
        wanted = Wanted(project=project, staying=tuple(order))
        if project in chains.tips and moves_tip(chains, wanted):
            why = self._running()
            if why is not None:
                refused = failed(f"{why}; {_BACK_ALONE}")
                return _Change(moved={each.key: refused for each in batch})
        return _Change(wanted=wanted, show=show, moved=moved)

    # --- A whole batch ----------------------------------------------------------------------------

    def _in_one_step(self, batch: Sequence[Removal], plan: _Plan) -> Sequence[Moved]:
        for _ in range(_MORE_ATTEMPTS):
            try:
                return self._try(batch, plan)
            except GitFailedError:
                continue  # Hermes moved a reference in the meantime: look again
        return self._try(batch, plan)

    def _try(self, batch: Sequence[Removal], plan: _Plan) -> Sequence[Moved]:
        by_project = _by_project(batch)
        with changing(self._layout, holder=_HOLDER):
            chains = Chains.look(self._layout)
            changes = [plan(chains, project, some) for project, some in by_project.items()]
            rebuild(
                chains,
                [each.wanted for each in changes if each.wanted is not None],
                hide=[ref for each in changes for ref in each.hide],
                show=[ref for each in changes for ref in each.show],
            )
            # The references have moved, so the change is done. If settling fails here, the next
            # look settles, as after a kill.
            with contextlib.suppress(HoldfastError, OSError):
                settle(self._layout, by_project)
        moved = {key: one for each in changes for key, one in each.moved.items()}
        return [moved[each.key] for each in batch]

    def _note_record(self, project: str) -> None:
        """Keep Hermes's record of a project that is removed: undo restores it."""
        record = read_record(self._layout, project)
        if record is not None:
            notes = read_notes(self._layout, project)
            write_notes(self._layout, project, replace(notes, record=record))


class BothCheckpoints:
    """Checkpoints of Hermes and of Holdfast in one plan: each has its own mover."""

    def __init__(self, theirs: Mover, ours: Mover) -> None:
        self._theirs = theirs
        self._ours = ours

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._theirs.prepare([item for item in items if _is_theirs(item)])
        self._ours.prepare([item for item in items if not _is_theirs(item)])

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        return self._each(batch, self._theirs.look, self._ours.look)

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._moved(batch, self._theirs.copy, self._ours.copy)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._moved(batch, self._theirs.drop, self._ours.drop)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._moved(batch, self._theirs.put_back, self._ours.put_back)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._moved(batch, self._theirs.discard, self._ours.discard)

    def _moved(self, batch: Sequence[Removal], theirs: _Act, ours: _Act) -> Sequence[Moved]:
        """The results of one mover are reported even if the other one fails."""
        return self._each(batch, partial(told, theirs), partial(told, ours))

    @staticmethod
    def _each(
        batch: Sequence[Removal],
        theirs: Callable[[Sequence[Removal]], Sequence[_Answer]],
        ours: Callable[[Sequence[Removal]], Sequence[_Answer]],
    ) -> Sequence[_Answer]:
        answers: dict[str, _Answer] = {}
        for act, is_theirs in ((theirs, True), (ours, False)):
            some = [each for each in batch if _is_theirs(each.item) is is_theirs]
            if some:
                keys = (each.key for each in some)
                answers |= zip(keys, act(some), strict=True)
        return [answers[each.key] for each in batch]


def _is_theirs(item: PlanItem) -> bool:
    return item.source.startswith(PROJECT_PREFIX)


def _by_project(batch: Sequence[Removal]) -> Mapping[str, Sequence[Removal]]:
    found: dict[str, list[Removal]] = defaultdict(list)
    for each in batch:
        found[each.item.source.removeprefix(PROJECT_PREFIX)].append(each)
    return found


def _staying(chains: Chains, project: str, leaving: set[str]) -> Wanted:
    left = (link for link in reversed(chains.of(project)) if link.id not in leaving)
    return Wanted(project=project, staying=tuple(left))


def _oldest(chain: Sequence[Link], leaving: set[str]) -> set[str]:
    """The checkpoints to remove at the old end of a chain, up to the first one that stays."""
    found: set[str] = set()
    for link in reversed(chain):
        if link.id not in leaving:
            break
        found.add(link.id)
    return found


def _copy(chains: Chains, removal: Removal) -> Ref | None:
    """The undo copy of a removal; None if there is none, or if another checkpoint has its name."""
    for ref in chains.trash:
        if (ref.operation, ref.number) == (removal.operation, removal.number):
            return ref if ref.checkpoint == removal.item.id else None
    return None


def _gone(removal: Removal, note: str) -> Moved:
    if removal.item.undoable:
        return Moved(reason=note, copied=True, bytes=removal.item.bytes)
    return Moved(reason=note)
