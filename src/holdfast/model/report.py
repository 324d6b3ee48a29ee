"""What a run did, item by item; what a mover sees of an item, and what it did with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.model.item import PROJECT
from holdfast.model.json_value import fields_to_json
from holdfast.model.plan import Action, Plan
from holdfast.model.text import format_count
from holdfast.value import dataclass


class Result(StrEnum):
    """How one item ended. `SKIPPED` is not a failure: the item changed, or is alive. `PENDING` is
    not an end: the item could not be inspected, so its operation stays open."""

    REMOVED = "removed"
    ENDED = "ended"
    RECLAIMED = "reclaimed"
    ROLLED_BACK = "rolled_back"
    CHANGED = "changed"
    BROUGHT_BACK = "brought_back"
    SKIPPED = "skipped"
    FAILED = "failed"
    DAMAGED = "damaged"
    PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one item. `bytes_freed` is what the file system got back. `bytes_of_rows` is
    about rows that left a database of an agent, whose file does not shrink: the size of their copy
    in the trash, or, without a copy, what the agent can reuse. For our own database it is what the
    copies take beyond what the database gave back. `bytes_in_archive` is the size of its new bundle
    if the archive is on the disk of the home: that much less was freed in the end. For a project
    that an undo rolled forward, `written` and `deleted` are the paths that it changed; `paths` is
    their number, which the log keeps, also for a restore. `in_part` means that there is something
    left for an undo to do: more of that project can come back, or a copy is still in the trash. The
    log keeps that too."""

    kind: str
    id: str
    result: Result
    reason: str = ""
    bytes_freed: int = 0
    bytes_in_trash: int = 0
    bytes_in_archive: int = 0
    bytes_of_rows: int = 0
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    paths: int = 0
    in_part: bool = False

    def to_json(self) -> dict[str, Any]:
        paths = () if self.kind == PROJECT else ("written", "deleted")
        return fields_to_json(self, without=("bytes_of_rows", "paths", "in_part", *paths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One applied plan. `stopped` is why it ended early, if it did. `log_bytes` is what its record
    in the operation log takes on the disk: that much less was freed in the end. `settled` are
    operations that a killed run had left open. `back` are their items that are in place again;
    these are not in the plan. `files_back` is how many files an undo brought back in the bundles of
    archived sessions."""

    operation: str | None
    outcomes: tuple[Outcome, ...] = ()
    stopped: str | None = None
    log_bytes: int = 0
    settled: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    files_back: int = 0

    def count(self, *results: Result) -> int:
        found = [outcome.result for outcome in self.outcomes]
        return sum(map(found.count, results))

    @property
    def removed(self) -> int:
        return self.count(Result.REMOVED)

    @property
    def ended(self) -> int:
        return self.count(Result.ENDED)

    @property
    def changed(self) -> int:
        """How many items got a new name, or got or lost a pin."""
        return self.count(Result.CHANGED)

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

    @property
    def bytes_in_archive(self) -> int:
        return sum(outcome.bytes_in_archive for outcome in self.outcomes)

    @property
    def bytes_of_rows(self) -> int:
        return sum(outcome.bytes_of_rows for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        counts = ("removed", "ended", "changed", "brought_back", "skipped", "failed")
        sums = ("bytes_freed", "bytes_in_trash", "bytes_in_archive")
        without = ("outcomes", "settled", "back", "files_back")
        fields = fields_to_json(self, *counts, *sums, without=without)
        return fields | {"items": [outcome.to_json() for outcome in self.outcomes]}


def archived(report: Report, plan: Plan | None) -> tuple[int, int]:
    """How many items went to the archive on their own, and how many files went with them. This
    takes the plan: the report does not record it."""
    items = () if plan is None else plan.items
    planned = {(item.kind, item.id): item for item in items}
    gone = [planned.get((o.kind, o.id)) for o in report.outcomes if o.result is Result.REMOVED]
    going = [item for item in gone if item is not None]
    leaving = {item.id for item in items if item.action is Action.ARCHIVE}
    alone = sum(item.action is Action.ARCHIVE for item in going)
    return alone, sum(item.goes_with in leaving for item in going)


def archived_words(count: int, files: int) -> str:
    """`archived with 3 files`; the contents of a bundle were not removed."""
    return _with_files("archived", files) if count else "archived"


def back_words(files: int) -> str:
    """`brought back with 3 files`: the files were in the bundles of sessions, and are not items."""
    return _with_files("brought back", files)


def _with_files(word: str, files: int) -> str:
    return f"{word} with {format_count(files, 'file')}" if files else word


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Where an item is: in its place, in the trash, in both or in neither.

    `here` is None if the place cannot be inspected; `obstacle` has the reason. `partly` means that
    a move began and is not complete: some parts have left, or the last check in the trash is
    missing. `ours` means that the item in that place is the one in the plan, and not another one
    with its name.
    """

    here: bool | None
    copied: bool = False
    partly: bool = False
    ours: bool = True
    #: The item in its place is the one in the plan, but in another version.
    changed: bool = False
    #: Why the item may not leave now: it changed, or it is alive.
    obstacle: str = ""
    #: Something else is in the place for the copy of this item.
    taken: bool = False
    #: The message for the user when something else is in the place of the item, if there is more to
    #: say than usual.
    in_the_way: str = ""
    #: Why nothing can be restored from the copy.
    damage: str = ""
    #: The size of the copy. If there is neither item nor copy: what the removal freed.
    bytes: int = 0


#: In its place, without a copy, and free to go, like nearly every item. One shared value for all of
#: them.
IN_PLACE = Presence(here=True)


def refused(reason: str) -> Presence:
    """Not part of this home: it will never be inspected."""
    return Presence(here=None, ours=False, obstacle=reason)


def unseen(reason: str) -> Presence:
    """The item cannot be inspected, for this reason."""
    return Presence(here=None, obstacle=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a mover did with one item. Without a `result` it succeeded."""

    result: Result | None = None
    reason: str = ""
    #: True if there is a copy in the trash now; after `discard`, if there was one.
    copied: bool = False
    #: The size of the copy; after `discard`, the bytes that the file system gave back.
    bytes: int = 0
    #: For rows that left a database which does not shrink: see `Outcome`.
    of_rows: int = 0
    #: The size of its bundle: see `Outcome`.
    in_archive: int = 0
    #: It is back in its place, but its copy could not be discarded.
    in_part: bool = False

    @property
    def done(self) -> bool:
        return self.result is None


#: No mover has run yet.
UNMOVED = Moved()


def stayed(reason: str) -> Moved:
    """The item was left alone, because it changed or is alive."""
    return Moved(result=Result.SKIPPED, reason=reason)


def failed(reason: str) -> Moved:
    return Moved(result=Result.FAILED, reason=reason)


def damaged(reason: str) -> Moved:
    return Moved(result=Result.DAMAGED, reason=reason)
