"""Upper bounds: take the fewest, oldest items until the rest fits, or say what is in the way.

There is one way to bound a number and one to bound bytes. How bytes add up is up to a `Weighing`:
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
#: The share of a budget. Its name begins as that of every cap on bytes does.
KEEP_BYTES = f"{MAX_BYTES}, share of the budget"

#: Of a shortfall: only the user says when these go.
LEGACY_WAITS = "archives of an older layout: they stay until you clear them"
#: Of a shortfall: indexes of packs, refs, the records of projects.
_STORE_ITSELF = "files of the store itself"
#: Of a shortfall: what a cap that uses the trash has put there, and what was there before.
_TRASH_WAITS = "the trash: its space is freed when it is emptied"
_NOTHING_TO_GAIN = "removing it would free nothing"


class Taken(NamedTuple):
    """How a decision was before a cap took it."""

    decision: Decision
    action: Action
    reason: str


class Weighing(Protocol):
    """The bytes that a cap bounds, as decisions change."""

    @property
    def members(self) -> Sequence[Decision]:
        """The items that it may take."""

    @property
    def bytes(self) -> int:
        """What stays on the disk after the plan."""

    @property
    def spared(self) -> int:
        """Bytes that count, but must not cost anything else its place."""

    @property
    def in_trash(self) -> int:
        """Bytes of the trash, where a cap uses it: `bytes` is without them then."""

    def waves(self) -> Iterator[Iterable[Decision]]:
        """What may go, in the order of the waves, and in each wave the oldest first."""

    def would_free(self, decision: Decision) -> bool: ...

    def take(self, decision: Decision, reason: str) -> None:
        """Remove it. Unless the cap uses the trash: for good, even if it was meant for there."""

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """Undo what turned out not to be needed."""

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
    """Bound how many members stay; they go in `order`. `take` removes one member and says how many
    left with it. What goes can use the trash, which counts no items."""
    kept = [each for each in members if each.kept]
    excess = len(kept) - limit
    for decision in order(kept if excess > 0 else ()):
        if excess <= 0:
            return []
        if decision.kept and decision.holder is None:  # it may have gone with its parent
            excess -= take(decision, reason)
    if excess <= 0:
        return []
    held = Counter(_holder(each) for each in members if each.kept)
    _say_why(members)
    return [Shortfall(cap=cap, limit=limit, remaining=limit + excess, held_by=dict(held))]


def _say_why(members: Iterable[Decision]) -> None:
    """Under a cap that cannot be met, a rule is not why an item stays: the cap overrules it."""
    for each in members:
        if each.kept and each.held is None:
            why = f"{each.newest}: a cap never takes it" if each.newest else _NOTHING_TO_GAIN
            each.reason = why


def cap_bytes(cap: str, limit: int, weighing: Weighing) -> list[Shortfall]:
    """Bound the bytes that stay. Trash counts too and is the first to go.

    What this takes is gone at once: moving it to the trash would free nothing. So the order is
    trash that is there already, then what this plan meant to put there, then the oldest items.
    A cap that uses the trash takes items only, and the shortfall says what waits in the trash.
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
                # What a rule meant for the trash says so: the rule alone would not end it.
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
    """What holds the bytes that stay above a limit, the trash left out."""
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
    """Each item has its own bytes. A session and its files are one: they go whole, and the
    session's delegates with them, even those that this cap does not cover.

    `remains` has the bytes that stay whatever goes, by why they do. With `use_trash`, what goes is
    moved to the trash, and the trash does not count.
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
        """Not if it has no bytes, or has gone with its parent."""
        return (
            decision.bytes > 0 and decision.holds_space and (decision.kept or not self._use_trash)
        )

    def take(self, decision: Decision, reason: str) -> None:
        decision.remove(reason, undoable=self._use_trash)
        followed = filter(self._covers, self._delegates.follow((decision,)))
        self.bytes -= sum(each.bytes for each in (decision, *followed))

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """Never: the oldest go first, however little they free."""

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
    """Checkpoints share most of what they hold, so the bytes that one frees depend on those that
    went before it.

    The oldest go until the rest fits. Then whatever fits again comes back, the newest first: so
    putting back any that went would exceed the cap. Where checkpoints are a chain, none comes back
    that is older than one that went.

    Archives of older layouts wait for the user. They must not cost checkpoints their place, so
    checkpoints are bounded as if the archives were not there; the shortfall names them.
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
        if use_trash:  # then the trash does not count
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
        """Perhaps only once others have gone, too."""
        return True

    def take(self, decision: Decision, reason: str) -> None:
        if decision.kept:
            self._trial.hide(decision)
        self._trial.forget(decision)
        decision.remove(reason, undoable=self._use_trash)

    def put_back(self, taken: Sequence[Taken], limit: int) -> None:
        """One pass is enough: what did not fit next to fewer does not fit next to more."""
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
        """What was kept is kept again; what was meant for the trash goes there."""
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
