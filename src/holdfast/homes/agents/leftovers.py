"""Files of agents that belong to no session, found by the patterns of a format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.homes.agents.json_lines import names_in
from holdfast.model.part import FilePart, FolderPart, Leftover

#: The kind of a leftover, and its path pattern below the home.
Pattern = tuple[str, str]


def matching(root: Path, patterns: Iterable[Pattern]) -> Iterator[tuple[str, Path]]:
    """The matches of each pattern with its kind, in the order of the patterns, then by name."""
    for kind, pattern in patterns:
        for path in sorted(root.glob(pattern)):
            yield kind, path


def places(root: Path, pattern: str) -> Iterator[Path]:
    """The matches of a pattern whose parts are names or `*`, with what cannot be read: a link that
    leads nowhere is the last folder of its path."""
    found = [root]
    for part in pattern.split("/"):
        further = []
        for folder in found:
            below = sorted(names_in(folder)) if part == "*" else [part]
            further += [folder / name for name in below]
        yield from (each for each in further if _is_cut_off(each))
        found = further
    yield from found


def _is_cut_off(path: Path) -> bool:
    return os.path.islink(path) and not os.path.exists(path)  # noqa: PTH110, PTH114 - many of them


def cut_off(root: Path, folders: Iterable[str]) -> Path | None:
    """A folder with sessions that cannot be read: a link whose disk is not there. A link to an
    empty folder is one, too: that may be where a disk belongs. None if all can be read."""
    found = (path for pattern in folders for path in places(root, pattern))
    return next((each for each in found if each.is_symlink() and not names_in(each)), None)


def leftover(kind: str, path: Path, name: str | None = None) -> Iterator[Leftover]:
    """One leftover: a file, or a folder with everything in it; nothing if it was removed since it
    was found. Its age counts from its last change. Its id is `name`, or the file name by
    default."""
    try:
        changed = path.lstat().st_mtime
    except FileNotFoundError:
        return
    folder = path.is_dir() and not path.is_symlink()
    yield Leftover(
        kind=kind,
        id=path.name if name is None else name,
        active=changed,
        parts=(FolderPart(path=path) if folder else FilePart(path=path),),
    )


def programs(releases: Sequence[Path], name: str) -> Iterator[Leftover]:
    """Copies of an agent's own program, oldest first; the agent runs from the last one."""
    for path in releases:
        kind = "program" if path == releases[-1] else "old-program"
        yield from leftover(kind, path, f"{name}-{path.name}")


def name_below(root: Path, path: Path) -> str:
    """A unique name for a file deep in a home, where the file name alone may be ambiguous."""
    return str(path.relative_to(root)).replace(os.sep, ":")
