"""Write new objects as one pack, and join small packs into one.

A pack is two files to fsync and rename, no matter how many objects it has. Loose objects would cost
an fsync and a disk block each. Joining copies whole objects in process, in milliseconds; git would
start several processes for it.

Write-order rule: a pack is renamed only after its bytes are on disk. Its index, which makes git see
the pack, comes last.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.stores.digest import new_sha1
from holdfast.stores.files import PRIVATE_FILE, read_file, storage_errors, sync_dir, write_all
from holdfast.stores.git.object import OID_BYTES, Kind, object_id
from holdfast.stores.git.pack import (
    HEADER,
    Packed,
    PackRows,
    index_rows,
    is_whole,
    pack_entry,
    pack_header,
    pack_index,
)

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Self

_READ_ONLY = 0o400
#: From this many bytes on, another thread compresses and writes.
_PORTION = 262_144
_REMEMBERED_BYTES = 4_000_000
_READ_AT_ONCE = 1_048_576
#: `join` reads packs with up to this many bytes in total into memory.
_MOST_JOINED = 16 * 1024 * 1024
_WRITING = "write a pack"

_Portion = list[tuple[bytes, Kind, bytes]]
#: Waits until this many bytes and objects may be written; raises if they do not fit.
Reserve = Callable[[int, int], AbstractContextManager[None]]


class Task:
    """A call in another thread. Starts at once.

    `threading` is slow to import and waits until each thread has started, which on a busy machine
    takes longer than an fsync.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            self._run()

    def wait(self) -> BaseException | None:
        """Wait for the call to end; return the error that it raised."""
        with self._done:
            return self._error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            self._error = error
        finally:
            self._done.release()


def flush(fds: Sequence[int]) -> None:
    """Fsync files in parallel: the journal commits concurrent requests together. On a busy disk
    that is several times faster than one after another."""
    others = [Task(lambda fd=fd: os.fsync(fd)) for fd in fds[1:]]  # type: ignore[misc]
    error: BaseException | None = None
    for fd in fds[:1]:
        try:
            os.fsync(fd)
        except OSError as raised:
            error = raised
    # Wait for every thread; otherwise it would fsync a descriptor that is already closed.
    for other in others:
        error = other.wait() or error
    if error is not None:
        raise error


def new_file(folder: Path, prefix: str) -> tuple[int, Path]:
    """Create a private file with a temporary name. With git's own prefixes, git removes the files
    that killed processes leave."""
    path = folder / f"{prefix}{os.urandom(8).hex()}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, PRIVATE_FILE), path


class Pack:
    """New objects for one repository. Leaving the context without `flush` discards them.

    `stored` returns whether the repository already has an object. `reserve` is entered around each
    write; an error that it raises ends the pack.
    """

    def __init__(
        self, folder: Path, stored: Callable[[bytes], bool], reserve: Reserve | None = None
    ) -> None:
        self._folder = folder
        self._stored = stored
        self._reserve = reserve
        self._put: set[bytes] = set()
        self._data: dict[bytes, bytes] = {}
        self._remembered = 0
        self._portion: _Portion = []
        self._copied: list[tuple[bytes, bytes]] = []
        self._bytes = 0
        self._file: PackFile | None = None
        self._task: Task | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Add an object unless the repository has it; return its id."""
        oid = object_id(kind, data)
        self.add(oid, kind, data)
        return oid

    def data(self, oid: bytes) -> bytes | None:
        """Return the content of an unflushed object, if it is still in memory."""
        return self._data.get(oid)

    def add(self, oid: bytes, kind: Kind, data: bytes) -> None:
        """Add an object with a known id, unless the repository has it."""
        if oid in self._put or self._stored(oid):
            return
        self._put.add(oid)
        if self._remembered + len(data) <= _REMEMBERED_BYTES:
            self._remembered += len(data)
            self._data[oid] = data
        self._portion.append((oid, kind, data))
        self._bytes += len(data)
        if self._bytes >= _PORTION:
            with storage_errors(_WRITING):
                self._hand_over()

    def copy(self, oid: bytes, stored: bytes) -> None:
        """Add an object in its packed form, unless the repository has it. `stored` is empty if it
        is known to have it."""
        if not stored or oid in self._put or self._stored(oid):
            return
        self._put.add(oid)
        self._copied.append((oid, stored))
        self._bytes += len(stored)
        if self._bytes >= _PORTION:
            with storage_errors(_WRITING):
                self._hand_over()

    def _hand_over(self) -> None:
        """Compress and write a portion in another thread, after the previous portion."""
        self._join()
        file, portion, copied = self._opened(), self._portion, self._copied
        self._task = Task(lambda: file.write(portion, copied))
        self._portion, self._copied, self._bytes = [], [], 0

    def _join(self) -> None:
        task, self._task = self._task, None
        error = None if task is None else task.wait()
        if error is not None:
            raise error

    def flush(self, also: Sequence[int] = ()) -> None:
        """Write all new objects durably; fsync the descriptors in `also` at the same time."""
        with storage_errors(_WRITING):
            self._join()
            if self._put:
                file = self._opened()
                file.write(self._portion, self._copied)
                file.finish(also)
            else:
                flush(also)
            self.discard()

    def _opened(self) -> PackFile:
        if self._file is None:
            self._file = PackFile(self._folder, self._reserve)
        return self._file

    def discard(self) -> None:
        if self._task is not None:
            self._task.wait()
            self._task = None
        if self._file is not None:
            self._file.close()
            self._file = None
        self._portion.clear()
        self._copied.clear()
        self._put.clear()


class PackFile:
    """A pack that is being written. Only one thread at a time may use it."""

    def __init__(self, folder: Path, reserve: Reserve | None = None) -> None:
        self._folder = folder
        self._reserve = reserve
        self._rows, self._added = PackRows(), set[bytes]()
        self._end = HEADER.size
        self._index: tuple[int, Path] | None = None
        self._fd, self._temporary = new_file(folder, "tmp_pack_")
        # The header is written last, because it contains the number of objects.
        os.lseek(self._fd, HEADER.size, os.SEEK_SET)

    def write(self, portion: _Portion, copied: Sequence[tuple[bytes, bytes]] = ()) -> None:
        made = ((oid, pack_entry(kind, data)) for oid, kind, data in portion)
        self.copy(itertools.chain(copied, made))

    def copy(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add objects in their packed form."""
        added = []
        for oid, stored in entries:
            if oid not in self._added:
                self._added.add(oid)
                self._rows.add(oid, Packed(self._end, zlib.crc32(stored)))
                self._end += len(stored)
                added.append(stored)
        data = b"".join(added)
        reserve = self._reserve
        with contextlib.nullcontext() if reserve is None else reserve(len(data), len(added)):
            write_all(self._fd, data)

    def finish(self, also: Sequence[int] = ()) -> Path:
        """Complete the pack, fsync it, and rename it."""
        os.pwrite(self._fd, pack_header(len(self._added)), 0)
        checksum = self._checksum()
        write_all(self._fd, checksum)
        fd, name = self._index = new_file(self._folder, "tmp_idx_")
        write_all(fd, pack_index(self._rows, checksum))
        for each in (self._fd, fd):
            os.fchmod(each, _READ_ONLY)
        flush([self._fd, fd, *also])
        final = self._folder / f"pack-{checksum.hex()}.pack"
        self._temporary.replace(final)
        name.replace(final.with_suffix(".idx"))
        sync_dir(self._folder)
        return final

    def _checksum(self) -> bytes:
        digest = new_sha1(self._end)
        for place in range(0, self._end, _READ_AT_ONCE):
            digest.update(os.pread(self._fd, min(_READ_AT_ONCE, self._end - place), place))
        return digest.digest()

    def close(self) -> None:
        """Close the files and remove those without a final name."""
        os.close(self._fd)
        self._temporary.unlink(missing_ok=True)
        if self._index is not None:
            os.close(self._index[0])
            self._index[1].unlink(missing_ok=True)


def join(folder: Path, reserve: Reserve | None = None) -> Callable[[], None]:
    """Join small packs; return a function that removes the old ones. To call that, hold the
    exclusive lock: no other process may be reading these packs.

    Write-order rule: the old packs are removed after the new pack is durable. A kill in between
    leaves duplicates, or a pack without an index, which maintenance removes.
    """
    joined: list[Path] = []
    with (
        storage_errors(f"join packs in {folder}"),
        contextlib.closing(PackFile(folder, reserve)) as file,
    ):
        for pack in _small(folder):
            entries = _whole_entries(pack)
            if entries is not None:
                file.copy(entries)
                joined.append(pack)
        made = file.finish() if len(joined) > 1 else None

    def remove() -> None:
        # If the new pack is gone, its objects moved on, perhaps to one of these names.
        if made is not None and made.exists():
            for pack in joined:
                if pack != made:
                    remove_pack(pack)

    return remove


def _small(folder: Path) -> Sequence[Path]:
    """Return the smallest packs, up to one that is larger than all of them together: so each byte
    is copied only a few times over the years."""
    sizes = sorted((path.stat().st_size, path) for path in folder.glob("pack-*.pack"))
    chosen: list[Path] = []
    total = 0
    for size, path in sizes:
        if total + size > _MOST_JOINED or (len(chosen) > 1 and size > total):
            break
        if not os.path.lexists(path.with_suffix(".keep")):
            chosen.append(path)
            total += size
    return chosen


def _whole_entries(pack: Path) -> Sequence[tuple[bytes, bytes]] | None:
    """Return the entries of a pack; None if one is damaged or a delta."""
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
    # The index first: git does not see a pack without an index.
    for suffix in (".idx", ".rev", ".pack"):
        pack.with_suffix(suffix).unlink(missing_ok=True)
