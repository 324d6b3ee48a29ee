"""Scan a home and plan by a policy. What is shown is what `apply` executes."""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.inventory import Inventory
from holdfast.model.plan import Action, Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.retention import plan
from holdfast.policy.rules import Files, Policy
from holdfast.policy.selection import Selection
from holdfast.ports import Home, Progress


def plan_prune_archive(
    home: Home, policy: Policy, *, now: float, command: str, wanted: SessionFilter
) -> tuple[Plan, Inventory]:
    """The plan for archived sessions that are wanted. Their age is their time in the archive."""
    chosen = {each.file for each in home.archive.find(wanted)}
    inventory = Inventory(
        home=str(home.root),
        scanned_at=now,
        items=tuple(item for item in home.archive.items() if item.id in chosen),
        problems=tuple(home.archive.problems()),
    )
    return plan(policy, inventory, now, command=command), inventory


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
