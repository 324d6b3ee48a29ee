"""What a run did, item by item."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.model.item import PROJECT
from holdfast.value import dataclass


class Result(StrEnum):
    """How one item ended. `SKIPPED` is not a failure: the item changed, or is alive."""

    REMOVED = "removed"
    ENDED = "ended"
    RECLAIMED = "reclaimed"
    ROLLED_BACK = "rolled_back"
    BROUGHT_BACK = "brought_back"
    SKIPPED = "skipped"
    FAILED = "failed"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one item. `bytes_freed` is what the file system got back. For a project that an
    undo rolled forward, `written` and `deleted` are the paths that it changed."""

    kind: str
    id: str
    result: Result
    reason: str = ""
    bytes_freed: int = 0
    bytes_in_trash: int = 0
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        paths = {"written": list(self.written), "deleted": list(self.deleted)}
        return {
            "kind": self.kind,
            "id": self.id,
            "result": self.result.value,
            "reason": self.reason,
            "bytes_freed": self.bytes_freed,
            "bytes_in_trash": self.bytes_in_trash,
            **(paths if self.kind == PROJECT else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One applied plan. `stopped` says why it ended early, when it did."""

    operation: str | None
    outcomes: tuple[Outcome, ...] = ()
    stopped: str | None = None

    def count(self, *results: Result) -> int:
        return sum(outcome.result in results for outcome in self.outcomes)

    @property
    def removed(self) -> int:
        return self.count(Result.REMOVED)

    @property
    def ended(self) -> int:
        return self.count(Result.ENDED)

    @property
    def brought_back(self) -> int:
        return self.count(Result.BROUGHT_BACK)

    @property
    def skipped(self) -> int:
        return self.count(Result.SKIPPED)

    @property
    def failed(self) -> int:
        return self.count(Result.FAILED, Result.DAMAGED)

    @property
    def bytes_freed(self) -> int:
        return sum(outcome.bytes_freed for outcome in self.outcomes)

    @property
    def bytes_in_trash(self) -> int:
        return sum(outcome.bytes_in_trash for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "removed": self.removed,
            "ended": self.ended,
            "brought_back": self.brought_back,
            "skipped": self.skipped,
            "failed": self.failed,
            "bytes_freed": self.bytes_freed,
            "bytes_in_trash": self.bytes_in_trash,
            "stopped": self.stopped,
            "items": [outcome.to_json() for outcome in self.outcomes],
        }
