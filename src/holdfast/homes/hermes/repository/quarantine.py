"""Object files on their way out: moved aside, checked once more, and only then removed.

git touches an object's file, or its pack, when somebody stores an object that is already there. So
Hermes may start to rely on an object in the very moment in which it is moved: either git touched
the file before, which shows, or git does not find it and writes it again. Whatever was touched
comes back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Self

from holdfast.stores.files import PRIVATE_DIR, entries_of, read_file, storage_errors
from holdfast.stores.git.object_files import Loose, ObjectFiles
from holdfast.stores.git.program import Git
from holdfast.value import dataclass

_FAN = re.compile(r"[0-9a-f]{2}")
_TEMPORARY = re.compile(r"\.?tmp[-_].*")
_LOCK = re.compile(r".*\.lock")

_FOLDER = "holdfast-reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFile:
    """A pack. `stem` is its path without an ending: several files belong to it."""

    stem: Path
    touched: float
    size: int

    @property
    def files(self) -> list[Path]:
        """Its index first: without that nobody finds the pack."""
        found = sorted(self.stem.parent.glob(f"{self.stem.name}.*"))
        return sorted(found, key=lambda path: path.suffix != ".idx")

    @property
    def is_kept(self) -> bool:
        """Whether somebody marked it to stay."""
        return self.stem.with_suffix(".keep").exists()

    def objects(self, git: Git) -> set[bytes]:
        index = read_file(self.stem.with_suffix(".idx"))
        lines = git.run("show-index", stdin=index).output.splitlines()
        return {bytes.fromhex(line.split()[1].decode("ascii")) for line in lines}


def pack_files(files: ObjectFiles) -> list[PackFile]:
    found = []
    for path in files.packs:
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            stem = path.with_suffix("")
            found.append(PackFile(stem=stem, touched=status.st_mtime, size=status.st_size))
    return found


def abandoned_files(store: Path, *, before: float) -> list[Path]:
    """What killed processes left: half-written files, and locks, with which no git would touch a
    project any more. Hermes kills a git that is slow. What was touched lately may be in use."""
    objects = store / "objects"
    written = (objects, objects / "pack", *_fans(objects))
    locked = (store, store / "indexes", *_folders(store / "refs"))
    return [
        Path(file.path)
        for folders, pattern in ((written, _TEMPORARY), (locked, _LOCK))
        for folder in folders
        for file in entries_of(folder)
        if pattern.fullmatch(file.name) and _is_older(file, before)
    ]


def _is_older(file: os.DirEntry[str], before: float) -> bool:
    try:
        return file.stat(follow_symlinks=False).st_mtime <= before
    except FileNotFoundError:
        return False


def _folders(top: Path) -> list[Path]:
    return [Path(folder) for folder, _, _ in os.walk(top)]


def _fans(objects: Path) -> list[Path]:
    return [Path(each.path) for each in entries_of(objects) if _FAN.fullmatch(each.name)]


class Quarantine:
    """What was moved out of `objects/`, each under the path that it had there."""

    def __init__(self, store: Path) -> None:
        self._objects = store / "objects"
        self._folder = store / _FOLDER
        self._loose: list[Loose] = []
        self._packs: list[tuple[PackFile, list[Path]]] = []

    @classmethod
    def empty(cls, store: Path) -> Self:
        """A new one. What a killed run left in the old one comes back: nobody looked at it."""
        found = cls(store)
        found.bring_back_all()
        with storage_errors(f"make {found._folder}"):
            found._folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        return found

    @property
    def is_left(self) -> bool:
        """Whether a killed run left something in it."""
        return self._folder.is_dir()

    def move_loose(self, file: Loose) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._move(file.path)
            self._loose.append(file)

    def move_pack(self, pack: PackFile) -> None:
        files = pack.files
        self._packs.append((pack, files))
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                self._move(path)

    def bring_back_touched(self) -> int:
        """Bring back what was touched since the survey; returns how many files."""
        back = 0
        for file in self._loose:
            if self._touched(file.path) != file.touched:
                self._bring_back(file.path)
                back += 1
        for pack, files in self._packs:
            if self._touched(pack.stem.with_suffix(".pack")) != pack.touched:
                for path in reversed(files):  # its index last
                    self._bring_back(path)
                back += 1
        return back

    def bring_back_all(self) -> None:
        with storage_errors(f"bring back what was moved to {self._folder}"):
            self._bring_back_all()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _move(self, path: Path) -> None:
        place = self._place(path)
        place.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        path.rename(place)

    def _place(self, path: Path) -> Path:
        return self._folder / path.relative_to(self._objects)

    def _touched(self, path: Path) -> float:
        try:
            return self._place(path).lstat().st_mtime
        except FileNotFoundError:
            return -1.0

    def _bring_back(self, path: Path) -> None:
        place = self._place(path)
        # The folder is there unless git removed it as empty; an object that was written again is
        # the same object.
        with contextlib.suppress(FileNotFoundError):
            path.parent.mkdir(exist_ok=True)
            if path.exists():
                place.unlink()
            else:
                place.rename(path)

    def _bring_back_all(self) -> None:
        if not self._folder.is_dir():
            return
        indexes = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                original = self._objects / Path(folder, name).relative_to(self._folder)
                if original.suffix == ".idx":
                    indexes.append(original)  # after their packs
                else:
                    self._bring_back(original)
        for original in indexes:
            self._bring_back(original)
        shutil.rmtree(self._folder, ignore_errors=True)
