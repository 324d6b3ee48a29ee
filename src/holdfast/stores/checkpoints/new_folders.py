"""The directories that a restore makes anew, so that each gets its name with everything in it.

Such a directory is filled beside its place. A kill leaves it whole, or leaves something to clear
away; and one rename is enough for all of its files.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence

from holdfast.model.checkpoint import Change
from holdfast.stores.checkpoints.restore_plan import Steps
from holdfast.stores.checkpoints.working_tree import WorkingTree
from holdfast.stores.git.trees import path_bytes
from holdfast.value import dataclass, replace

#: What was built may have to be removed, and that takes a descriptor for each level.
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFolder:
    """A directory that is not there yet: `made` are its own path and those of the directories below
    it, `written` its files."""

    path: str
    made: Sequence[str]
    written: Sequence[Change]

    def inside(self, path: str) -> bytes:
        """A path below this directory, relative to it."""
        return path_bytes(path[len(self.path) + 1 :])


def new_folders(tree: WorkingTree, steps: Steps) -> tuple[Sequence[NewFolder], Steps]:
    """The directories with files in them that can be built aside, and the steps without them."""
    tops = _tops(steps.made)
    made, written = defaultdict(list), defaultdict(list)
    for path in steps.made:
        made[tops[path]].append(path)
    for change in steps.written:
        top = tops.get(change.path.rpartition("/")[0])
        if top is not None:
            written[top].append(change)
    found = [
        NewFolder(path=path, made=made[path], written=written[path])
        for path in made
        if path in written and _can_be_built(tree, path, made[path], written[path])
    ]
    taken = {folder.path for folder in found}
    rest = replace(
        steps,
        made=tuple(path for path in steps.made if tops[path] not in taken),
        written=tuple(
            change
            for change in steps.written
            if tops.get(change.path.rpartition("/")[0]) not in taken
        ),
    )
    return found, rest


def _tops(made: Sequence[str]) -> dict[str, str]:
    """Each directory with the outermost new one at it or above it. `made` is sorted."""
    tops: dict[str, str] = {}
    for path in made:
        tops[path] = tops.get(path.rpartition("/")[0], path)
    return tops


def _can_be_built(
    tree: WorkingTree, path: str, made: Sequence[str], written: Sequence[Change]
) -> bool:
    if any(change.old is not None for change in written):
        return False
    if max(below.count("/") for below in made) > _DEEPEST:
        return False
    with contextlib.suppress(OSError):
        if tree.look(path_bytes(path), size=-1) is None:
            return tree.is_on_its_disk(path_bytes(path.rpartition("/")[0]))
    return False
