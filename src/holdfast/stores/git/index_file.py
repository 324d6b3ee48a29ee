"""Reads and writes the git index as bytes, without re-reading the files, as git would.

When git collects garbage, it keeps the blobs that an index names and the trees in its cache-tree
extension, so `index_objects` returns both.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.digest import sha1
from holdfast.stores.files import read_file
from holdfast.value import dataclass

_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_FLAGS = struct.Struct(">H")
#: ctime and mtime in seconds and nanoseconds, device, inode, mode, uid, gid, size; 32 bits each.
_STATUS = struct.Struct(">10I")
_KIND = 6
_KIND_AT, _KIND_BYTES = 24, 4
_FITS = 0xFFFFFFFF
_SECOND = 1_000_000_000
#: Offsets of object id, flags and name in an entry.
_ID_AT, _FLAGS_AT, _NAME_AT = 40, 60, 62
_LENGTH_MASK = 0xFFF
_ALIGNED = 8
_OID = 20
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in an index: `status` comes from `status_bytes`, `kind` is git's mode."""

    path: bytes
    status: bytes
    kind: int
    oid: bytes


def status_bytes(status: os.stat_result, kind: int) -> bytes:
    """Return the stat data of a file as in an index; `kind` is git's mode."""
    changed, modified = status.st_ctime_ns, status.st_mtime_ns
    return _STATUS.pack(
        changed // _SECOND & _FITS,
        changed % _SECOND,
        modified // _SECOND & _FITS,
        modified % _SECOND,
        status.st_dev & _FITS,
        status.st_ino & _FITS,
        kind,
        status.st_uid & _FITS,
        status.st_gid & _FITS,
        status.st_size & _FITS,
    )


def index_bytes(rows: Mapping[bytes, bytes]) -> bytearray:
    """Build an index. `rows`: by path, the result of `status_bytes` and the object id."""
    made = bytearray(_HEADER.pack(b"DIRC", _VERSION, len(rows)))
    for path in sorted(rows):
        _put(made, path, rows[path])
    made += sha1(made)
    return made


def patched_index(body: bytes, rows: Mapping[bytes, bytes | None]) -> bytearray:
    """Return an index with some rows replaced; None removes a path. `body` is the result of
    `read_index`. git's extensions, such as the cache-tree, are dropped: they are outdated."""
    todo = dict(rows)
    for path, row in rows.items():
        if row is not None:  # no file can have another one as its parent
            todo.update(dict.fromkeys(_above(path) - rows.keys()))
    below = sorted((path + b"/", path + b"0") for path, row in rows.items() if row is not None)
    changes = sorted(todo)
    made, kept = bytearray(_HEADER.size), 0
    at = inside = 0
    start = end = _HEADER.size
    for place, name_end in _places(body):
        name = body[place + _NAME_AT : name_end]
        end = _after(place, name_end)
        while at < len(changes) and changes[at] < name:
            made += body[start:place]
            start = place
            kept += _put(made, changes[at], todo[changes[at]])
            at += 1
        while inside < len(below) and below[inside][1] <= name:
            inside += 1
        is_changed = at < len(changes) and changes[at] == name
        if not is_changed and not (inside < len(below) and below[inside][0] <= name):
            kept += 1
            continue
        made += body[start:place]
        start = end
        if is_changed:
            kept += _put(made, name, todo[name])
            at += 1
    made += body[start:end]
    for path in changes[at:]:
        kept += _put(made, path, todo[path])
    _HEADER.pack_into(made, 0, b"DIRC", _VERSION, kept)
    made += sha1(made)
    return made


def _above(path: bytes) -> set[bytes]:
    names = path.split(b"/")
    return {b"/".join(names[:count]) for count in range(1, len(names))}


def _put(made: bytearray, path: bytes, row: bytes | None) -> bool:
    """Append a row; return whether there was one."""
    if row is None:
        return False
    end = _NAME_AT + len(path)
    made += row
    made += _FLAGS.pack(min(len(path), _LENGTH_MASK))
    made += path
    made += bytes(_after(0, end) - end)
    return True


def row_kind(row: bytes) -> int:
    """Return git's mode of a file in an index."""
    return int.from_bytes(row[_KIND_AT : _KIND_AT + _KIND_BYTES], "big")


def row_oid(row: bytes) -> bytes:
    return row[_ID_AT:_FLAGS_AT]


def index_objects(path: Path) -> list[bytes]:
    """Return all objects that git keeps because of this index. Raises `DamageError` as `read_index`
    does."""
    body = read_index(path)
    found, end = [], _HEADER.size
    for start, name_end in _places(body):
        found.append(body[start + _ID_AT : start + _FLAGS_AT])
        end = _after(start, name_end)
    return [*found, *_remembered(body, end)]


def read_index(path: Path) -> bytes:
    """Return an index without its checksum; raises `DamageError` if it is damaged or unknown."""
    data = read_file(path)
    body, checksum = data[:-_OID], data[-_OID:]
    if sha1(body) != checksum:
        raise DamageError(f"The private index {path} is damaged.")
    signature, version, _ = _HEADER.unpack_from(body)
    if signature != b"DIRC" or version != _VERSION:
        raise DamageError(f"The private index {path} has a format that this version does not know.")
    return body


def index_entries(body: bytes) -> Iterator[Entry]:
    """Yield the files in an index. `body` is the result of `read_index`."""
    for start, name_end in _places(body):
        status = body[start : start + _ID_AT]
        yield Entry(
            path=body[start + _NAME_AT : name_end],
            status=status,
            kind=_STATUS.unpack(status)[_KIND],
            oid=body[start + _ID_AT : start + _FLAGS_AT],
        )


def _places(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start of each entry and the end of its name."""
    _, _, count = _HEADER.unpack_from(body)
    place = _HEADER.size
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(body, place + _FLAGS_AT)
        length = flags & _LENGTH_MASK
        if length == _LENGTH_MASK:  # a longer name does not fit the field; it ends at its null byte
            length = body.index(b"\0", place + _NAME_AT) - place - _NAME_AT
        yield place, place + _NAME_AT + length
        place = _after(place, place + _NAME_AT + length)


def _after(start: int, name_end: int) -> int:
    """Return the start of the next entry: after a null byte, at a multiple of eight bytes."""
    return start + (name_end - start + _ALIGNED) // _ALIGNED * _ALIGNED


def _remembered(body: bytes, place: int) -> Iterator[bytes]:
    """Yield the trees in the cache-tree extension."""
    while place < len(body):
        signature, size = _EXTENSION.unpack_from(body, place)
        place += _EXTENSION.size
        if signature == b"TREE":
            yield from _trees(body[place : place + size])
        place += size


def _trees(part: bytes) -> Iterator[bytes]:
    """Parse trees: a name, a number of entries, a number of subtrees, and an id if not stale."""
    place = 0
    while place < len(part):
        counts = part.index(b"\0", place) + 1
        end = part.index(b"\n", counts) + 1
        place = end
        if not part.startswith(b"-", counts):
            yield part[end : end + _OID]
            place += _OID
