"""The two trees of a restore, only as far as they differ: what is alike costs nothing to leave."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.errors import UsageError
from holdfast.model.checkpoint import Captured, Checkpoint, Entry
from holdfast.stores.shadowgit.base import Content
from holdfast.stores.shadowgit.beside import path_bytes, path_text
from holdfast.stores.shadowgit.comparing import changes
from holdfast.stores.shadowgit.restore_plan import PROJECT, above
from holdfast.stores.shadowgit.trees import LINK, TREE, Trees


def differing(trees: Trees, old: Content, new: Content) -> tuple[Captured, Captured]:
    """Of both trees, what the other does not have like that, and every directory above it."""
    found = changes(trees, old, new)
    places = {place for change in found for place in (change.path, *above(change.path))}
    places.add(PROJECT)
    return _part(trees, old, [(each.path, each.old) for each in found], places), _part(
        trees, new, [(each.path, each.new) for each in found], places
    )


def check_paths(
    paths: Collection[str], trees: Trees, old: Content | None, new: Content, target: Checkpoint
) -> None:
    """Raise for a path that neither side has, or that something else stands in front of now."""
    for path in paths:
        for place in above(path) if old is not None else ():
            node = None if old is None else trees.at(old.files, path_bytes(place))
            if node is not None and node[0] != TREE:
                kind = "a symlink" if node[0] == LINK else "a file"
                raise UsageError(
                    f"Cannot restore {path!r}: {place!r} is {kind} now, no path leads through it.",
                    hint=f"To replace it, restore {place!r} itself.",
                )
        if not any(_has(trees, side, path) for side in (old, new) if side is not None):
            raise UsageError(
                f"Neither checkpoint {target.id} nor {target.workdir} has {path!r} captured.",
                hint=f"`holdfast checkpoints show {target.id}` lists what the checkpoint holds.",
            )


def _part(
    trees: Trees,
    side: Content,
    found: Iterable[tuple[str, Entry | None]],
    places: Collection[str],
) -> Captured:
    bare = _above_empty(side)
    directories = {}
    for place in places:
        node = trees.at(side.files, path_bytes(place))
        if (node is not None and node[0] == TREE) or (node is None and place in bare):
            directories[place] = side.beside.directory(path_bytes(place))
    return Captured(
        files={
            path: entry for path, entry in found if entry is not None and not entry.is_directory
        },
        directories=directories,
        empty=frozenset(map(path_text, side.beside.empty)),
        usual_directory=side.beside.usual.directory,
    )


def _has(trees: Trees, side: Content, path: str) -> bool:
    return trees.at(side.files, path_bytes(path)) is not None or path in _above_empty(side)


def _above_empty(side: Content) -> frozenset[str]:
    """Directories without a file in them, and those above."""
    empty = map(path_text, side.beside.empty)
    return frozenset(place for path in empty for place in (path, *above(path)))
