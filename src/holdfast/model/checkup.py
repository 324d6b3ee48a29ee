"""What a check-up found, what is damaged, and what a repair did."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.model.json_value import JsonValue, fields_to_json
from holdfast.model.text import format_count
from holdfast.value import dataclass


class Severity(StrEnum):
    """`DAMAGE`: data is no longer what was written, or cannot be read. `BROKEN`: all data is there,
    but something that should look after it does not work. `WARNING`: something needs attention, or
    could not be checked just now."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
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
class HookAnswer(JsonValue):
    """What the hook of an agent answers in one case. `reason` is why it blocks, or what it could
    not decide. `checkpoint` is True if there is a checkpoint from before."""

    case: str
    blocked: bool
    reason: str = ""
    checkpoint: bool = False

    def describe(self, *, reasons: bool = False) -> str:
        """`a tool: allowed, with a checkpoint`."""
        answer = "blocked" if self.blocked else "allowed"
        if self.checkpoint and not self.blocked:
            answer += ", with a checkpoint"
        why = f". {self.reason}" if reasons and self.reason else ""
        return f"{self.case}: {answer}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """One connection of an agent. `problem` is why it does not work; in that case `now`, what the
    hook would answer at this moment, was not tried. `sessions` are the recent ones whose next tool
    would be blocked or could not be decided on. `warnings` are about settings that do not do what a
    user may expect."""

    agent: str
    scope: str
    path: str
    problem: str = ""
    advice: str = ""
    tried: tuple[HookAnswer, ...] = ()
    now: HookAnswer | None = None
    sessions: tuple[HookAnswer, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        return not self.problem

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, "works")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(JsonValue):
    """One damaged part of the checkpoint store.

    `kind` is object, pack, ref, record, index or store; `name` is an id, or a path in the store.
    `checkpoints` are the ids of the checkpoints that can no longer be restored completely.
    `harmless` damage affects no checkpoint and is repaired automatically.
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


_MOST_SESSIONS = 5
#: What the loss of a row means, for kinds of rows that users do not know by name.
_MEANING = {
    "session row": "titles, ends and settings are lost; the messages were saved",
    "routing key": "a chat that was mapped to a session starts a new one",
    "lease": "sessions that are open now take a new one",
    "guard's record": "budgets of open sessions start to count again",
    "usage total": "all-time usage counts only the messages that are left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFrom(JsonValue):
    """How much one session lost."""

    session: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(JsonValue):
    """Rows that could not be saved. If not `exact`, the data that would identify the lost rows is
    damaged too: `count` is then estimated from other rows, or 0, and `ranges` are the ids between
    which the rows were. `sessions` are those known to have lost rows."""

    what: str
    count: int
    exact: bool = True
    ranges: tuple[tuple[int, int], ...] = ()
    sessions: tuple[LostFrom, ...] = ()

    def describe(self) -> str:
        """`4 messages: 3 of session a, 1 of session b`."""
        if self.exact:
            amount = format_count(self.count, self.what)
        elif self.count:
            amount = f"about {format_count(self.count, self.what)}"
        else:
            amount = f"an unknown number of {self.what}s"
        known = [self._of(each) for each in self.sessions[:_MOST_SESSIONS]]
        more = len(self.sessions) - len(known)
        if more > 0:
            known.append(f"the rest of {format_count(more, 'other session')}")
        if not known and self.what == "message":
            known = ["their sessions are unknown"]
        parts = [", ".join(known), _MEANING.get(self.what, "")]
        words = "; ".join(part for part in parts if part)
        return f"{amount}: {words}" if words else amount

    def _of(self, lost: LostFrom) -> str:
        return (
            f"{lost.count:,} of session {lost.session}" if self.what == "message" else lost.session
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(JsonValue):
    """What was done, step by step. `backup` is a copy of everything as it was before."""

    backup: str | None = None
    steps: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
