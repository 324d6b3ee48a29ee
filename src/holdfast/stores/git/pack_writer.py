"""Write new objects as one pack, and join small packs into one.

A pack is two files to flush and to name, however many objects it holds. Loose objects would cost a
flush and a disk block each. Joining copies whole objects in process, in milliseconds; git would
start several processes for it.

Write-order rule: a pack gets its name only after its bytes are on the disk, and its index, which
makes git see the pack, comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from holdfast.stores.files import read_file, storage_errors, write_all
from holdfast.stores.git.flush import flush, flush_folders
from holdfast.stores.git.object import OID_BYTES, Kind, object_id
from holdfast.stores.git.pack import (
    HEADER,
    Packed,
    index_rows,
    is_whole,
    pack_entry,
    pack_header,
    pack_index,
)

#: git's own prefixes, so that git removes what a killed process leaves.
_TEMPORARY_PACK, _TEMPORARY_INDEX = "tmp_pack_", "tmp_idx_"
_READ_ONLY = 0o400
#: From this many bytes on, another thread compresses; so many portions may wait for it.
_PORTION = 262_144
_WAITING = 8
_REMEMBERED_BYTES = 4_000_000
_READ_AT_ONCE = 1_048_576
_DOING = "write a pack"

_Portion = list[tuple[bytes, Kind, bytes]]

#: What is read into memory at once.
_MOST_BYTES = 16 * 1024 * 1024

_Entries = Sequence[tuple[bytes, bytes]]


class Limited(Protocol):
    """How much may be written; `weighing.Room` is one."""

    def reserved(self, size: int, objects: int) -> contextlib.AbstractContextManager[None]: ...


class Pack:
    """New objects for one repository. Leaving the context without `flush` discards them.

    `stored` tells whether the repository already has an object. `room` is asked before each write;
    an error that it raises ends the pack.
    """

    def __init__(
        self, folder: Path, stored: Callable[[bytes], bool], room: Limited | None = None
    ) -> None:
        self._folder = folder
        self._stored = stored
        self._room = room
        self._put: set[bytes] = set()
        self._data: dict[bytes, bytes] = {}
        self._remembered = 0
        self._portion: _Portion = []
        self._bytes = 0
        self._file: PackFile | None = None
        self._other_core: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Add an object, unless the store has it; its id."""
        oid = object_id(kind, data)
        self._add(oid, kind, data)
        return oid

    def blob(self, oid: bytes, data: bytes) -> None:
        """Add the content of a file, of which the id is known."""
        self._add(oid, Kind.BLOB, data)

    def data(self, oid: bytes) -> bytes | None:
        """The content of an object that was put but not flushed, if it is still in memory."""
        return self._data.get(oid)

    def _add(self, oid: bytes, kind: Kind, data: bytes) -> None:
        if oid in self._put or self._stored(oid):
            return
        self._put.add(oid)
        if self._remembered + len(data) <= _REMEMBERED_BYTES:
            self._remembered += len(data)
            self._data[oid] = data
        self._portion.append((oid, kind, data))
        self._bytes += len(data)
        if self._bytes >= _PORTION:
            with storage_errors(_DOING):
                self._hand_over()

    def _hand_over(self) -> None:
        """Compress and write a portion in another thread. The waiting portions are bounded."""
        if self._other_core is None:
            self._other_core = ThreadPoolExecutor(max_workers=1)
        self._waiting.append(self._other_core.submit(self._opened().write, self._portion))
        self._portion, self._bytes = [], 0
        while len(self._waiting) > _WAITING:
            self._waiting.popleft().result()

    def flush(self, also: Sequence[int] = ()) -> None:
        """Write everything that was put, durably; flush the descriptors in `also` with it."""
        with storage_errors(_DOING):
            while self._waiting:
                self._waiting.popleft().result()
            if self._put:
                file = self._opened()
                file.write(self._portion)
                file.finish(also)
            else:
                flush(also)
            self.discard()

    def _opened(self) -> PackFile:
        if self._file is None:
            self._file = PackFile(self._folder, self._room)
        return self._file

    def discard(self) -> None:
        if self._other_core is not None:
            self._other_core.shutdown(cancel_futures=True)
            self._other_core = None
        if self._file is not None:
            self._file.close()
            self._file = None
        self._waiting.clear()
        self._portion.clear()
        self._put.clear()


class PackFile:
    """A pack that is being written. One thread at a time uses it."""

    def __init__(self, folder: Path, room: Limited | None = None) -> None:
        self._folder = folder
        self._room = room
        self._packed: dict[bytes, Packed] = {}
        self._end = HEADER.size
        self._index: tuple[int, Path] | None = None
        self._fd, name = tempfile.mkstemp(prefix=_TEMPORARY_PACK, dir=folder)
        self._temporary = Path(name)
        # The header comes last: it has the number of objects.
        os.lseek(self._fd, HEADER.size, os.SEEK_SET)

    def write(self, portion: _Portion) -> None:
        self.copy((oid, pack_entry(kind, data)) for oid, kind, data in portion)

    def copy(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add objects as a pack has them."""
        added = []
        for oid, stored in entries:
            if oid not in self._packed:
                self._packed[oid] = Packed(self._end, zlib.crc32(stored))
                self._end += len(stored)
                added.append(stored)
        data = b"".join(added)
        if self._room is None:
            write_all(self._fd, data)
            return
        with self._room.reserved(len(data), len(added)):
            write_all(self._fd, data)

    def finish(self, also: Sequence[int] = ()) -> Path:
        """Complete it, flush it, and name it."""
        os.pwrite(self._fd, pack_header(len(self._packed)), 0)
        checksum = self._checksum()
        write_all(self._fd, checksum)
        fd, name = tempfile.mkstemp(prefix=_TEMPORARY_INDEX, dir=self._folder)
        self._index = fd, Path(name)
        write_all(fd, pack_index(self._packed, checksum))
        for each in (self._fd, fd):
            os.fchmod(each, _READ_ONLY)
        flush([self._fd, fd, *also])
        final = self._folder / f"pack-{checksum.hex()}.pack"
        self._temporary.replace(final)
        Path(name).replace(final.with_suffix(".idx"))
        flush_folders([self._folder])
        return final

    def _checksum(self) -> bytes:
        digest = hashlib.sha1(usedforsecurity=False)
        for place in range(0, self._end, _READ_AT_ONCE):
            digest.update(os.pread(self._fd, min(_READ_AT_ONCE, self._end - place), place))
        return digest.digest()

    def close(self) -> None:
        """Let go of it. What has no name yet goes."""
        os.close(self._fd)
        self._temporary.unlink(missing_ok=True)
        if self._index is not None:
            os.close(self._index[0])
            self._index[1].unlink(missing_ok=True)


def join(folder: Path) -> None:
    """Join small packs. The caller has the store alone: nobody reads what goes.

    Write-order rule: the old ones go after the new one is durable. Killed in between, there are
    second copies, or a pack without an index, which maintenance removes.
    """
    with storage_errors(f"join packs in {folder}"), contextlib.closing(PackFile(folder)) as file:
        joined = []
        for pack in _small(folder):
            entries = _whole_entries(pack)
            if entries is not None:
                file.copy(entries)
                joined.append(pack)
        if len(joined) > 1:
            made = file.finish()
            for pack in joined:
                if pack != made:
                    remove_pack(pack)


def _small(folder: Path) -> Sequence[Path]:
    """The smallest packs, up to one that is larger than all of them together, so that every byte is
    copied only a few times in the end."""
    sizes = sorted((path.stat().st_size, path) for path in folder.glob("pack-*.pack"))
    chosen: list[Path] = []
    total = 0
    for size, path in sizes:
        if total + size > _MOST_BYTES or (len(chosen) > 1 and size > total):
            break
        if not path.with_suffix(".keep").exists():
            chosen.append(path)
            total += size
    return chosen


def _whole_entries(pack: Path) -> _Entries | None:
    """What is in a pack; None unless every object in it is whole, and as it was written."""
    try:
        data, rows = read_file(pack), index_rows(read_file(pack.with_suffix(".idx")))
    except (FileNotFoundError, ValueError):
        return None
    if not rows:
        return None
    ends = [*(packed.offset for _, packed in rows[1:]), len(data) - OID_BYTES]
    entries = []
    for (oid, packed), end in zip(rows, ends, strict=True):
        stored = data[packed.offset : end]
        if zlib.crc32(stored) != packed.checksum or not is_whole(stored):
            return None
        entries.append((oid, stored))
    return entries


def remove_pack(pack: Path) -> None:
    # The index first: what has none is no pack for git.
    for suffix in (".idx", ".rev", ".pack"):
        pack.with_suffix(suffix).unlink(missing_ok=True)
