"""Removing checkpoints from a git remote. This cannot be undone, and the plan says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.spine.outcomes import ALREADY_GONE, NOT_REACHED
from holdfast.stores.checkpoints.push import refs_there, remove_there
from holdfast.stores.checkpoints.remotes import THERE
from holdfast.stores.checkpoints.repository import Layout

_GONE = "it was removed from the remote; if it is still here, it can be pushed again"


class RemovePushed:
    """Deletes references on a remote, each only if it still is what the plan saw. The id of an item
    is `<name of the remote>/<machine>/<project>/<checkpoint>`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _by_remote(batch, self._delete)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _by_remote(batch, self._settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, _GONE) for each in batch]

    def _delete(self, remote: str, members: Sequence[Removal]) -> Sequence[Outcome]:
        refs = {_ref(each): each.item.version for each in members}
        stayed = remove_there(self._layout, remote, refs)
        return [_outcome(each, stayed) for each in members]

    def _settle(self, remote: str, members: Sequence[Removal]) -> Sequence[Outcome]:
        """The references on the remote show how far a killed run got."""
        refs = refs_there(self._layout, remote)
        return [
            each.end(Result.SKIPPED, NOT_REACHED)
            if _ref(each) in refs
            else each.end(Result.REMOVED)
            for each in members
        ]


def _by_remote(
    batch: Sequence[Removal], step: Callable[[str, Sequence[Removal]], Sequence[Outcome]]
) -> Sequence[Outcome]:
    groups: dict[str, list[Removal]] = defaultdict(list)
    for each in batch:
        groups[each.item.source].append(each)
    outcomes: dict[str, Outcome] = {}
    for remote, members in groups.items():
        try:
            done = step(remote, members)
        except HoldfastError as error:
            done = [each.end(Result.FAILED, error.message) for each in members]
        outcomes |= {each.id: each for each in done}
    return [outcomes[each.item.id] for each in batch]


def _outcome(removal: Removal, stayed: Mapping[str, str]) -> Outcome:
    why = stayed.get(_ref(removal))
    if why is None:
        return removal.end(Result.REMOVED)
    if not why:
        return removal.end(Result.SKIPPED, ALREADY_GONE)
    return removal.end(Result.FAILED, f"the remote refused: {why}")


def _ref(removal: Removal) -> str:
    return f"{THERE}{removal.item.id.partition('/')[2]}"
