"""Upper limits: remove the fewest, oldest items until the rest fits, or report what prevents it.

There is one algorithm for numbers and one for bytes. How bytes add up is up to a `Weighing`:
sessions and files are a plain sum (`Sum`), checkpoints share what they hold (`Shared`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.model.plan import OVER_THE_CAP, Action, Shortfall
from holdfast.model.text import format_bytes
from holdfast.policy.checkpoint_bytes import SharedBytes
from holdfast.policy.decision import Decision, oldest_first
from holdfast.policy.delegates import Delegates

MAX_COUNT = "max_count"
MAX_BYTES = "max_total_size"
#: The share of the budget. Its name starts like that of every cap on bytes.
KEEP_BYTES = f"{MAX_BYTES}, share of the budget"

#: In a shortfall: only the user decides when these go.
LEGACY_WAITS = "archives of an older layout: they stay until you clear them"
#: In a shortfall: indexes of packs, refs, the records of projects.
_STORE_ITSELF = "files of the store itself"
#: In a shortfall: what a cap that uses the trash put there, and what was there before.
_TRASH_WAITS = "the trash: its space is freed when it is emptied"
_NOTHING_TO_GAIN = "removing it would free nothing"


class Taken(NamedTuple):
    """The state of a decision before a cap took its item."""

    decision: Decision
    action: Action
    reason: str


class Weighing(Protocol):
    """The bytes that a cap limits, as decisions change."""

    @property
    def members(self) -> Sequence[Decision]:
        """The items that the cap may take."""

    @property
    def bytes(self) -> int:
        """The bytes that stay on the disk after the plan."""

    @property
    def spared(self) -> int:
        """Bytes that count, but must not cause anything else to be removed."""

    @property
    def in_trash(self) -> int:
        """Bytes of the trash if the cap uses it; `bytes` does not include them then."""

    def waves(self) -> Iterator[Iterable[Decision]]:
        """What may be removed, wave by wave, the oldest first in each wave."""

    def would_free(self, decision: Decision) -> bool: ...

    def take(self, decision: Decision, reason: str) -> None:
        """Remove the item. Unless the cap uses the trash, the removal is final, even if the item
        was meant for the trash."""

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """Undo removals that turned out not to be needed."""

    def held_by(self) -> Mapping[str, int]:
        """What holds the bytes that stay, by reason."""


def cap_count(
    cap: str,
    limit: int,
    members: Sequence[Decision],
    *,
    reason: str,
    take: Callable[[Decision, str], int],
    order: Callable[[Sequence[Decision]], Iterable[Decision]] = oldest_first,
) -> list[Shortfall]:
    """Limit how many members stay; they are removed in `order`. `take` removes one member and
    returns how many items left with it. Removed items can go to the trash, since the trash counts
    no items."""
    kept = [each for each in members if each.kept]
    excess = len(kept) - limit
    for decision in order(kept if excess > 0 else ()):
        if excess <= 0:
            return []
        if decision.kept and decision.holder is None:  # it may already have gone with its parent
            excess -= take(decision, reason)
    if excess <= 0:
        return []
    held = Counter(_holder(each) for each in members if each.kept)
    _say_why(members)
    return [Shortfall(cap=cap, limit=limit, remaining=limit + excess, held_by=dict(held))]


def _say_why(members: Iterable[Decision]) -> None:
    """Set the reason why items stay under a cap that cannot be met. It is not a keep rule, since
    caps overrule those."""
    for each in members:
        if each.kept and each.held is None:
            why = f"{each.newest}: a cap never takes it" if each.newest else _NOTHING_TO_GAIN
            each.reason = why


def cap_bytes(cap: str, limit: int, weighing: Weighing) -> list[Shortfall]:
    """Limit the bytes that stay. Trash counts too and is the first to go.

    Items taken by this cap are deleted at once: moving them to the trash would free nothing. So the
    order is existing trash, then what this plan meant to put there, then the oldest items. A cap
    that uses the trash takes items only, and the shortfall reports what waits in the trash.
    """
    reason = f"{OVER_THE_CAP} {format_bytes(limit)}"
    most = limit + weighing.spared
    taken: list[Taken] = []
    for wave in list(weighing.waves()):
        for decision in wave:
            if weighing.bytes <= most:
                break
            if weighing.would_free(decision):
                taken.append(Taken(decision, decision.action, decision.reason))
                # For an item that a rule meant for the trash, the reason names the rule too: the
                # rule alone would not delete it permanently.
                also = "" if decision.kept else f", trash included: {decision.reason}"
                weighing.take(decision, f"{reason}{also}")
    weighing.put_back(taken, max(most, weighing.bytes))
    if weighing.bytes > limit:
        _say_why(weighing.members)
    remaining = weighing.bytes + weighing.in_trash
    if remaining <= limit:
        return []
    found = {**weighing.held_by(), _TRASH_WAITS: weighing.in_trash}
    held = {why: much for why, much in found.items() if much}
    return [Shortfall(cap=cap, limit=limit, remaining=remaining, held_by=held)]


def unreached(cap: str, limit: int, weighing: Weighing) -> list[Shortfall]:
    """The shortfall: what holds the bytes that stay above a limit, without the trash."""
    if weighing.bytes <= limit:
        return []
    held = {why: much for why, much in weighing.held_by().items() if much}
    return [Shortfall(cap=cap, limit=limit, remaining=weighing.bytes, held_by=held)]


def _waves(
    trash: Iterable[Decision], members: Sequence[Decision], *, use_trash: bool
) -> Iterator[list[Decision]]:
    if not use_trash:
        yield oldest_first(each for each in trash if each.kept and each.held is None)
        yield oldest_first(each for each in members if not each.kept and each.undoable)
    yield oldest_first(each for each in members if each.kept and each.holder is None)


def _holder(decision: Decision) -> str:
    return decision.holder or _NOTHING_TO_GAIN


class Sum:
    """Each item has its own bytes. A session and its files are removed as one, and the session's
    delegates with them, even those that this cap does not cover.

    `remains` has the bytes that stay in any case, by reason. With `use_trash`, items move to the
    trash, and the trash does not count.
    """

    spared = 0

    def __init__(
        self,
        members: Sequence[Decision],
        trash: Sequence[Decision],
        remains: Mapping[str, int],
        *,
        covers: Callable[[Decision], bool],
        delegates: Delegates,
        use_trash: bool = False,
    ) -> None:
        self.members = members
        self._use_trash = use_trash
        self._trash = trash
        self._remains = remains
        self._covers = covers
        self._delegates = delegates
        staying = sum(each.bytes for each in self._staying())
        self.bytes = sum(remains.values()) + staying

    @property
    def in_trash(self) -> int:
        if not self._use_trash:
            return 0
        going = (each for each in self.members if not each.kept and each.undoable)
        return sum(each.bytes for each in (*going, *(t for t in self._trash if t.kept)))

    def waves(self) -> Iterator[Iterable[Decision]]:
        return _waves(self._trash, self.members, use_trash=self._use_trash)

    def would_free(self, decision: Decision) -> bool:
        """False if the item has no bytes, or has gone with its parent."""
        return (
            decision.bytes > 0 and decision.holds_space and (decision.kept or not self._use_trash)
        )

    def take(self, decision: Decision, reason: str) -> None:
        decision.remove(reason, undoable=self._use_trash)
        followed = filter(self._covers, self._delegates.follow((decision,)))
        self.bytes -= sum(each.bytes for each in (decision, *followed))

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """Does nothing: the oldest go first, however little they free."""

    def held_by(self) -> Mapping[str, int]:
        held = Counter(self._remains)
        for decision in self._staying():
            held[_holder(decision)] += decision.bytes
        return +held

    def _staying(self) -> Iterator[Decision]:
        if self._use_trash:
            return (each for each in self.members if each.kept)
        return (each for each in (*self.members, *self._trash) if each.holds_space)


class Shared:
    """Checkpoints share most of what they hold, so the bytes that one frees depend on those removed
    before it.

    The oldest are removed until the rest fits. Then whatever fits again is put back, newest first,
    so that putting back any other would exceed the cap. Where checkpoints are a chain, none is put
    back that is older than a removed one.

    Archives of older layouts wait for the user. They must not cause checkpoints to be removed, so
    checkpoints are limited as if the archives did not exist; the shortfall names them.
    """

    def __init__(
        self,
        shared: SharedBytes,
        trash: Sequence[Decision],
        members: Sequence[Decision],
        *,
        use_trash: bool = False,
    ) -> None:
        self._shared = shared
        self._trash = trash
        self.members = members
        self._use_trash = use_trash
        self._trial = shared.trial()
        if use_trash:  # the trash does not count then
            for each in trash:
                if each.kept:
                    self._trial.forget(each)
            for each in members:
                if not each.kept and each.undoable:
                    self._trial.forget(each)

    @property
    def bytes(self) -> int:
        return self._trial.bytes

    @property
    def spared(self) -> int:
        return sum(each.item.bytes for each in self._shared.legacy if each.holds_space)

    @property
    def in_trash(self) -> int:
        return self._shared.trial().bytes - self.bytes if self._use_trash else 0

    def waves(self) -> Iterator[Iterable[Decision]]:
        return _waves(self._trash, self.members, use_trash=self._use_trash)

    def would_free(self, _: Decision) -> bool:
        """Always true: an item may free bytes only once others have gone too."""
        return True

    def take(self, decision: Decision, reason: str) -> None:
        if decision.kept:
            self._trial.hide(decision)
        self._trial.forget(decision)
        decision.remove(reason, undoable=self._use_trash)

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """One pass is enough: what did not fit with fewer put back does not fit with more."""
        projects = self._shared.inventory.projects
        chained = {name for name, each in projects.items() if each.chained}
        broken: set[str] = set()
        for each in reversed(taken):
            project = self._shared.projects.get(each.decision, "")
            if project in broken and each.action is Action.KEEP:
                continue
            final = each.decision.reason
            self._return(each)
            if self.bytes > limit:
                self.take(each.decision, final)
                broken |= {project} & chained

    def _return(self, taken: Taken) -> None:
        """Restore the decision: what was kept is kept again; what was meant for the trash goes
        there."""
        decision = taken.decision
        decision.action, decision.reason = taken.action, taken.reason
        decision.undoable = not decision.kept
        self._trial.remember(decision)
        if decision.kept:
            self._trial.show(decision)

    def held_by(self) -> Mapping[str, int]:
        """Objects that several checkpoints hold count for the first reason."""
        staying = [each for each in self._shared.live if each.kept]
        held: dict[str, int] = {}
        trial = self._shared.trial()
        for why in sorted({each.holder or _STORE_ITSELF for each in staying}):
            before = trial.bytes
            for each in staying:
                if (each.holder or _STORE_ITSELF) == why:
                    trial.release(each)
            held[why] = before - trial.bytes
        held[LEGACY_WAITS] = self.spared
        rest = trial.bytes - self.spared - self.in_trash
        held[_STORE_ITSELF] = held.get(_STORE_ITSELF, 0) + rest
        return held
