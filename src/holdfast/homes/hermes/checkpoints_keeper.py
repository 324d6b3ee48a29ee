"""Checkpoints of Hermes that are dropped, and come back.

The oldest of a project go by a cut of its chain: the others stay what they are. One from the middle
goes by writing the newer ones anew, which moves Hermes's reference: not while Hermes may run. What
goes is held by a reference of ours until its time in the trash is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.errors import BusyError, DamageError, GitFailedError, HoldfastError
from holdfast.homes.hermes.repository.chains import Chains, Link, placed, read_link, ref_of
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout, read_record
from holdfast.homes.hermes.repository.locks import changing
from holdfast.homes.hermes.repository.notes import Mark, read_notes, version_of, write_notes
from holdfast.homes.hermes.repository.rebuild import Wanted, moves_tip, rebuild, settle
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.checkpoints.checkpoint_commit import Ref

_HOLDER = "checkpoints prune"
_NO_STORE = "there is no checkpoint store of Hermes in this home"
_TAKEN = "its place in the trash is taken"
_NOT_REACHED = "the run ended before its turn"
_NEW_IDS = "the newer ones of its project have new ids now"
_ONLY_ALONE = "what lies between others goes only while nothing runs, as newer ones get new ids"
_BACK_ALONE = (
    "what lay between others comes back only while nothing runs, as newer ones get new ids"
)
#: How often to look again when Hermes moved a reference between the look and the change.
_MORE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What becomes of some removals of one project, and what must be done for it."""

    wanted: Wanted | None = None
    hide: Sequence[Ref] = ()
    show: Sequence[Ref] = ()
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)


_Judge = Callable[[Chains, str, Sequence[Removal]], _Change]


class HermesCheckpointKeeper:
    """Drops checkpoints of Hermes and brings them back. `running` says who may be writing."""

    def __init__(self, layout: HermesLayout, running: Callable[[], str | None]) -> None:
        self._layout = layout
        self._running = running
        #: Of projects that go whole: the newest checkpoint as it was judged.
        self._tips: dict[str, PlanItem] = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._tips = {item.source: item for item in items if "@" in item.version}

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._remove)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._settle)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._discard)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._carry_out(batch, self._bring_back)

    # --- One project ------------------------------------------------------------------------------

    def _remove(self, chains: Chains, project: str, batch: Sequence[Removal]) -> _Change:
        shown = {link.id: link for link in chains.of(project)}
        marked = read_notes(self._layout, project).marks_of(chains.of(project))
        outcomes: dict[int, Outcome] = {}
        going: dict[str, Removal] = {}
        for removal in batch:
            link = shown.get(removal.item.id)
            if link is None:
                copied = _copy(chains, removal) is not None
                outcomes[removal.number] = (
                    _in_trash(removal) if copied else removal.end(Result.SKIPPED, "already gone")
                )
            elif self._is_changed(chains, project, removal, marked.get(link.id)):
                reason = "changed since the plan was made"
                outcomes[removal.number] = removal.end(Result.SKIPPED, reason)
            else:
                going[link.id] = removal
        return self._without(chains, project, going, outcomes)

    def _is_changed(
        self, chains: Chains, project: str, removal: Removal, mark: Mark | None
    ) -> bool:
        """One that goes with its whole project goes while nobody used that since."""
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

    def _without(
        self,
        chains: Chains,
        project: str,
        going: Mapping[str, Removal],
        outcomes: dict[int, Outcome],
    ) -> _Change:
        leaving = set(going)
        wanted = _staying(chains, project, leaving)
        anew = bool(wanted.staying) and moves_tip(chains, wanted)
        why = self._running() if anew else None
        if why is not None:
            leaving = _oldest(chains.of(project), leaving)
            wanted = _staying(chains, project, leaving)
            anew = bool(wanted.staying) and moves_tip(chains, wanted)
            leaving = set() if anew else leaving
            told = f"{why}; {_ONLY_ALONE}"
            for commit, removal in going.items():
                if commit not in leaving:
                    outcomes[removal.number] = removal.end(Result.SKIPPED, told)
        if not leaving:
            return _Change(outcomes=outcomes)
        taken = {(ref.operation, ref.number): ref.checkpoint for ref in chains.trash}
        hide = []
        for link in chains.of(project):
            if link.id not in leaving:
                continue
            removal = going[link.id]
            if taken.get((removal.operation, removal.number), link.id) != link.id:
                return _Change(
                    outcomes={
                        each.number: each.end(Result.FAILED, _TAKEN) for each in going.values()
                    }
                )
            note = _NEW_IDS if anew else ""
            outcomes[removal.number] = _gone(removal, note)
            if removal.item.undoable:
                hide.append(ref_of(project, link).hidden(removal.operation, removal.number))
        if not wanted.staying:
            self._note_record(project)
        return _Change(wanted=wanted, hide=hide, outcomes=outcomes)

    def _settle(self, chains: Chains, project: str, batch: Sequence[Removal]) -> _Change:
        shown = {link.id for link in chains.of(project)}
        outcomes: dict[int, Outcome] = {}
        show = []
        for removal in batch:
            copy = _copy(chains, removal)
            if removal.item.id in shown:
                # Its undo copy was made, and it did not go.
                show += [] if copy is None else [copy]
                outcome = removal.end(Result.SKIPPED, _NOT_REACHED)
            elif copy is not None:
                outcome = _in_trash(removal)
            elif removal.item.undoable:
                outcome = removal.end(Result.FAILED, "gone, and not through Holdfast")
            else:
                outcome = removal.end(Result.REMOVED)
            outcomes[removal.number] = outcome
        return _Change(show=show, outcomes=outcomes)

    def _discard(self, chains: Chains, _: str, batch: Sequence[Removal]) -> _Change:
        outcomes: dict[int, Outcome] = {}
        show = []
        for removal in batch:
            copy = _copy(chains, removal)
            show += [] if copy is None else [copy]
            note = "its trash copy was gone already" if copy is None else ""
            # Its bytes come back when space is reclaimed, and are counted there.
            outcomes[removal.number] = removal.end(Result.REMOVED, note)
        return _Change(show=show, outcomes=outcomes)

    def _bring_back(self, chains: Chains, project: str, batch: Sequence[Removal]) -> _Change:
        shown = {link.id for link in chains.of(project)}
        outcomes: dict[int, Outcome] = {}
        returning: list[Link] = []
        show = []
        for removal in batch:
            copy = _copy(chains, removal)
            there = removal.item.id in shown
            if copy is None:
                outcomes[removal.number] = (
                    removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
                    if there
                    else removal.end(Result.DAMAGED, "its copy is no longer in the trash")
                )
                continue
            try:
                link = read_link(chains.trees, copy.checkpoint)
            except DamageError as error:
                outcomes[removal.number] = removal.end(Result.DAMAGED, error.message)
                continue
            returning += [] if there else [link]
            show.append(copy)
            outcomes[removal.number] = removal.end(Result.BROUGHT_BACK)
        if not returning:
            return _Change(show=show, outcomes=outcomes)
        followed = read_notes(self._layout, project).followed
        order = placed(reversed(chains.of(project)), returning, followed)
        wanted = Wanted(project=project, staying=tuple(order))
        if project in chains.tips and moves_tip(chains, wanted):
            why = self._running()
            if why is not None:
                return _Change(outcomes=_failed(batch, f"{why}; {_BACK_ALONE}"))
        return _Change(wanted=wanted, show=show, outcomes=outcomes)

    # --- All of a batch ---------------------------------------------------------------------------

    def _carry_out(self, batch: Sequence[Removal], judge: _Judge) -> Sequence[Outcome]:
        if not self._layout.exists():
            return [removal.end(Result.FAILED, _NO_STORE) for removal in batch]
        try:
            return self._in_one_step(batch, judge)
        except BusyError:
            raise  # each batch to come would wait as long; the next run settles this one
        except HoldfastError as error:
            return [removal.end(Result.FAILED, error.message) for removal in batch]

    def _in_one_step(self, batch: Sequence[Removal], judge: _Judge) -> Sequence[Outcome]:
        for _ in range(_MORE_ATTEMPTS):
            try:
                return self._try(batch, judge)
            except GitFailedError:
                continue  # Hermes moved a reference meanwhile: look again
        return self._try(batch, judge)

    def _try(self, batch: Sequence[Removal], judge: _Judge) -> Sequence[Outcome]:
        by_project: dict[str, list[Removal]] = defaultdict(list)
        for removal in batch:
            by_project[removal.item.source.removeprefix(PROJECT_PREFIX)].append(removal)
        with changing(self._layout, holder=_HOLDER):
            chains = Chains.look(self._layout)
            changes = [judge(chains, project, some) for project, some in by_project.items()]
            rebuild(
                chains,
                [each.wanted for each in changes if each.wanted is not None],
                hide=[ref for each in changes for ref in each.hide],
                show=[ref for each in changes for ref in each.show],
            )
            settle(self._layout, by_project)
        outcomes = {number: one for each in changes for number, one in each.outcomes.items()}
        return [outcomes[removal.number] for removal in batch]

    def _note_record(self, project: str) -> None:
        """What Hermes wrote of a project that goes: undo puts it back."""
        record = read_record(self._layout, project)
        if record is not None:
            notes = read_notes(self._layout, project)
            write_notes(self._layout, project, replace(notes, record=record))


def _staying(chains: Chains, project: str, leaving: set[str]) -> Wanted:
    left = (link for link in reversed(chains.of(project)) if link.id not in leaving)
    return Wanted(project=project, staying=tuple(left))


def _oldest(chain: Sequence[Link], leaving: set[str]) -> set[str]:
    """Those that are the oldest of their chain, without a gap."""
    found: set[str] = set()
    for link in reversed(chain):
        if link.id not in leaving:
            break
        found.add(link.id)
    return found


def _copy(chains: Chains, removal: Removal) -> Ref | None:
    """Its undo copy. What else has taken that place is none."""
    for ref in chains.trash:
        if (ref.operation, ref.number) == (removal.operation, removal.number):
            return ref if ref.checkpoint == removal.item.id else None
    return None


def _failed(batch: Iterable[Removal], reason: str) -> dict[int, Outcome]:
    return {each.number: each.end(Result.FAILED, reason) for each in batch}


def _gone(removal: Removal, note: str) -> Outcome:
    if removal.item.undoable:
        return removal.end(Result.REMOVED, note, in_trash=removal.item.bytes)
    return removal.end(Result.REMOVED, note)


def _in_trash(removal: Removal) -> Outcome:
    return removal.end(Result.REMOVED, in_trash=removal.item.bytes)
