"""What a restore would do: the difference between two trees, in the order of the steps.

Pure. A plan never contains a path that the old tree does not hold, so such a path is never touched.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from holdfast.model.checkpoint import Captured, Change, ChangeKind, Entry, NotCaptured
from holdfast.value import dataclass, field, replace

#: Without these its owner cannot change what is in a directory.
_ENTER_AND_WRITE = 0o300

#: The path of the project's own directory.
PROJECT = ""

#: Why a path must stay although the new tree does not have it, or None.
Spared = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The permissions of a directory before and after; before it was made, it had none."""

    old: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Everything to do, each part in its order: files go, directories go, directories come, files
    come, permissions of directories are set. `modes_before` are the permissions of the directories
    that go.

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
        """What a person is told goes: files, and directories that held nothing."""
        gone = {each.path for each in self.unlinked if each.kind is ChangeKind.DELETED}
        return tuple(sorted(gone | self.shown_removed))

    @property
    def written_paths(self) -> tuple[str, ...]:
        """What a person is told comes or changes; a directory that files make is not named."""
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
    """How to come from the old tree to the new one; with `paths`, only there and below."""
    before, after = directories(old), directories(new)
    inside = _Inside(paths)
    changes = [each for each in _changes(old.files, new.files, after) if inside(each.path)]
    removed = [path for path in before if path not in after and inside(path)]
    # A directory with something in it stays with that, and that is named.
    going = [each.path for each in changes if each.kind is ChangeKind.DELETED]
    stays = {path: why for path in (*going, *removed) if (why := spared(path))}
    named = [path for path in stays if path in old.files or path in old.empty]
    changes = [each for each in changes if each.new is not None or each.path not in stays]
    removed = [path for path in removed if path not in stays]
    written = [each for each in changes if each.new is not None]
    needed = {place for each in written for place in above(each.path)}
    made = [path for path in after if path not in before and (path in needed or inside(path))]
    touched = {place for path in _touched(changes, removed, made) for place in above(path)}
    modes = _modes(before, after, made, inside, touched)
    return Steps(
        unlinked=tuple(each for each in changes if each.new is None),
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
    """What stands now at each path that the steps touch; None for nothing."""
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
    """The steps but for those that touch the held paths. A held path with a reason is named, if a
    person was to be told of it."""
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


def _held_mode(
    path: str, modes: Modes, held: Collection[str], made: Collection[str]
) -> Modes | None:
    """A held directory keeps its permissions; it may have to be opened to work below it."""
    if path not in held:
        return modes
    if modes.old is None:
        return modes if path in made else None
    return Modes(old=modes.old, new=modes.old)


def directories(captured: Captured) -> dict[str, int]:
    """Every directory that a tree holds, with its permissions."""
    found: dict[str, int] = {PROJECT: captured.usual_directory}
    for path in (*captured.files, *captured.directories):
        for place in above(path):
            if place in found:
                break
            found[place] = captured.usual_directory
    found |= {path: entry.permissions for path, entry in captured.directories.items()}
    return found


def above(path: str) -> Iterator[str]:
    """The directories that a path lies in, the nearest first; without the project itself."""
    while path := path.rpartition("/")[0]:
        yield path


class _Inside:
    """Whether a path is wanted, or lies below one that is."""

    def __init__(self, paths: Collection[str] | None) -> None:
        self._paths = None if paths is None else frozenset(paths)

    def __call__(self, path: str) -> bool:
        wanted = self._paths
        return wanted is None or path in wanted or any(place in wanted for place in above(path))


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


def _touched(
    changes: Iterable[Change], removed: Iterable[str], made: Iterable[str]
) -> Iterator[str]:
    yield from (each.path for each in changes)
    yield from removed
    yield from made


def _modes(
    before: Mapping[str, int],
    after: Mapping[str, int],
    made: Iterable[str],
    inside: _Inside,
    touched: Collection[str],
) -> dict[str, Modes]:
    """Which permissions to set at the end: those that differ, and those of directories that must
    be opened to work in them."""
    modes = {path: Modes(old=None, new=after[path]) for path in made}
    for path, old in before.items():
        if path not in after or path == PROJECT:
            continue  # no checkpoint has the permissions of the project's own directory
        new = after[path] if inside(path) else old
        if old != new or (path in touched and _is_locked(old)):
            modes[path] = Modes(old=old, new=new)
    return modes


def _is_locked(mode: int) -> bool:
    return mode & _ENTER_AND_WRITE != _ENTER_AND_WRITE
