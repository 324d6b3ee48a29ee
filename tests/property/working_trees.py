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
NAMES = (
    b"a",
    b"A",
    b"b.txt",
    b"new\nline",
    b"bad\xff",
    b'q"u\\o',
    b"-x",
    b":c",
    b"*",
    b"ig",
    b"z ",
)
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
        _EDITS[self.kind](Path(os.fsdecode(root), os.fsdecode(self.path)), self.choice)


def edits() -> st.SearchStrategy[Edit]:
    return st.builds(
        Edit, kind=st.sampled_from(sorted(_EDITS)), path=paths, choice=st.integers(0, 41)
    )


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_room(path: Path) -> None:
    """Every folder on the way is a real one, whatever was there."""
    folder = path.parent
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    if not folder.is_dir():
        _make_room(folder)
        folder.mkdir()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _write(path: Path, choice: int) -> None:
    _make_room(path)
    _clear(path)
    path.write_bytes(CONTENTS[choice % len(CONTENTS)])


def _write_over(path: Path, choice: int) -> None:
    """In place: the same file, perhaps of the same size, with its times put back."""
    if not _is_file(path):
        return
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"XYZ"[: before.st_size])
    if choice % 2:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _delete(path: Path, choice: int) -> None:
    if path.parent.is_dir() and not path.parent.is_symlink():
        _clear(path)


def _make_folder(path: Path, choice: int) -> None:
    _make_room(path)
    _clear(path)
    path.mkdir()
    path.chmod(FOLDER_MODES[choice % len(FOLDER_MODES)])


def _link(path: Path, choice: int) -> None:
    _make_room(path)
    _clear(path)
    path.symlink_to(os.fsdecode((b"a", b"../a", b"nowhere", b"/etc", b"bad\xff")[choice % 5]))


def _change_mode(path: Path, choice: int) -> None:
    if any(place.is_symlink() for place in (path, *path.parents)) or not path.exists():
        return
    modes = FOLDER_MODES if path.is_dir() else FILE_MODES
    path.chmod(modes[choice % len(modes)])


def _touch(path: Path, choice: int) -> None:
    if _is_file(path):
        os.utime(path, (choice, choice))


def _turn_case(path: Path, choice: int) -> None:
    other = path.with_name(path.name.swapcase())
    if os.path.lexists(path) and not os.path.lexists(other):
        path.rename(other)


def _nest(path: Path, choice: int) -> None:
    """A repository of its own, or a worktree's `.git` file."""
    _make_folder(path, 0)
    if choice % 2:
        (path / ".git").mkdir()
        _write(path / ".git/HEAD", 1)
    else:
        _write(path / ".git", 1)
    if choice % 3:
        _write(path / "a", choice)


def _ignore(path: Path, choice: int) -> None:
    rules = path.with_name(".gitignore")
    _make_room(rules)
    _clear(rules)
    if choice % 3:
        rules.write_bytes(RULE)


def _attributes(path: Path, choice: int) -> None:
    _make_room(path)
    path.with_name(".gitattributes").write_bytes(ATTRIBUTES[choice % 2])


def _pipe(path: Path, choice: int) -> None:
    _make_room(path)
    _clear(path)
    os.mkfifo(path)


_EDITS: dict[str, Callable[[Path, int], None]] = {
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


def settle(project: Path) -> None:
    """Wait until the clock of the kernel for files has moved: whatever changed so far is older than
    what comes next."""
    probe = project.with_name("clock")
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.touch()


def picture(root: bytes) -> Picture:
    made = Picture()
    top = Path(os.fsdecode(root))
    _draw(top, top, False, made)
    return made


def _draw(top: Path, folder: Path, ruled: bool, made: Picture) -> bool:
    """Draw a folder; says whether anything in it, or a folder, was drawn."""
    rules = folder / ".gitignore"
    ruled = ruled or (_is_file(rules) and rules.read_bytes() == RULE)
    drawn = False
    for path in sorted(folder.iterdir()):
        if path.name == ".git" or (ruled and path.name.startswith("ig")):
            continue
        status = path.lstat()
        text = str(path.relative_to(top))
        if stat.S_ISDIR(status.st_mode):
            made.folders[text] = stat.S_IMODE(status.st_mode)
            if not _draw(top, path, ruled, made):
                made.empty.add(text)
        elif stat.S_ISLNK(status.st_mode):
            made.files[text] = (0o120777, os.fsencode(str(path.readlink())))
        elif stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT:
            made.files[text] = (status.st_mode, path.read_bytes())
        else:
            made.left.add(text)
            continue
        drawn = True
    return drawn
