"""What a restore would do: the difference between two trees, as ordered steps.

Only what differs is read. A plan never contains a path that the old tree does not have, so such a
path is never touched. A file that the target lacks only because it was never captured stays.
"""

from __future__ import annotations

import contextlib
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from holdfast.errors import UsageError
from holdfast.model.checkpoint import Captured, Change, ChangeKind, Checkpoint, Entry, NotCaptured
from holdfast.stores.checkpoints.comparison import changes
from holdfast.stores.checkpoints.content import Content
from holdfast.stores.checkpoints.working_tree import WorkingTree
from holdfast.stores.git.trees import LINK, TREE, Trees, path_bytes, path_text
from holdfast.value import dataclass, field, replace

#: Without these permissions the owner of a directory cannot change its entries.
_ENTER_AND_WRITE = 0o300
#: A built directory may have to be removed again, which needs a descriptor per level.
_DEEPEST = 100
#: The path of the project's own directory.
_PROJECT = ""

#: Returns why a path must stay although the new tree does not have it, or None.
Spared = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The permissions of a directory before and after; `old` is None for a new directory."""

    old: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """All steps, in the order of the fields: delete files, remove directories, make directories,
    write files, set directory permissions. `modes_before` are the permissions of the directories to
    remove.

    Deletions come first because of file systems on which `readme` and `README` are one file.
    """

    unlinked: tuple[Change, ...]
    removed: tuple[str, ...]
    made: tuple[str, ...]
    written: tuple[Change, ...]
    modes: Mapping[str, Modes]
    modes_before: Mapping[str, int] = field(default_factory=dict)
    spared: tuple[NotCaptured, ...] = ()
    shown_removed: frozenset[str] = frozenset()
    shown_written: frozenset[str] = frozenset()

    @property
    def deleted_paths(self) -> tuple[str, ...]:
        """The deletions to report: files, and directories that were empty."""
        gone = {each.path for each in self.unlinked if each.kind is ChangeKind.DELETED}
        return tuple(sorted(gone | self.shown_removed))

    @property
    def written_paths(self) -> tuple[str, ...]:
        """The changes to report. A directory is included only if no file in it is written."""
        return tuple(sorted({each.path for each in self.written} | self.shown_written))

    def __bool__(self) -> bool:
        return bool(self.unlinked or self.removed or self.made or self.written or self.modes)


def steps(
    old: Captured,
    new: Captured,
    *,
    paths: Collection[str] | None = None,
    spared: Spared = lambda _: None,
) -> Steps:
    """Return the steps from the old tree to the new one; with `paths`, only at or below these."""
    before, after = _directories(old), _directories(new)
    wanted = None if paths is None else frozenset(paths)

    def inside(path: str) -> bool:
        return wanted is None or not wanted.isdisjoint((path, *above(path)))

    files = [each for each in _changes(old.files, new.files, after) if inside(each.path)]
    removed = [path for path in before if path not in after and inside(path)]
    # A directory that is not empty stays because of its content, which is reported instead.
    going = [each.path for each in files if each.kind is ChangeKind.DELETED]
    stays = {path: why for path in (*going, *removed) if (why := spared(path))}
    named = [path for path in stays if path in old.files or path in old.empty]
    files = [each for each in files if each.new is not None or each.path not in stays]
    removed = [path for path in removed if path not in stays]
    written = [each for each in files if each.new is not None]
    needed = {place for each in written for place in above(each.path)}
    made = [path for path in after if path not in before and (path in needed or inside(path))]
    touched = (*(each.path for each in files), *removed, *made)
    opened = {place for path in touched for place in above(path)}
    modes = {path: Modes(old=None, new=after[path]) for path in made}
    for path, mode in before.items():
        # No checkpoint has the permissions of the project's own directory.
        if path in after and path != _PROJECT:
            new_mode = after[path] if inside(path) else mode
            if mode != new_mode or (path in opened and mode & _ENTER_AND_WRITE != _ENTER_AND_WRITE):
                modes[path] = Modes(old=mode, new=new_mode)
    return Steps(
        unlinked=tuple(each for each in files if each.new is None),
        removed=tuple(sorted(removed, reverse=True)),
        made=tuple(sorted(made)),
        written=tuple(written),
        modes={path: modes[path] for path in sorted(modes, reverse=True)},
        modes_before={path: before[path] for path in removed},
        spared=tuple(NotCaptured(path=path, reason=stays[path]) for path in named),
        shown_removed=old.empty.intersection(removed).difference(new.files),
        shown_written=new.empty.intersection(made)
        | {path for path, each in modes.items() if each.old not in (None, each.new)},
    )


def seen(todo: Steps) -> dict[str, Entry | None]:
    """Return the present entry at each path that the steps touch; None if the path is free."""
    found: dict[str, Entry | None] = dict.fromkeys(todo.made)
    for path, modes in todo.modes.items():
        if modes.old is not None:
            found[path] = Entry(mode=stat.S_IFDIR | modes.old)
    found |= {each.path: each.old for each in todo.written}
    found |= {each.path: each.old for each in todo.unlinked}
    return found | {
        path: Entry(mode=stat.S_IFDIR | todo.modes_before[path]) for path in todo.removed
    }


def without(todo: Steps, held: Mapping[str, str]) -> Steps:
    """Drop the steps that touch held paths. A held path with a reason is reported if its step would
    be."""
    if not held:
        return todo
    written = tuple(each for each in todo.written if each.path not in held)
    unlinked = tuple(each for each in todo.unlinked if each.path not in held)
    blocked = {each.path for each in todo.unlinked if each.path in held}
    needed = {place for each in written for place in above(each.path)} - blocked
    made = tuple(path for path in todo.made if path not in held or path in needed)
    modes = {path: _held_mode(path, each, held, made) for path, each in todo.modes.items()}
    told = {*todo.deleted_paths, *todo.written_paths, *blocked}.intersection(held)
    named = [NotCaptured(path=path, reason=held[path]) for path in sorted(told) if held[path]]
    return replace(
        todo,
        unlinked=unlinked,
        removed=tuple(path for path in todo.removed if path not in held),
        made=made,
        written=written,
        modes={path: each for path, each in modes.items() if each is not None},
        spared=(*todo.spared, *named),
        shown_removed=todo.shown_removed.difference(held),
        shown_written=todo.shown_written.difference(held),
    )


def relied_on(todo: Steps) -> frozenset[str]:
    """Return the directories that the steps assume to exist: those above what is written or made,
    and those whose permissions change."""
    set_anew = [path for path, each in todo.modes.items() if each.old not in (None, each.new)]
    touched = (*(each.path for each in todo.written), *todo.made, *set_anew)
    folders = {path.rpartition("/")[0] for path in touched}.union(set_anew)
    places = {place for folder in folders for place in (folder, *above(folder))}
    return frozenset(places.difference(todo.made, (_PROJECT,)))


def remaking(todo: Steps, gone: Mapping[str, int]) -> Steps:
    """Add steps that recreate the given directories. A directory gets the given permissions, unless
    the steps set others."""
    if not gone:
        return todo
    planned = {path: each.new for path, each in todo.modes.items() if each.old != each.new}
    remade = {path: Modes(old=None, new=planned.get(path, mode)) for path, mode in gone.items()}
    modes = {**todo.modes, **remade}
    return replace(
        todo,
        made=tuple(sorted((*todo.made, *gone))),
        modes={path: modes[path] for path in sorted(modes, reverse=True)},
    )


def _held_mode(
    path: str, modes: Modes, held: Collection[str], made: Collection[str]
) -> Modes | None:
    """Keep the permissions of a held directory, though it may be opened for work below it."""
    if path not in held:
        return modes
    if modes.old is None:
        return modes if path in made else None
    return Modes(old=modes.old, new=modes.old)


def _directories(captured: Captured) -> dict[str, int]:
    """Return every directory of a tree with its permissions."""
    found: dict[str, int] = {_PROJECT: captured.usual_directory}
    for path in (*captured.files, *captured.directories):
        for place in above(path):
            if place in found:
                break
            found[place] = captured.usual_directory
    found |= {path: entry.permissions for path, entry in captured.directories.items()}
    return found


def above(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first, without the project itself."""
    while path := path.rpartition("/")[0]:
        yield path


def _changes(
    old: Mapping[str, Entry], new: Mapping[str, Entry], directories_then: Mapping[str, int]
) -> Iterator[Change]:
    paths = [path for path, entry in old.items() if new.get(path) != entry]
    paths += [path for path in new if path not in old]
    for path in sorted(paths):
        before, after = old.get(path), new.get(path)
        kind = ChangeKind.MODIFIED
        if before is None:
            kind = ChangeKind.ADDED
        elif after is None:
            kind = ChangeKind.TYPE if path in directories_then else ChangeKind.DELETED
        elif before.is_link != after.is_link:
            kind = ChangeKind.TYPE
        yield Change(path=path, kind=kind, old=before, new=after)


def differing(trees: Trees, old: Content, new: Content) -> tuple[Captured, Captured]:
    """Return the parts of two trees that differ, with all directories above them."""
    found = changes(trees, old, new)
    places = {place for change in found for place in (change.path, *above(change.path))}
    places.add(_PROJECT)
    was, now = [(each.path, each.old) for each in found], [(each.path, each.new) for each in found]
    return _part(trees, old, was, places), _part(trees, new, now, places)


def check_paths(
    paths: Collection[str], trees: Trees, old: Content | None, new: Content, target: Checkpoint
) -> None:
    """Raise for a path that neither side has, or that now leads through a file or symlink."""
    for path in paths:
        for place in above(path) if old is not None else ():
            node = None if old is None else trees.at(old.files, path_bytes(place))
            if node is not None and node[0] != TREE:
                kind = "a symlink" if node[0] == LINK else "a file"
                raise UsageError(
                    f"Cannot restore {path!r}: {place!r} is {kind} now, not a directory.",
                    hint=f"To replace it, restore {place!r} itself.",
                )
        if not any(_has(trees, side, path) for side in (old, new) if side is not None):
            raise UsageError(
                f"{path!r} is not in checkpoint {target.id}; in {target.workdir} it does not exist "
                "or is not captured.",
                hint=f"`holdfast checkpoints show {target.id}` lists what the checkpoint holds.",
            )


def _part(
    trees: Trees,
    side: Content,
    found: Collection[tuple[str, Entry | None]],
    places: Collection[str],
) -> Captured:
    bare = _above_empty(side)
    files = {path: entry for path, entry in found if entry is not None and not entry.is_directory}
    directories = {}
    for place in places:
        if place in files:
            continue
        node = trees.at(side.files, path_bytes(place))
        if (node is not None and node[0] == TREE) or (node is None and place in bare):
            directories[place] = side.record.directory(path_bytes(place))
    return Captured(
        files=files,
        directories=directories,
        empty=frozenset(map(path_text, side.record.empty)),
        usual_directory=side.record.usual.directory,
    )


def _has(trees: Trees, side: Content, path: str) -> bool:
    return trees.at(side.files, path_bytes(path)) is not None or path in _above_empty(side)


def _above_empty(side: Content) -> frozenset[str]:
    """Return the empty directories of a tree, and the directories above them."""
    empty = map(path_text, side.record.empty)
    return frozenset(place for path in empty for place in (path, *above(path)))


# --- New directories ------------------------------------------------------------------------------
#
# A restore fills a new directory under a temporary name next to its final place, then renames it.
# So a kill leaves either the complete directory or something to clear away, and one rename is
# enough for all of its files.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFolder:
    """A directory that does not exist yet: `made` are its own path and those of the directories
    below it, `written` its files."""

    path: str
    made: Sequence[str]
    written: Sequence[Change]

    def inside(self, path: str) -> bytes:
        """Return a path below this directory, relative to it."""
        return path_bytes(path[len(self.path) + 1 :])


def new_folders(tree: WorkingTree, steps: Steps) -> tuple[Sequence[NewFolder], Steps]:
    """Return new directories with files that can be built aside, and the remaining steps."""
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
    """Map each directory to the outermost new one at or above it. `made` is sorted."""
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
