"""A project's private git index, kept warm, and its compact form at rest.

The index may be behind the last checkpoint but is never ahead of it: an entry gets the content that
a checkpoint has, and the file's times only if git finds that content in the file.

An index takes a hundred bytes a file, and every worktree has one. Names and contents are those of a
tree in the store, so maintenance keeps only times and numbers, a tenth of the size. The next whole
look restores the full form. An index that cannot be restored is built again, which takes longer.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DamageError, StorageError
from holdfast.stores.checkpoints.look_state import read_state
from holdfast.stores.checkpoints.walk import ATTRIBUTES, is_special
from holdfast.stores.files import read_file, replace, storage_errors
from holdfast.stores.git.index_file import Entry, index_bytes, index_entries, read_index
from holdfast.stores.git.program import Git, Said
from holdfast.stores.git.trees import Node, Trees
from holdfast.value import dataclass

if TYPE_CHECKING:
    import subprocess

_NO_OBJECT = "0" * 40

_RESTING = "index.resting"
_MAGIC = b"holdfast resting index 1\n"
_OID_BYTES = 20
_FIELDS = 10
#: Of the fields of a status: those that git compares. It tells times by the second.
_KEPT = (0, 2, 5, 7, 8, 9)
_MODIFIED, _MODE = 2, 6
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateIndex:
    """For whoever holds the project's lock."""

    git: Git
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "index"

    def is_there(self) -> bool:
        """Whether there is an index, full or compact."""
        return self.path.exists() or is_at_rest(self.folder)

    def wake(self, trees: Trees) -> bool:
        """Restore the form that git reads, if there is an index; says whether there is one."""
        wake(self.folder, trees)
        return self.path.exists()

    def remove(self) -> None:
        with storage_errors(f"remove {self.path}"):
            self.path.unlink(missing_ok=True)
        forget(self.folder)

    def unlock(self) -> None:
        """Remove what a killed git left. We hold the project's lock, so nobody else has it."""
        with storage_errors(f"remove a stale lock in {self.folder}"):
            (self.folder / "index.lock").unlink(missing_ok=True)

    def start_look(self) -> subprocess.Popen[bytes]:
        """Begin to compare every known file's times; `finish_look` has the result."""
        return self.git.start("diff-files", "--name-only", "-z")

    def finish_look(self, process: subprocess.Popen[bytes]) -> set[bytes]:
        """The files that may have changed; raises `GitFailedError` for a damaged index."""
        output, errors = process.communicate()
        if process.returncode:
            said = Said(status=process.returncode, output=output, errors=errors)
            raise self.git.failed("diff-files", said)
        # What git could not look at it only mentions, and then says nothing of it: look at all.
        return _paths(output) | (self.known() if errors else set())

    def known(self) -> set[bytes]:
        return _paths(self.git.run("ls-files", "-z").output)

    def differing(self, tree: str) -> set[bytes]:
        """Where the index does not stand for a tree. The files themselves are not looked at."""
        said = self.git.run("diff-index", "--cached", "--name-only", "-z", tree)
        return _paths(said.output)

    def rebuild(self, tree: str) -> None:
        """Build it from a tree."""
        self.remove()
        self.unlock()
        self.git.run("read-tree", tree)
        self._refresh()

    def write(self, entries: Mapping[bytes, tuple[bytes, bytes]]) -> None:
        """Make it of files as they were when they were read. See `index_bytes`."""
        with storage_errors(f"write {self.path}"):
            replace(self.path, index_bytes(entries))

    def update(self, nodes: Mapping[bytes, Node | None]) -> bool:
        """Set what a checkpoint has at these paths; returns whether that worked.

        On failure the index stays behind, as it was, and the next look is slower.
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
        """Whether a pipe stands where git reads attributes: then the times stay old, and the next
        look reads more."""
        if self.git.work_tree is None:
            return False
        root = os.fsencode(self.git.work_tree)
        folders = {path.rpartition(b"/")[0] for path in self.known()}
        above = {folder[:end] for folder in folders for end in _ends(folder)}
        return any(is_special(b"/".join((root, each, ATTRIBUTES))) for each in above)

    def _refresh(self) -> None:
        if self._would_wait():
            return
        # 1: some files differ from the index, which does not matter here.
        with contextlib.suppress(StorageError):
            self.git.run("update-index", "-q", "--refresh", ok=(0, 1))
        self.unlock()


def _ends(folder: bytes) -> list[int]:
    """Where the names of a folder, and of those above it, end; the root's is 0."""
    return [0, *(place for place, sign in enumerate(folder) if sign == ord("/")), len(folder)]


def _index_info(nodes: Mapping[bytes, Node | None]) -> bytes:
    """Removals first, so that a folder can replace a file and a file a folder."""
    removed = [path for path, node in nodes.items() if node is None]
    lines: Iterable[bytes] = [b"0 %b\t%b\0" % (_NO_OBJECT.encode(), path) for path in removed]
    set_to = [
        b"%o %b\t%b\0" % (node[0], node[1].hex().encode(), path)
        for path, node in nodes.items()
        if node is not None
    ]
    return b"".join([*lines, *set_to])


def _paths(output: bytes) -> set[bytes]:
    return set(output.split(b"\0")) - {b""}


def lay_to_rest(folder: Path, trees: Trees) -> bool:
    """Replace a project's index by its compact form; returns whether that was done. An index that
    stands for no checkpoint stays as it is."""
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
    """Restore the full index from its compact form, if only that is there."""
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
