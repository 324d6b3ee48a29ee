"""A private index at rest: what git remembers of the files, without what a checkpoint knows anyway.

An index has a hundred bytes a file, and there is one for every worktree; names and contents are
those of a tree in the store. What remains, times and numbers, compresses to a tenth of that.
Maintenance lays indexes to rest, and the next whole look wakes its own. One that cannot be woken is
made anew, which takes longer.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.files import read_file, replace, storage_errors
from holdfast.stores.shadowgit.index_file import (
    Entry,
    index_bytes,
    index_entries,
    read_index,
)
from holdfast.stores.shadowgit.state import read_state
from holdfast.stores.shadowgit.trees import Trees

_RESTING = "index.resting"
_MAGIC = b"holdfast resting index 1\n"
_OID_BYTES = 20
_FIELDS = 10
#: Of the fields of a status: those that git compares. It tells times by the second.
_KEPT = (0, 2, 5, 7, 8, 9)
_MODIFIED, _MODE = 2, 6
_SECOND = 1_000_000_000


def lay_to_rest(folder: Path, trees: Trees) -> bool:
    """Replace a project's index by its short form; says whether that was done. Without a checkpoint
    that it stands for it stays as it is."""
    tree = read_state(folder).tree
    path = folder / "index"
    try:
        written, body = path.stat().st_mtime_ns, read_index(path)
        files = sorted(trees.files(bytes.fromhex(tree))) if tree else []
    except (OSError, DamageError, ValueError):
        return False
    entries = {entry.path: entry for entry in index_entries(body)}
    rows = [_row(entries.get(name), node, written) for name, node in files]
    if not files:
        return False
    columns = b"".join(struct.pack(f">{len(rows)}I", *column) for column in zip(*rows, strict=True))
    with storage_errors(f"write to {folder}"):
        short = zlib.compress(columns)
        replace(folder / _RESTING, b"%b%b%b" % (_MAGIC, bytes.fromhex(tree), short))
        # After the short form: killed in between there are two, and the index is the newer one.
        path.unlink()
    return True


def wake(folder: Path, trees: Trees) -> None:
    """Make the index again, if there is none and one is at rest."""
    path, resting = folder / "index", folder / _RESTING
    if not resting.exists():
        return
    with storage_errors(f"write {path}"):
        if not path.exists():
            with contextlib.suppress(DamageError, ValueError, struct.error, zlib.error):
                replace(path, index_bytes(_woken(read_file(resting), trees)))
        # Whatever comes of the index now, this one would know less.
        resting.unlink()


def is_at_rest(folder: Path) -> bool:
    return (folder / _RESTING).exists()


def forget(folder: Path) -> None:
    """There is a newer index, or there will be."""
    with storage_errors(f"remove {folder / _RESTING}"):
        (folder / _RESTING).unlink(missing_ok=True)


def _row(entry: Entry | None, node: tuple[int, bytes], written: int) -> tuple[int, ...]:
    """The numbers of a file; zeros make git look at it again.

    So they are for one that is not what the checkpoint has, and for one that may have changed in
    the second in which the index was written, which git tells by the time of the index.
    """
    unknown = (0,) * len(_KEPT)
    if entry is None or (entry.kind, entry.oid) != node:
        return unknown
    fields = struct.unpack(f">{_FIELDS}I", entry.status)
    if fields[_MODIFIED] >= written // _SECOND:
        return unknown
    return tuple(fields[number] for number in _KEPT)


def _woken(data: bytes, trees: Trees) -> dict[bytes, tuple[bytes, bytes]]:
    if not data.startswith(_MAGIC):
        raise DamageError("An index at rest is damaged.")
    start = len(_MAGIC) + _OID_BYTES
    tree, columns = data[len(_MAGIC) : start], zlib.decompress(data[start:])
    files = sorted(trees.files(tree))
    if len(columns) != len(files) * len(_KEPT) * struct.calcsize(">I"):
        raise DamageError("An index at rest does not fit its checkpoint.")
    return {
        path: (_status(row, kind), oid)
        for (path, (kind, oid)), row in zip(files, _rows(columns, len(files)), strict=True)
    }


def _rows(columns: bytes, count: int) -> Iterator[tuple[int, ...]]:
    width = count * struct.calcsize(">I")
    parts = [
        struct.unpack_from(f">{count}I", columns, number * width) for number in range(len(_KEPT))
    ]
    return zip(*parts, strict=True)


def _status(row: tuple[int, ...], kind: int) -> bytes:
    fields = [0] * _FIELDS
    for number, value in zip(_KEPT, row, strict=True):
        fields[number] = value
    fields[_MODE] = kind
    return struct.pack(f">{_FIELDS}I", *fields)
