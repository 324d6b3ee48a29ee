"""A git object: its kind, its id, its bytes, and the loose file that holds it.

Bytes from disk may be damaged. They are never inflated beyond the size that their header states.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from holdfast.stores.files import read_file, storage_errors, write_all
from holdfast.stores.git.flush import flush_folders

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
    """Bytes that are not what was written. Whoever knows what they are of says so."""


def inflated(first: bytes, more: Callable[[], bytes], size: int) -> bytes:
    """The `size` bytes that a stream has; `more` gives what follows in it.

    A size that is wrong costs no memory: what is made is what is there, and no more than that.
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
