"""How much of each cap is used, counted as the planner counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.inventory import Inventory
from holdfast.model.item import Item
from holdfast.model.units import format_bytes, format_count
from holdfast.policy.rules import Caps, Policy

MAX_COUNT = "max_count"
MAX_BYTES = "max_total_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUse:
    """One cap, and what counts against it: bytes, or items."""

    cap: str
    limit: int
    used: int

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit

    @property
    def in_bytes(self) -> bool:
        return self.cap.startswith(MAX_BYTES)

    @property
    def percent(self) -> int:
        """Rounded down; a cap of nothing is used up by anything."""
        return self.used * 100 // self.limit if self.limit else 100 * bool(self.used)

    def is_near(self, share: float) -> bool:
        return self.used > 0 and self.used >= self.limit * share

    def amount(self, number: int) -> str:
        return format_bytes(number) if self.in_bytes else format_count(number, "item")


def cap_uses(policy: Policy, inventory: Inventory) -> tuple[CapUse, ...]:
    """Every cap of a policy: those of single sources, then those on everything."""
    scopes: list[tuple[str, Caps, list[Item], list[Item], int]] = [
        (
            f" of {source}",
            limits.caps,
            [item for item in inventory.items if item.source == source],
            [item for item in inventory.trash if item.source == source],
            0,
        )
        for source, limits in sorted(policy.by_source.items())
        if not limits.caps.empty
    ]
    overhead = sum(inventory.overhead.values())
    everything = [*inventory.items], [*inventory.trash], overhead
    scopes.append(("", policy.everywhere.caps, *everything))
    return tuple(use for scope in scopes for use in _uses(*scope))


def _uses(
    label: str, caps: Caps, items: list[Item], trash: list[Item], overhead: int
) -> Iterator[CapUse]:
    if caps.max_count is not None:
        # A session and its files are one.
        used = sum(not item.owned for item in items)
        yield CapUse(cap=f"{MAX_COUNT}{label}", limit=caps.max_count, used=used)
    if caps.max_bytes is not None:
        used = sum(item.capped_bytes for item in (*items, *trash)) + overhead
        yield CapUse(cap=f"{MAX_BYTES}{label}", limit=caps.max_bytes, used=used)
