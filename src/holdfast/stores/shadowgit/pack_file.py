"""A pack and its index as bytes: git's formats, of which both have not changed since 2007.

Every object is stored whole. Differences between objects are for maintenance to find.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.stores.shadowgit.git_object import OID_BYTES, Kind

HEADER = struct.Struct(">4sII")

_VERSION = 2
_INDEX_MAGIC = b"\377tOc"
_FOLDERS = 256
#: And how many objects there are with a first byte up to this one, for every byte.
INDEX_START = struct.Struct(f">4sI{_FOLDERS}I")
_INDEX_ROW = OID_BYTES + 2 * struct.calcsize(">I")
#: Quick: reading and hashing a file takes as long, and maintenance compresses anew.
_COMPRESSION = 1
SIZE_BITS, FIRST_SIZE_BITS = 7, 4
MORE = 0x80
KIND_MASK = 0b111
_WHOLE = (Kind.COMMIT, Kind.TREE, Kind.BLOB)
#: An offset above it stands in a table of its own, and this bit says so.
LARGE = 0x80000000
_LARGEST_SMALL = LARGE - 1


@dataclass(frozen=True, slots=True)
class Packed:
    """Where an object begins in its pack, and the checksum of what it is there."""

    offset: int
    checksum: int


def header(objects: int) -> bytes:
    return HEADER.pack(b"PACK", _VERSION, objects)


def entry(kind: Kind, data: bytes) -> bytes:
    """An object as a pack has it: kind and size, seven bits a byte, and its compressed bytes."""
    size, first = len(data) >> FIRST_SIZE_BITS, len(data) & ((1 << FIRST_SIZE_BITS) - 1)
    head = bytearray([kind << FIRST_SIZE_BITS | first])
    while size:
        head[-1] |= MORE
        head.append(size & (MORE - 1))
        size >>= SIZE_BITS
    return bytes(head) + zlib.compress(data, _COMPRESSION)


def index_counts(data: bytes) -> tuple[int, ...] | None:
    """How many objects of an index have a first byte up to each; None when that cannot be, because
    it was cut short or is no index."""
    if len(data) < INDEX_START.size or not data.startswith(_INDEX_MAGIC):
        return None
    counts = INDEX_START.unpack_from(data)[2:]
    if len(data) < INDEX_START.size + counts[-1] * _INDEX_ROW + 2 * OID_BYTES:
        return None
    return counts


def index_oids(data: bytes) -> Iterator[bytes]:
    """The objects that an index names; fewer when it was cut short."""
    place = INDEX_START.size
    if len(data) < place or not data.startswith(_INDEX_MAGIC):
        return
    (count,) = struct.unpack_from(">I", data, place - struct.calcsize(">I"))
    last = min(place + count * OID_BYTES, len(data) - OID_BYTES)
    for start in range(place, last, OID_BYTES):
        yield data[start : start + OID_BYTES]


def index_rows(data: bytes) -> list[tuple[bytes, Packed]]:
    """The objects of an index in the order of their places in the pack.

    Raises `ValueError` for one that was cut short, or that is of a very large pack.
    """
    oids = list(index_oids(data))
    checksums = INDEX_START.size + len(oids) * OID_BYTES
    table = struct.Struct(f">{len(oids)}I")
    if len(data) < checksums + 2 * table.size + 2 * OID_BYTES:
        raise ValueError("an index that was cut short")
    offsets = table.unpack_from(data, checksums + table.size)
    if any(offset & LARGE for offset in offsets):
        raise ValueError("an index of a very large pack")
    places = zip(offsets, table.unpack_from(data, checksums), strict=True)
    rows = [(oid, Packed(*place)) for oid, place in zip(oids, places, strict=True)]
    return sorted(rows, key=lambda row: row[1].offset)


def is_whole(stored: bytes) -> bool:
    """Whether an entry is an object itself, and not what it differs by from another."""
    return (stored[0] >> FIRST_SIZE_BITS) & KIND_MASK in _WHOLE


def index(
    packed: Mapping[bytes, Packed], checksum: bytes, *, largest_small: int = _LARGEST_SMALL
) -> bytes:
    """The index of a pack that ends with this checksum."""
    oids = sorted(packed)
    counts = Counter(oid[0] for oid in oids)
    fan = itertools.accumulate(counts[first] for first in range(_FOLDERS))
    offsets, large = [], []
    for oid in oids:
        offset = packed[oid].offset
        if offset > largest_small:
            large.append(offset)
            offset = LARGE | (len(large) - 1)
        offsets.append(offset)
    body = b"".join(
        [
            INDEX_START.pack(_INDEX_MAGIC, _VERSION, *fan),
            *oids,
            struct.pack(f">{len(oids)}I", *(packed[oid].checksum for oid in oids)),
            struct.pack(f">{len(oids)}I", *offsets),
            struct.pack(f">{len(large)}Q", *large),
            checksum,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
