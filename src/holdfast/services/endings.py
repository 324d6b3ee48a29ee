"""End abandoned sessions: their agent never will."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.report import Result
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock
from holdfast.services.plans import plan_home_endings
from holdfast.spine.apply import apply


def end_abandoned(home: Home, *, clock: Clock, command: str) -> Sequence[str]:
    """End abandoned sessions, in the log and undoable. Returns their ids."""
    plan, _ = plan_home_endings(home, now=clock(), command=command)
    report = apply(plan, home, clock=clock)
    return [each.id for each in report.outcomes if each.result is Result.ENDED]
