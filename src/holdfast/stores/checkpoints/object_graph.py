"""The object graph of all checkpoints, traversed once: their bytes and how they share them.

Querying git for each of five hundred checkpoints takes half a minute. This takes a second, and the
result is what a reclaim really frees.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint_inventory import (
    Weights,
    index_root,
    root_of,
    rotated_root,
    trash_root,
)
from holdfast.stores.checkpoints.checkpoint_commit import Ref
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.files import allocated_below
from holdfast.stores.git.index_file import index_objects
from holdfast.stores.git.object import Kind
from holdfast.stores.git.object_files import ObjectFiles, object_files, pack_oids
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.trees import TREE_ENTRY, Trees, read_commit
from holdfast.value import dataclass, field

#: The bytes of an object in the index of a pack: its id, its offset, a checksum.
_INDEX_ENTRY = 28
_LINE = "%(objectname) %(objectsize:disk)"
_STATUSES = (0, 1, 128)
_FOLDER = b"40000"
_GITLINK = b"160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`garbage` are the bytes that a reclaim frees without dropping a checkpoint: unreferenced
    objects, duplicates, and leftovers of killed processes. `packed` are the bytes of all packs,
    `quick` those of packs written without a delta search. `damaged` are objects that are missing or
    unreadable, by id, with the roots that need them."""

    weights: Weights
    total_bytes: int
    garbage: int
    garbage_in_packs: int
    loose: int
    packs: int
    packed: int
    quick: int
    damaged: Mapping[str, Sequence[str]] = field(default_factory=dict)


def measure(
    layout: Layout,
    objects: Objects,
    refs: Iterable[Ref],
    *,
    suspects: Iterable[bytes] = (),
) -> Measured:
    """Measure everything in the checkpoint folder. `suspects` are objects known to be damaged."""
    files = object_files(layout.store / "objects")
    graph = _graph(layout, objects, refs, files)
    graph.suspect(suspects)
    weights = graph.weights()
    return Measured(
        weights=weights,
        total_bytes=allocated_below(layout.folder),
        garbage=weights.unheld + graph.copies + files.temporary_bytes,
        garbage_in_packs=graph.unheld_in_packs(weights),
        loose=len(files.loose),
        packs=len(files.packs),
        packed=files.packed_bytes,
        quick=files.quick_bytes,
        damaged=graph.damaged(),
    )


def held_objects(layout: Layout, objects: Objects, refs: Iterable[Ref]) -> Mapping[bytes, int]:
    """Return the objects of all checkpoints, undo copies and private indexes, with their bytes."""
    files = object_files(layout.store / "objects")
    return _graph(layout, objects, refs, files).held()


def _graph(layout: Layout, objects: Objects, refs: Iterable[Ref], files: ObjectFiles) -> _Graph:
    graph = _Graph(Trees(objects), files)
    graph.load(_disk_sizes(layout, files))
    for ref in refs:
        graph.add_checkpoint(root_name(ref), bytes.fromhex(ref.checkpoint))
    for project, oids in _indexes(layout):
        graph.add_index(index_root(project), oids)
    return graph


def root_name(ref: Ref) -> str:
    """Return the name of a reference in the weights."""
    if ref.rotated:
        return rotated_root(ref.checkpoint)
    return trash_root(f"{ref.operation}/{ref.number}") if ref.operation else root_of(ref.checkpoint)


def _disk_sizes(layout: Layout, files: ObjectFiles) -> Iterator[tuple[bytes, int]]:
    """Yield every object that git finds, with its bytes on disk."""
    asking, git = ("cat-file", "--buffer", f"--batch-check={_LINE}"), layout.git()
    said = git.run(*asking, "--batch-all-objects", "--unordered", ok=_STATUSES)
    if said.status:
        # git stopped at a damaged pack. Given the ids, it continues after damage.
        names = {oid for pack in files.packs for oid in pack_oids(pack)} | files.loose.keys()
        said = git.run(*asking, stdin=b"".join(b"%b\n" % oid.hex().encode() for oid in names))
    for line in said.output.splitlines():
        name, _, size = line.partition(b" ")
        if size.isdigit():
            yield bytes.fromhex(name.decode("ascii")), int(size)


def _indexes(layout: Layout) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Yield the objects of each private index. A damaged index has none: it will be rebuilt."""
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted((layout.store / "worktrees").iterdir()):
            with contextlib.suppress(DamageError, OSError):
                yield folder.name, index_objects(folder / "index")


class _Graph:
    """The object graph. Nodes are numbers, because a store has hundreds of thousands of objects."""

    def __init__(self, trees: Trees, files: ObjectFiles) -> None:
        self._trees = trees
        self._files = files
        self._numbers: dict[bytes, int] = {}
        self._ids: list[bytes] = []
        self._sizes: list[int] = []
        self._holds: list[Sequence[int]] = []
        self._roots: dict[str, int] = {}
        self._read: set[int] = set()
        self._damaged: set[int] = set()
        #: Bytes of loose objects that are in a pack as well.
        self.copies = 0

    def load(self, sizes: Iterable[tuple[bytes, int]]) -> None:
        loose = self._files.loose
        for oid, size in sizes:
            file = loose.get(oid)
            # git knows some objects without storing them, such as the empty tree. It reports 0
            # bytes for these, even if they are stored.
            if file is not None and size not in (0, file.size):
                self.copies += file.allocated
                file = None
            self._add(oid, size + _INDEX_ENTRY if file is None else file.allocated)

    def add_checkpoint(self, root: str, oid: bytes) -> None:
        node = self._roots[root] = self._number(oid)
        if node in self._read:
            return
        self._read.add(node)
        try:
            tree = bytes.fromhex(read_commit(self._trees, oid.hex()).tree)
        except DamageError:
            self._damaged.add(node)
            return
        self._holds[node] = (self._number(tree),)
        self._read_trees(tree)

    def add_index(self, root: str, oids: Iterable[bytes]) -> None:
        # An index is not an object, so it has no size. An object that it refers to may be missing.
        known = (self._numbers.get(oid) for oid in oids)
        self._roots[root] = len(self._sizes)
        self._ids.append(b"")
        self._sizes.append(0)
        self._holds.append([node for node in known if node is not None])

    def suspect(self, oids: Iterable[bytes]) -> None:
        self._damaged.update(self._numbers[oid] for oid in oids if oid in self._numbers)

    def weights(self) -> Weights:
        return Weights(self._sizes, self._holds, self._roots)

    def held(self) -> Mapping[bytes, int]:
        weights = self.weights()
        return {
            oid: self._sizes[node] for oid, node in self._numbers.items() if weights.is_held(node)
        }

    def unheld_in_packs(self, weights: Weights) -> int:
        loose = self._files.loose
        return sum(
            size
            for node, size in enumerate(self._sizes)
            if not weights.is_held(node) and self._ids[node] not in loose
        )

    def damaged(self) -> Mapping[str, Sequence[str]]:
        """Return each damaged object with the roots that need it."""
        if not self._damaged:
            return {}
        held_by: dict[int, list[int]] = defaultdict(list)
        for node in self._read:
            for held in self._holds[node]:
                held_by[held].append(node)
        return {
            self._ids[node].hex(): [
                root for root, start in self._roots.items() if start in _above(node, held_by)
            ]
            for node in sorted(self._damaged)
        }

    def _read_trees(self, top: bytes) -> None:
        waiting = [top]
        numbers = self._numbers
        while waiting:
            node = self._number(waiting.pop())
            if node in self._read:
                continue
            self._read.add(node)
            held = []
            for mode, _, oid in TREE_ENTRY.findall(self._raw(node)):
                if mode == _FOLDER:
                    waiting.append(oid)
                elif mode == _GITLINK:
                    continue
                number = numbers.get(oid)
                held.append(self._number(oid) if number is None else number)
            self._holds[node] = held

    def _raw(self, node: int) -> bytes:
        try:
            return self._trees.raw(self._ids[node], Kind.TREE)
        except DamageError:
            self._damaged.add(node)
            return b""

    def _number(self, oid: bytes) -> int:
        """Return the number of an object. An object that is not in the store is damaged."""
        number = self._numbers.get(oid)
        if number is None:
            number = self._add(oid, 0)
            self._damaged.add(number)
        return number

    def _add(self, oid: bytes, size: int) -> int:
        number = self._numbers[oid] = len(self._ids)
        self._ids.append(oid)
        self._sizes.append(size)
        self._holds.append(())
        return number


def _above(node: int, held_by: Mapping[int, Sequence[int]]) -> set[int]:
    found = {node}
    waiting = [node]
    while waiting:
        for holder in held_by.get(waiting.pop(), ()):
            if holder not in found:
                found.add(holder)
                waiting.append(holder)
    return found
