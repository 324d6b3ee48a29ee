"""Checks whether we can read and change what is in a home: the first step of a check-up.

An unreadable folder hides its contents, so every other check would report the home as sound.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.model.checkup import Finding, Repair, Severity
from holdfast.model.text import format_count
from holdfast.value import dataclass

CHECK = "access"
_FOLDER = stat.S_IRWXU
_FILE = stat.S_IRUSR | stat.S_IWUSR


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An entry to which the system denies us access. If `path` is a folder, nothing below it was
    examined."""

    path: Path
    readable: bool
    is_folder: bool
    ours: bool


def look(root: Path, writable: Iterable[Path], *, is_own: bool) -> Finding:
    """Check everything below a home. Files in the `writable` folders must be writable, too; other
    files are only moved or removed, which requires write access to their folder alone. In another
    agent's home nothing is repaired: that agent decides about its files."""
    if _is_read_only(root):
        hidden = [each for each in _refused(root, frozenset()) if not each.readable]
        if hidden:
            return _unreadable(hidden, root, repairable=False)
        return Finding(
            check=CHECK,
            severity=Severity.WARNING,
            message=f"{root} is on a read-only file system: it can be read, but not changed",
            advice="To change something, mount it writable, or copy the home.",
        )
    refused = list(_refused(root, frozenset(writable)))
    hidden = [each for each in refused if not each.readable]
    mine = is_own and all(each.ours for each in refused)
    if hidden:
        return _unreadable(hidden, root, repairable=mine)
    if not refused:
        return Finding(check=CHECK)
    return Finding(
        check=CHECK,
        severity=Severity.WARNING,
        message=f"{_named(refused)} cannot be written; commands that change this home will fail",
        advice=_advice(refused, root, mine),
        repairable=mine,
    )


def closed(root: Path) -> Finding | None:
    """The finding for a home that cannot be read at all: no other check is possible then."""
    if os.access(root, os.R_OK | os.X_OK):
        return None
    # Without reading it we cannot tell whose home this is, so its owner decides.
    return _unreadable([_entry(root, readable=False, is_folder=True)], root, repairable=False)


def mend(root: Path, writable: Iterable[Path]) -> Repair:
    """Give the owner access again, top down: hidden entries appear on the way."""
    wanted = frozenset(writable)
    changed = 0
    tried: set[Path] = set()
    while True:
        found = [each for each in _refused(root, wanted) if each.path not in tried]
        if not found:
            break
        for each in found:
            tried.add(each.path)
            mode = stat.S_IMODE(each.path.lstat().st_mode)
            try:
                each.path.chmod(mode | (_FOLDER if each.is_folder else _FILE))
            except OSError:
                continue  # the check-up after the repair reports it
            changed += 1
    return Repair(steps=(f"gave you access to {_count(changed)}",))


def _refused(root: Path, writable: frozenset[Path]) -> Iterator[Refused]:
    """Links are not followed. A file system without owners denies nothing here."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        readable = os.access(folder, os.R_OK | os.X_OK)
        if not readable or not os.access(folder, os.W_OK):
            yield _entry(folder, readable=readable, is_folder=True)
        if not readable:
            continue
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError:
            continue  # it was removed in the meantime
        for each in entries:
            path = Path(each.path)
            if each.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif each.is_file(follow_symlinks=False):
                file_readable = os.access(path, os.R_OK)
                if not file_readable or (folder in writable and not os.access(path, os.W_OK)):
                    yield _entry(path, readable=file_readable, is_folder=False)


def _entry(path: Path, *, readable: bool, is_folder: bool) -> Refused:
    try:
        ours = path.lstat().st_uid == os.geteuid()
    except OSError:
        ours = False
    return Refused(path=path, readable=readable, is_folder=is_folder, ours=ours)


def _unreadable(hidden: Sequence[Refused], root: Path, *, repairable: bool) -> Finding:
    return Finding(
        check=CHECK,
        severity=Severity.DAMAGE,
        message=f"{_named(hidden)} cannot be read; the contents are missing from every list",
        advice=_advice(hidden, root, repairable),
        repairable=repairable,
    )


def _advice(refused: Sequence[Refused], root: Path, repairable: bool) -> str:
    if repairable:
        return "`holdfast doctor --repair` gives you access again."
    if all(each.ours for each in refused):
        return f"To get access again: chmod -R u+rwX {shlex.quote(str(root))}"
    return f"Some of it belongs to another user: change its owner with chown -R, from {root} down."


def _named(refused: Sequence[Refused]) -> str:
    if len(refused) == 1:
        return str(refused[0].path)
    return f"{_count(len(refused))}, first {refused[0].path},"


def _count(number: int) -> str:
    return format_count(number, "file or folder", "files and folders")


def _is_read_only(root: Path) -> bool:
    try:
        return bool(os.statvfs(root).f_flag & os.ST_RDONLY)
    except OSError:
        return False
