"""What a repair of a home did, and what it could not save."""

from __future__ import annotations

from typing import Any

from holdfast.model.text import format_count
from holdfast.value import dataclass

_MOST_RANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Rows that could not be saved. If it is not `exact`, the data that would say which rows is
    damaged too: `count` is then what other rows suggest, or 0, and `ranges` are the ids between
    which the rows were."""

    what: str
    count: int
    exact: bool = True
    ranges: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        if self.exact:
            amount = format_count(self.count, self.what)
        elif self.count:
            amount = f"about {format_count(self.count, self.what)}"
        else:
            amount = f"an unknown number of {self.what}s"
        places = ", ".join(
            str(first) if first == last else f"{first}–{last}"  # noqa: RUF001 - a range
            for first, last in self.ranges[:_MOST_RANGES]
        )
        more = ", …" if len(self.ranges) > _MOST_RANGES else ""
        return f"{amount}, number {places}{more}" if places else amount

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "count": self.count,
            "exact": self.exact,
            "ranges": [list(each) for each in self.ranges],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was done, step by step. `backup` holds everything as it was before."""

    backup: str | None = None
    steps: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "backup": self.backup,
            "steps": list(self.steps),
            "losses": [loss.to_json() for loss in self.losses],
        }
