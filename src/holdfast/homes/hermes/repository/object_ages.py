"""The files of the object store with their times: when each was written, or last wanted again.

git touches an object's file, or its pack, when somebody stores what is there already. So a time
tells when it may have been counted upon.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.stores.files import read_file
from holdfast.stores.shadowgit.git import Git

_FAN = re.compile(r"[0-9a-f]{2}")
_REST = re.compile(r"[0-9a-f]{38}")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
_TEMPORARY = re.compile(r"\.?tmp[-_].*")
_LOCK = re.compile(r".*\.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseFile:
    """An object with a file of its own."""

    path: Path
    touched: float


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


def loose_files(objects: Path) -> dict[bytes, LooseFile]:
    found = {}
    for folder in _entries(objects):
        if _FAN.fullmatch(folder.name):
            for file in _entries(folder.path):
                if _REST.fullmatch(file.name):
                    with contextlib.suppress(FileNotFoundError):
                        found[bytes.fromhex(folder.name + file.name)] = LooseFile(
                            path=Path(file.path), touched=file.stat(follow_symlinks=False).st_mtime
                        )
    return found


def pack_files(objects: Path) -> list[PackFile]:
    found = []
    for file in _entries(objects / "pack"):
        if _PACK.fullmatch(file.name):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                stem = Path(file.path).with_suffix("")
                if stem.with_suffix(".idx").exists():
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
        for file in _entries(folder)
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
    return [Path(each.path) for each in _entries(objects) if _FAN.fullmatch(each.name)]


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
