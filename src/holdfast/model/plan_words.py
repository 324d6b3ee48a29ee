"""Wording of plans, reports and operations that the command line and the page share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.model.item import (
    ARCHIVED,
    ARCHIVED_FILES,
    CHECKPOINT,
    FILES,
    LEFTOVER,
    LEGACY,
    PUSHED,
    REQUEST_DUMP,
    SESSION,
    TRANSCRIPT,
    TRASH,
    VAULTED,
    VAULTED_BUNDLE,
)
from holdfast.model.operation import INTERRUPTED, MAINTAIN, UNASKED, Operation, OperationState
from holdfast.model.plan import Action, Plan, PlanItem, Shortfall
from holdfast.model.report import Outcome, Report, archived_words, back_words
from holdfast.model.text import format_bytes, format_count

#: From how many bytes the log or new bundles are worth mentioning.
_MUCH = 10_000
#: What the field names, numbers and result of an item take in the log, in bytes.
_LOG_FIELDS = 260
K = TypeVar("K")

_KIND_NAMES = {
    SESSION: "sessions",
    TRANSCRIPT: "transcripts",
    REQUEST_DUMP: "request dumps",
    TRASH: "trash",
    ARCHIVED: "archived sessions",
    ARCHIVED_FILES: "archived files",
    FILES: "files of sessions",
    CHECKPOINT: "checkpoints",
    LEGACY: "older checkpoints",
    LEFTOVER: "leftovers",
    VAULTED: "vaulted sessions",
    VAULTED_BUNDLE: "vaulted sessions",
    PUSHED: "pushed checkpoints",
}


def kind_name(kind: str) -> str:
    return _KIND_NAMES.get(kind, kind)


def shown_name(item: PlanItem | Outcome) -> str:
    """The name that people know an item by. The id of a copy in the trash begins with its place
    there."""
    operation, _, rest = item.id.partition("/")
    known = rest.partition("/")[2]
    if item.kind != TRASH or not known:
        return item.id
    return f"{known} (removed by operation {operation})"


def amount(items: Sequence[PlanItem]) -> str:
    """`412 items, 61.2 MB`."""
    return f"{format_count(len(items), 'item')}, {format_bytes(sum(i.bytes for i in items))}"


def undo_effect(items: Sequence[PlanItem], brings: str = "brings") -> str:
    """`brings back 412 items, 61.2 MB`; `reopens 7 sessions` if the operation only ended sessions,
    which stayed where they were. `brings` may begin the sentence: `This brings`."""
    if items and all(item.action is Action.END for item in items):
        return f"{brings.replace('bring', 'reopen')} {format_count(len(items), 'session')}"
    return f"{brings} back {amount(items)}"


def redo_effect(items: Sequence[PlanItem]) -> str:
    """`takes 412 items, 61.2 MB`, or `ends 7 sessions`."""
    if items and all(item.action is Action.END for item in items):
        return f"ends {format_count(len(items), 'session')}"
    return f"takes {amount(items)}"


def for_good(items: Sequence[PlanItem]) -> str:
    """How much of this cannot be undone, as a sentence; empty if all of it can."""
    final = gone_for_good(items)
    if not final:
        return ""
    if len(final) == len(items):
        return "This cannot be undone."
    return f"{amount(final)} of it cannot be undone."


def gone_for_good(items: Sequence[PlanItem]) -> list[PlanItem]:
    """The items that are permanently removed. Files that go into the archive with their session
    come back with it."""
    archived = {item.id for item in items if item.action is Action.ARCHIVE}
    return [item for item in items if not item.undoable and item.goes_with not in archived]


def what_undo_can(items: Sequence[PlanItem], undo: str) -> str:
    """What can be undone and what cannot, as a sentence for a question. `undo` is what brings it
    back: a command or a button."""
    warning = for_good(items)
    if not warning and all(i.action is Action.ARCHIVE or not i.undoable for i in items):
        return f"{undo} or a restore from the archive can bring it all back."
    if not warning:
        return f"{undo} can bring it all back until the trash is emptied."
    if any(each.gone_by_cap for each in items):
        warning += " A size cap does not use the trash."
    if len(gone_for_good(items)) == len(items):
        return warning
    return f"{warning} {undo} can bring back the rest."


def is_archiving(plan: Plan) -> bool:
    return any(item.action is Action.ARCHIVE for item in plan.removals)


def why_kept(item: PlanItem) -> str:
    """The rule, in words. An item that was only used lately is not what people would call in
    use."""
    if item.reason.startswith("in use: used "):
        return "used within the last day"
    if item.reason.startswith("in use: touched "):
        return "touched lately (idle_hours)"
    return item.rule


def grouped(
    items: Iterable[PlanItem], key: Callable[[PlanItem], K]
) -> list[tuple[K, list[PlanItem]]]:
    """Groups by key, the largest first."""
    groups: dict[K, list[PlanItem]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return sorted(groups.items(), key=lambda pair: -sum(item.bytes for item in pair[1]))


def shortfall_words(shortfall: Shortfall) -> str:
    by_bytes = shortfall.cap.startswith("max_total_size")

    def quantity(number: int) -> str:
        return format_bytes(number) if by_bytes else format_count(number, "item")

    held = ", ".join(f"{why} ({quantity(much)})" for why, much in shortfall.held_by.items())
    return (
        f"The cap {shortfall.cap} of {quantity(shortfall.limit)} cannot be met: "
        f"{quantity(shortfall.remaining)} remain. What stays: {held}."
    )


def frees_when(frees: int, later: int, days: tuple[int, int]) -> str:
    """What a plan frees, and when: `0 B now, 48.4 MB in 7 days`. `later` is the part that the trash
    keeps; `days` is for how many days, the fewest and the most."""
    if not later:
        return f"{format_bytes(frees)} now"
    few, many = days
    when = format_count(many, "day") if few == many else f"{few} to {many} days"
    return f"{format_bytes(frees - later)} now, {format_bytes(later)} in {when}"


def freed_words(reports: Iterable[Report], now: str = "") -> str:
    """`593.9 kB now, minus 241.7 kB for the log`. The log and the archive are named if they matter.
    What is larger than the freed space cannot be subtracted: `45.1 kB (its log takes 331.8
    kB)`."""
    every = list(reports)
    freed, in_archive, log = (sum(_sums(each)[index] for each in every) for index in range(3))
    return net_words(freed, in_archive, log, now)


def net_words(freed: int, in_archive: int, log: int = 0, now: str = "") -> str:
    """The same of figures."""
    taken = _taken(freed, in_archive, log)
    words = f"{format_bytes(freed)}{now}"
    if not taken:
        return words
    if sum(taken.values()) >= freed:
        return f"{words} ({_takes(taken)})"
    minus = " and ".join(f"{format_bytes(much)} for the {by}" for by, much in taken.items())
    return f"{words}, minus {minus}"


def takes_some(report: Report) -> bool:
    """True if `freed_words` of a report names what the log or the archive takes."""
    return bool(_taken(*_sums(report)))


def _sums(report: Report) -> tuple[int, int, int]:
    return report.bytes_freed, report.bytes_in_archive, report.log_bytes


def _taken(freed: int, in_archive: int, log: int) -> dict[str, int]:
    taken = {"archive": in_archive, "log": log if freed else 0}
    return {by: much for by, much in taken.items() if much >= max(_MUCH, freed // 10)}


def _takes(taken: dict[str, int]) -> str:
    sizes = {by: format_bytes(much) for by, much in taken.items()}
    if len(sizes) > 1:
        return f"the archive takes {sizes['archive']}, its log {sizes['log']}"
    [(by, size)] = sizes.items()
    return f"{_TAKERS[by]} takes {size}"


def log_ahead(plan: Plan) -> str:
    """What the log of a run will take, as a sentence; empty if the report would not mention it
    either."""
    log = sum(map(_logged, plan.steps))
    if log < max(_MUCH, sum(each.bytes for each in plan.steps) // 10):
        return ""
    return f"The undo log of this run will take about {format_bytes(log)}."


def _logged(item: PlanItem) -> int:
    """About how many bytes an item and its result take in the log, as JSON."""
    texts = (item.kind, item.source, item.session, item.id, item.version, item.reason)
    return _LOG_FIELDS + sum(map(len, texts)) + len(item.goes_with)


_TAKERS = {"archive": "the archive", "log": "its log"}


def _is_emptied(operation: Operation) -> bool:
    """True if nothing is left of what an operation put into the trash, and nothing came back."""
    gone = operation.emptied_by and operation.removed_to_trash and not operation.undone
    left = operation.in_trash or operation.elsewhere or operation.archived
    return bool(gone and not left and operation.state is OperationState.DONE)


def did(operation: Operation) -> str:
    """`412 removed, 12 of them for good, 3 skipped; undone; redone by 14`."""
    archived, files = operation.archived, operation.archived_files
    removed = operation.removed - archived - files - operation.emptied
    final = operation.removed_for_good
    # A restore changes paths; older logs count projects only.
    projects = 0 if operation.paths else operation.rolled_back
    back = "changed back" if operation.undoes else "changed"
    by_hand = operation.command not in UNASKED and operation.command != MAINTAIN
    # Once the other items are back, "undone" alone would claim that all of it is.
    partial = bool(operation.undone_by and final)
    whole = final >= removed
    counts = (
        (archived, archived_words(archived, files)),
        (removed, "removed for good" if whole else "removed"),
        (0 if whole or partial else final, "of them for good"),
        (operation.emptied, "removed from the trash"),
        (operation.paths, f"{'path' if operation.paths == 1 else 'paths'} {back}"),
        (projects, f"{'project' if projects == 1 else 'projects'} restored"),
        (operation.ended, "ended" if by_hand else "ended as abandoned"),
        (operation.changed, "changed"),
        (operation.changed_back, "changed back"),
        (
            0 if operation.paths else operation.brought_back - operation.changed_back,
            back_words(operation.files_back),
        ),
        (operation.skipped, "skipped"),
        (operation.failed, "failed"),
    )
    said = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing"
    state = operation.state.value
    if operation.state is OperationState.STOPPED and operation.stopped == INTERRUPTED:
        state = "interrupted, settled since"  # nothing of it is half-done any more
    if partial:
        state = f"{operation.undone:,} brought back; {final:,} removed for good"
    if _is_emptied(operation):
        state = "its trash was emptied, so it cannot be undone"
    again = f"; redone by {operation.redone_by[-1]}" if operation.redone_by else ""
    return said + again if state == "done" else f"{said}; {state}{again}"
