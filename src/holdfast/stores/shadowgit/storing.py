"""Make the trees of a checkpoint from what a look found."""

from __future__ import annotations

from holdfast.stores.shadowgit.base import BESIDE, FILES, Content
from holdfast.stores.shadowgit.beside import dumped
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.looking import Looked
from holdfast.stores.shadowgit.recording import record
from holdfast.stores.shadowgit.trees import EMPTY, FILE, TREE, Trees


def write_root(trees: Trees, files: bytes, looked: Looked, before: Content | None) -> bytes:
    """The tree of a checkpoint; that of the last one, when nothing differs."""
    beside = record(trees, files, looked, None if before is None else before.beside)
    if before is not None and before.beside == beside:
        oid = before.beside_oid
    else:
        oid = trees.put(Kind.BLOB, dumped(beside))
    if before is not None and (before.files, before.beside_oid) == (files, oid):
        return before.root
    if files == EMPTY:
        trees.write({})
    return trees.write({BESIDE: (FILE, oid), FILES: (TREE, files)})
