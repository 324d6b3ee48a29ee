"""Who may look into a home: what agents said is private, so only its owner may."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.model.finding import Finding, Severity
from holdfast.model.units import format_count
from holdfast.stores.files import OTHERS

_FOLDERS = ("sessions", "archive", "operations", "trash", "checkpoints")


def check(root: Path, database: str) -> Finding:
    """Whether anybody but the owner can read or enter something of a home."""
    open_to_others = [path for path, mode in _entries(root, database) if mode & OTHERS]
    if not open_to_others:
        return Finding(check="permissions")
    others = format_count(len(open_to_others), "file or folder", "files and folders")
    first = open_to_others[0]
    shown = str(first) if first == root else str(first.relative_to(root))
    return Finding(
        check="permissions",
        severity=Severity.WARNING,
        message=f"{others} can be read by other users of this machine, first {shown}",
        advice="`holdfast doctor --repair` takes that right away from them.",
        repairable=True,
    )


def is_private(folder: Path) -> bool:
    """Whether nobody but its owner can look into a folder; also of one that is not there."""
    return not any(mode & OTHERS for _, mode in _entry(folder))


def tighten(root: Path, database: str) -> tuple[int, list[str]]:
    """Take every right from everybody but the owner: how many were changed, and what was not.

    The home itself comes first: from then on nobody else can put a link in the place of a file.
    """
    changed = 0
    refused = []
    for path, mode in _entries(root, database):
        if mode & OTHERS:
            try:
                path.chmod(mode & ~OTHERS)
            except OSError as error:
                refused.append(f"{path}: {error.strerror}")
            else:
                changed += 1
    return changed, refused


def _entries(root: Path, database: str) -> Iterator[tuple[Path, int]]:
    """What is private in a home, from the top down. Links are not followed: they have no rights
    of their own, and what they lead to may be somebody else's."""
    yield from _entry(root)
    for path in sorted(root.glob(f"{database}*")):
        yield from _entry(path)
    for name in _FOLDERS:
        if not (root / name).is_symlink():
            for folder, folders, files in os.walk(root / name):
                yield from _entry(Path(folder))
                folders.sort()
                for file in sorted(files):
                    yield from _entry(Path(folder, file))


def _entry(path: Path) -> Iterator[tuple[Path, int]]:
    try:
        status = path.lstat()
    except OSError:
        return  # gone meanwhile
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        yield path, stat.S_IMODE(status.st_mode)
