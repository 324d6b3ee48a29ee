"""A project's private git index, and its compact form at rest.

The index may be behind the last checkpoint but is never ahead of it: an entry has the content of a
checkpoint, and the file's stat data only if git finds that content in the file.

An index takes a hundred bytes per file. Names and contents are those of a tree in the store, so
maintenance only keeps stat data, a tenth of the size. The next whole look restores the full form.
If that fails, the index is rebuilt, which takes longer.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import DamageError, StorageError
from holdfast.stores.checkpoints.look_state import read_state
from holdfast.stores.checkpoints.walk import ATTRIBUTES, ancestors, is_special
from holdfast.stores.files import read_file, replace, storage_errors
from holdfast.stores.git.index_file import (
    Entry,
    index_bytes,
    index_entries,
    patched_index,
    read_index,
)
from holdfast.stores.git.program import Git, Said
from holdfast.stores.git.quick_process import QuickProcess
from holdfast.stores.git.trees import Node, Trees
from holdfast.value import dataclass

_NO_NODE: Node = (0, bytes(20))

_RESTING = "index.resting"
_MAGIC = b"holdfast resting index 1\n"
_OID_BYTES = 20
_FIELDS = 10
#: The stat fields that git compares, times in whole seconds.
_KEPT = (0, 2, 5, 7, 8, 9)
_MODIFIED, _MODE = 2, 6
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateIndex:
    """The index of one project. The caller holds the project's lock."""

    git: Git
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "index"

    @property
    def _resting(self) -> Path:
        return self.folder / _RESTING

    def is_there(self) -> bool:
        """True if there is an index, full or compact."""
        return self.path.exists() or self._resting.exists()

    def size(self) -> int:
        """Return the bytes of the full form; 0 if there is only the compact form."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def wake(self, trees: Trees) -> bool:
        """Restore the full form if there is only the compact one; return whether an index
        exists."""
        if self._resting.exists():
            with storage_errors(f"write {self.path}"):
                if not self.path.exists():
                    with contextlib.suppress(DamageError, ValueError, struct.error, zlib.error):
                        woken = _woken(read_file(self._resting), trees)
                        replace(self.path, index_bytes(woken))
                # Whatever happens to the index from here on, the compact form is outdated.
                self._resting.unlink()
        return self.path.exists()

    def remove(self) -> None:
        with storage_errors(f"remove {self.path}"):
            self.path.unlink(missing_ok=True)
            self._resting.unlink(missing_ok=True)

    def unlock(self) -> None:
        """Remove the lock of a killed git. Our project lock means no other git runs."""
        with storage_errors(f"remove a stale lock in {self.folder}"):
            (self.folder / "index.lock").unlink(missing_ok=True)

    def start_look(self) -> QuickProcess:
        """Start comparing the times of every known file; `finish_look` returns the result."""
        return self.git.comparing()

    def finish_look(self, process: QuickProcess) -> set[bytes]:
        """Return the files that may have changed; raises `GitFailedError` for a damaged index."""
        output, errors = process.communicate()
        if process.returncode:
            said = Said(status=process.returncode, output=output, errors=errors)
            raise self.git.failed("diff-files", said)
        # git only warns about files that it could not stat; in that case check all files.
        return _paths(output) | (self.known() if errors else set())

    def known(self) -> set[bytes]:
        return _paths(self.git.run("ls-files", "-z").output)

    def differing(self, tree: str) -> set[bytes]:
        """Return the paths at which the index differs from a tree, without looking at the files."""
        said = self.git.run("diff-index", "--cached", "--name-only", "-z", tree)
        return _paths(said.output)

    def rebuild(self, tree: str) -> None:
        """Rebuild it from a tree."""
        self.remove()
        self.unlock()
        self.git.run("read-tree", tree)
        self._refresh()

    def write(self, rows: Mapping[bytes, bytes]) -> None:
        """Write an index of files as they were when they were read. See `index_bytes`."""
        with storage_errors(f"write {self.path}"):
            replace(self.path, index_bytes(rows))

    def patch(self, rows: Mapping[bytes, bytes | None]) -> bool:
        """Set the rows of files as a look found them, with the content in the checkpoint; return
        whether that worked. See `patched_index`."""
        try:
            body = read_index(self.path)
        except (OSError, DamageError, struct.error):
            return False
        with storage_errors(f"write {self.path}"):
            replace(self.path, patched_index(body, rows))
        return True

    def update(self, nodes: Mapping[bytes, Node | None]) -> bool:
        """Set the entries at these paths to those of a checkpoint; return whether that worked.

        On failure the index does not change, and the next look is slower.
        """
        if self._would_wait():
            return False
        try:
            self.git.run("update-index", "-z", "--index-info", stdin=_index_info(nodes))
            self._refresh()
        except StorageError:
            self.unlock()
            return False
        return True

    def _would_wait(self) -> bool:
        """True if git would block reading attributes from a named pipe. Then the index stays
        behind, and the next look reads more."""
        if self.git.work_tree is None:
            return False
        root = os.fsencode(self.git.work_tree)
        folders = {path.rpartition(b"/")[0] for path in self.known()}
        above = {b"", *folders, *(each for folder in folders for each in ancestors(folder))}
        return any(is_special(b"/".join((root, each, ATTRIBUTES))) for each in above)

    def _refresh(self) -> None:
        if self._would_wait():
            return
        # 1: some files differ from the index, which does not matter here.
        with contextlib.suppress(StorageError):
            self.git.run("update-index", "-q", "--refresh", ok=(0, 1))
        self.unlock()


def _index_info(nodes: Mapping[bytes, Node | None]) -> bytes:
    """Removals first, so that a folder can replace a file and a file a folder."""
    ordered = sorted(nodes.items(), key=lambda each: each[1] is not None)
    entries = ((node or _NO_NODE, path) for path, node in ordered)
    return b"".join(
        b"%o %b\t%b\0" % (mode, oid.hex().encode(), path) for (mode, oid), path in entries
    )


def _paths(output: bytes) -> set[bytes]:
    return set(output.split(b"\0")) - {b""}


def lay_to_rest(folder: Path, trees: Trees) -> bool:
    """Replace a project's index by its compact form; return whether that was done. An index that
    matches no checkpoint stays as it is."""
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
        # After the compact form: a kill in between leaves both, and the full form takes precedence.
        path.unlink()
    return True


def _row(entry: Entry | None, node: tuple[int, bytes], written: int) -> tuple[int, ...]:
    """Return the stat fields of a file. Zeros make git check the file again: if it differs from the
    checkpoint, or may have changed in the second in which the index was written."""
    unknown = (0,) * len(_KEPT)
    if entry is None or (entry.kind, entry.oid) != node:
        return unknown
    fields = struct.unpack(f">{_FIELDS}I", entry.status)
    if fields[_MODIFIED] >= written // _SECOND:
        return unknown
    return tuple(fields[number] for number in _KEPT)


def _woken(data: bytes, trees: Trees) -> dict[bytes, bytes]:
    if not data.startswith(_MAGIC):
        raise DamageError("A stored index is damaged.")
    start = len(_MAGIC) + _OID_BYTES
    tree, columns = data[len(_MAGIC) : start], zlib.decompress(data[start:])
    files = sorted(trees.files(tree))
    if len(columns) != len(files) * len(_KEPT) * struct.calcsize(">I"):
        raise DamageError("A stored index does not match its checkpoint.")
    return {
        path: _status(row, kind) + oid
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
