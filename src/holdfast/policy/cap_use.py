"""How much of each cap is used, counted as the planner does: now, and after a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from holdfast.model.item import LEFTOVER, Inventory, Item
from holdfast.model.plan import Plan, PlanItem, Shortfall
from holdfast.model.text import format_bytes, format_count
from holdfast.policy.caps import MAX_BYTES, MAX_COUNT
from holdfast.policy.rules import Caps, Policy
from holdfast.value import dataclass, replace

WAITS = "waiting for the archive"
_REST = "what fits the cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUse:
    """One cap and what counts against it, in bytes or items."""

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
        """The percentage, rounded down. A cap of 0 is used up by anything."""
        return self.used * 100 // self.limit if self.limit else 100 * bool(self.used)

    def is_near(self, share: float) -> bool:
        return self.used > 0 and self.used >= self.limit * share

    def amount(self, number: int) -> str:
        return format_bytes(number) if self.in_bytes else format_count(number, "item")


def cap_uses(policy: Policy, inventory: Inventory) -> tuple[CapUse, ...]:
    """Every cap of a policy: those of single sources, then those on everything. Leftovers have
    their own retention and count against no cap."""
    items = [item for item in inventory.items if item.kind != LEFTOVER]
    scopes: list[tuple[str, Caps, list[Item], list[Item], int]] = [
        (
            f" of {source}",
            limits.caps,
            [item for item in items if item.source == source],
            [item for item in inventory.trash if item.source == source],
            0,
        )
        for source, limits in sorted(policy.by_source.items())
        if not limits.caps.empty
    ]
    overhead = sum(inventory.overhead.values())
    scopes.append(("", policy.everywhere.caps, items, [*inventory.trash], overhead))
    return tuple(use for scope in scopes for use in _uses(*scope))


def _uses(
    label: str, caps: Caps, items: list[Item], trash: list[Item], overhead: int
) -> Iterator[CapUse]:
    if caps.max_count is not None:
        # A session and its files count as one.
        used = sum(not item.owned for item in items)
        yield CapUse(cap=f"{MAX_COUNT}{label}", limit=caps.max_count, used=used)
    if caps.max_bytes is not None:
        used = sum(item.capped_bytes for item in (*items, *trash)) + overhead
        yield CapUse(cap=f"{MAX_BYTES}{label}", limit=caps.max_bytes, used=used)


def with_waiting(made: Plan, policy: Policy, whole: Inventory, left: Inventory) -> Plan:
    """The plan that was made from what is `left` of the `whole` inventory, with the shortfalls that
    exist while the rest waits for the archive.

    Items that could not go to the archive yet are left out of the plan: no cap takes them, and no
    cap takes younger sessions instead. They are still stored, so they count against the caps.
    """
    if len(whole.items) == len(left.items):
        return made
    known = {each.cap: each for each in made.shortfalls}
    with_all, without = _uses_after(made, policy, whole), _uses_after(made, policy, left)
    return replace(
        made,
        shortfalls=tuple(
            _shortfall(known.get(use.cap), use, use.used - alone.used)
            for use, alone in zip(with_all, without, strict=True)
            if use.cap in known or use.exceeded
        ),
    )


def _shortfall(known: Shortfall | None, use: CapUse, waiting: int) -> Shortfall:
    rest = {_REST: use.used - waiting} if known is None else dict(known.held_by)
    held = {WAITS: waiting, **rest}
    remaining = use.used if known is None else known.remaining + waiting
    return Shortfall(
        cap=use.cap,
        limit=use.limit,
        remaining=remaining,
        held_by={why: much for why, much in held.items() if much},
    )


def _uses_after(made: Plan, policy: Policy, inventory: Inventory) -> Sequence[CapUse]:
    """How much of each cap is used after the plan. Items that move to the trash keep their
    bytes."""
    counted = _after(made, inventory, lambda _: True)
    weighed = _after(made, inventory, lambda item: not item.undoable)
    uses = zip(cap_uses(policy, counted), cap_uses(policy, weighed), strict=True)
    return [in_bytes if in_bytes.in_bytes else in_items for in_items, in_bytes in uses]


def _after(made: Plan, inventory: Inventory, takes: Callable[[PlanItem], bool]) -> Inventory:
    gone = {(item.kind, item.id) for item in made.removals if takes(item)}

    def stays(item: Item) -> bool:
        return (item.kind, item.id) not in gone

    return replace(
        inventory,
        items=tuple(filter(stays, inventory.items)),
        trash=tuple(filter(stays, inventory.trash)),
    )
