"""Make the record beside a tree from what a look saw."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from holdfast.stores.shadowgit.beside import Beside, Usual, is_program, most_usual
from holdfast.stores.shadowgit.looking import Looked
from holdfast.stores.shadowgit.trees import FILE, PROGRAM, TREE, Trees
from holdfast.stores.shadowgit.walking import parent


def record(trees: Trees, files: bytes, looked: Looked, before: Beside | None) -> Beside:
    """The record for the tree `files`; `before` is that of the last checkpoint, if there is one."""
    # The working directory itself is not a part of what is in it.
    directories = {path: mode for path, mode in looked.walked.directories.items() if path}
    if before is None:
        usual = most_usual(looked.permissions.values(), directories.values())
        before = Beside(usual=usual)
    empty = _empty(trees, files, looked, before)
    modes = _kept_modes(trees, files, looked, before, empty)
    modes |= {path: mode for path, mode in directories.items() if mode != before.usual.directory}
    for path, mode in looked.permissions.items():
        if mode != _usual(before.usual, mode):
            modes[path] = mode
    return Beside(usual=before.usual, modes=modes, empty=empty)


def modes_changed(looked: Looked, before: Beside, changed: Container[bytes]) -> int:
    """How many files changed their permissions alone, in a way that git's trees do not show."""
    return sum(
        before.modes.get(path, _usual(before.usual, mode)) != mode
        for path, mode in looked.permissions.items()
        if path not in changed
    )


def _usual(usual: Usual, mode: int) -> int:
    return usual.program if is_program(mode) else usual.file


def _kept_modes(
    trees: Trees, files: bytes, looked: Looked, before: Beside, empty: frozenset[bytes]
) -> dict[bytes, int]:
    """What the last record says of paths that this look did not come to."""
    seen = looked.permissions.keys() | looked.walked.directories.keys()
    kept: dict[bytes, int] = {}
    for path, mode in before.modes.items():
        if path in seen:
            continue
        node = trees.at(files, path)
        is_file = node is not None and node[0] in (FILE, PROGRAM)
        # After a whole look every directory was seen: one that was not is gone.
        is_folder = (node is not None and node[0] == TREE) or path in empty
        if is_file or (is_folder and not looked.whole):
            kept[path] = mode
    return kept


def _empty(trees: Trees, files: bytes, looked: Looked, before: Beside) -> frozenset[bytes]:
    """Directories without anything captured in them, not even another such directory.

    Only where something was looked at can that have changed.
    """
    walked = looked.walked
    above = {parent(path) for path in walked.directories if path}
    judged = {parent(path) for path in (*looked.paths, *walked.gone)} | walked.fresh.keys()
    if not looked.whole:
        judged |= walked.directories.keys()
    kept = {
        path
        for path in before.empty
        if (path not in judged or path not in walked.directories)
        and _still(walked.directories, looked, path)
    }
    found = {
        path
        for path in judged
        if path and path in walked.directories and trees.at(files, path) is None
    }
    both = kept | found
    above |= {folder for path in both for folder in _ancestors(path)}
    return frozenset(both - above)


def _still(directories: Mapping[bytes, int], looked: Looked, path: bytes) -> bool:
    if looked.whole:
        return path in directories
    while path:
        if path in looked.walked.gone or (path in looked.paths and path not in directories):
            return False
        path = parent(path)
    return True


def _ancestors(path: bytes) -> Iterator[bytes]:
    while path := parent(path):
        yield path
