"""What an operation did, in the words that the command and the page share."""

from __future__ import annotations

from holdfast.model.operation import MAINTAIN, UNASKED, Operation
from holdfast.model.report import archived_words


def _by_hand(operation: Operation) -> bool:
    return operation.command not in UNASKED and operation.command != MAINTAIN


def did(operation: Operation) -> str:
    """`412 removed, 12 of them for good, 3 skipped; undone; done again by 14`."""
    archived, files = operation.archived, operation.archived_files
    removed = operation.removed - archived - files - operation.emptied
    final = operation.removed_for_good
    # A restore is about paths; older logs count projects only.
    projects = 0 if operation.paths else operation.rolled_back
    back = "changed back" if operation.undoes else "changed"
    # Once the rest is back, "undone" alone would say that all of it is.
    partial = bool(operation.undone_by and final)
    whole = final >= removed
    counts = (
        (archived, archived_words(archived, files)),
        (removed, "removed for good" if whole else "removed"),
        (0 if whole or partial else final, "of them for good"),
        (operation.emptied, "removed from the trash"),
        (operation.paths, f"{'path' if operation.paths == 1 else 'paths'} {back}"),
        (projects, f"{'project' if projects == 1 else 'projects'} restored"),
        (operation.ended, "ended" if _by_hand(operation) else "ended as abandoned"),
        (operation.changed, "changed"),
        (operation.changed_back, "changed back"),
        (0 if operation.paths else operation.brought_back - operation.changed_back, "brought back"),
        (operation.skipped, "skipped"),
        (operation.failed, "failed"),
    )
    said = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing"
    state = operation.state.value
    if partial:
        state = f"{operation.undone:,} brought back; {final:,} removed for good"
    again = f"; done again by {operation.redone_by[-1]}" if operation.redone_by else ""
    return said + again if state == "done" else f"{said}; {state}{again}"
