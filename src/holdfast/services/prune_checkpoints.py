"""Plans for checkpoints: by the policy, or for those that somebody named. `apply` executes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.named import plan_all, plan_named_checkpoints
from holdfast.policy.planner import plan_checkpoints
from holdfast.policy.rules import CheckpointPolicy
from holdfast.ports import CheckpointUpkeep, Clock, Home, Progress
from holdfast.services.apply import apply
from holdfast.services.silent import Silent

#: How often to plan anew when the bound on bytes was not reached.
_ROUNDS = 3


def plan_prune_checkpoints(
    upkeep: CheckpointUpkeep,
    policy: CheckpointPolicy,
    *,
    now: float,
    command: str,
    changing: bool = False,
) -> tuple[Plan, CheckpointInventory]:
    """The plan by a policy, and what it was made from.

    When it is to be carried out (`changing`), a store over its bound is packed before anything is
    dropped for that: what single objects take is no measure of what they would take in a pack. A
    dry run changes nothing, so it may name more.
    """
    if changing:
        upkeep.note(now)
    inventory = upkeep.scan(now)
    made = plan_checkpoints(policy, inventory, now, command=command)
    if changing and policy.max_bytes is not None and inventory.bounded_bytes > policy.max_bytes:
        upkeep.pack()
        inventory = upkeep.scan(now)
        made = plan_checkpoints(policy, inventory, now, command=command)
    return made, inventory


def bound_own_checkpoints(
    home: Home, policy: CheckpointPolicy, *, command: str, clock: Clock
) -> Sequence[Report]:
    """Those that Holdfast itself takes in a home, while somebody takes more."""
    upkeep, progress = home.own_checkpoint_upkeep, Silent()
    return _bound(home, upkeep, policy, command=command, clock=clock, progress=progress)[0]


def bound_checkpoints(
    home: Home,
    policy: CheckpointPolicy,
    *,
    command: str,
    clock: Clock,
    progress: Progress,
) -> tuple[Sequence[Report], Plan]:
    """All checkpoints of a home. Returns also the last plan that was made."""
    upkeep = home.checkpoint_upkeep
    return _bound(home, upkeep, policy, command=command, clock=clock, progress=progress)


def _bound(
    home: Home,
    upkeep: CheckpointUpkeep,
    policy: CheckpointPolicy,
    *,
    command: str,
    clock: Clock,
    progress: Progress,
) -> tuple[Sequence[Report], Plan]:
    """Plan and apply; again while the folder is over its bound and something more can go.

    Objects that were stored as a difference to one that went take more room than before, so what a
    plan frees is known for sure only afterwards.
    """
    reports: list[Report] = []
    while True:
        made, inventory = plan_prune_checkpoints(
            upkeep, policy, now=clock(), command=command, changing=True
        )
        over = policy.max_bytes is not None and inventory.bounded_bytes > policy.max_bytes
        if reports and not (over and made.removals):
            break
        reports.append(apply(made, home, clock=clock, progress=progress))
        if len(reports) == _ROUNDS or not over or progress.stop_requested():
            break
    upkeep.tidy()
    return [report for report in reports if report.operation is not None], made


def plan_drop(
    upkeep: CheckpointUpkeep,
    ids: Collection[str] | None,
    *,
    now: float,
    command: str,
    undoable: bool = True,
    legacy: bool = False,
) -> Plan:
    """Remove these checkpoints, or all of them with everything that was hidden before; with
    `legacy` also what older layouts left."""
    inventory = upkeep.scan(now)
    return plan_named_checkpoints(
        ids, inventory, now, command=command, undoable=undoable, legacy=legacy
    )


def plan_clear_legacy(
    upkeep: CheckpointUpkeep, *, now: float, command: str, undoable: bool = True
) -> Plan:
    """Remove the archives of older repositories."""
    inventory = upkeep.scan(now)
    return plan_all(
        inventory.legacy,
        inventory.home,
        now,
        command=command,
        reason="cleared on request",
        undoable=undoable,
    )
