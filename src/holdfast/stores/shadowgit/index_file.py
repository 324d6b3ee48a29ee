"""What a private index holds, read from its file: the files' contents, and the trees it remembers.

git counts both as held. libgit2 shows the contents only, one object at a time.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError

_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_FLAGS = struct.Struct(">H")
#: Of an entry: where its object's id is, where its flags are, and where its name begins.
_ID_AT, _FLAGS_AT, _NAME_AT = 40, 60, 62
_LENGTH_MASK = 0xFFF
_ALIGNED = 8
_OID = 20
_KNOWN_VERSIONS = (2,)


def index_objects(path: Path) -> list[bytes]:
    """The ids of everything that git would not remove because of this index.

    Raises `DamageError` for what is not as git wrote it: it ends with a checksum of itself.
    """
    data = path.read_bytes()
    body, checksum = data[:-_OID], data[-_OID:]
    if hashlib.sha1(body, usedforsecurity=False).digest() != checksum:
        raise DamageError(f"The private index {path} is damaged.")
    signature, version, count = _HEADER.unpack_from(body)
    if signature != b"DIRC" or version not in _KNOWN_VERSIONS:
        raise DamageError(f"The private index {path} is none that this version knows.")
    found: list[bytes] = []
    place = _HEADER.size
    for _ in range(count):
        found.append(body[place + _ID_AT : place + _ID_AT + _OID])
        (flags,) = _FLAGS.unpack_from(body, place + _FLAGS_AT)
        length = flags & _LENGTH_MASK
        if length == _LENGTH_MASK:  # a name that is longer says so only by its end
            length = body.index(b"\0", place + _NAME_AT) - place - _NAME_AT
        place += (_NAME_AT + length + _ALIGNED) // _ALIGNED * _ALIGNED
    return [*found, *_remembered(body, place)]


def _remembered(body: bytes, place: int) -> Iterator[bytes]:
    """The trees in the extension that git calls the cache tree."""
    while place < len(body):
        signature, size = _EXTENSION.unpack_from(body, place)
        place += _EXTENSION.size
        if signature == b"TREE":
            yield from _trees(body[place : place + size])
        place += size


def _trees(part: bytes) -> Iterator[bytes]:
    """Each is a name, a number of entries, a number of folders, and an id unless that is old."""
    place = 0
    while place < len(part):
        counts = part.index(b"\0", place) + 1
        end = part.index(b"\n", counts) + 1
        place = end
        if not part.startswith(b"-", counts):
            yield part[end : end + _OID]
            place += _OID
