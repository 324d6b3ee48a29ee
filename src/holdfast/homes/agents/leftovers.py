"""What agents leave that no session owns, found by the patterns that a format gives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.model.part import FilePart, FolderPart, Leftover

#: The kind of a leftover, and the pattern of its path below the home.
Pattern = tuple[str, str]


def matching(root: Path, patterns: Iterable[Pattern]) -> Iterator[tuple[str, Path]]:
    """What matches each pattern, with its kind: in the order of the patterns, then by name."""
    for kind, pattern in patterns:
        for path in sorted(root.glob(pattern)):
            yield kind, path


def leftover(kind: str, path: Path, name: str | None = None) -> Iterator[Leftover]:
    """One leftover: a file, or a folder with all that is in it; none when it has gone since it was
    found. Its age counts from its last change. Its id is `name`, or else the name of its file."""
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
    """Copies of an agent's own program, the oldest first: it runs from the last of them."""
    for path in releases:
        kind = "program" if path == releases[-1] else "old-program"
        yield from leftover(kind, path, f"{name}-{path.name}")


def name_below(root: Path, path: Path) -> str:
    """A name for what lies deep in a home, where file names alone would not tell two apart."""
    return str(path.relative_to(root)).replace(os.sep, ":")
