"""What one call of the library planned, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.model.plan import Plan
from holdfast.model.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`report` is None after a dry run: then the plan is all there is."""

    plan: Plan
    report: Report | None = None

    @property
    def applied(self) -> bool:
        return self.report is not None

    @property
    def operation(self) -> str | None:
        """Its number in the log, for `undo`; None when nothing was done."""
        return self.report.operation if self.report else None

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_json(),
            "applied": self.applied,
            "report": self.report.to_json() if self.report else None,
        }
