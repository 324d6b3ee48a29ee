"""The checkpoint that a look starts from: the last one of its project."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from holdfast.errors import DamageError
from holdfast.stores.shadowgit.beside import Beside, loaded
from holdfast.stores.shadowgit.dropping import read_commit, read_reference, ref_names
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.repository import Layout
from holdfast.stores.shadowgit.trees import FILE, TREE, Trees

FILES = b"files"
BESIDE = b"beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a checkpoint's tree holds: the `files` tree, and the record beside it."""

    root: bytes
    files: bytes
    beside: Beside
    beside_oid: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A checkpoint by its ref."""

    ref: str
    commit: str
    content: Content


def content_of(trees: Trees, root: bytes) -> Content:
    """What lies in a checkpoint's tree; raises `DamageError` when that is not what we write."""
    entries = trees.entries(root)
    files, beside = entries.get(FILES), entries.get(BESIDE)
    if files is None or beside is None or (files[0], beside[0]) != (TREE, FILE):
        raise DamageError(f"The tree {root.hex()} in the checkpoint store is no checkpoint's.")
    trees.entries(files[1])
    record = loaded(trees.raw(beside[1], Kind.BLOB))
    return Content(root=root, files=files[1], beside=record, beside_oid=beside[1])


def find_base(trees: Trees, layout: Layout, project: str) -> Base | None:
    """The last checkpoint that is whole enough to start from.

    Only the references know which one that is: a kill may have come before anything else was told.
    """
    for ref in reversed(ref_names(layout, project)):
        if (base := _load(trees, layout, ref)) is not None:
            return base
    return None


def _load(trees: Trees, layout: Layout, ref: str) -> Base | None:
    # A damaged checkpoint must not stand in the way of the next one.
    with contextlib.suppress(DamageError, OSError):
        commit = read_reference(layout.store, ref)
        tree, _ = read_commit(trees, commit)
        content = content_of(trees, bytes.fromhex(tree))
        return Base(ref=ref, commit=commit, content=content)
    return None
