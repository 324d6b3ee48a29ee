"""Scan a home and plan by a policy. What is shown is what `apply` executes."""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.inventory import Inventory
from holdfast.model.plan import Action, Plan
from holdfast.policy.retention import plan
from holdfast.policy.rules import Files, Policy
from holdfast.policy.selection import Selection
from holdfast.ports import Home, Progress


def plan_prune(
    home: Home,
    policy: Policy,
    *,
    now: float,
    command: str,
    selection: Selection,
    files: Files = Files.WITH,
    leaving: Action = Action.REMOVE,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """The plan for what is selected, and everything that the scan saw."""
    inventory = home.scan(now, progress, wanted=selection.sessions)
    selected = replace(
        inventory,
        items=selection.of(inventory.items),
        trash=selection.of(inventory.trash),
        space=selection.of(inventory.space),
    )
    made = plan(policy, selected, now, command=command, files=files, leaving=leaving)
    return made, inventory
