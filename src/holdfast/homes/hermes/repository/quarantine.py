"""Files of the store on their way out: moved aside, looked at once more, and only then removed.

Hermes may count upon an object in the very moment in which it goes: then git touched its file
before it was moved, which can be seen, or does not find it any more and writes it again. So what
was touched comes back, and nothing else is missed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Self

from holdfast.homes.hermes.repository.object_ages import LooseFile, PackFile
from holdfast.stores.files import PRIVATE_DIR, storage_errors

_NAME = "holdfast-reclaim"


class Quarantine:
    """What was moved out of `objects/`, each under the path that it had there."""

    def __init__(self, store: Path) -> None:
        self._objects = store / "objects"
        self._folder = store / _NAME
        self._loose: list[LooseFile] = []
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

    def move_loose(self, file: LooseFile) -> None:
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
        """What somebody wanted since it was looked at; says how many files that were."""
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
