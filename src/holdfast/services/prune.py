"""Scan a home and plan by a policy. What is shown is what `apply` executes."""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.inventory import Inventory
from holdfast.model.item import ARCHIVED_KINDS
from holdfast.model.plan import Action, Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import Files, Policy
from holdfast.policy.selection import Selection
from holdfast.ports import Home, Progress


def plan_prune_archive(
    home: Home, policy: Policy, *, now: float, command: str, wanted: SessionFilter
) -> tuple[Plan, Inventory]:
    """The plan for archived sessions that are wanted. Their age is their time in the archive."""
    chosen = {each.file for each in home.archive.find(wanted)}
    inventory = archive_inventory(home, now)
    if wanted != SessionFilter():
        items = tuple(item for item in inventory.items if item.id in chosen)
        inventory = replace(inventory, items=items, other_bytes=0)
    return plan(policy, inventory, now, command=command), inventory


def archive_inventory(home: Home, now: float) -> Inventory:
    """What the archive holds, its trash included: that counts, and is the first to go."""
    trash = tuple(
        entry.as_item()
        for entry in home.log.read().trash
        if entry.removal.item.kind in ARCHIVED_KINDS
    )
    return Inventory(
        home=str(home.root),
        scanned_at=now,
        items=tuple(home.archive.items()),
        trash=trash,
        problems=tuple(home.archive.problems()),
        other_bytes=home.archive.other_bytes(sum(item.bytes for item in trash)),
    )


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
    if selection != Selection():  # what belongs to all sessions together bounds no part of them
        selected = replace(selected, other_bytes=0, log_bytes=0, loose_trash_bytes=0)
        selected = replace(selected, checkpoint_bytes=0, archive_bytes=0)
    made = plan(policy, selected, now, command=command, files=files, leaving=leaving)
    return made, inventory
