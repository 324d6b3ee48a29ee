"""Give abandoned sessions the end that they never had: in the log, and undoable."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.inventory import Inventory
from holdfast.model.plan import Plan
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.named import plan_endings
from holdfast.ports import Clock, Home, Progress
from holdfast.services.apply import apply


def plan_home_endings(
    home: Home, *, now: float, command: str, progress: Progress | None = None
) -> tuple[Plan, Inventory]:
    """The plan for all sessions without an end, and what the scan saw of them."""
    inventory = home.scan(now, progress, wanted=SessionFilter(ended=False))
    return plan_endings(inventory, now, command=command), inventory


def end_abandoned(home: Home, *, clock: Clock, command: str) -> Sequence[str]:
    """End what was abandoned, and say which sessions that were."""
    plan, _ = plan_home_endings(home, now=clock(), command=command)
    report = apply(plan, home, clock=clock)
    return [each.id for each in report.outcomes if each.result is Result.ENDED]
