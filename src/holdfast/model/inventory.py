"""What one scan of a home found."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.item import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something the scan could not look at, or left alone on purpose."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything seen, and everything that could not be seen.

    `space` is what stores could give back without losing anything; `other_bytes` what lies in the
    home beside all of these: state files, the archive, the operation log, checkpoints, which have
    a scan of their own. `checkpoint_bytes` is their part of it, as far as it was looked at.
    """

    home: str
    scanned_at: float
    items: tuple[Item, ...]
    trash: tuple[Item, ...] = ()
    space: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    other_bytes: int = 0
    checkpoint_bytes: int = 0

    @property
    def everything(self) -> tuple[Item, ...]:
        return self.items + self.trash + self.space

    @property
    def total_bytes(self) -> int:
        return sum(item.bytes for item in self.everything) + self.other_bytes
