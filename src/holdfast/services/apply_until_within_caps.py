"""Bring a home within its caps on bytes: plan, apply, and repeat while a cap is exceeded.

How much a plan frees is certain only afterwards. A session's bytes are an estimate until its pages
are given back, and git objects that were stored as deltas against a removed object grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.rules import CheckpointPolicy
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.services.plans import is_over, plan_prune_checkpoints
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.value import dataclass

#: The maximum number of plans.
ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A plan, and whether a cap on bytes was exceeded when it was made."""

    plan: Plan
    over: bool
    note: str = ""


def bound(
    home: Home, make: Callable[[], Round], *, clock: Clock, progress: Progress
) -> tuple[Sequence[Report], Round]:
    """Apply the plans of `make`, as long as a cap is exceeded and more can be removed. Returns the
    reports of all operations, and the last round."""
    reports: list[Report] = []
    while True:
        made = make()
        if reports and not (made.over and made.plan.removals):
            break
        reports.append(apply(made.plan, home, clock=clock, progress=progress))
        if len(reports) == ROUNDS or not made.over or progress.stop_requested():
            break
    return [report for report in reports if report.operation is not None], made


def bound_checkpoints(
    home: Home,
    policy: CheckpointPolicy,
    *,
    command: str,
    clock: Clock,
    progress: Progress | None = None,
    own: bool = False,
) -> tuple[Sequence[Report], Plan]:
    """Bound all checkpoints of a home, or with `own` only those that Holdfast takes there. Also
    returns the last plan."""
    upkeep = home.own_checkpoint_upkeep if own else home.checkpoint_upkeep

    def make() -> Round:
        made, inventory = plan_prune_checkpoints(
            upkeep, policy, now=clock(), command=command, changing=True
        )
        return Round(plan=made, over=is_over(policy, inventory))

    reports, last = bound(home, make, clock=clock, progress=progress or Silent())
    upkeep.tidy()
    return reports, last.plan
