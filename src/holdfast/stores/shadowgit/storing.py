"""Write what a look found: few objects one by one, many of them as a pack."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pygit2
from pygit2.enums import ObjectType

from holdfast.stores.shadowgit.base import BESIDE, FILES, Content
from holdfast.stores.shadowgit.beside import dumped
from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.looking import Found, Looked, Seeing, look
from holdfast.stores.shadowgit.packing import Pack
from holdfast.stores.shadowgit.recording import record
from holdfast.stores.shadowgit.trees import EMPTY, FILE, TREE, Trees

#: From so many files on, a pack is quicker than flushing each one.
_PACK_FROM = 100


class _OneByOne:
    """Few objects are written one by one."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def blob(self, oid: bytes, data: bytes) -> None:
        self._trees.put(ObjectType.BLOB, data)


def write_files(seeing: Seeing, found: Found, git: Git, project: str) -> tuple[Looked, bytes]:
    """Look, and store what differs; the second is the new `files` tree."""
    if len(found.paths) >= _PACK_FROM:
        return _packed(seeing, found, git, project)
    looked = look(seeing, found, _OneByOne(seeing.trees))
    return looked, seeing.trees.patched(seeing.base, looked.patch)


def _packed(seeing: Seeing, found: Found, git: Git, project: str) -> tuple[Looked, bytes]:
    odb = seeing.trees.repository.odb
    with Pack(git, project, lambda oid: pygit2.Oid(raw=oid) in odb) as pack:
        looked = look(seeing, found, pack)
        if not looked.patch:
            return looked, seeing.base
        with ThreadPoolExecutor(max_workers=1) as other_core:
            if not seeing.index.path.exists():
                # There was no checkpoint before: until there is one, nobody asks this index.
                other_core.submit(seeing.index.update, looked.patch)
            root = pack.finish(seeing.base, looked.patch)
    files = seeing.trees.entries(root.raw).get(FILES)
    return looked, EMPTY if files is None else files[1]


def write_root(trees: Trees, files: bytes, looked: Looked, before: Content | None) -> bytes:
    """The tree of a checkpoint; that of the last one, when nothing differs."""
    beside = record(trees, files, looked, None if before is None else before.beside)
    if before is not None and before.beside == beside:
        oid = before.beside_oid
    else:
        oid = trees.put(ObjectType.BLOB, dumped(beside))
    if before is not None and (before.files, before.beside_oid) == (files, oid):
        return before.root
    if files == EMPTY:
        trees.write({})
    return trees.write({BESIDE: (FILE, oid), FILES: (TREE, files)})
