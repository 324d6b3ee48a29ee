"""The record of one operation, and its lines: JSON, in a file of its own or in rows of a database.

    {"intent": [{"n": 0, "item": {…}}, …]}                       about to touch these items
    {"outcome": [{"n": 0, "result": "removed", …}, …]}           the result of each
    {"finished_at": …, "stopped": null}                           the operation is complete

An undo refers to items by their number in the operation that it undoes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.json_value import TOO_LARGE, Reader
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.value import dataclass, field

if TYPE_CHECKING:  # only for annotations
    from holdfast.ports.runs import Journal

_INFINITE = float("inf")
_USUAL: Mapping[str, type] = {
    **dict.fromkeys(("kind", "id", "source", "session", "version", "reason", "goes_with"), str),
    **dict.fromkeys(("undoable", "owned"), bool),
    "bytes": int,
    "last_active_at": float,
    "action": Action,
}
_values = attrgetter(*_USUAL)
_TYPES = tuple(_USUAL.values())


@dataclass(slots=True, kw_only=True)
class Record(ABC):
    """The record of an operation, read back. In a log that homes share, `member` is the home that
    did it, and `machine` is the readable name of its machine."""

    operation: str
    action: OperationAction
    command: str
    started_at: float
    undoes: str | None
    redoes: str | None = None
    run: str | None = None
    intended: dict[int, Removal] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    finished_at: float | None = None
    stopped: str | None = None
    member: str = ""
    machine: str = ""

    @property
    def pending(self) -> Sequence[Removal]:
        return tuple(
            removal for number, removal in self.intended.items() if number not in self.outcomes
        )

    @property
    def removed(self) -> Collection[str]:
        return {each.id for each in self.outcomes.values() if each.result is Result.REMOVED}

    @abstractmethod
    def resume(self) -> AbstractContextManager[Journal]:
        """Continue a record that a killed process left."""

    def take(self, line: Reader, earlier: Mapping[str, Record]) -> None:
        """Add a line that was read back. A line of an undo requires the `earlier` record of the
        operation that it undoes."""
        if "intent" in line:
            for entry in line.array("intent"):
                read = Reader(entry, "intent", DamageError)
                removal = _removal(self, read, earlier)
                self.intended[removal.number] = removal
        elif "outcome" in line:
            for entry in line.array("outcome"):
                read = Reader(entry, "outcome", DamageError)
                number = read.whole("n")
                self.outcomes[number] = _outcome(read, self.intended, number)
        else:
            self.finished_at = line.number("finished_at")
            stopped = line.value("stopped")
            self.stopped = stopped if isinstance(stopped, str) else None


# --- Lines ----------------------------------------------------------------------------------------


# Formatted by hand, item by item: for a removal of thousands, `json.dumps` takes longer than the
# files. `json.loads` reads the same values from it (tests/property/test_log_lines.py).

_quoted = json.encoder.encode_basestring_ascii


def intent(operation: str, batch: Sequence[Removal]) -> str:
    """The line of an intent. Raises `UsageError` for an item that could not be read back, before
    anything is touched."""
    entries = [
        f'{{"n":{each.number},"item":{_item(each.item)}}}'
        if each.operation == operation
        else f'{{"n":{each.number}}}'
        for each in batch
    ]
    return f'{{"intent":[{",".join(entries)}]}}'


def outcome(batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> str:
    for each in outcomes:
        sizes = (each.bytes_freed, each.bytes_in_trash, each.bytes_in_archive, each.paths)
        if not all(map(_is_whole, sizes)):
            raise HoldfastError(f"The outcome of {each.id} has sizes that the log cannot store.")
    entries = [
        f'{{"n":{removal.number},{_ending(each.result, each.reason, each.paths, each.in_part)},'
        f'"freed":{each.bytes_freed},"in_trash":{each.bytes_in_trash}{_in_archive(each)}}}'
        for removal, each in zip(batch, outcomes, strict=True)
    ]
    return f'{{"outcome":[{",".join(entries)}]}}'


def _in_archive(outcome: Outcome) -> str:
    return f',"in_archive":{outcome.bytes_in_archive}' if outcome.bytes_in_archive else ""


def end(at: float, stopped: str | None) -> str:
    if not -_INFINITE < at < _INFINITE:
        raise HoldfastError(f"The clock returned {at}, which the log cannot store.")
    return json.dumps({"finished_at": at, "stopped": stopped}, separators=(",", ":"))


def _item(item: PlanItem) -> str:
    """The same JSON as `PlanItem.to_json`."""
    if not _is_usual(item):
        said = item.to_json()
        PlanItem.from_json(said)  # check it: one unreadable line makes the whole record unreadable
        return json.dumps(said, separators=(",", ":"))
    kind = _decided(item.kind, item.source, item.action, item.reason, item.undoable, item.owned)
    return (
        f'{{{kind},"id":{_quoted(item.id)},"session":{_quoted(item.session)},'
        f'"bytes":{item.bytes},"last_active_at":{item.last_active_at!r},'
        f'"version":{_quoted(item.version)},"goes_with":{_quoted(item.goes_with)}}}'
    )


def _is_usual(item: PlanItem) -> bool:
    """True if all values have their declared types, and no rare field is set."""
    return (
        tuple(map(type, _values(item))) == _TYPES
        and not (item.target or item.without_end)
        and -_INFINITE < item.last_active_at < _INFINITE
        and 0 <= item.bytes < TOO_LARGE
    )


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < TOO_LARGE


@lru_cache(maxsize=256)  # many items share these values
def _decided(
    kind: str, source: str, action: Action, reason: str, undoable: bool, owned: bool
) -> str:
    said = {
        "kind": kind,
        "source": source,
        "action": action.value,
        "reason": reason,
        "undoable": undoable,
        "owned": owned,
    }
    return json.dumps(said, separators=(",", ":"))[1:-1]


@lru_cache(maxsize=256)
def _ending(result: Result, reason: str, paths: int, in_part: bool) -> str:
    said: dict[str, Any] = {"result": result.value, "reason": reason}
    if paths:
        said["paths"] = paths
    if in_part:
        said["in_part"] = True
    return json.dumps(said, separators=(",", ":"))[1:-1]


def _removal(record: Record, read: Reader, earlier: Mapping[str, Record]) -> Removal:
    number = read.whole("n")
    if record.undoes is None:
        item = PlanItem.from_json(read.value("item"))
        return Removal(operation=record.operation, number=number, item=item)
    undone = earlier.get(record.undoes)
    if undone is None or number not in undone.intended:
        raise DamageError(f"operation {record.undoes} has no item {number}")
    return undone.intended[number]


def _outcome(read: Reader, intended: Mapping[int, Removal], number: int) -> Outcome:
    if number not in intended:
        raise DamageError(f"an outcome for item {number}, which was never planned")
    return Outcome(
        kind=intended[number].item.kind,
        id=intended[number].item.id,
        result=read.choice("result", Result),
        reason=read.text("reason"),
        bytes_freed=read.whole("freed"),
        bytes_in_trash=read.whole("in_trash"),
        bytes_in_archive=read.whole("in_archive") if "in_archive" in read else 0,
        paths=read.whole("paths") if "paths" in read else 0,
        in_part="in_part" in read,
    )
