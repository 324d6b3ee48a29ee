"""Compares two trees, and counts the changed lines of files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Captured, Change, ChangeKind, Entry, Lines
from holdfast.stores.checkpoints.content import Content
from holdfast.stores.git.trees import LINK, TREE, Node, Trees, path_text

#: The limits of what a take counts: files, bytes per file, pairs of lines to compare.
COUNTED_AT_ONCE = 200
_LARGEST = 16 * 1024 * 1024
_MOST_PAIRS = 1_000_000_000
#: git treats a file as binary if there is a null byte among this many first bytes.
_LOOKED_AT = 8000


def captured(trees: Trees, content: Content) -> Captured:
    """Return everything in a checkpoint's tree, by path."""
    record = content.record
    files = {path_text(path): record.entry(path, node) for path, node in trees.files(content.files)}
    listed = {path for path in record.modes if path_text(path) not in files} | record.empty
    return Captured(
        files=files,
        directories={path_text(path): record.directory(path) for path in listed},
        empty=frozenset(path_text(path) for path in record.empty),
        usual_directory=record.usual.directory,
    )


def changes(trees: Trees, old: Content, new: Content) -> Sequence[Change]:
    """Return the differences between two trees, sorted by path."""
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for path, was, now in trees.differing(old.files, new.files):
        sides[path] = (
            None if was is None else old.record.entry(path, was),
            None if now is None else new.record.entry(path, now),
        )
    for path in _suspects(trees, old, new) - sides.keys():
        sides[path] = (_entry(trees, old, path), _entry(trees, new, path))
    found = [_change(path_text(path), was, now) for path, (was, now) in sides.items() if was != now]
    return sorted(found, key=lambda change: change.path)


def _suspects(trees: Trees, old: Content, new: Content) -> set[bytes]:
    """Return paths whose permissions may differ, and directories without files."""
    if old.record == new.record:
        return set()
    listed = {*old.record.modes, *new.record.modes, *old.record.empty, *new.record.empty}
    if old.record.usual != new.record.usual:
        # Paths in neither record have the usual permissions, and these differ.
        listed |= _places(trees, old) & _places(trees, new)
    return listed


def _places(trees: Trees, content: Content) -> set[bytes]:
    """Return every file and every directory above one."""
    found: set[bytes] = set()
    for path, _ in trees.files(content.files):
        place = path
        while place and place not in found:
            found.add(place)
            place = place.rpartition(b"/")[0]
    return found


def _entry(trees: Trees, content: Content, path: bytes) -> Entry | None:
    """Return the entry of a path in a tree; a directory counts if empty or with files below."""
    node = trees.at(content.files, path)
    if node is None:
        return content.record.directory(path) if _is_directory(content, path) else None
    if node[0] == TREE:
        return content.record.directory(path)
    return content.record.entry(path, node)


def _is_directory(content: Content, path: bytes) -> bool:
    below = path + b"/"
    return path in content.record.empty or any(
        empty.startswith(below) for empty in content.record.empty
    )


def _change(path: str, old: Entry | None, new: Entry | None) -> Change:
    kind = ChangeKind.MODIFIED
    if old is None:
        kind = ChangeKind.ADDED
    elif new is None:
        kind = ChangeKind.DELETED
    elif _type(old) != _type(new):
        kind = ChangeKind.TYPE
    return Change(path=path, kind=kind, old=old, new=new)


def _type(entry: Entry) -> int:
    if entry.is_directory:
        return TREE
    return LINK if entry.is_link else 0


def count_lines(
    changed: Collection[tuple[Node | None, Node | None]], content: Callable[[bytes], bytes]
) -> Lines | None:
    """Count the changed lines of files. Returns None if the files are too many or too large to
    count quickly, or if a blob is damaged: that must not prevent the next checkpoint."""
    if len(changed) > COUNTED_AT_ONCE:
        return None
    insertions = deletions = 0
    for was, now in changed:
        try:
            before, after = (b"" if node is None else content(node[1]) for node in (was, now))
        except DamageError:
            return None
        counted = changed_lines(before, after)
        if counted is None:
            return None
        insertions += counted.insertions
        deletions += counted.deletions
    return Lines(insertions=insertions, deletions=deletions)


def changed_lines(before: bytes, after: bytes) -> Lines | None:
    """Return the smallest number of inserted and deleted lines; 0 for a binary file, None for a
    file that is too large."""
    if b"\0" in before[:_LOOKED_AT] or b"\0" in after[:_LOOKED_AT]:
        return Lines(insertions=0, deletions=0)
    if len(before) + len(after) > _LARGEST:
        return None
    old, new = _inner(_lines(before), _lines(after))
    both = set(old) & set(new)
    common = _common([line for line in old if line in both], [line for line in new if line in both])
    if common is None:
        return None
    return Lines(insertions=len(new) - common, deletions=len(old) - common)


def _lines(data: bytes) -> Sequence[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    if last:
        # A last line without a newline differs from the same line with one.
        lines.append(last + b"\n")
    return lines


def _inner(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Strip the common prefix and suffix."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return old[start : len(old) - end], new[start : len(new) - end]


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> int | None:
    """Return the length of the longest common subsequence; None if that would take long.

    A row of the usual table is one integer in which a cleared bit is a step up, so a row of any
    length takes three operations (Hyyrö 2004).
    """
    if len(old) * len(new) > _MOST_PAIRS:
        return None
    at: dict[bytes, int] = {}
    for number, line in enumerate(old):
        at[line] = at.get(line, 0) | 1 << number
    every = (1 << len(old)) - 1
    row = every
    for line in new:
        met = row & at[line]
        row = (row + met | row - met) & every
    return len(old) - row.bit_count()
