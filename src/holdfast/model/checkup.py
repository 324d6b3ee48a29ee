"""What a check-up found, what is damaged, and what a repair did."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.model.json_value import JsonValue, fields_to_json
from holdfast.model.text import format_count
from holdfast.value import dataclass


class Severity(StrEnum):
    """`DAMAGE`: data is no longer what was written, or cannot be read. `WARNING`: all data is
    there, but something needs attention, or could not be checked just now."""

    OK = "ok"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(JsonValue):
    """One check, what is wrong, and what to do about it."""

    check: str
    severity: Severity = Severity.OK
    message: str = "fine"
    advice: str = ""
    repairable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(JsonValue):
    """One damaged part of the checkpoint store.

    `kind` is object, pack, ref, record, index or store; `name` is an id, or a path in the store.
    `checkpoints` are the ids of the checkpoints that can no longer be restored completely.
    `harmless` damage affects none and is repaired automatically.
    """

    kind: str
    name: str
    reason: str
    checkpoints: tuple[str, ...] = ()
    harmless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of checking everything. `checkpoints` is how many were checked."""

    checkpoints: int
    problems: tuple[Damage, ...] = ()

    @property
    def ok(self) -> bool:
        return all(problem.harmless for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, "ok")


_MOST_RANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(JsonValue):
    """Rows that could not be saved. If it is not `exact`, the data that would say which rows is
    damaged too: `count` is then what other rows suggest, or 0, and `ranges` are the ids between
    which the rows were."""

    what: str
    count: int
    exact: bool = True
    ranges: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        if self.exact:
            amount = format_count(self.count, self.what)
        elif self.count:
            amount = f"about {format_count(self.count, self.what)}"
        else:
            amount = f"an unknown number of {self.what}s"
        places = ", ".join(
            str(first) if first == last else f"{first}–{last}"  # noqa: RUF001 - a range
            for first, last in self.ranges[:_MOST_RANGES]
        )
        more = ", …" if len(self.ranges) > _MOST_RANGES else ""
        return f"{amount}, number {places}{more}" if places else amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(JsonValue):
    """What was done, step by step. `backup` holds everything as it was before."""

    backup: str | None = None
    steps: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
