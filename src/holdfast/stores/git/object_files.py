"""The files below `objects/`: loose objects, packs, and what killed processes left."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.stores.files import allocated_bytes, entries_of, read_file, replace
from holdfast.value import dataclass

_FAN = re.compile(r"[0-9a-f]{2}")
_REST = re.compile(r"[0-9a-f]{38}")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
#: A file with the names of packs.
_WELL_PACKED = "well-packed"
_PART_OF_PACK = re.compile(r"(?:pack|multi-pack-index)\b[-0-9a-z.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """An object with a file of its own. `touched` is when git wrote the file, or was asked to store
    the same object again."""

    path: Path
    touched: float
    allocated: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFiles:
    """What lies in `objects/`. `temporary` are files that a running or a killed process left."""

    loose: dict[bytes, Loose]
    packs: tuple[Path, ...]
    temporary: tuple[Path, ...]
    well_packed: frozenset[str]

    @property
    def temporary_bytes(self) -> int:
        return sum(_allocated(path) for path in self.temporary)

    @property
    def packed_bytes(self) -> int:
        return sum(_allocated(path) for path in self.packs)

    @property
    def quick_bytes(self) -> int:
        """The bytes of packs that were never compared for deltas."""
        return sum(_allocated(path) for path in self.packs if path.name not in self.well_packed)


def object_files(objects: Path) -> ObjectFiles:
    loose: dict[bytes, Loose] = {}
    packs: list[Path] = []
    temporary: list[Path] = []
    for entry in entries_of(objects):
        if _FAN.fullmatch(entry.name):
            loose.update(_loose(entry, temporary))
        elif entry.name == "pack":
            parts = {Path(part.path) for part in entries_of(entry)}
            temporary += [part for part in parts if not _PART_OF_PACK.fullmatch(part.name)]
            found = [part for part in parts if _PACK.fullmatch(part.name)]
            packs += [pack for pack in found if pack.with_suffix(".idx") in parts]
            # The writer was killed between naming the two files.
            temporary += [pack for pack in found if pack.with_suffix(".idx") not in parts]
            indexes = (part for part in parts if part.suffix == ".idx")
            temporary += [index for index in indexes if index.with_suffix(".pack") not in parts]
        elif entry.is_file(follow_symlinks=False):
            temporary.append(Path(entry.path))  # git writes some of its temporary files here
    return ObjectFiles(
        loose=loose,
        packs=tuple(packs),
        temporary=tuple(temporary),
        well_packed=_well_packed(objects),
    )


def note_well_packed(objects: Path) -> None:
    """Note that every present pack was made by looking for deltas."""
    names = sorted(path.name for path in (objects / "pack").glob("pack-*.pack"))
    replace(objects.parent / _WELL_PACKED, "\n".join(names).encode("ascii"))


def note_also_well_packed(objects: Path, name: str) -> None:
    """Note the same of one more pack."""
    names = sorted({*_well_packed(objects), name})
    replace(objects.parent / _WELL_PACKED, "\n".join(names).encode("ascii"))


def _well_packed(objects: Path) -> frozenset[str]:
    try:
        text = read_file(objects.parent / _WELL_PACKED).decode("ascii", "replace")
    except FileNotFoundError:
        return frozenset()
    return frozenset(text.split())


def _loose(folder: os.DirEntry[str], temporary: list[Path]) -> Iterator[tuple[bytes, Loose]]:
    for file in entries_of(folder):
        if not _REST.fullmatch(file.name):
            temporary.append(Path(file.path))
            continue
        with contextlib.suppress(FileNotFoundError):  # packed meanwhile
            status = file.stat(follow_symlinks=False)
            name = bytes.fromhex(folder.name + file.name)
            yield (
                name,
                Loose(
                    path=Path(file.path),
                    touched=status.st_mtime,
                    allocated=allocated_bytes(status),
                    size=status.st_size,
                ),
            )


def _allocated(path: Path) -> int:
    try:
        return allocated_bytes(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return 0
