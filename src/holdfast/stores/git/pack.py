"""Packs and their indexes: git's formats, unchanged since 2007.

The reader trusts nothing: any bytes lead to an object or an error, and need no more memory than the
pack has bytes. Nothing is memory-mapped, because a disk error under a mapping kills the process.
Objects written here are stored whole; finding deltas is git's job.
"""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator

from holdfast.stores.digest import sha1
from holdfast.stores.files import open_regular, read_file
from holdfast.stores.git.object import OID_BYTES, Kind, NotWholeError, inflated
from holdfast.value import dataclass, field

HEADER = struct.Struct(">4sII")

_VERSION = 2
_INDEX_MAGIC = b"\377tOc"
_NUMBER = struct.Struct(">I")
#: The offset of an object, and its checksum.
_PLACE = struct.Struct(">QI")
_FOLDERS = 256
#: Magic, version, and per byte the number of ids that start with it or a lower one.
INDEX_START = struct.Struct(f">4sI{_FOLDERS}I")
_INDEX_ROW = OID_BYTES + 2 * struct.calcsize(">I")
#: Fast: compressing takes as long as reading and hashing the file. Maintenance recompresses.
_COMPRESSION = 1
#: Powers of two. The hash table shrinks in proportion to the window.
_LEAST_WINDOW, _LEAST_MEMORY, _MEMORY_BELOW = 9, 5, 5
SIZE_BITS, FIRST_SIZE_BITS = 7, 4
MORE = 0x80
KIND_MASK = 0b111
_WHOLE = (Kind.COMMIT, Kind.TREE, Kind.BLOB)
#: This bit marks an index into the table of large offsets.
LARGE = 0x80000000
_LARGEST_SMALL = LARGE - 1

_CHECKSUM_BYTES = PLACE_BYTES = 4
_LARGE_BYTES = 8
_BY_PLACE, _BY_ID = 6, 7
_KINDS = {int(kind): kind for kind in Kind}
#: Most entries fit into the first read; longer ones are read in steps.
_FIRST_READ, _NEXT_READ = 4096, 262_144
#: Longer than the head of any entry, including the id of a base.
_LONGEST_HEAD = 64

_COPY = 0x80
#: Bits of a copy instruction: which bytes of the offset and of the length follow.
_PLACE_BYTES = tuple((1 << byte, byte * 8) for byte in range(4))
_LENGTH_BYTES = tuple((1 << (4 + byte), byte * 8) for byte in range(3))
#: The length if none of its bytes follow.
_USUAL_LENGTH = 0x10000


@dataclass(frozen=True, slots=True)
class Packed:
    """The offset of an object in its pack, and the checksum of its packed bytes."""

    offset: int
    checksum: int


def pack_header(objects: int) -> bytes:
    return HEADER.pack(b"PACK", _VERSION, objects)


def pack_entry(kind: Kind, data: bytes) -> bytes:
    """Encode an object for a pack: kind and size, seven bits per byte, then compressed bytes."""
    size, first = len(data) >> FIRST_SIZE_BITS, len(data) & ((1 << FIRST_SIZE_BITS) - 1)
    head = bytearray([kind << FIRST_SIZE_BITS | first])
    while size:
        head[-1] |= MORE
        head.append(size & (MORE - 1))
        size >>= SIZE_BITS
    return bytes(head) + _compressed(data)


def _compressed(data: bytes) -> bytes:
    """Compress with a window no larger than the data: clearing the default window takes longer than
    compressing a small file."""
    window = min(max((len(data) - 1).bit_length(), _LEAST_WINDOW), zlib.MAX_WBITS)
    memory = min(max(window - _MEMORY_BELOW, _LEAST_MEMORY), zlib.DEF_MEM_LEVEL)
    stream = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, window, memory)
    return stream.compress(data) + stream.flush()


def index_counts(data: bytes) -> tuple[int, ...] | None:
    """Return the fan-out table of an index: for each byte, how many ids start with it or a lower
    one. None if the data is truncated or not an index."""
    if len(data) < INDEX_START.size or not data.startswith(_INDEX_MAGIC):
        return None
    counts = INDEX_START.unpack_from(data)[2:]
    if len(data) < INDEX_START.size + counts[-1] * _INDEX_ROW + 2 * OID_BYTES:
        return None
    return counts


def index_oids(data: bytes) -> Iterator[bytes]:
    """Yield the ids in an index; fewer if it is truncated."""
    place = INDEX_START.size
    if len(data) < place or not data.startswith(_INDEX_MAGIC):
        return
    (count,) = struct.unpack_from(">I", data, place - struct.calcsize(">I"))
    last = min(place + count * OID_BYTES, len(data) - OID_BYTES)
    for start in range(place, last, OID_BYTES):
        yield data[start : start + OID_BYTES]


def index_rows(data: bytes) -> list[tuple[bytes, Packed]]:
    """Return the objects of an index, sorted by offset in the pack.

    Raises `ValueError` for a truncated index, or the index of a very large pack.
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
    """True if an entry is a whole object, not a delta."""
    return (stored[0] >> FIRST_SIZE_BITS) & KIND_MASK in _WHOLE


@dataclass(slots=True)
class PackRows:
    """The objects of a pack, sorted by offset, stored compactly."""

    oids: list[bytes] = field(default_factory=list)
    _places: bytearray = field(default_factory=bytearray)

    def add(self, oid: bytes, packed: Packed) -> None:
        self.oids.append(oid)
        self._places += _PLACE.pack(packed.offset, packed.checksum)

    def offset(self, number: int) -> int:
        return int(_PLACE.unpack_from(self._places, number * _PLACE.size)[0])

    def checksum(self, number: int) -> int:
        return int(_PLACE.unpack_from(self._places, number * _PLACE.size)[1])


def pack_index(
    rows: PackRows, checksum: bytes, *, largest_small: int = _LARGEST_SMALL
) -> bytearray:
    """Build the index of a pack that ends with this checksum."""
    order = sorted(range(len(rows.oids)), key=rows.oids.__getitem__)
    counts = Counter(oid[0] for oid in rows.oids)
    fan = itertools.accumulate(counts[first] for first in range(_FOLDERS))
    large: list[int] = []
    body = bytearray(INDEX_START.pack(_INDEX_MAGIC, _VERSION, *fan))
    for number in order:
        body += rows.oids[number]
    for number in order:
        body += _NUMBER.pack(rows.checksum(number))
    for number in order:
        offset = rows.offset(number)
        if offset > largest_small:
            large.append(offset)
            offset = LARGE | (len(large) - 1)
        body += _NUMBER.pack(offset)
    body += struct.pack(f">{len(large)}Q", *large)
    body += checksum
    body += sha1(body)
    return body


@dataclass(frozen=True, slots=True)
class PackEntry:
    """An object of a known kind, or a delta. `base` is the base of a delta: its offset in the same
    pack, or its id."""

    kind: Kind | None
    base: int | bytes | None
    data: bytes


class PackReader:
    """One pack. The index is read when first needed, the pack piece by piece."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._index: bytes | None = None
        self._counts: tuple[int, ...] | None = None
        self._fd: int | None = None

    def place_of(self, oid: bytes) -> int | None:
        """Return the offset of an object; None if it is missing or the index is damaged."""
        if self._index is None:
            self._index = read_file(f"{self.path.removesuffix('.pack')}.idx")
            self._counts = index_counts(self._index)
        counts, index = self._counts, self._index
        if counts is None or len(oid) != OID_BYTES:
            return None
        first = oid[0]
        low, high = counts[first - 1] if first else 0, min(counts[first], counts[-1])
        while low < high:
            middle = (low + high) // 2
            start = INDEX_START.size + middle * OID_BYTES
            found = index[start : start + OID_BYTES]
            if found == oid:
                return self._place(index, counts[-1], middle)
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return None

    @staticmethod
    def _place(index: bytes, count: int, number: int) -> int | None:
        table = INDEX_START.size + count * (OID_BYTES + _CHECKSUM_BYTES)
        (place,) = struct.unpack_from(">I", index, table + number * PLACE_BYTES)
        if not place & LARGE:
            return int(place)
        start = table + count * PLACE_BYTES + (place & ~LARGE) * _LARGE_BYTES
        if start + _LARGE_BYTES > len(index) - 2 * OID_BYTES:
            return None
        return int(struct.unpack_from(">Q", index, start)[0])

    def entry(self, place: int) -> PackEntry:
        """Read the entry at an offset; raises `NotWholeError` if there is none."""
        fd = self.open()
        try:
            raw = os.pread(fd, _FIRST_READ, place)
        except OverflowError as error:
            raise NotWholeError("outside of the pack") from error
        try:
            kind, size, start = _head(raw)
            base: int | bytes | None = None
            if kind == _BY_PLACE:
                distance, start = _distance(raw, start)
                base = place - distance
                if not 0 < base < place:
                    raise NotWholeError("a base outside of the pack")
            elif kind == _BY_ID:
                base, start = raw[start : start + OID_BYTES], start + OID_BYTES
        except IndexError as error:
            raise NotWholeError("cut short") from error
        if base is None and kind not in _KINDS:
            raise NotWholeError("unknown kind")
        after = place + len(raw)

        def more() -> bytes:
            nonlocal after
            chunk = os.pread(fd, _NEXT_READ, after)
            after += len(chunk)
            return chunk

        return PackEntry(_KINDS.get(kind), base, inflated(raw[start:], more, size))

    def open(self) -> int:
        if self._fd is None:
            self._fd = open_regular(self.path)
        return self._fd

    def close(self) -> None:
        """Close the file. The next read opens it again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    __del__ = close


def _head(raw: bytes) -> tuple[int, int, int]:
    """Return the kind of an entry, its size, and where its head ends."""
    byte = raw[0]
    kind = (byte >> FIRST_SIZE_BITS) & KIND_MASK
    size, shift, place = byte & ((1 << FIRST_SIZE_BITS) - 1), FIRST_SIZE_BITS, 1
    while byte & MORE:
        if place > _LONGEST_HEAD:
            raise NotWholeError("an unterminated size")
        byte = raw[place]
        size |= (byte & ~MORE) << shift
        shift += SIZE_BITS
        place += 1
    return kind, size, place


def _distance(raw: bytes, place: int) -> tuple[int, int]:
    """Return how far back the base begins, and where the number ends. Seven bits per byte, the
    highest first, plus one for each further byte."""
    byte = raw[place]
    distance = byte & ~MORE
    while byte & MORE:
        place += 1
        if place > _LONGEST_HEAD:
            raise NotWholeError("an unterminated distance")
        byte = raw[place]
        distance = ((distance + 1) << SIZE_BITS) | (byte & ~MORE)
    return distance, place + 1


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Apply a delta to its base; raises `NotWholeError` if they do not match."""
    try:
        size, start = _number(delta, 0)
        result, start = _number(delta, start)
        if size != len(base):
            raise NotWholeError("made for another base")
        made = b"".join(_pieces(base, delta, start, result))
    except IndexError as error:
        raise NotWholeError("cut short") from error
    if len(made) != result:
        raise NotWholeError("less than its size")
    return made


def _pieces(base: bytes, delta: bytes, place: int, result: int) -> list[bytes]:
    pieces: list[bytes] = []
    end = len(delta)
    while place < end:
        order = delta[place]
        place += 1
        if order & _COPY:
            start = length = 0
            for bit, shift in _PLACE_BYTES:
                if order & bit:
                    start |= delta[place] << shift
                    place += 1
            for bit, shift in _LENGTH_BYTES:
                if order & bit:
                    length |= delta[place] << shift
                    place += 1
            length = length or _USUAL_LENGTH
            piece = base[start : start + length]
        else:
            length = order
            piece = delta[place : place + length]
            place += length
        result -= length
        if not length or len(piece) != length or result < 0:
            raise NotWholeError("an instruction that does not fit")
        pieces.append(piece)
    return pieces


def _number(delta: bytes, place: int) -> tuple[int, int]:
    """Return a number (seven bits per byte, the lowest first) and where it ends."""
    number = shift = 0
    while True:
        byte = delta[place]
        place += 1
        number |= (byte & ~MORE) << shift
        shift += SIZE_BITS
        if not byte & MORE:
            return number, place
