"""A budget of bytes that several pots share: the sessions, the archive and the checkpoints of each
home are one pot each.

The rule: small pots are left alone. Pots above a common level come down to it, and the level is as
high as the budget allows. A pot that cannot come down, because its contents are in use or pinned,
does not make the others give more than their share: the report names what holds it.

Space is freed in two steps. When everything except trash exceeds the high mark, it is brought down
to the low mark by moving items to the trash: that can be undone, and frees nothing yet. When all of
it, trash included, exceeds the budget, trash is emptied, by the same rule, until it fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`limit` bytes for everything. Above `high`, everything except trash comes down to `low`."""

    limit: int
    high: int
    low: int

    @classmethod
    def of(cls, limit: int, *, high_percent: int, low_percent: int) -> Budget:
        high = limit * high_percent // 100
        return cls(limit=limit, high=high, low=min(high, limit * low_percent // 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pot:
    """The contents of one place, in bytes, and the trash in it that undo could bring back."""

    kept: int
    trash: int = 0

    @property
    def bytes(self) -> int:
        return self.kept + self.trash


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What may stay of a pot. `kept` limits what is not trash, `bytes` all of it. None means that
    it need not give anything."""

    kept: int | None = None
    bytes: int | None = None

    @property
    def gives(self) -> bool:
        return self.kept is not None or self.bytes is not None


def is_high(budget: Budget | None, pots: Sequence[Pot]) -> bool:
    """True if what is not trash has to come down. No budget, or one of 0, is never exceeded."""
    return budget is not None and budget.limit > 0 and sum(each.kept for each in pots) > budget.high


def is_over(budget: Budget | None, pots: Sequence[Pot]) -> bool:
    """True if space has to be freed, if only in the trash."""
    if budget is None or budget.limit <= 0:
        return False
    return is_high(budget, pots) or sum(each.bytes for each in pots) > budget.limit


def shares(budget: Budget, pots: Sequence[Pot], *, begun: bool = False) -> list[Share]:
    """What each pot may keep. A run that has `begun` to bring down what is not trash continues
    until the low mark is reached."""
    sizes = [each.kept for each in pots]
    most = level(sizes, budget.low if begun or is_high(budget, pots) else sum(sizes))
    kept = [min(each.kept, most) for each in pots]
    moved = [
        Pot(kept=stays, trash=each.bytes - stays) for each, stays in zip(pots, kept, strict=True)
    ]
    return [
        Share(kept=stays if stays < each.kept else None, bytes=share.bytes)
        for each, stays, share in zip(pots, kept, trash_shares(budget, moved), strict=True)
    ]


def trash_shares(budget: Budget, pots: Sequence[Pot]) -> list[Share]:
    """The same if nothing but trash may go: everything that is not trash stays, and counts."""
    most = level([each.trash for each in pots], budget.limit - sum(each.kept for each in pots))
    return [Share(bytes=each.kept + most if each.trash > most else None) for each in pots]


def level(sizes: Sequence[int], room: int) -> int:
    """The highest level such that everything fits once larger pots are brought down to it."""
    left, waiting = max(0, room), len(sizes)
    for size in sorted(sizes):
        if size * waiting > left:
            return left // waiting
        left -= size
        waiting -= 1
    return max(sizes, default=0)


def tighter(one: Share, other: Share) -> Share:
    """The share if both apply."""
    return Share(kept=_least(one.kept, other.kept), bytes=_least(one.bytes, other.bytes))


def after(pot: Pot, share: Share) -> Pot:
    """The pot after it has given its share."""
    kept = pot.kept if share.kept is None else min(pot.kept, share.kept)
    trash = pot.bytes - kept
    return Pot(kept=kept, trash=trash if share.bytes is None else min(trash, share.bytes - kept))


def _least(one: int | None, other: int | None) -> int | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)
