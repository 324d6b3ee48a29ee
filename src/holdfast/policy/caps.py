"""Upper bounds: take the fewest, oldest items until what stays fits, or say what is in the way.

A session and its files are one: they go whole, and the session's delegates with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from holdfast.model.plan import Shortfall
from holdfast.model.units import format_bytes, format_count
from holdfast.policy.decision import Decision
from holdfast.policy.lineage import Delegates


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one set of caps bounds: everything, or what `covers` says is of one source.

    `remains` are bytes that stay whatever goes, by why they do. What the caps take of a session
    takes its `delegates` along, even those that this scope does not cover.
    """

    label: str
    covers: Callable[[Decision], bool]
    members: Sequence[Decision]
    trash: Sequence[Decision]
    remains: Mapping[str, int]
    delegates: Delegates

    def take(self, decision: Decision, reason: str, *, undoable: bool) -> list[Decision]:
        """What this scope is rid of when one decision is to remove."""
        decision.remove(reason, undoable=undoable)
        followed = self.delegates.follow((decision,))
        return [decision, *filter(self.covers, followed)]


def cap_count(scope: Scope, limit: int, *, use_trash: bool) -> list[Shortfall]:
    """Bound how many items stay. What goes can use the trash: it counts no items."""
    kept = [decision for decision in scope.members if decision.kept]
    excess = len(kept) - limit
    reason = f"over the cap of {format_count(limit, 'item')}"
    for decision in _oldest_first(kept if excess > 0 else ()):
        if excess <= 0:
            return []
        if decision.kept and decision.holder is None:  # it may have gone with its parent
            excess -= len(scope.take(decision, reason, undoable=use_trash))
    staying = [each for each in scope.members if each.kept]
    return _shortfall(f"max_count{scope.label}", limit, excess, staying, lambda _: 1, {})


def cap_bytes(scope: Scope, limit: int) -> list[Shortfall]:
    """Bound the bytes that stay. Trash counts too and is the first to go.

    What this takes is gone at once: moving it to the trash would free nothing. So the order is
    trash that is there already, then what this plan meant to put there, then the oldest items.
    """
    everything = [*scope.members, *scope.trash]
    _take_bytes(scope, everything, limit)
    staying = [each for each in everything if each.holds_space]
    excess = sum(scope.remains.values()) + sum(each.bytes for each in staying) - limit
    name = f"max_total_size{scope.label}"
    return _shortfall(name, limit, excess, staying, lambda each: each.bytes, scope.remains)


def _take_bytes(scope: Scope, everything: Sequence[Decision], limit: int) -> None:
    held = sum(scope.remains.values())
    excess = held + sum(each.bytes for each in everything if each.holds_space) - limit
    if excess <= 0:
        return
    reason = f"over the cap of {format_bytes(limit)}"
    waves = (
        [each for each in scope.trash if each.kept and each.held is None],
        [each for each in scope.members if not each.kept and each.undoable],
        [each for each in scope.members if each.kept and each.holder is None],
    )
    for wave in waves:
        for decision in _oldest_first(wave):
            if excess <= 0:
                return
            if decision.bytes == 0 or not decision.holds_space:
                continue  # taking it would free nothing, or it has gone with its parent
            gone = scope.take(decision, reason, undoable=False)
            excess -= sum(each.bytes for each in gone)


def _oldest_first(decisions: Iterable[Decision]) -> list[Decision]:
    by_id = sorted(decisions, key=attrgetter("item.id"))
    by_id.sort(key=attrgetter("item.last_active_at"))
    return by_id


def _shortfall(
    cap: str,
    limit: int,
    excess: int,
    staying: Iterable[Decision],
    weigh: Callable[[Decision], int],
    remains: Mapping[str, int],
) -> list[Shortfall]:
    if excess <= 0:
        return []
    held = Counter(remains)
    for decision in staying:
        held[decision.holder or "nothing to gain by removing it"] += weigh(decision)
    return [Shortfall(cap=cap, limit=limit, remaining=limit + excess, held_by=dict(+held))]
