"""Carry out a plan. This is the only way anything leaves a home.

It knows no policy: what changed since the plan was made is skipped, never judged again.
"""

from __future__ import annotations

from holdfast.errors import PlanFileError
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.ports import Clock, Home, Progress
from holdfast.services.carry_out import carry_out
from holdfast.services.settle import settle, settle_if_needed
from holdfast.services.silent import Silent


def apply(plan: Plan, home: Home, *, clock: Clock, progress: Progress | None = None) -> Report:
    """Remove what the plan removes. When that is nothing, only a killed run is settled."""
    if plan.home != str(home.root):
        raise PlanFileError(
            f"This plan was made for {plan.home}, not for {home.root}.",
            hint=f"Pick its home with --home {plan.home}, or make a new plan.",
        )
    if not plan.removals:
        settle_if_needed(home, clock=clock)
        return Report(operation=None)
    with home.log.writing(plan.command) as log:
        settle(log, home, clock=clock)
        with log.begin(action=OperationAction.REMOVE, command=plan.command, at=clock()) as journal:
            return carry_out(
                journal,
                [
                    Removal(operation=journal.operation, number=number, item=item)
                    for number, item in enumerate(plan.removals)
                ],
                lambda keeper, batch: keeper.remove(batch),
                home,
                label="removing",
                clock=clock,
                progress=progress or Silent(),
            )
