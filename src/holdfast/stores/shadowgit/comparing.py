"""What a tree holds, and how two of them differ, with whole permissions and empty directories."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.checkpoint import Captured, Change, ChangeKind, Entry
from holdfast.stores.shadowgit.base import Content
from holdfast.stores.shadowgit.beside import path_text
from holdfast.stores.shadowgit.trees import LINK, TREE, Trees


def captured(trees: Trees, content: Content) -> Captured:
    """Everything in a checkpoint's tree, by path."""
    beside = content.beside
    files = {path_text(path): beside.entry(path, node) for path, node in trees.files(content.files)}
    listed = {path for path in beside.modes if path_text(path) not in files} | beside.empty
    return Captured(
        files=files,
        directories={path_text(path): beside.directory(path) for path in listed},
        empty=frozenset(path_text(path) for path in beside.empty),
        usual_directory=beside.usual.directory,
    )


def changes(trees: Trees, old: Content, new: Content) -> Sequence[Change]:
    """What differs between two trees, sorted by path."""
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for path, was, now in trees.differing(old.files, new.files):
        sides[path] = (
            None if was is None else old.beside.entry(path, was),
            None if now is None else new.beside.entry(path, now),
        )
    for path in _suspects(trees, old, new) - sides.keys():
        sides[path] = (_entry(trees, old, path), _entry(trees, new, path))
    found = [_change(path_text(path), was, now) for path, (was, now) in sides.items() if was != now]
    return sorted(found, key=lambda change: change.path)


def _suspects(trees: Trees, old: Content, new: Content) -> set[bytes]:
    """Paths whose permissions may differ, or that are directories of their own."""
    if old.beside == new.beside:
        return set()
    listed = {*old.beside.modes, *new.beside.modes, *old.beside.empty, *new.beside.empty}
    if old.beside.usual != new.beside.usual:
        # What no record lists has other permissions, too.
        listed |= _places(trees, old) & _places(trees, new)
    return listed


def _places(trees: Trees, content: Content) -> set[bytes]:
    """Every file and every directory above one."""
    found: set[bytes] = set()
    for path, _ in trees.files(content.files):
        place = path
        while place and place not in found:
            found.add(place)
            place = place.rpartition(b"/")[0]
    return found


def _entry(trees: Trees, content: Content, path: bytes) -> Entry | None:
    """What a path is in a tree; a directory counts when it is there by itself or is above files."""
    node = trees.at(content.files, path)
    if node is None:
        return content.beside.directory(path) if _is_directory(content, path) else None
    if node[0] == TREE:
        return content.beside.directory(path)
    return content.beside.entry(path, node)


def _is_directory(content: Content, path: bytes) -> bool:
    below = path + b"/"
    return path in content.beside.empty or any(
        empty.startswith(below) for empty in content.beside.empty
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
