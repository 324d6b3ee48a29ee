"""The git index as bytes: read, and written without reading the files again, as git would.

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
#: Two times in seconds and nanoseconds, device, inode, mode, user, group, size; 32 bits of each.
_STATUS = struct.Struct(">10I")
_KIND = 6
_KIND_AT, _KIND_BYTES = 24, 4
_FITS = 0xFFFFFFFF
_SECOND = 1_000_000_000
#: Where an entry has the id of its object, its flags and its name.
_ID_AT, _FLAGS_AT, _NAME_AT = 40, 60, 62
_LENGTH_MASK = 0xFFF
_ALIGNED = 8
_OID = 20
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in an index: `status` is what `status_bytes` gives, `kind` git's mode."""

    path: bytes
    status: bytes
    kind: int
    oid: bytes


def status_bytes(status: os.stat_result, kind: int) -> bytes:
    """The status of a file in the form of an index; `kind` is git's mode."""
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
    """An index of files: by path, the result of `status_bytes` and the id of the content."""
    made = bytearray(_HEADER.pack(b"DIRC", _VERSION, len(rows)))
    for path in sorted(rows):
        _put(made, path, rows[path])
    made += sha1(made)
    return made


def patched_index(body: bytes, rows: Mapping[bytes, bytes | None]) -> bytearray:
    """An index with other rows at some paths; None removes a path. `body` is the result of
    `read_index`. What git keeps beside the files, such as the ids of trees, is left out: it would
    not fit any more."""
    todo = dict(rows)
    for path, row in rows.items():
        if row is not None:  # no file can be above another one
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
    """Add a row at the end; returns whether there was one."""
    if row is None:
        return False
    end = _NAME_AT + len(path)
    made += row
    made += _FLAGS.pack(min(len(path), _LENGTH_MASK))
    made += path
    made += bytes(_after(0, end) - end)
    return True


def row_kind(row: bytes) -> int:
    """git's mode of a file in an index."""
    return int.from_bytes(row[_KIND_AT : _KIND_AT + _KIND_BYTES], "big")


def row_oid(row: bytes) -> bytes:
    return row[_ID_AT:_FLAGS_AT]


def index_objects(path: Path) -> list[bytes]:
    """The ids of all objects that git keeps because of this index. Raises `DamageError` as
    `read_index` does."""
    body = read_index(path)
    found, end = [], _HEADER.size
    for start, name_end in _places(body):
        found.append(body[start + _ID_AT : start + _FLAGS_AT])
        end = _after(start, name_end)
    return [*found, *_remembered(body, end)]


def read_index(path: Path) -> bytes:
    """An index without its checksum; raises `DamageError` for a damaged or unknown one."""
    data = read_file(path)
    body, checksum = data[:-_OID], data[-_OID:]
    if sha1(body) != checksum:
        raise DamageError(f"The private index {path} is damaged.")
    signature, version, _ = _HEADER.unpack_from(body)
    if signature != b"DIRC" or version != _VERSION:
        raise DamageError(f"The private index {path} has a format that this version does not know.")
    return body


def index_entries(body: bytes) -> Iterator[Entry]:
    """The files in an index. `body` is the result of `read_index`."""
    for start, name_end in _places(body):
        status = body[start : start + _ID_AT]
        yield Entry(
            path=body[start + _NAME_AT : name_end],
            status=status,
            kind=_STATUS.unpack(status)[_KIND],
            oid=body[start + _ID_AT : start + _FLAGS_AT],
        )


def _places(body: bytes) -> Iterator[tuple[int, int]]:
    """Where each entry begins, and where its name ends."""
    _, _, count = _HEADER.unpack_from(body)
    place = _HEADER.size
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(body, place + _FLAGS_AT)
        length = flags & _LENGTH_MASK
        if length == _LENGTH_MASK:  # the name is at least this long: only its null tells
            length = body.index(b"\0", place + _NAME_AT) - place - _NAME_AT
        yield place, place + _NAME_AT + length
        place = _after(place, place + _NAME_AT + length)


def _after(start: int, name_end: int) -> int:
    """The next entry: after at least one null, and at a multiple of eight bytes from this one."""
    return start + (name_end - start + _ALIGNED) // _ALIGNED * _ALIGNED


def _remembered(body: bytes, place: int) -> Iterator[bytes]:
    """The trees in the cache-tree extension."""
    while place < len(body):
        signature, size = _EXTENSION.unpack_from(body, place)
        place += _EXTENSION.size
        if signature == b"TREE":
            yield from _trees(body[place : place + size])
        place += size


def _trees(part: bytes) -> Iterator[bytes]:
    """A tree is a name, a number of entries, a number of folders, and an id unless it is stale."""
    place = 0
    while place < len(part):
        counts = part.index(b"\0", place) + 1
        end = part.index(b"\n", counts) + 1
        place = end
        if not part.startswith(b"-", counts):
            yield part[end : end + _OID]
            place += _OID
