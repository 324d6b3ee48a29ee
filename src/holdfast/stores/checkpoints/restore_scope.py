"""Which part of two trees a restore is about, and what it must not delete.

Only what differs is read. A file that the target lacks only because it was never captured stays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.model.checkpoint import Captured, Checkpoint, Entry
from holdfast.stores.checkpoints.comparison import changes
from holdfast.stores.checkpoints.content import Content
from holdfast.stores.checkpoints.ignore_rules import TEMPORARY, Ignoring
from holdfast.stores.checkpoints.restore_plan import PROJECT, Spared, above
from holdfast.stores.files import PRIVATE_DIR, storage_errors
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import LINK, TREE, Trees, path_bytes, path_text
from holdfast.value import dataclass

_RULES = ".gitignore"
_NOT_THEN = "the checkpoint did not capture it: {}"
_IGNORED = _NOT_THEN.format("it was ignored")


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
            directories[place] = side.record.directory(path_bytes(place))
    return Captured(
        files={
            path: entry for path, entry in found if entry is not None and not entry.is_directory
        },
        directories=directories,
        empty=frozenset(map(path_text, side.record.empty)),
        usual_directory=side.record.usual.directory,
    )


def _has(trees: Trees, side: Content, path: str) -> bool:
    return trees.at(side.files, path_bytes(path)) is not None or path in _above_empty(side)


def _above_empty(side: Content) -> frozenset[str]:
    """Directories without a file in them, and those above."""
    empty = map(path_text, side.record.empty)
    return frozenset(place for path in empty for place in (path, *above(path)))


@dataclass(frozen=True, slots=True)
class Sparing:
    """Asks on behalf of one project; `folder` is that of its private index."""

    store: Path
    folder: Path
    blob: Callable[[str], bytes]

    def not_captured(self, target: Checkpoint) -> Spared:
        """What the target itself says that it left out, and everything below that."""
        why = {each.path: each.reason for each in target.not_captured}

        def spared(path: str) -> str | None:
            for place in (path, *above(path)) if why else ():
                if place in why:
                    return _NOT_THEN.format(why[place])
            return None

        return spared

    def ignored(
        self,
        files: Sequence[str],
        directories: Sequence[str],
        tree: Captured,
        excludes: bytes,
    ) -> Mapping[str, str]:
        """Of these paths, those that the rules in a tree leave out, or the default excludes that
        it was taken under.

        They may have been there at its time: that it lacks them says nothing.
        """
        with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
            place = Path(made).resolve()
            with storage_errors(f"write ignore rules to {place}"):
                for path, entry in rules(tree).items():
                    file = place / path
                    file.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
                    file.write_bytes(self.blob(entry.oid))
                for path in directories:  # some rules are about directories alone
                    (place / path).mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
            git = Git(store=self.store, folder=self.folder, work_tree=place)
            standing = place / f"{TEMPORARY.decode()}excludes"
            standing.write_bytes(excludes)
            with Ignoring(git, standing) as ignoring:
                left = ignoring.ask(sorted(map(path_bytes, (*files, *directories))))
        return {path_text(path): _IGNORED for path in left}


def rules(captured: Captured) -> Mapping[str, Entry]:
    return {
        path: entry
        for path, entry in captured.files.items()
        if path.endswith(_RULES) and path.rpartition("/")[2] == _RULES and not entry.is_link
    }
