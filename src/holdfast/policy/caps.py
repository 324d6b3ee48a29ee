"""Upper bounds: take the fewest, oldest items until what stays fits, or say what is in the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from holdfast.model.plan import Shortfall
from holdfast.model.units import format_bytes, format_count
from holdfast.policy.decision import Decision


def cap_count(
    members: Sequence[Decision], limit: int, cap: str, *, use_trash: bool
) -> list[Shortfall]:
    """Bound how many items stay. What goes can use the trash: it counts no items."""
    kept = [decision for decision in members if decision.kept]
    excess = len(kept) - limit
    for decision in _oldest_first(kept):
        if excess <= 0:
            return []
        if decision.holder is None:
            decision.remove(f"over the cap of {format_count(limit, 'item')}", undoable=use_trash)
            excess -= 1
    staying = [each for each in members if each.kept]
    return _shortfall(cap, limit, excess, staying, lambda _: 1)


def cap_bytes(
    members: Sequence[Decision], trash: Sequence[Decision], limit: int, cap: str
) -> list[Shortfall]:
    """Bound the bytes that stay. Trash counts too and is the first to go.

    What this takes is gone at once: moving it to the trash would free nothing. So the order is
    trash that is there already, then what this plan meant to put there, then the oldest items.
    """
    everything = [*members, *trash]
    excess = sum(each.item.bytes for each in everything if each.holds_space) - limit
    reason = f"over the cap of {format_bytes(limit)}"
    waves = (
        [each for each in trash if each.kept and each.held is None],
        [each for each in members if not each.kept and each.undoable],
        [each for each in members if each.kept and each.holder is None],
    )
    for wave in waves:
        for decision in _oldest_first(wave):
            if excess <= 0:
                return []
            if decision.item.bytes == 0:
                continue  # taking it would free nothing
            decision.remove(reason, undoable=False)
            excess -= decision.item.bytes
    staying = [each for each in everything if each.holds_space]
    return _shortfall(cap, limit, excess, staying, lambda each: each.item.bytes)


def _oldest_first(decisions: Iterable[Decision]) -> list[Decision]:
    return sorted(decisions, key=lambda each: (each.item.last_active_at, each.item.id))


def _shortfall(
    cap: str,
    limit: int,
    excess: int,
    staying: Iterable[Decision],
    weigh: Callable[[Decision], int],
) -> list[Shortfall]:
    if excess <= 0:
        return []
    held: dict[str, int] = defaultdict(int)
    for decision in staying:
        if weigh(decision):
            held[decision.holder or "nothing to gain by removing it"] += weigh(decision)
    return [Shortfall(cap=cap, limit=limit, remaining=limit + excess, held_by=dict(held))]
