"""Objects one by one, flushed together.

libgit2 can flush each object by itself, which is two waits for the disk an object. Here all of them
are written first and flushed side by side, so that the file system makes one journal entry of many.
Write-order rule: an object gets its name only after its bytes are on the disk; a name is a promise
that later checkpoints rely on.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pygit2.enums import ObjectType

from holdfast.stores.files import PRIVATE_DIR, storage_errors

#: git's own prefix, so that git removes what a killed process leaves.
_TEMPORARY = "tmp_obj_"
_READ_ONLY = 0o400
_QUICK_COMPRESSION = 1
#: Waiting for the disk side by side; to start a thread takes time too.
_LANES = 4
_REMEMBERED_BYTES = 4_000_000
_KINDS = {ObjectType.BLOB: b"blob", ObjectType.TREE: b"tree", ObjectType.COMMIT: b"commit"}
_DOING = "write to the checkpoint store"


@dataclass(frozen=True, slots=True)
class _Pending:
    fd: int
    temporary: Path


class LooseObjects:
    """Objects on their way into a store. Whoever leaves without `flush` leaves nothing."""

    def __init__(self, objects: Path, stored: Callable[[bytes], bool]) -> None:
        self._objects = objects
        self._stored = stored
        self._pending: dict[bytes, _Pending] = {}
        self._data: dict[bytes, bytes] = {}
        self._remembered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def put(self, kind: ObjectType, data: bytes) -> bytes:
        """Write an object that the store does not have; its id."""
        whole = b"%b %d\0%b" % (_KINDS[kind], len(data), data)
        oid = hashlib.sha1(whole, usedforsecurity=False).digest()
        if oid in self._pending or self._stored(oid):
            return oid
        with storage_errors(_DOING):
            fd, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=self._objects)
            self._pending[oid] = _Pending(fd, Path(name))
            os.fchmod(fd, _READ_ONLY)
            compressed = memoryview(zlib.compress(whole, _QUICK_COMPRESSION))
            while compressed:
                compressed = compressed[os.write(fd, compressed) :]
        if self._remembered + len(data) <= _REMEMBERED_BYTES:
            self._remembered += len(data)
            self._data[oid] = data
        return oid

    def data(self, oid: bytes) -> bytes | None:
        """What was put lately and nobody else can read yet."""
        return self._data.get(oid)

    def flush(self) -> None:
        """Make everything that was put a part of the store, durably."""
        with storage_errors(_DOING):
            flush_together([pending.fd for pending in self._pending.values()])
            folders: set[Path] = set()
            for oid, pending in self._pending.items():
                folders |= self._name(oid, pending)
            self.discard()
            flush_folders(folders)

    def _name(self, oid: bytes, pending: _Pending) -> set[Path]:
        """Give an object its name; says which folders have new names in them."""
        name = oid.hex()
        folder = self._objects / name[:2]
        touched = {folder}
        if not folder.exists():
            folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
            touched.add(self._objects)
        pending.temporary.replace(folder / name[2:])
        return touched

    def discard(self) -> None:
        for pending in self._pending.values():
            os.close(pending.fd)
            pending.temporary.unlink(missing_ok=True)
        self._pending.clear()


def flush_folders(folders: Iterable[Path]) -> None:
    """Make the names in folders durable. The first flush covers most of the others' work."""
    for folder in folders:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def flush_together(fds: Sequence[int]) -> None:
    """`fsync` of all of them, some at the same time; raises the first error of any."""
    errors: list[OSError] = []

    def flush(some: Sequence[int]) -> None:
        try:
            for fd in some:
                os.fsync(fd)
        except OSError as error:
            errors.append(error)

    threads = [
        threading.Thread(target=flush, args=(fds[lane::_LANES],))
        for lane in range(1, min(_LANES, len(fds)))
    ]
    for thread in threads:
        thread.start()
    flush(fds[::_LANES])
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
