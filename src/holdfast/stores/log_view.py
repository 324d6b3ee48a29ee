"""Interprets a whole log: which operations there were, and which can still be undone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from holdfast.model.item import ARCHIVED_FILES, ARCHIVED_KINDS, FILES, TRASH, Problem
from holdfast.model.operation import (
    LogView,
    Operation,
    OperationAction,
    Removal,
    TrashEntry,
    in_store,
)
from holdfast.model.plan import EDITS, Action, PlanItem
from holdfast.model.report import Report, Result
from holdfast.stores.log_record import Record
from holdfast.value import replace

_R = TypeVar("_R", bound=Record)
#: Kind, id, what was changed, and the home that owns the file.
_What = tuple[str, str, str, str]
#: The results that undo can reverse.
_DONE = (Result.REMOVED, Result.ROLLED_BACK, Result.ENDED, Result.CHANGED)


def view_of(
    records: Sequence[Record],
    problems: Sequence[Problem],
    *,
    own: Collection[str] | None = None,
) -> LogView:
    """The view of a whole log. `own` are the names of this home, in a log that homes share."""
    undone = _undone(records) | _restored(records)
    emptied = _emptied(records)
    in_part = _in_part(records) - emptied.keys()
    gone = emptied.keys() | (undone.keys() - in_part) | _dropped(records)
    trash = _undoable(records, Action.REMOVE, gone=gone)
    archived = _undoable(records, Action.ARCHIVE, gone=gone)
    rolled_back = _undoable(records, Action.ROLL_BACK, gone=gone)
    ended = _undoable(records, Action.END, gone=gone)
    changed = _undoable(records, *EDITS, gone=gone)
    far: list[TrashEntry] = []
    is_far = Whereabouts(records, own).elsewhere
    if own is not None:
        for entries in (trash, archived, rolled_back, changed):
            far += [entry for entry in entries if is_far(entry.removal)]
            entries[:] = [entry for entry in entries if not is_far(entry.removal)]
    far_of = Counter(entry.removal.operation for entry in far)
    copies_of: dict[str, list[TrashEntry]] = defaultdict(list)
    for entry in (*trash, *archived, *rolled_back, *ended, *changed):
        copies_of[entry.removal.operation].append(entry)
    undoers_of, emptiers_of = _by_operation(undone), _by_operation(emptied)
    redoers_of: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.redoes is not None:
            redoers_of[record.redoes].append(record.operation)
    record_of = {record.operation: record for record in records}
    operations = [
        _summary(
            record,
            copies_of[record.operation],
            undoers_of[record.operation],
            sum(key.partition("/")[0] == record.operation for key in in_part),
            emptiers_of[record.operation],
            redoers_of[record.operation],
            elsewhere=far_of[record.operation],
            own=own is None or record.member in own,
        )
        for record in records
    ]
    return LogView(
        operations=tuple(
            replace(each, files_back=_files_back(record, record_of[record.undoes]))
            if record.undoes in record_of
            else each
            for each, record in zip(operations, records, strict=True)
        ),
        trash=tuple(trash),
        archived=tuple(archived),
        rolled_back=tuple(rolled_back),
        ended=tuple(ended),
        changed=tuple(changed),
        undone=tuple(each for each in _to_redo(records) if not is_far(each)),
        problems=tuple(problems),
        elsewhere=tuple(far),
        archived_files=tuple(_archived_files(records, archived)),
        pending=tuple(
            removal
            for record in records
            if record.finished_at is None
            for removal in record.pending
            if not is_far(removal)
        ),
    )


class Whereabouts:
    """Tells which home can handle a removal. `own` are the names of this home in a log that homes
    share; None for the log of a single home."""

    def __init__(self, records: Sequence[Record], own: Collection[str] | None) -> None:
        self._own = own
        self._records = {record.operation: record for record in records}

    def elsewhere(self, removal: Removal) -> bool:
        """True if only another home can handle the removal: files are stored on the machine that
        removed them, but any machine can bring back rows of the shared store."""
        if self._own is None:
            return False
        record, item = self._records.get(removal.operation), removal.item
        if item.kind == TRASH:  # a trash item is where the removal that it empties is
            operation, number = item.id.split("/")[:2]
            record = self._records.get(operation)
            emptied = None if record is None else record.intended.get(int(number))
            item = item if emptied is None else emptied.item
        return record is not None and record.member not in self._own and not in_store(item)


class ReadLog(Generic[_R]):
    """A log as read when its lock was taken. `own` as in `view_of`."""

    def __init__(
        self,
        records: Sequence[_R],
        problems: Sequence[Problem],
        own: Collection[str] | None = None,
    ) -> None:
        self._records = records
        self._problems = problems
        self._own = own
        self._where = Whereabouts(records, own)

    def read(self) -> LogView:
        return view_of(self._records, self._problems, own=self._own)

    def elsewhere(self, removal: Removal) -> bool:
        return self._where.elsewhere(removal)

    def unfinished(self) -> Sequence[_R]:
        """Operations that a killed process left open."""
        return tuple(record for record in self._records if record.finished_at is None)

    def droppable(self, before: float) -> Sequence[_R]:
        """The oldest records that ended before a time and are not needed any more."""
        view = self.read()
        # Undo can reverse only the latest rollback of a project.
        latest = {entry.removal.item.id: entry for entry in view.rolled_back}
        entries = (*view.trash, *view.archived, *latest.values(), *view.elsewhere)
        return _old(self._records, {entry.removal.operation for entry in entries}, before)


def _old(records: Sequence[_R], needed: Collection[str], before: float) -> Sequence[_R]:
    """The oldest records that may go, without gaps, and never the last, which holds the count.

    The record that emptied a trash is later than the one that filled it, and an undo can be read
    only with the record that it undoes: no journal may outlive one that explains it.
    """
    count = 0
    for record in records[:-1]:
        ended = record.finished_at
        if ended is None or ended >= before or record.operation in needed:
            break
        count += 1
    places = {record.operation: place for place, record in enumerate(records)}
    pairs = [(places.get(each.undoes or "", -1), place) for place, each in enumerate(records)]
    while broken := [undone for undone, undo in pairs if 0 <= undone < count <= undo]:
        count = min(broken)
    return records[:count]


def _by_operation(doers: Mapping[str, str]) -> dict[str, list[str]]:
    """The operations that acted on each operation's removals, given as `operation/number`."""
    found: dict[str, list[str]] = defaultdict(list)
    for key, doer in doers.items():
        found[key.partition("/")[0]].append(doer)
    return found


def _summary(
    record: Record,
    entries: Sequence[TrashEntry],
    undoers: Sequence[str],
    in_part: int,
    emptiers: Sequence[str],
    redoers: Sequence[str],
    *,
    elsewhere: int,
    own: bool,
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
        bytes_in_archive=report.bytes_in_archive,
        in_trash=len(entries),
        trash_bytes=sum(entry.bytes for entry in entries),
        removed_to_trash=sum(removal.item.undoable for removal in removed),
        removed_for_good=sum(
            # Older versions ended sessions without an undo: those sessions are not gone.
            not removal.item.undoable
            and removal.item.kind != TRASH
            and removal.item.action is not Action.END
            and removal.item.goes_with not in leaving  # these are in the bundle
            for removal in removed
        ),
        undone=len(undoers) - in_part,
        elsewhere=elsewhere,
        machine=record.machine,
        own=own,
    )


def _archived_files(records: Sequence[Record], archived: Sequence[TrashEntry]) -> Iterator[Removal]:
    """The files that went into the bundles of these sessions."""
    sessions_of: dict[str, set[str]] = defaultdict(set)
    for each in archived:
        sessions_of[each.removal.operation].add(each.removal.item.id)
    for record in records:
        yield from _gone_with(record, sessions_of[record.operation])


def _files_back(undo: Record, target: Record) -> int:
    """The number of files that an undo brought back in the bundles of sessions."""
    back = {
        removal.item.id
        for number, removal in undo.intended.items()
        if removal.item.action is Action.ARCHIVE
        and number in undo.outcomes
        and undo.outcomes[number].result is Result.BROUGHT_BACK
    }
    return sum(1 for _ in _gone_with(target, back))


def _gone_with(record: Record, sessions: Collection[str]) -> Iterator[Removal]:
    """The items that an operation removed because they went with one of these sessions."""
    for number, outcome in record.outcomes.items() if sessions else ():
        removal = record.intended[number]
        if outcome.result is Result.REMOVED and removal.item.goes_with in sessions:
            yield removal


def _undone(records: Sequence[Record]) -> dict[str, str]:
    """The removals (`operation/number`) that were brought back, and by which operation."""
    return {
        f"{record.undoes}/{number}": record.operation
        for record in records
        if record.action is OperationAction.UNDO
        for number, outcome in record.outcomes.items()
        if outcome.result is Result.BROUGHT_BACK
    }


def _in_part(records: Sequence[Record]) -> set[str]:
    """The removals (`operation/number`) that undos have brought back only in part."""
    found: set[str] = set()
    for record in records:
        for number, outcome in record.outcomes.items():
            key = f"{record.undoes}/{number}"
            if outcome.in_part:
                found.add(key)
            elif outcome.result is Result.BROUGHT_BACK:
                found.discard(key)
    return found


def _to_redo(records: Sequence[Record]) -> Iterator[Removal]:
    """The removals that an undo reversed, by operation, in the order in which they were made. An
    item that was removed again since belongs to that later operation. A redo takes over only what
    it did again: if two renames were undone, the second can still be redone after the first."""
    undone = _undone(records)
    if not undone:
        return
    left: dict[_What, int] = {}
    redone: dict[tuple[str, _What], int] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            if outcome.result not in _DONE:
                continue
            what = _what(record, record.intended[number].item)
            if record.redoes is None:
                left[what] = int(record.operation)
            else:
                redone[record.redoes, what] = int(record.operation)

    def is_back(record: Record, item: PlanItem, undoer: str) -> bool:
        what = _what(record, item)
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
            # Giving space back is never undone: it follows every removal. Files in a session's
            # bundle came back with the session.
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


def _what(record: Record, item: PlanItem) -> _What:
    """Identifies what a later operation may have done again: an item that left, or one value of it.
    A file of the same name in another home is a different item."""
    changed = item.action.value if item.action in EDITS else ""
    return item.kind, item.id, changed, "" if in_store(item) else record.member


def _restored(records: Sequence[Record]) -> dict[str, str]:
    """The removals (`operation/number`) whose archived sessions were restored, and by which
    operation."""
    archived = _Archived()
    found: dict[str, str] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            item = record.intended[number].item
            if item.action is not Action.ARCHIVE:
                continue
            if outcome.result is Result.REMOVED:
                archived.add(record, item, f"{record.operation}/{number}")
            elif outcome.result is Result.BROUGHT_BACK and (key := archived.pop(record, item)):
                found[key] = record.operation
    return found


def _dropped(records: Sequence[Record]) -> set[str]:
    """The removals (`operation/number`) whose bundle was removed from the archive. Another
    operation removed it, and undoing that one brings it back."""
    archived = _Archived()
    dropped: dict[str, str] = {}
    for record in records:
        for number, outcome in record.outcomes.items():
            removal = record.intended[number]
            item, result = removal.item, outcome.result
            if item.action is Action.ARCHIVE and result is Result.REMOVED:
                archived.add(record, item, removal.key)
            elif item.kind in ARCHIVED_KINDS and item.action is Action.REMOVE:
                if result is Result.REMOVED and (key := archived.pop(record, item)):
                    dropped[removal.key] = key
                elif result is Result.BROUGHT_BACK and removal.key in dropped:
                    archived.add(record, item, dropped.pop(removal.key))
    return set(dropped.values())


class _Archived:
    """The removals (`operation/number`) that a home's archive holds for each session: of the
    session itself, or of its files."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, bool, str], list[str]] = defaultdict(list)

    def add(self, record: Record, item: PlanItem, key: str) -> None:
        self._keys[_place(record, item)].append(key)

    def pop(self, record: Record, item: PlanItem) -> str | None:
        """The latest of the same kind, because it leaves first."""
        keys = self._keys[_place(record, item)]
        return keys.pop() if keys else None


def _place(record: Record, item: PlanItem) -> tuple[str, bool, str]:
    return record.member, item.kind in (FILES, ARCHIVED_FILES), item.session


def _emptied(records: Sequence[Record]) -> dict[str, str]:
    """The removals (`operation/number`, the start of a trash item's id) that left the trash for
    good, and through which operation."""
    return {
        "/".join(outcome.id.split("/")[:2]): record.operation
        for record in records
        for outcome in record.outcomes.values()
        if outcome.kind == TRASH and outcome.result is Result.REMOVED
    }


def _undoable(records: Sequence[Record], *actions: Action, gone: set[str]) -> list[TrashEntry]:
    """Removals whose undo copy still exists: neither brought back nor emptied since."""
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
