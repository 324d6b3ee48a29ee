"""The files below `objects/`: loose objects, packs, leftovers of killed processes; and `git fsck`.

Only maintenance, verification and other agents' repositories need this; a take does not.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.stores.files import (
    allocated_bytes,
    entries_of,
    read_file,
    replace,
    storage_errors,
    sync_dir,
    write_all,
)
from holdfast.stores.git.object import Kind, file_of, header, object_id
from holdfast.stores.git.pack import index_oids
from holdfast.stores.git.pack_writer import new_file
from holdfast.stores.git.program import Git
from holdfast.value import dataclass

_FAN = re.compile(r"[0-9a-f]{2}")
_REST = re.compile(r"[0-9a-f]{38}")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
#: The file that lists packs which git wrote with a delta search.
_WELL_PACKED = "well-packed"
_PART_OF_PACK = re.compile(r"(?:pack|multi-pack-index)\b[-0-9a-z.]*")
_READ_ONLY = 0o444
_QUICK = 1

#: An object id, but not the id in the name of a pack.
_ID = re.compile(r"(?<![-0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
#: A pack or its index.
_NAMED_PACK = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
_SAID = re.compile(r"^(?:error|missing|fatal|bad|broken|corrupt)\b")
#: git's complaints about files with special names. A project may contain them: no damage.
_OPINION = re.compile(r": git(?:modules|attributes)(?!Missing)[A-Z][A-Za-z]*: ")
#: The object that such a line names is intact. The missing object has a line of its own.
_WHOLE = "broken link from"
#: fsck's exit status has a bit for each kind of problem; from 128 on, fsck could not continue.
_GAVE_UP = 128
_STATUSES = tuple(range(_GAVE_UP + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """A loose object. `touched` is when git last stored it, even if it was already there."""

    path: Path
    touched: float
    allocated: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFiles:
    """The files in `objects/`. `temporary` belong to processes that are writing or were killed."""

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
        """The bytes of packs written without a delta search."""
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
            # The writer was killed after it renamed the first of the two files.
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


def note_well_packed(objects: Path, more: str | None = None) -> None:
    """Record that git ran a delta search on every present pack, or on one more pack."""
    every = (path.name for path in (objects / "pack").glob("pack-*.pack"))
    names = every if more is None else {*_well_packed(objects), more}
    replace(objects.parent / _WELL_PACKED, "\n".join(sorted(names)).encode("ascii"))


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
            found = Loose(
                path=Path(file.path),
                touched=status.st_mtime,
                allocated=allocated_bytes(status),
                size=status.st_size,
            )
            yield bytes.fromhex(folder.name + file.name), found


def pack_oids(pack: Path) -> Iterator[bytes]:
    """Yield the object ids in the index of a pack; nothing if the index cannot be read."""
    with contextlib.suppress(OSError):
        yield from index_oids(read_file(pack.with_suffix(".idx")))


def _allocated(path: Path) -> int:
    try:
        return allocated_bytes(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return 0


@dataclass(frozen=True, slots=True)
class LooseObjects:
    """Writes loose objects durably, as git does, into a repository that another program uses."""

    folder: Path

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Store an object and return its id. Other processes may store the same object."""
        oid = object_id(kind, data)
        path = Path(file_of(str(self.folder), oid))
        with storage_errors(f"write to {self.folder}"):
            try:
                os.utime(path)  # as git does, so that gc does not take it for garbage
            except FileNotFoundError:
                self._write(path, zlib.compress(header(kind, len(data)) + data, _QUICK))
        return oid

    def _write(self, path: Path, stored: bytes) -> None:
        """Write-order rule: the file is renamed only after its bytes are on disk."""
        fd, temporary = new_file(self.folder, "tmp_obj_")
        try:
            write_all(fd, stored)
            os.fchmod(fd, _READ_ONLY)
            os.fsync(fd)
            path.parent.mkdir(exist_ok=True)
            temporary.replace(path)
        finally:
            os.close(fd)
            temporary.unlink(missing_ok=True)
        sync_dir(path.parent)
        sync_dir(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The complaints of `git fsck`, and its exit status."""

    status: int
    lines: Sequence[str]

    @property
    def gave_up(self) -> bool:
        return self.status >= _GAVE_UP

    @property
    def last(self) -> str:
        return self.lines[-1] if self.lines else f"git fsck ended with {self.status}"

    def packs(self) -> Mapping[str, str]:
        """Return each damaged pack with the first complaint about it."""
        named: dict[str, str] = {}
        for line in self.lines:
            found = _NAMED_PACK.search(line)
            if found is not None:
                # The text after the name, if there is any; the text before it is a path.
                reason = line[found.end() :].strip(" :'\"") or line.partition(": ")[2]
                named.setdefault(found[0], reason)
        return named


def checked(git: Git) -> Checked:
    """Have git read every object. Changes nothing."""
    said = git.run("fsck", "--full", "--no-dangling", "--no-progress", ok=_STATUSES)
    text = (said.output + said.errors).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if _SAID.match(line) and not _OPINION.search(line)]
    return Checked(status=said.status, lines=lines)


def suspects(lines: Iterable[str]) -> Iterator[bytes]:
    """Return the ids of objects that these lines complain about."""
    named = (line for line in lines if not line.startswith(_WHOLE))
    return map(bytes.fromhex, {oid for line in named for oid in _ID.findall(line)})
