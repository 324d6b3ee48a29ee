"""Which objects of the store something needs, or may need in a moment.

Hermes writes objects first and their reference last, and knows no lock. So what was written or
touched a short while ago counts as needed, with everything that it leads to, as git itself counts
it; and so does what is in an index.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator

from holdfast.errors import DamageError
from holdfast.homes.hermes.repository.layout import HermesLayout, opened
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.index_file import index_objects
from holdfast.stores.shadowgit.trees import TREE_ENTRY

_TREE_LINE = re.compile(rb"tree ([0-9a-f]{40})\n")
_GITLINK = b"160000"


def held(layout: HermesLayout) -> set[bytes]:
    """Everything that references and indexes lead to. Raises `GitFailedError` when part of that
    is missing: a store with damage is no place to remove anything."""
    arguments = ("rev-list", "--objects", "--no-object-names", "--all", "--reflog")
    said = layout.git().run(*arguments)
    found = {bytes.fromhex(line.decode("ascii")) for line in said.output.split()}
    found.update(indexed(layout))
    return found


def closure(layout: HermesLayout, starts: Iterable[bytes], known: Collection[bytes]) -> set[bytes]:
    """What these lead to, themselves included, without what is known. What is missing is left out:
    whoever is writing it has not come that far, or never will."""
    objects = opened(layout)
    found: set[bytes] = set()
    waiting = [oid for oid in starts if oid not in known]
    while waiting:
        oid = waiting.pop()
        if oid in found or oid in known:
            continue
        try:
            kind, data = objects.read(oid)
        except DamageError:
            continue
        found.add(oid)
        waiting.extend(_below(kind, data))
    return found


def missing_below(layout: HermesLayout, starts: Iterable[bytes], known: Collection[bytes]) -> bool:
    """Whether something that these lead to is not there."""
    objects = opened(layout)
    seen: set[bytes] = set()
    waiting = [oid for oid in starts if oid not in known]
    while waiting:
        oid = waiting.pop()
        if oid in seen or oid in known:
            continue
        seen.add(oid)
        try:
            kind, data = objects.read(oid)
        except DamageError:
            return True
        waiting.extend(_below(kind, data))
    return False


def _below(kind: Kind, data: bytes) -> Iterator[bytes]:
    """The tree of a commit, the entries of a tree. Parents are held by references, or cut off."""
    if kind == Kind.COMMIT:
        found = _TREE_LINE.match(data)
        if found is not None:
            yield bytes.fromhex(found[1].decode("ascii"))
    elif kind == Kind.TREE:
        for mode, _, oid in TREE_ENTRY.findall(data):
            if mode != _GITLINK:
                yield oid


def indexed(layout: HermesLayout) -> Iterator[bytes]:
    """Everything that an index names; of nested repositories that is a commit which is not here."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in layout.indexes.iterdir():
            # A damaged one, or one that is being replaced, is made anew by Hermes.
            with contextlib.suppress(DamageError, OSError):
                yield from index_objects(path)
