"""The checkpoint that a look starts from: the last one of its project."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pygit2
from pygit2.enums import ObjectType

from holdfast.errors import DamageError
from holdfast.stores.shadowgit.beside import Beside, loaded
from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.repository import REFS
from holdfast.stores.shadowgit.state import State
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
    record = loaded(trees.raw(beside[1], ObjectType.BLOB))
    return Content(root=root, files=files[1], beside=record, beside_oid=beside[1])


def find_base(trees: Trees, git: Git, project: str, state: State) -> Base | None:
    """The last checkpoint that is whole enough to start from.

    A kill may have come between a checkpoint's ref and the state that names it; so the ref that was
    about to be made is tried first.
    """
    for ref in (state.coming, state.last):
        if ref and (base := _load(trees, ref)) is not None:
            return base
    pattern = f"{REFS}{project}/"
    said = git.run("for-each-ref", "--sort=-refname", "--format=%(refname)", pattern)
    for ref in said.output.decode().split():
        if (base := _load(trees, ref)) is not None:
            return base
    return None


def _load(trees: Trees, ref: str) -> Base | None:
    # A damaged checkpoint must not stand in the way of the next one.
    with contextlib.suppress(DamageError, KeyError, ValueError, pygit2.GitError):
        commit = trees.repository.references[ref].peel(pygit2.Commit)
        content = content_of(trees, commit.tree_id.raw)
        return Base(ref=ref, commit=str(commit.id), content=content)
    return None
