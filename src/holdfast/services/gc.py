"""Scan a home and plan what of its sessions was never worth keeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.model.inventory import Inventory
from holdfast.model.plan import Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.gc import plan_gc
from holdfast.policy.rules import GcRules, Policy
from holdfast.ports import Home, Progress


def plan_home_gc(
    home: Home,
    rules: GcRules,
    policy: Policy,
    *,
    now: float,
    command: str,
    wanted: SessionFilter,
    left: Callable[[Inventory], Inventory] = lambda seen: seen,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """The plan for the wanted sessions, and everything that the scan saw: of a store that may hold
    hundreds of thousands, only those that are small enough to go. `left` takes out what another
    step is to have."""
    few = rules.trivial_max if wanted.max_messages is None else wanted.max_messages
    wanted = replace(wanted, max_messages=min(few, rules.trivial_max))
    inventory = home.scan(now, progress, wanted=wanted)
    return plan_gc(rules, policy, left(inventory), now, command=command), inventory
