"""One git object: its kind, its id, its compressed bytes, and its loose file.

Bytes from disk may be damaged. They are never inflated beyond the size that their header states.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum

from holdfast.stores.digest import new_sha1
from holdfast.stores.files import read_file

OID_BYTES = 20

FAN_DIGITS = 2
#: Longer than any header of kind and size.
_LONGEST_HEAD = 64


class Kind(IntEnum):
    """The kinds of objects, numbered as in a pack."""

    COMMIT = 1
    TREE = 2
    BLOB = 3
    TAG = 4

    @property
    def word(self) -> str:
        return self.name.lower()


_WORDS = {kind: kind.word.encode() for kind in Kind}
KINDS = {word: kind for kind, word in _WORDS.items()}


def header(kind: Kind, size: int) -> bytes:
    return b"%b %d\0" % (_WORDS[kind], size)


def object_id(kind: Kind, data: bytes) -> bytes:
    digest = new_sha1(len(data))
    digest.update(header(kind, len(data)))
    digest.update(data)
    return digest.digest()


class NotWholeError(ValueError):
    """Damaged bytes. The caller knows what they belong to and reports it."""


def inflated(first: bytes, more: Callable[[], bytes], size: int) -> bytes:
    """Inflate a stream of `size` bytes; `more` reads the next chunk.

    A wrong size costs no memory: output is limited to what the stream contains.
    """
    stream = zlib.decompressobj()
    parts: list[bytes] = []
    left, chunk = size, first
    try:
        while not stream.eof:
            # One byte more than allowed: this detects overflow and lets the stream reach its end.
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
    """Raises `FileNotFoundError` if the file is missing, `NotWholeError` if it is damaged."""
    stored = read_file(path)
    try:
        head = zlib.decompressobj().decompress(stored, _LONGEST_HEAD).partition(b"\0")[0]
    except zlib.error as error:
        raise NotWholeError(str(error)) from error
    word, _, digits = head.partition(b" ")
    kind = KINDS.get(word)
    if kind is None or not digits.isdigit():
        raise NotWholeError("unknown kind")
    size = int(digits)
    start = len(header(kind, size))
    return kind, inflated(stored, lambda: b"", start + size)[start:]
