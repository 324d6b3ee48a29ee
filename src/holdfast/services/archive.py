"""Plan to archive sessions: those that were named, or those that filters pick."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import UsageError
from holdfast.model.inventory import Inventory
from holdfast.model.item import SESSION
from holdfast.model.plan import Action, Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.named import plan_named
from holdfast.policy.rules import Policy
from holdfast.ports import Archive, Home, Progress

_REASON = "archived on request"


def plan_archive(
    home: Home,
    archive: Archive,
    *,
    ids: Sequence[str] = (),
    wanted: SessionFilter | None = None,
    policy: Policy,
    now: float,
    command: str,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """Archive these sessions with their files; the living stay, and the plan says so.

    `ids` are whole ids. Of those that filters pick, the pinned are no part of it unless pinned
    ones were asked for: a pin does not protect from a person who names the session. The same holds
    for those that were archived in their agent.

    Raises `StorageError` when the archive folder is not to be had: better before a plan is shown
    than after it was agreed to.
    """
    if not ids and wanted is None:
        raise UsageError("Say which sessions to archive: their ids, or filters.")
    archive.check()
    chosen = SessionFilter(ids=tuple(ids)) if wanted is None else wanted
    inventory = home.scan(now, progress, wanted=chosen)
    with_pinned = bool(ids) or chosen.pinned is True
    found = {
        item.id
        for item in inventory.items
        if item.kind == SESSION
        and (with_pinned or not policy.pins_item(item))
        and (bool(ids) or chosen.agent_archived is True or not item.archived_in)
    }
    plan = plan_named(
        found,
        inventory,
        now,
        command=command,
        reason=_REASON,
        undoable=True,
        action=Action.ARCHIVE,
    )
    return plan, inventory
