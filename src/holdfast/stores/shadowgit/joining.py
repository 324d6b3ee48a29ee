"""Small packs made into one: cheap enough for the end of a checkpoint.

A checkpoint leaves a pack of some kilobytes, with every object whole. To copy these into one pack
takes milliseconds; git would start several processes for it.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.shadowgit.git_object import OID_BYTES
from holdfast.stores.shadowgit.pack_file import index_rows, is_whole
from holdfast.stores.shadowgit.packing import PackFile

#: What is read into memory at once.
_MOST_BYTES = 16 * 1024 * 1024

_Entries = Sequence[tuple[bytes, bytes]]


def join(folder: Path) -> None:
    """Join small packs. The caller has the store alone: nobody reads what goes.

    Write-order rule: the old ones go after the new one is durable. Killed in between, there are
    second copies, or a pack without an index, which maintenance removes.
    """
    with storage_errors(f"join packs in {folder}"), contextlib.closing(PackFile(folder)) as file:
        joined = []
        for pack in _small(folder):
            entries = _whole_entries(pack)
            if entries is not None:
                file.copy(entries)
                joined.append(pack)
        if len(joined) > 1:
            made = file.finish()
            for pack in joined:
                if pack != made:
                    remove_pack(pack)


def _small(folder: Path) -> Sequence[Path]:
    """The smallest ones, up to one that is larger than all of these: so that in the end every byte
    is copied only a few times."""
    sizes = sorted((path.stat().st_size, path) for path in folder.glob("pack-*.pack"))
    chosen: list[Path] = []
    total = 0
    for size, path in sizes:
        if total + size > _MOST_BYTES or (len(chosen) > 1 and size > total):
            break
        if not path.with_suffix(".keep").exists():
            chosen.append(path)
            total += size
    return chosen


def _whole_entries(pack: Path) -> _Entries | None:
    """What is in a pack; None unless every object in it is whole, and as it was written."""
    try:
        data, rows = read_file(pack), index_rows(read_file(pack.with_suffix(".idx")))
    except (FileNotFoundError, ValueError):
        return None
    if not rows:
        return None
    ends = [*(packed.offset for _, packed in rows[1:]), len(data) - OID_BYTES]
    entries = []
    for (oid, packed), end in zip(rows, ends, strict=True):
        stored = data[packed.offset : end]
        if zlib.crc32(stored) != packed.checksum or not is_whole(stored):
            return None
        entries.append((oid, stored))
    return entries


def remove_pack(pack: Path) -> None:
    # The index first: what has none is no pack for git.
    for suffix in (".idx", ".rev", ".pack"):
        pack.with_suffix(suffix).unlink(missing_ok=True)
