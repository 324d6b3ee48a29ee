"""Object files on their way out: moved aside, checked once more, and only then removed.

When a process stores an object that already exists, git touches its file or its pack. So Hermes may
start to rely on an object at the very moment it is moved. Either git touched the file before the
move, which shows in its mtime, or git does not find it and writes it again. Every file that was
touched is moved back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from holdfast.stores.files import PRIVATE_DIR, entries_of, read_file, storage_errors
from holdfast.stores.git.object_files import Loose, object_files
from holdfast.stores.git.program import Git
from holdfast.value import dataclass

_TEMPORARY = re.compile(r"\.?tmp[-_].*")
_FOLDER = "holdfast-reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFile:
    """A pack. `stem` is its path without a suffix: several files belong to it."""

    stem: Path
    touched: float
    size: int

    @property
    def files(self) -> list[Path]:
        """The files of the pack, index first: without its index a pack cannot be found."""
        found = sorted(self.stem.parent.glob(f"{self.stem.name}.*"))
        return sorted(found, key=lambda path: path.suffix != ".idx")

    @property
    def is_kept(self) -> bool:
        """True if git must not remove it."""
        return os.path.lexists(self.stem.with_suffix(".keep"))

    def objects(self, git: Git) -> set[bytes]:
        index = read_file(self.stem.with_suffix(".idx"))
        lines = git.run("show-index", stdin=index).output.splitlines()
        return {bytes.fromhex(line.split()[1].decode("ascii")) for line in lines}


def pack_files(packs: Iterable[Path | None]) -> list[PackFile]:
    """The packs among these that exist."""
    found = []
    for path in dict.fromkeys(path for path in packs if path is not None):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            stem = path.with_suffix("")
            found.append(PackFile(stem=stem, touched=status.st_mtime, size=status.st_size))
    return found


def abandoned_files(store: Path, *, before: float) -> list[Path]:
    """Files left by killed processes (Hermes kills a slow git): half-written files, and locks,
    which would keep git away from a project for good. A recently touched one may be in use."""
    folders = [store, store / "indexes"]
    folders += [Path(folder) for folder, _, _ in os.walk(store / "refs")]
    locks = (Path(file.path) for folder in folders for file in entries_of(folder))
    found = [path for path in locks if path.suffix == ".lock"]
    temporary = object_files(store / "objects").temporary
    found += [path for path in temporary if _TEMPORARY.fullmatch(path.name)]
    return [path for path in found if _touched(path) <= before]


def _touched(path: Path) -> float:
    """The mtime of a file; infinity if it does not exist."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")


class Quarantine:
    """The files that were moved out of `objects/`, each under its path there."""

    def __init__(self, store: Path) -> None:
        self._objects = store / "objects"
        self._folder = store / _FOLDER
        #: Files that belong together, the one among them that git touches, and its last mtime.
        self._moved: list[tuple[list[Path], Path, float]] = []

    @classmethod
    def empty(cls, store: Path) -> Self:
        """An empty quarantine. Files that a killed run left in it are moved back: they were not
        rechecked."""
        found = cls(store)
        found.bring_back_all()
        with storage_errors(f"make {found._folder}"):
            found._folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        return found

    @property
    def is_left(self) -> bool:
        """True if a killed run left files in it."""
        return self._folder.is_dir()

    def move_loose(self, file: Loose) -> None:
        self._move([file.path], file.path, file.touched)

    def move_pack(self, pack: PackFile) -> None:
        self._move(pack.files, pack.stem.with_suffix(".pack"), pack.touched)

    def bring_back_touched(self) -> int:
        """Move back what was touched since the survey; return the number of objects and packs."""
        back = [
            files for files, touched, seen in self._moved if _touched(self._place(touched)) != seen
        ]
        for files in back:
            self._bring_back(reversed(files))  # the index of a pack last
        return len(back)

    def bring_back_all(self) -> None:
        with storage_errors(f"bring back what was moved to {self._folder}"):
            moved = [
                self._objects / Path(folder, name).relative_to(self._folder)
                for folder, _, names in os.walk(self._folder)
                for name in names
            ]
            self._bring_back(sorted(moved, key=lambda path: path.suffix == ".idx"))
            shutil.rmtree(self._folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _move(self, files: list[Path], touched: Path, seen: float) -> None:
        self._moved.append((files, touched, seen))
        for path in files:
            place = self._place(path)
            place.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.rename(place)

    def _place(self, path: Path) -> Path:
        return self._folder / path.relative_to(self._objects)

    def _bring_back(self, files: Iterable[Path]) -> None:
        """Move files back. An object that was written again in the meantime is the same object. git
        may have removed its empty folder."""
        for path in files:
            place = self._place(path)
            with contextlib.suppress(FileNotFoundError):
                path.parent.mkdir(exist_ok=True)
                if path.exists():
                    place.unlink()
                else:
                    place.rename(path)
