"""The tree of a checkpoint: the files, and a record of what git cannot store.

git stores one permission bit and no empty directories. The record next to the `files` tree contains
full permissions and empty directories, as a look saw them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping

from holdfast.errors import DamageError
from holdfast.stores.checkpoints.checkpoint_commit import ref_names
from holdfast.stores.checkpoints.look import Looked
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.checkpoints.stored_modes import (
    ModeRecord,
    Usual,
    dump_record,
    load_record,
    most_usual,
)
from holdfast.stores.checkpoints.walk import ancestors, parent
from holdfast.stores.git.object import Kind
from holdfast.stores.git.refs import read_reference
from holdfast.stores.git.trees import (
    EMPTY,
    FILE,
    PROGRAM,
    TREE,
    Trees,
    is_program,
    read_commit,
)
from holdfast.value import dataclass

FILES = b"files"
#: The name is part of the store's format.
RECORD = b"beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The tree of a checkpoint: its `files` tree and its record."""

    root: bytes
    files: bytes
    record: ModeRecord
    record_oid: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The checkpoint that a take starts from."""

    ref: str
    commit: str
    content: Content


def content_of(trees: Trees, root: bytes) -> Content:
    """Read the tree of a checkpoint; raises `DamageError` if Holdfast did not write it."""
    entries = trees.entries(root)
    files, blob = entries.get(FILES), entries.get(RECORD)
    if files is None or blob is None or (files[0], blob[0]) != (TREE, FILE):
        raise DamageError(f"The tree {root.hex()} in the store is not that of a checkpoint.")
    trees.entries(files[1])
    record = load_record(trees.raw(blob[1], Kind.BLOB))
    return Content(root=root, files=files[1], record=record, record_oid=blob[1])


def find_base(trees: Trees, layout: Layout, project: str) -> Base | None:
    """Return the last intact checkpoint.

    Only the references can be trusted for this: a kill may have come before other files were
    updated.
    """
    for ref in reversed(ref_names(layout, project)):
        if (base := _load(trees, layout, ref)) is not None:
            return base
    return None


def _load(trees: Trees, layout: Layout, ref: str) -> Base | None:
    # A damaged checkpoint must not prevent the next one.
    with contextlib.suppress(DamageError, OSError):
        commit = read_reference(layout.store, ref)
        tree = read_commit(trees, commit).tree
        content = content_of(trees, bytes.fromhex(tree))
        return Base(ref=ref, commit=commit, content=content)
    return None


def make_record(
    trees: Trees, files: bytes, looked: Looked, before: ModeRecord | None
) -> ModeRecord:
    """Build the record for the tree `files`; `before` is the last checkpoint's."""
    directories = looked.walked.directories
    if before is None:
        inside = [mode for path, mode in directories.items() if path]
        before = ModeRecord(usual=most_usual(looked.permissions.values(), inside))
    empty = _empty(trees, files, looked, before)
    modes = _kept_modes(trees, files, looked, before, empty)
    usual = before.usual.directory
    modes |= {path: mode for path, mode in directories.items() if mode != usual}
    modes.pop(b"", None)  # a record does not include the working directory itself
    for path, mode in looked.permissions.items():
        if mode != _usual(before.usual, mode):
            modes[path] = mode
    return ModeRecord(usual=before.usual, modes=modes, empty=empty)


def modes_changed(looked: Looked, before: ModeRecord, changed: Container[bytes]) -> int:
    """Count the files whose only change is in permissions that git's trees do not show."""
    return sum(
        before.modes.get(path, _usual(before.usual, mode)) != mode
        for path, mode in looked.permissions.items()
        if path not in changed
    )


def _usual(usual: Usual, mode: int) -> int:
    return usual.program if is_program(mode) else usual.file


def _kept_modes(
    trees: Trees, files: bytes, looked: Looked, before: ModeRecord, empty: frozenset[bytes]
) -> dict[bytes, int]:
    """Return the modes of the last record for paths that this look did not see."""
    kept: dict[bytes, int] = {}
    # git's tree lacks empty directories and their parents.
    without_files = empty | {folder for path in empty for folder in ancestors(path)}
    for path, mode in before.modes.items():
        if path in looked.permissions or path in looked.walked.directories:
            continue
        node = trees.at(files, path)
        is_file = node is not None and node[0] in (FILE, PROGRAM)
        # After a complete look, a directory that was not seen is gone.
        is_folder = (node is not None and node[0] == TREE) or path in without_files
        if is_file or (is_folder and not looked.whole):
            kept[path] = mode
    return kept


def _empty(trees: Trees, files: bytes, looked: Looked, before: ModeRecord) -> frozenset[bytes]:
    """Return directories with nothing captured in them, not even another empty directory.

    Only places that this look covered can have changed.
    """
    walked = looked.walked
    judged = {parent(path) for path in (*looked.paths, *walked.gone)} | walked.fresh.keys()
    if not looked.whole:
        judged |= walked.directories.keys()
    kept = {
        path
        for path in before.empty
        if (path not in judged or path not in walked.directories)
        and _still(walked.directories, looked, path)
    }
    found = {
        path
        for path in judged
        if path and path in walked.directories and not _is_there(trees, files, looked, path)
    }
    both = kept | found
    if not both:
        return frozenset()
    above = {parent(path) for path in walked.directories if path}
    above |= {folder for path in both for folder in ancestors(path)}
    return frozenset(both - above)


def _is_there(trees: Trees, files: bytes, looked: Looked, path: bytes) -> bool:
    if looked.folders is not None:
        return path in looked.folders
    return trees.at(files, path) is not None


def _still(directories: Mapping[bytes, int], looked: Looked, path: bytes) -> bool:
    if looked.whole:
        return path in directories
    while path:
        if path in looked.walked.gone or (path in looked.paths and path not in directories):
            return False
        path = parent(path)
    return True


def write_root(trees: Trees, files: bytes, looked: Looked, before: Content | None) -> bytes:
    """Write the tree of a checkpoint; return the last checkpoint's tree if nothing differs."""
    record = make_record(trees, files, looked, None if before is None else before.record)
    if before is not None and before.record == record:
        oid = before.record_oid
    else:
        oid = trees.put(Kind.BLOB, dump_record(record))
    if before is not None and (before.files, before.record_oid) == (files, oid):
        return before.root
    if files == EMPTY:
        trees.write({})
    return trees.write({RECORD: (FILE, oid), FILES: (TREE, files)})
