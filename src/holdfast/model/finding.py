"""What a check-up of a home found."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.value import dataclass


class Severity(StrEnum):
    """`DAMAGE`: data is no longer what was written, or cannot be read. `WARNING`: all data is
    there, but something needs attention, or could not be checked just now."""

    OK = "ok"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check, what is wrong, and what to do about it."""

    check: str
    severity: Severity = Severity.OK
    message: str = "fine"
    advice: str = ""
    repairable: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "severity": self.severity.value,
            "message": self.message,
            "advice": self.advice,
            "repairable": self.repairable,
        }
