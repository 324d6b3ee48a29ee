"""What the operation log says has gone: law 4 asks a receipt for everything that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.model.item import ARCHIVED, CHECKPOINT, SESSION, TRASH
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.stores import journal


@dataclass
class Receipts:
    """`left` is how each session was judged when it last left the store. `sessions` and
    `checkpoints` are those that went for good: without a trash, or from it."""

    left: dict[str, PlanItem] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    checkpoints: set[str] = field(default_factory=set)

    def for_good(self, item: PlanItem) -> None:
        if item.kind == CHECKPOINT:
            self.checkpoints.add(item.id)
        elif item.kind in (SESSION, ARCHIVED):
            self.sessions.add(item.session if item.kind == ARCHIVED else item.id)


def receipts(home: Path) -> Receipts:
    found = Receipts()
    records: dict[str, journal.FileRecord] = {}
    for path in sorted(home.glob("operations/[0-9]*.jsonl"), key=lambda path: int(path.stem)):
        record = journal.read(path, records)
        if record is None:
            continue
        records[record.operation] = record
        for removal in _removed(record):
            item = removal.item
            if item.kind == SESSION:
                found.left[item.id] = item
            if item.kind == TRASH:
                found.for_good(_in_trash(records, item))
            elif not item.undoable and item.action is Action.REMOVE:
                found.for_good(item)
    return found


def _removed(record: journal.FileRecord) -> Iterator[Removal]:
    for number, outcome in record.outcomes.items():
        if outcome.result is Result.REMOVED:
            yield record.intended[number]


def _in_trash(records: Mapping[str, journal.FileRecord], item: PlanItem) -> PlanItem:
    operation, number, _ = item.id.split("/", 2)
    return records[operation].intended[int(number)].item
