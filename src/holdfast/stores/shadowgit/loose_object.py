"""An object with a file of its own, as git writes it."""

from __future__ import annotations

import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from holdfast.stores.files import read_file, storage_errors, write_all
from holdfast.stores.shadowgit.flushing import flush_folders
from holdfast.stores.shadowgit.git_object import KINDS, Kind, header, object_id
from holdfast.stores.shadowgit.inflating import NotWholeError, inflated

FAN_DIGITS = 2
#: More than kind and size take.
_LONGEST_HEAD = 64
#: git's own prefix, so that git removes what a killed process leaves.
_TEMPORARY = "tmp_obj_"
_READ_ONLY = 0o444
_QUICK = 1


def file_of(folder: str, oid: bytes) -> str:
    name = oid.hex()
    return f"{folder}/{name[:FAN_DIGITS]}/{name[FAN_DIGITS:]}"


def read_loose(path: str) -> tuple[Kind, bytes]:
    """Raises `FileNotFoundError` when there is none, `NotWholeError` when it is damaged."""
    stored = read_file(Path(path))
    try:
        head = zlib.decompressobj().decompress(stored, _LONGEST_HEAD).partition(b"\0")[0]
    except zlib.error as error:
        raise NotWholeError(str(error)) from error
    word, _, digits = head.partition(b" ")
    kind = KINDS.get(word)
    if kind is None or not digits.isdigit():
        raise NotWholeError("of no kind")
    size = int(digits)
    start = len(header(kind, size))
    return kind, inflated(stored, lambda: b"", start + size)[start:]


@dataclass(frozen=True, slots=True)
class LooseObjects:
    """Writes new objects into a repository that another program has, durably, as git does."""

    folder: Path

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Store an object; its id. Safe beside others that store the same."""
        oid = object_id(kind, data)
        path = Path(file_of(str(self.folder), oid))
        with storage_errors(f"write to {self.folder}"):
            try:
                os.utime(path)  # as git does: what was just used is not removed as unused
            except FileNotFoundError:
                self._write(path, zlib.compress(header(kind, len(data)) + data, _QUICK))
        return oid

    def _write(self, path: Path, stored: bytes) -> None:
        """Write-order rule: it has its name only after its bytes are on the disk."""
        fd, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.folder)
        temporary = Path(name)
        try:
            write_all(fd, stored)
            os.fchmod(fd, _READ_ONLY)
            os.fsync(fd)
            path.parent.mkdir(exist_ok=True)
            temporary.replace(path)
        finally:
            os.close(fd)
            temporary.unlink(missing_ok=True)
        flush_folders([path.parent, self.folder])
