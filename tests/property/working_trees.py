"""Random working trees and edits, and a walk of the file system that knows nothing of git."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

#: Few names, so that edits meet; each of them has broken some tool.
NAMES = (b"a", b"A", b"b.txt", b"new\nline", b"bad\xff", b'q"u\\o', b"-x", b":c", b"*", b"ig", b"z ")
CONTENTS = (b"", b"one\n", b"two\n", b"one\r\ntwo\r\n", b"\0\xff binary", b"$Id$\n", b"x" * 150)
FILE_MODES = (0o644, 0o755, 0o600, 0o444, 0o4755, 0o640)
FOLDER_MODES = (0o755, 0o700, 0o750, 0o2775)
ATTRIBUTES = (b"* text=auto eol=crlf\n", b"* ident filter=lfs working-tree-encoding=UTF-16\n")
#: The one rule that the walk below understands.
RULE = b"ig*\n"
LIMIT = 120

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(b"/".join)


@dataclass(frozen=True, slots=True)
class Edit:
    """One thing done to a working tree."""

    kind: str
    path: bytes
    choice: int

    def apply(self, root: bytes) -> None:
        _EDITS[self.kind](root + b"/" + self.path, self.choice)


def edits() -> st.SearchStrategy[Edit]:
    return st.builds(
        Edit, kind=st.sampled_from(sorted(_EDITS)), path=paths, choice=st.integers(0, 41)
    )


def _clear(path: bytes) -> None:
    if os.path.lexists(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _make_room(path: bytes) -> None:
    """Every folder on the way is a real one, whatever was there."""
    folder = os.path.dirname(path)
    if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
        os.unlink(folder)
    if not os.path.isdir(folder):
        _make_room(folder)
        os.mkdir(folder)


def _write(path: bytes, choice: int) -> None:
    _make_room(path)
    _clear(path)
    Path(os.fsdecode(path)).write_bytes(CONTENTS[choice % len(CONTENTS)])


def _write_over(path: bytes, choice: int) -> None:
    """In place: the same file, perhaps of the same size, with its times put back."""
    if not os.path.isfile(path) or os.path.islink(path):
        return
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"XYZ"[: before.st_size])
    if choice % 2:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _delete(path: bytes, choice: int) -> None:
    if not os.path.islink(os.path.dirname(path)):
        _clear(path)


def _make_folder(path: bytes, choice: int) -> None:
    _make_room(path)
    _clear(path)
    os.mkdir(path)
    os.chmod(path, FOLDER_MODES[choice % len(FOLDER_MODES)])


def _link(path: bytes, choice: int) -> None:
    _make_room(path)
    _clear(path)
    os.symlink((b"a", b"../a", b"nowhere", b"/etc", b"bad\xff")[choice % 5], path)


def _change_mode(path: bytes, choice: int) -> None:
    if os.path.lexists(path) and not os.path.islink(path) and not _through_link(path):
        modes = FOLDER_MODES if os.path.isdir(path) else FILE_MODES
        os.chmod(path, modes[choice % len(modes)])


def _through_link(path: bytes) -> bool:
    return any(os.path.islink(path[:place]) for place in range(1, len(path)) if path[place] == 47)


def _touch(path: bytes, choice: int) -> None:
    if os.path.isfile(path) and not os.path.islink(path):
        os.utime(path, (choice, choice))


def _turn_case(path: bytes, choice: int) -> None:
    folder, name = os.path.split(path)
    other = folder + b"/" + name.swapcase()
    if os.path.lexists(path) and not os.path.lexists(other):
        os.rename(path, other)


def _nest(path: bytes, choice: int) -> None:
    """A repository of its own, or a worktree's `.git` file."""
    _make_folder(path, 0)
    if choice % 2:
        os.mkdir(path + b"/.git")
        _write(path + b"/.git/HEAD", 1)
    else:
        _write(path + b"/.git", 1)
    if choice % 3:
        _write(path + b"/a", choice)


def _ignore(path: bytes, choice: int) -> None:
    rules = os.path.dirname(path) + b"/.gitignore"
    _make_room(rules)
    _clear(rules)
    if choice % 3:
        Path(os.fsdecode(rules)).write_bytes(RULE)


def _attributes(path: bytes, choice: int) -> None:
    _make_room(path)
    place = os.path.dirname(path) + b"/.gitattributes"
    Path(os.fsdecode(place)).write_bytes(ATTRIBUTES[choice % 2])


def _pipe(path: bytes, choice: int) -> None:
    _make_room(path)
    _clear(path)
    os.mkfifo(path)


_EDITS: dict[str, Callable[[bytes, int], None]] = {
    "write": _write,
    "write again": _write,
    "write over": _write_over,
    "delete": _delete,
    "make folder": _make_folder,
    "link": _link,
    "change mode": _change_mode,
    "touch": _touch,
    "turn case": _turn_case,
    "nest": _nest,
    "ignore": _ignore,
    "attributes": _attributes,
    "pipe": _pipe,
}


@dataclass(slots=True)
class Picture:
    """What is in a working tree and can be captured, and what is there and cannot."""

    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)


def picture(root: bytes) -> Picture:
    made = Picture()
    _draw(root, b"", False, made)
    return made


def _draw(root: bytes, folder: bytes, ruled: bool, made: Picture) -> bool:
    """Draw a folder; says whether anything in it, or a folder, was drawn."""
    here = root + b"/" + folder if folder else root
    rules = here + b"/.gitignore"
    ruled = ruled or (os.path.isfile(rules) and Path(os.fsdecode(rules)).read_bytes() == RULE)
    drawn = False
    for name in sorted(os.listdir(here)):
        if name == b".git" or (ruled and name.startswith(b"ig")):
            continue
        path = folder + b"/" + name if folder else name
        status = os.lstat(root + b"/" + path)
        text = os.fsdecode(path)
        if stat.S_ISDIR(status.st_mode):
            made.folders[text] = stat.S_IMODE(status.st_mode)
            if not _draw(root, path, ruled, made):
                made.empty.add(text)
            drawn = True
        elif stat.S_ISLNK(status.st_mode):
            made.files[text] = (0o120777, os.readlink(root + b"/" + path))
            drawn = True
        elif stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT:
            content = Path(os.fsdecode(root + b"/" + path)).read_bytes()
            made.files[text] = (status.st_mode, content)
            drawn = True
        else:
            made.left.add(text)
    return drawn
