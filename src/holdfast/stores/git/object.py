"""A git object: its kind, its id, its bytes, and the loose file that holds it.

Bytes from disk may be damaged. They are never inflated beyond the size that their header states.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from holdfast.stores.files import read_file, storage_errors, write_all
from holdfast.stores.git.flush import flush_folders
from holdfast.value import dataclass

OID_BYTES = 20

FAN_DIGITS = 2
#: More than kind and size take.
_LONGEST_HEAD = 64
#: git's own prefix, so that git removes what a killed process leaves.
_TEMPORARY = "tmp_obj_"
_READ_ONLY = 0o444
_QUICK = 1


class Kind(IntEnum):
    """Numbered as in a pack."""

    COMMIT = 1
    TREE = 2
    BLOB = 3
    TAG = 4

    @property
    def word(self) -> str:
        return self.name.lower()


#: What an object begins with when git makes its id.
_WORDS = {kind: kind.word.encode() for kind in Kind}
KINDS = {word: kind for kind, word in _WORDS.items()}


def header(kind: Kind, size: int) -> bytes:
    return b"%b %d\0" % (_WORDS[kind], size)


def object_id(kind: Kind, data: bytes) -> bytes:
    digest = hashlib.sha1(header(kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


class NotWholeError(ValueError):
    """Bytes that are damaged. The caller, who knows what they belong to, reports it."""


def inflated(first: bytes, more: Callable[[], bytes], size: int) -> bytes:
    """Inflate a stream of `size` bytes; `more` reads the next chunk of it.

    A wrong size costs no memory: output is limited to what the stream holds.
    """
    stream = zlib.decompressobj()
    parts: list[bytes] = []
    left, chunk = size, first
    try:
        while not stream.eof:
            # One more than there may be, which also lets it come to its end.
            part = stream.decompress(chunk, left + 1)
            left -= len(part)
            parts.append(part)
            if left < 0:
                raise NotWholeError("more than its size")
            chunk = stream.unconsumed_tail
            if not chunk and not stream.eof:
                chunk = more()
                if not chunk:
                    raise NotWholeError("cut short")
    except zlib.error as error:
        raise NotWholeError(str(error)) from error
    if left:
        raise NotWholeError("less than its size")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def file_of(folder: str, oid: bytes) -> str:
    name = oid.hex()
    return f"{folder}/{name[:FAN_DIGITS]}/{name[FAN_DIGITS:]}"


def read_loose(path: str) -> tuple[Kind, bytes]:
    """Raises `FileNotFoundError` when it is missing, `NotWholeError` when it is damaged."""
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
    """Writes loose objects durably, as git does, into a repository that another program uses."""

    folder: Path

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Store an object and return its id. Other processes may store the same object."""
        oid = object_id(kind, data)
        path = Path(file_of(str(self.folder), oid))
        with storage_errors(f"write to {self.folder}"):
            try:
                os.utime(path)  # as git does, so that gc does not take it for unused
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
