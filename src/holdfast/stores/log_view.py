"""What a whole log says: which operations there were, and which can still be undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from holdfast.model.item import ARCHIVED_FILES, ARCHIVED_KINDS, FILES, TRASH, Problem
from holdfast.model.operation import LogView, Operation, OperationAction, Removal, TrashEntry
from holdfast.model.plan import EDITS, Action, PlanItem
from holdfast.model.report import Report, Result
from holdfast.stores import journal

#: What undo can reverse.
_DONE = (Result.REMOVED, Result.ROLLED_BACK, Result.ENDED, Result.CHANGED)


def view_of(records: Sequence[journal.Record], problems: Sequence[Problem]) -> LogView:
    undone = _undone(records) | _restored(records)
    emptied = _emptied(records)
    in_part = _in_part(records)
    gone = emptied.keys() | (undone.keys() - in_part) | _dropped(records)
    trash = _undoable(records, Action.REMOVE, gone=gone)
    archived = _undoable(records, Action.ARCHIVE, gone=gone)
    rolled_back = _undoable(records, Action.ROLL_BACK, gone=gone)
    ended = _undoable(records, Action.END, gone=gone)
    changed = _undoable(records, *EDITS, gone=gone)
    copies_of: dict[str, list[TrashEntry]] = defaultdict(list)
    for entry in (*trash, *archived, *rolled_back, *ended, *changed):
        copies_of[entry.removal.operation].append(entry)
    undoers_of, emptiers_of = _by_operation(undone), _by_operation(emptied)
    redoers_of: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.redoes is not None:
            redoers_of[record.redoes].append(record.operation)
    return LogView(
        operations=tuple(
            _summary(
                record,
                copies_of[record.operation],
                undoers_of[record.operation],
                sum(key.partition("/")[0] == record.operation for key in in_part),
                emptiers_of[record.operation],
                redoers_of[record.operation],
            )
            for record in records
        ),
        trash=tuple(trash),
        archived=tuple(archived),
        rolled_back=tuple(rolled_back),
        ended=tuple(ended),
        changed=tuple(changed),
        undone=tuple(_to_redo(records)),
        problems=tuple(problems),
    )


def _by_operation(doers: Mapping[str, str]) -> dict[str, list[str]]:
    """Who did something to the removals of each operation, from `operation/number`."""
    found: dict[str, list[str]] = defaultdict(list)
    for key, doer in doers.items():
        found[key.partition("/")[0]].append(doer)
    return found


def _summary(
    record: journal.Record,
    entries: Sequence[TrashEntry],
    undoers: Sequence[str],
    in_part: int,
    emptiers: Sequence[str],
    redoers: Sequence[str],
) -> Operation:
    report = Report(operation=record.operation, outcomes=tuple(record.outcomes.values()))
    removed = [
        removal
        for number, removal in record.intended.items()
        if number in record.outcomes and record.outcomes[number].result in _DONE
    ]
    leaving = {each.item.id for each in removed if each.item.action is Action.ARCHIVE}
    return Operation(
        id=record.operation,
        action=record.action,
        command=record.command,
        started_at=record.started_at,
        finished_at=record.finished_at,
        stopped=record.stopped,
        undoes=record.undoes,
        undone_by=tuple(dict.fromkeys(undoers)),
        emptied_by=tuple(dict.fromkeys(emptiers)),
        redoes=record.redoes,
        run=record.run,
        redone_by=tuple(redoers),
        removed=report.removed,
        archived=len(leaving),
        archived_files=sum(each.item.goes_with in leaving for each in removed),
        emptied=sum(each.item.kind == TRASH for each in removed),
        rolled_back=report.count(Result.ROLLED_BACK),
        paths=sum(each.paths for each in report.outcomes),
        ended=report.ended,
        changed=report.changed,
        brought_back=report.brought_back,
        changed_back=sum(
            outcome.result is Result.BROUGHT_BACK and record.intended[number].item.action in EDITS
            for number, outcome in record.outcomes.items()
        ),
        skipped=report.skipped,
        failed=report.failed,
        bytes_freed=report.bytes_freed,
        bytes_in_trash=report.bytes_in_trash,
        in_trash=len(entries),
        trash_bytes=sum(entry.bytes for entry in entries),
        removed_to_trash=sum(removal.item.undoable for removal in removed),
        removed_for_good=sum(
            # Older versions ended sessions without an undo: those sessions are not gone.
            not removal.item.undoable
            and removal.item.kind != TRASH
            and removal.item.action is not Action.END
            and removal.item.goes_with not in leaving  # these came into the bundle
            for removal in removed
        ),
        undone=len(undoers) - in_part,
    )


def _undone(records: Sequence[journal.Record]) -> dict[str, str]:
    """What was brought back, `operation/number`, and by which operation."""
    return {
        f"{record.undoes}/{number}": record.operation
        for record in records
        if record.action is OperationAction.UNDO
        for number, outcome in record.outcomes.items()
        if outcome.result is Result.BROUGHT_BACK
    }


def _in_part(records: Sequence[journal.Record]) -> set[str]:
    """What undos have brought back only in part, `operation/number`."""
    found: set[str] = set()
    for record in records:
        for number, outcome in record.outcomes.items():
            key = f"{record.undoes}/{number}"
            if outcome.in_part:
                found.add(key)
            elif outcome.result is Result.BROUGHT_BACK:
                found.discard(key)
    return found


def _to_redo(records: Sequence[journal.Record]) -> Iterator[Removal]:
    """What is back in its place through an undo, operation by operation in the order in which it
    had left. What left again since belongs to that later operation. A redo takes over what it did
    again, and nothing else: of two renames that were undone, the second is still to be redone after
    the first.
    """
    undone = _undone(records)
    if not undone:
        return
    left: dict[tuple[str, str, str], int] = {}
    redone: dict[tuple[str, tuple[str, str, str]], int] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            if outcome.result not in _DONE:
                continue
            what = _what(record.intended[number].item)
            if record.redoes is None:
                left[what] = int(record.operation)
            else:
                redone[record.redoes, what] = int(record.operation)

    def is_back(record: journal.Record, item: PlanItem, undoer: str) -> bool:
        what = _what(item)
        return int(undoer) > max(left.get(what, 0), redone.get((record.operation, what), 0))

    for record in records:
        back = {
            number
            for number, removal in record.intended.items()
            if record.action is OperationAction.REMOVE
            and (undoer := undone.get(removal.key)) is not None
            and is_back(record, removal.item, undoer)
        }
        bundled = {
            item.id: undone[f"{record.operation}/{number}"]
            for number in back
            if (item := record.intended[number].item).action is Action.ARCHIVE
        }
        for number, removal in record.intended.items() if back else ():
            item = removal.item
            # Giving space back is never undone: it follows a removal each time. Files in the bundle
            # of a session came back with it.
            if (
                number in back
                or item.action is Action.RECLAIM
                or (
                    item.goes_with in bundled
                    and number in record.outcomes
                    and record.outcomes[number].result is Result.REMOVED
                    and is_back(record, item, bundled[item.goes_with])
                )
            ):
                yield removal


def _what(item: PlanItem) -> tuple[str, str, str]:
    """What a later operation may have done again: an item that left, or one value of it."""
    return item.kind, item.id, item.action.value if item.action in EDITS else ""


def _restored(records: Sequence[journal.Record]) -> dict[str, str]:
    """What was archived and restored since, `operation/number`, and by which operation."""
    archived = _Archived()
    found: dict[str, str] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            item = record.intended[number].item
            if item.action is not Action.ARCHIVE:
                continue
            if outcome.result is Result.REMOVED:
                archived.add(item, f"{record.operation}/{number}")
            elif outcome.result is Result.BROUGHT_BACK and (key := archived.pop(item)):
                found[key] = record.operation
    return found


def _dropped(records: Sequence[journal.Record]) -> set[str]:
    """What was archived and lost its bundle since, `operation/number`. Another operation removed
    the bundle, and undoing that one brings it back."""
    archived = _Archived()
    dropped: dict[str, str] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            removal = record.intended[number]
            item, result = removal.item, outcome.result
            if item.action is Action.ARCHIVE and result is Result.REMOVED:
                archived.add(item, removal.key)
            elif item.kind in ARCHIVED_KINDS and item.action is Action.REMOVE:
                if result is Result.REMOVED and (key := archived.pop(item)):
                    dropped[removal.key] = key
                elif result is Result.BROUGHT_BACK and removal.key in dropped:
                    archived.add(item, dropped.pop(removal.key))
    return set(dropped.values())


class _Archived:
    """What the archive holds of each session, `operation/number`: the session, or its files."""

    def __init__(self) -> None:
        self._keys: dict[tuple[bool, str], list[str]] = defaultdict(list)

    def add(self, item: PlanItem, key: str) -> None:
        self._keys[_place(item)].append(key)

    def pop(self, item: PlanItem) -> str | None:
        """The last of the same kind, because it leaves first."""
        keys = self._keys[_place(item)]
        return keys.pop() if keys else None


def _place(item: PlanItem) -> tuple[bool, str]:
    return item.kind in (FILES, ARCHIVED_FILES), item.session


def _emptied(records: Sequence[journal.Record]) -> dict[str, str]:
    """What left the trash for good, `operation/number`: the start of a trash item's id. And through
    which operation."""
    return {
        "/".join(outcome.id.split("/")[:2]): record.operation
        for record in records
        for outcome in record.outcomes.values()
        if outcome.kind == TRASH and outcome.result is Result.REMOVED
    }


def _undoable(
    records: Sequence[journal.Record], *actions: Action, gone: set[str]
) -> list[TrashEntry]:
    """Removals with an undo copy that nobody has brought back or emptied since."""
    return [
        TrashEntry(
            removal=removal,
            removed_at=record.finished_at or record.started_at,
            bytes=record.outcomes[number].bytes_in_trash,
        )
        for record in records
        if record.action is OperationAction.REMOVE
        for number, removal in record.intended.items()
        if removal.item.undoable
        and removal.item.action in actions
        and number in record.outcomes
        and record.outcomes[number].result in _DONE
        and removal.key not in gone
    ]
