"""What is in a home, what it costs, what its policy would free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import EmptyPolicyError
from holdfast.model.inventory import Inventory
from holdfast.model.item import Item
from holdfast.model.plan import Plan
from holdfast.model.session import Session
from holdfast.model.stats import Share, StoreStats
from holdfast.policy.limits import SessionLimits, near
from holdfast.policy.retention import plan
from holdfast.policy.rules import DAY, Policy
from holdfast.ports import Home, Progress, SessionStore

_MOST = 10

AGES = (
    ("< 1 d", DAY),
    ("< 7 d", 7 * DAY),
    ("< 30 d", 30 * DAY),
    ("< 90 d", 90 * DAY),
    ("< 1 y", 365 * DAY),
    ("older", float("inf")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeStatus:
    """One home on the status screen. `plan` is None when its policy is empty."""

    kind: str
    inventory: Inventory
    by_kind: tuple[Share, ...]
    by_age: tuple[Share, ...]
    by_source: tuple[Share, ...]
    plan: Plan | None
    unfinished: tuple[str, ...]
    store: StoreStats | None = None
    near_limit: tuple[Session, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "home": self.inventory.home,
            "kind": self.kind,
            "total_bytes": self.inventory.total_bytes,
            "other_bytes": self.inventory.other_bytes,
            "trash": {
                "count": len(self.inventory.trash),
                "bytes": sum(item.bytes for item in self.inventory.trash),
            },
            "by_kind": [share.to_json() for share in self.by_kind],
            "by_age": [share.to_json() for share in self.by_age],
            "by_source": [share.to_json() for share in self.by_source],
            "sessions": self.store.to_json() if self.store else None,
            "near_limit": [session.to_json() for session in self.near_limit],
            "policy_would_remove": len(self.plan.removals) if self.plan else 0,
            "policy_would_free": self.plan.bytes if self.plan else 0,
            "unfinished_operations": list(self.unfinished),
            "problems": [
                {"path": problem.path, "reason": problem.reason}
                for problem in self.inventory.problems
            ],
        }


def status(
    home: Home,
    policy: Policy,
    *,
    now: float,
    limits: SessionLimits | None = None,
    progress: Progress | None = None,
) -> HomeStatus:
    inventory = home.scan(now, progress)
    items = inventory.items
    store = home.session_store()
    try:
        would = plan(policy, inventory, now, command="sessions prune")
    except EmptyPolicyError:
        would = None
    return HomeStatus(
        kind=home.kind,
        inventory=inventory,
        by_kind=_largest_first(_shares(items, lambda item: item.kind)),
        by_age=_by_age(items, now),
        by_source=_largest_first(_shares(items, lambda item: item.source)),
        plan=would,
        unfinished=tuple(
            operation.id
            for operation in home.log.read().operations
            if operation.finished_at is None
        ),
        store=None if store is None else store.statistics(now=now, ages=AGES),
        near_limit=_near_limit(store, limits or SessionLimits()),
    )


def _near_limit(store: SessionStore | None, limits: SessionLimits) -> tuple[Session, ...]:
    if store is None:
        return ()
    found = [session for wanted in near(limits) for session in store.find(wanted, limit=_MOST)]
    return tuple({session.id: session for session in found}.values())


def _shares(items: Iterable[Item], name_of: Callable[[Item], str]) -> list[Share]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for item in items:
        counts[name_of(item)] += 1
        sizes[name_of(item)] += item.bytes
    return [Share(name=name, count=counts[name], bytes=sizes[name]) for name in counts]


def _largest_first(shares: Sequence[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.bytes, share.name)))


def _by_age(items: Iterable[Item], now: float) -> tuple[Share, ...]:
    """Every age class, the empty ones too: a gap says something."""

    def age_class(item: Item) -> str:
        age = now - item.last_active_at
        return next(name for name, limit in AGES if age < limit)

    found = {share.name: share for share in _shares(items, age_class)}
    return tuple(found.get(name, Share(name=name, count=0, bytes=0)) for name, _ in AGES)
