"""Bring a checkpoint of Hermes into a store of Holdfast, to compare, restore or keep it there.

Files that Hermes did not capture (nested repositories, large files) must not look as if they had
been absent. If attributes of the project made git store other bytes than the file had, the file is
restored as a checkout would write it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.model.checkpoint import Checkpoint, NotCaptured, Sight
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.older_layout import LegacyRepository, adopt, opened_at
from holdfast.stores.checkpoints.repository import Layout, opened
from holdfast.stores.files import PRIVATE_DIR, read_file, storage_errors
from holdfast.stores.git.object import Kind, object_id
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import FILE, PROGRAM, Node, Trees, path_text

_GITLINK = 0o160000
_ATTRIBUTES = b".gitattributes"
#: Attributes with which a checkout writes other bytes than are stored.
_CONVERTING = re.compile(rb"\b(?:eol|crlf|ident|working-tree-encoding)\b")
_NESTED = "in a nested repository, which Hermes does not capture"
_LARGE = "larger than what Hermes captures"
_CONFIGURED = re.compile(rb"^\s*max_file_size_mb:\s*([0-9]{1,9})\s*(?:#.*)?$", re.MULTILINE)
_MEGABYTE = 1024 * 1024
_USUAL_LIMIT = 10 * _MEGABYTE
_ORIGIN = "hermes"


def is_copy(checkpoint: Checkpoint) -> bool:
    """True if one of our checkpoints is a copy of one of Hermes's. An origin alone does not prove
    it: checkpoints from another machine have one, too."""
    return (checkpoint.origin or "").startswith(f"{_ORIGIN}:")


def bring_in(
    layout: Layout, repository: Path, old: Checkpoint, present: Sight | None, *, limit: int
) -> Checkpoint:
    """Copy a checkpoint to the store at `layout`, with its time and reason. `limit` is the size
    above which Hermes captures no file; `present` is the current working tree."""
    source = LegacyRepository(project=old.project, workdir=old.workdir, path=repository)
    stored = dict(Trees(opened_at(repository)).files(bytes.fromhex(old.tree)))
    left = () if present is None else tuple(_left(layout, stored, old, present, limit))
    contents = _converted(repository, old, stored)
    origin = f"{_ORIGIN}:{old.id}:{old.tree}"
    return adopt(layout, source, old, present, origin=origin, left=left, contents=contents)


def size_limit(home: Path) -> int:
    """The size of the largest file that this Hermes captures, from its configuration."""
    try:
        found = _CONFIGURED.findall(read_file(home / "config.yaml"))
    except OSError:
        return _USUAL_LIMIT
    # Different sections may have this key: the smallest value is the safe choice.
    return min([_USUAL_LIMIT, *(int(number) * _MEGABYTE for number in found if int(number))])


def nested(trees: Trees, tree: str) -> tuple[NotCaptured, ...]:
    """Nested repositories in a tree of Hermes, which stores only that they exist."""
    return tuple(
        NotCaptured(path=path_text(path), reason=_NESTED)
        for path, (mode, _) in trees.files(bytes.fromhex(tree))
        if mode == _GITLINK
    )


def _left(
    layout: Layout,
    stored: Mapping[bytes, Node],
    old: Checkpoint,
    present: Sight,
    limit: int,
) -> Iterator[NotCaptured]:
    """The files in the working tree that Hermes would not have captured at that time either."""
    links = {path for path, (mode, _) in stored.items() if mode == _GITLINK}
    yield from (NotCaptured(path=path_text(path), reason=_NESTED) for path in sorted(links))
    trees = Trees(opened(layout))
    now = [path for path, _ in trees.files(content_of(trees, bytes.fromhex(present.tree)).files)]
    root = os.fsencode(old.workdir)
    nested = _Nested(root)
    told: set[bytes] = set(links)
    for path in now:
        if path in stored:
            continue
        inside = nested.holding(path)
        if inside is not None:
            if inside not in told:
                told.add(inside)
                yield NotCaptured(path=path_text(inside), reason=_NESTED)
        elif _size(root + b"/" + path) > limit:
            yield NotCaptured(path=path_text(path), reason=_LARGE)


class _Nested:
    """Finds out which directories are nested repositories; each is checked once."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._known: dict[bytes, bytes | None] = {b"": None}

    def holding(self, path: bytes) -> bytes | None:
        """The outermost nested repository that contains a path."""
        folder = path.rpartition(b"/")[0]
        if folder not in self._known:
            found = self.holding(folder)
            if found is None and os.path.lexists(b"/".join((self._root, folder, b".git"))):
                found = folder
            self._known[folder] = found
        return self._known[folder]


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _converted(
    repository: Path, old: Checkpoint, stored: Mapping[bytes, Node]
) -> Mapping[bytes, bytes]:
    """The contents of files that a checkout converts; most projects have no such file."""
    if not _has_converting(repository, stored):
        return {}
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        place = Path(made).resolve()
        folder, tree = place / "git", place / "tree"
        with storage_errors(f"check out a checkpoint in {place}"):
            for each in (folder, tree):
                each.mkdir(mode=PRIVATE_DIR)
            (folder / "HEAD").write_text("ref: refs/heads/none\n")
            git = Git(store=repository, folder=folder, work_tree=tree, attributes=True)
            git.run("read-tree", old.tree)
            git.run("checkout-index", "--all", "--quiet", "--force")
            found = {}
            for path, (mode, oid) in stored.items():
                if mode in (FILE, PROGRAM):
                    data = Path(os.fsdecode(os.fsencode(tree) + b"/" + path)).read_bytes()
                    if object_id(Kind.BLOB, data) != oid:
                        found[path] = data
    return found


def _has_converting(repository: Path, stored: Mapping[bytes, Node]) -> bool:
    trees = Trees(opened_at(repository))
    return any(
        _CONVERTING.search(trees.raw(oid, Kind.BLOB))
        for path, (mode, oid) in stored.items()
        if mode in (FILE, PROGRAM) and path.rpartition(b"/")[2] == _ATTRIBUTES
    )
