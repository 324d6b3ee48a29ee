"""A pack, read by somebody who does not believe it: whatever its bytes are, the answer is an
object, or that there is none, and costs no more than what is there.

Nothing is mapped into memory: a disk that fails under a mapping ends the process.
"""

from __future__ import annotations

import os
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path

from holdfast.stores.files import open_regular, read_file
from holdfast.stores.shadowgit.git_object import OID_BYTES, Kind
from holdfast.stores.shadowgit.inflating import NotWholeError, inflated
from holdfast.stores.shadowgit.pack_file import (
    FIRST_SIZE_BITS,
    INDEX_START,
    KIND_MASK,
    LARGE,
    MORE,
    SIZE_BITS,
    index_counts,
)

_CHECKSUM_BYTES = PLACE_BYTES = 4
_LARGE_BYTES = 8
_BY_PLACE, _BY_ID = 6, 7
_KINDS = {int(kind): kind for kind in Kind}
#: Most entries are whole in the first; a long one is read on in steps.
_FIRST_READ, _NEXT_READ = 4096, 262_144
#: More than the head of an entry has, with the id of a base.
_LONGEST_HEAD = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """An object of a known kind, or the difference from a base: by its place in the same pack, or
    by its id."""

    kind: Kind | None
    base: int | bytes | None
    data: bytes


class PackReader:
    """One pack. Its index is read when it is first asked, the rest piece by piece."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._index: bytes | None = None
        self._counts: tuple[int, ...] | None = None
        self._fd: int | None = None
        self._close: weakref.finalize[..., PackReader] | None = None

    def place_of(self, oid: bytes) -> int | None:
        """Where an object begins; None when the index does not name it, or is damaged."""
        if self._index is None:
            self._index = read_file(Path(self.path).with_suffix(".idx"))
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

    def entry(self, place: int) -> Entry:
        """What begins at a place; raises `NotWholeError` when that is no entry."""
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
            raise NotWholeError("of no kind")
        after = place + len(raw)

        def more() -> bytes:
            nonlocal after
            chunk = os.pread(fd, _NEXT_READ, after)
            after += len(chunk)
            return chunk

        return Entry(_KINDS.get(kind), base, inflated(raw[start:], more, size))

    def open(self) -> int:
        if self._fd is None:
            self._fd = open_regular(self.path)
            self._close = weakref.finalize(self, os.close, self._fd)
        return self._fd

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._close is not None:
            self._close()
        self._fd = self._close = None


def _head(raw: bytes) -> tuple[int, int, int]:
    """The kind of an entry, its size, and where what follows begins."""
    byte = raw[0]
    kind = (byte >> FIRST_SIZE_BITS) & KIND_MASK
    size, shift, place = byte & ((1 << FIRST_SIZE_BITS) - 1), FIRST_SIZE_BITS, 1
    while byte & MORE:
        if place > _LONGEST_HEAD:
            raise NotWholeError("a size without an end")
        byte = raw[place]
        size |= (byte & ~MORE) << shift
        shift += SIZE_BITS
        place += 1
    return kind, size, place


def _distance(raw: bytes, place: int) -> tuple[int, int]:
    """How far back the base begins: seven bits a byte, the highest first, each step one more."""
    byte = raw[place]
    distance = byte & ~MORE
    while byte & MORE:
        place += 1
        if place > _LONGEST_HEAD:
            raise NotWholeError("a distance without an end")
        byte = raw[place]
        distance = ((distance + 1) << SIZE_BITS) | (byte & ~MORE)
    return distance, place + 1
