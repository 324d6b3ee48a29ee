"""The result of maintenance, when it last ran, and the events that it reports; and the result of a
round of the watcher, home by home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from holdfast.errors import BusyError
from holdfast.model.item import SPACE
from holdfast.model.json_value import JsonValue, fields_from_json, fields_to_json
from holdfast.model.plan import Shortfall
from holdfast.model.report import Report, Result
from holdfast.model.session import Json
from holdfast.value import dataclass, field


class EventKind(StrEnum):
    CAP_NEAR = "cap_near"
    CAP_NOT_REACHED = "cap_not_reached"
    SESSION_TOO_LARGE = "session_too_large"
    FILE_TOO_LARGE = "file_too_large"
    GROWS_TOO_FAST = "grows_too_fast"
    MAINTENANCE_FAILED = "maintenance_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `subject` is the cap, session or step that it is about.

    `state` describes the situation coarsely. While it stays the same, there is nothing new to
    report.
    """

    kind: EventKind
    home: str
    at: float
    subject: str
    state: str
    message: str
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for later events of this kind about the same subject."""
        return f"{self.kind.value} {self.subject}"

    def to_json(self) -> dict[str, Any]:
        return {"event": self.kind.value} | fields_to_json(self, without=("kind",))


#: For how many different settings the marker keeps when they were last used.
_MOST_SETTINGS = 8


class Step(StrEnum):
    """The steps of a run, in order. A run has either `PRUNE` or `UPKEEP`.

    `AUTO_ARCHIVE` moves sessions into the archive; `ARCHIVE` enforces the limits of the archive.
    `VAULT` keeps second names of sessions, and enforces the limits of what only the vault holds.
    """

    SETTLE = "settle"
    VAULT = "vault"
    AUTO_ARCHIVE = "auto_archive"
    PRUNE = "prune"
    UPKEEP = "upkeep"
    FILES = "files"
    GC = "gc"
    ARCHIVE = "archive"
    CHECKPOINTS = "checkpoints"
    BUDGET = "budget"
    END = "end"
    LOG = "log"
    LOOK = "look"
    FIGURES = "figures"
    RECORD = "record"
    PROGRESS = "progress"


class Skipped(StrEnum):
    """Why a call rightly did nothing."""

    NOT_DUE = "not_due"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The state of a subject when an event about it was last sent."""

    state: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """When maintenance last ended; None means never. `told` is keyed by the key of the event.

    `done` maps the fingerprint of settings to when the last run with them ended. There may be
    several: an agent and a timer with different environment variables can maintain the same home,
    and neither must cause the other to run at every call.
    """

    finished_at: float | None = None
    ok: bool = True
    done: Mapping[str, float] = field(default_factory=dict)
    told: Mapping[str, Told] = field(default_factory=dict)

    def done_at(self, now: float, settings: str) -> Mapping[str, float]:
        """`done` after a run that ends now. Its size is limited; entries with a time in the future
        are dropped."""
        others = [each for each in self.done.items() if each[0] != settings and each[1] <= now]
        others.sort(key=lambda each: each[1], reverse=True)
        return {settings: now, **dict(others[: _MOST_SETTINGS - 1])}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult(JsonValue):
    """The result of one step. `error_kind` is the kind of the error, `internal` for a bug."""

    step: Step
    reports: tuple[Report, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    note: str = ""
    error: str | None = None
    error_kind: str | None = None

    @property
    def removed(self) -> int:
        """How many items were removed. Reclaimed space is not an item."""
        return sum(
            outcome.result is Result.REMOVED and outcome.kind != SPACE
            for report in self.reports
            for outcome in report.outcomes
        )

    @property
    def ended(self) -> int:
        """How many abandoned sessions were given an end."""
        return sum(report.ended for report in self.reports)

    @property
    def failed(self) -> int:
        return sum(report.failed for report in self.reports)

    @property
    def bytes_freed(self) -> int:
        return sum(report.bytes_freed for report in self.reports)

    @property
    def bytes_in_archive(self) -> int:
        return sum(report.bytes_in_archive for report in self.reports)

    @property
    def bytes_in_trash(self) -> int:
        return sum(report.bytes_in_trash for report in self.reports)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """The result of a call for maintenance.

    It ran if `skipped` and `error` are None. Then `steps` has what was done; each step may have
    failed on its own. `error` is what prevented the whole run. A run that was `stopped` does not
    count: the next call continues.
    """

    home: str
    started_at: float
    finished_at: float
    skipped: Skipped | None = None
    reason: str = ""
    next_due: float | None = None
    auto_prune: bool | None = None
    steps: tuple[StepResult, ...] = ()
    events: tuple[Event, ...] = ()
    stopped: bool = False
    error: str | None = None
    error_kind: str | None = None
    hint: str | None = None

    @property
    def ran(self) -> bool:
        return self.skipped is None and self.error is None

    @property
    def errors(self) -> tuple[str, ...]:
        """Everything that failed, in words."""
        failed = [f"{each.step.value}: {each.error}" for each in self.steps if each.error]
        return (*([self.error] if self.error else []), *failed)

    @property
    def ok(self) -> bool:
        """True if nothing failed, even if there was nothing to do."""
        return not self.errors and not any(each.failed for each in self.steps)

    @property
    def busy(self) -> bool:
        """True if another process was the only obstacle."""
        kinds = {self.error_kind, *(each.error_kind for each in self.steps)} - {None}
        return self.skipped is Skipped.BUSY or kinds == {BusyError.kind}

    @property
    def shortfalls(self) -> tuple[Shortfall, ...]:
        return tuple(each for step in self.steps for each in step.shortfalls)

    @property
    def removed(self) -> int:
        return sum(step.removed for step in self.steps)

    @property
    def ended(self) -> int:
        return sum(step.ended for step in self.steps)

    @property
    def bytes_freed(self) -> int:
        return sum(step.bytes_freed for step in self.steps)

    @property
    def bytes_in_trash(self) -> int:
        return sum(step.bytes_in_trash for step in self.steps)

    @property
    def bytes_in_archive(self) -> int:
        return sum(step.bytes_in_archive for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        counts = ("ran", "ok", "removed", "ended")
        return fields_to_json(self, *counts, "bytes_freed", "bytes_in_trash", "bytes_in_archive")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAfter(JsonValue):
    """One home in a round: what was done there in one line, and when it is due again. `folders` are
    those that its agent writes to, `programs` the names of that agent's programs."""

    home: str
    state: str
    did: str
    due: float
    ran: bool
    failed: bool
    folders: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(JsonValue):
    """All homes. `alarm_rate` is the growth in bytes per minute from which an alarm is raised;
    `more` are lines about the machine as a whole."""

    homes: tuple[LookedAfter, ...]
    alarm_rate: float = 0.0
    more: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json()).encode()

    @classmethod
    def of(cls, data: bytes) -> Round:
        said = json.loads(data)
        homes = tuple(fields_from_json(LookedAfter, each) for each in said["homes"])
        return fields_from_json(cls, said, homes=homes)
