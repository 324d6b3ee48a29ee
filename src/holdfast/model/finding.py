"""What a check-up of a home found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """`DAMAGE` loses or hides data; `WARNING` does not, but should not stay."""

    OK = "ok"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at, what is wrong with it, and what to do."""

    check: str
    severity: Severity
    message: str
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
