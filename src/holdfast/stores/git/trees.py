"""Trees and commits as plain values: read without trusting them, patched and compared in process.

Names are bytes in any encoding, paths use `/`. Nothing here recurses, because a path may be two
thousand folders deep.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import DamageError
from holdfast.stores.git.object import Kind
from holdfast.stores.git.objects import Objects
from holdfast.value import dataclass, field

TREE = 0o040000
FILE = 0o100644
PROGRAM = 0o100755
LINK = 0o120000

#: git's mode and the 20 bytes of an object id.
Node = tuple[int, bytes]
#: The new entries by path; None removes the entry with everything below it.
Patch = Mapping[bytes, Node | None]

# Mode, name, and the 20 bytes of an id. A name may have any byte except the null that ends it.
TREE_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_ID_DIGITS = 40
_HEX = "0123456789abcdef"
_BETWEEN = len(b" \0")
_MODES = {b"%o" % mode: mode for mode in (TREE, FILE, PROGRAM, LINK)}
#: The tree without entries. git knows it even if it is not stored.
EMPTY = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")


TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Protocol

    class ObjectWriter(Protocol):
        """Stores new objects: `Pack` or `LooseObjects`."""

        def put(self, kind: Kind, data: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees of one repository. Trees are cached once read, because they cannot change.

    New trees go to `new`; without it, the repository is read-only.
    """

    objects: Objects
    new: ObjectWriter | None = None
    _read: dict[bytes, dict[bytes, Node]] = field(default_factory=lambda: {EMPTY: {}})

    def entries(self, tree: bytes) -> dict[bytes, Node]:
        """Return the direct entries of a tree. The caller must not change them."""
        found = self._read.get(tree)
        if found is None:
            raw = self.raw(tree, Kind.TREE)
            try:
                found = self._read[tree] = _parsed(raw)
            except ValueError as error:
                raise DamageError(f"{tree.hex()} is not a tree.") from error
        return found

    def raw(self, oid: bytes, kind: Kind) -> bytes:
        """Return an object's bytes; raises `DamageError` if it is missing or of another kind."""
        found, data = self.objects.read(oid)
        if found != kind:
            raise DamageError(f"{oid.hex()} is not a {kind.word}.")
        return data

    def at(self, tree: bytes, path: bytes) -> Node | None:
        """Return the entry at a path; None if there is none."""
        node: Node = (TREE, tree)
        if not path:
            return node
        for name in path.split(b"/"):
            found = self.entries(node[1]).get(name) if node[0] == TREE else None
            if found is None:
                return None
            node = found
        return node

    def folder(self, tree: bytes, path: bytes) -> dict[bytes, Node]:
        """Return the entries of the folder at a path; empty if there is no folder."""
        node = self.at(tree, path)
        return self.entries(node[1]) if node is not None and node[0] == TREE else {}

    def files(self, tree: bytes, below: bytes = b"") -> Iterator[tuple[bytes, Node]]:
        """Yield every file and symlink with its path."""
        stack = [(below, tree)]
        while stack:
            path, oid = stack.pop()
            for name, node in self.entries(oid).items():
                here = path + b"/" + name if path else name
                if node[0] == TREE:
                    stack.append((here, node[1]))
                else:
                    yield here, node

    def differing(self, old: bytes, new: bytes) -> Iterator[tuple[bytes, Node | None, Node | None]]:
        """Yield files and symlinks that differ. Equal subtrees are not read."""
        stack = [(b"", old, new)]
        while stack:
            path, left, right = stack.pop()
            before, after = self.entries(left), self.entries(right)
            for name in before.keys() | after.keys():
                was, now = before.get(name), after.get(name)
                if was == now:
                    continue
                here = path + b"/" + name if path else name
                if was is not None and now is not None and was[0] == now[0] == TREE:
                    stack.append((here, was[1], now[1]))
                else:
                    yield from self._one_side(here, was, now)

    def _one_side(
        self, path: bytes, was: Node | None, now: Node | None
    ) -> Iterator[tuple[bytes, Node | None, Node | None]]:
        """Yield the differences at a path that is not a folder on both sides."""
        if was is not None and was[0] == TREE:
            yield from ((below, node, None) for below, node in self.files(was[1], path))
            was = None
        if now is not None and now[0] == TREE:
            yield from ((below, None, node) for below, node in self.files(now[1], path))
            now = None
        if was is not None or now is not None:
            yield path, was, now

    def write(self, entries: Mapping[bytes, Node]) -> bytes:
        """Store a tree with these entries; return its id."""
        oid = self.put(Kind.TREE, _raw(entries))
        self._read[oid] = dict(entries)
        return oid

    def put(self, kind: Kind, data: bytes) -> bytes:
        """Store an object; return its id."""
        if self.new is None:
            raise TypeError("these trees are read-only")
        return self.new.put(kind, data)

    def built(self, files: Iterable[tuple[bytes, Node]]) -> tuple[bytes, set[bytes]]:
        """Store the trees of files, which must be sorted by path; return the top tree and the
        folders in it. The trees are not cached: there may be many."""
        open_folders: list[tuple[bytes, dict[bytes, Node]]] = [(b"", {})]
        found = {b""}

        def leave() -> None:
            folder, entries = open_folders.pop()
            name = folder.rpartition(b"/")[2]
            open_folders[-1][1][name] = (TREE, self.put(Kind.TREE, _raw(entries)))

        for path, node in files:
            folder, _, name = path.rpartition(b"/")
            while (last := open_folders[-1][0]) and not (folder + b"/").startswith(last + b"/"):
                leave()
            for above in _ways_down(open_folders[-1][0], folder):
                open_folders.append((above, {}))
                found.add(above)
            open_folders[-1][1][name] = node
        while len(open_folders) > 1:
            leave()
        return self.put(Kind.TREE, _raw(open_folders[0][1])), found

    def patched(self, tree: bytes, patch: Patch) -> bytes:
        """Apply a patch and return the new tree; only trees on the way to a change are written."""
        todo = _by_folder(patch)
        for folder in sorted(todo, key=_depth, reverse=True):
            before = {} if _replaced(folder, patch) else self.folder(tree, folder)
            entries = dict(before)
            for name, node in todo[folder].items():
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
            if not folder:
                return tree if entries == before else self.write(entries)
            made = (TREE, self.write(entries)) if entries else None
            _hand_up(todo, folder, made)
        return tree


def _raw(entries: Mapping[bytes, Node]) -> bytes:
    return b"".join(
        b"%o %b\0%b" % (mode, name, oid)
        for name, (mode, oid) in sorted(entries.items(), key=_order)
    )


def _ways_down(start: bytes, folder: bytes) -> Iterator[bytes]:
    """Yield the folders from `start` down to a folder, excluding `start`."""
    here = len(start)
    while here < len(folder):
        end = folder.find(b"/", here + 1)
        here = len(folder) if end < 0 else end
        yield folder[:here]


def _by_folder(patch: Patch) -> dict[bytes, dict[bytes, Node | None]]:
    """Group a patch by folder; all parent folders are included."""
    todo: dict[bytes, dict[bytes, Node | None]] = defaultdict(dict)
    for path, node in patch.items():
        folder, _, name = path.rpartition(b"/")
        todo[folder][name] = node
    for folder in list(todo):
        above = folder.rpartition(b"/")[0]
        while above not in todo:
            todo[above] = {}
            above = above.rpartition(b"/")[0]
    return todo


def _hand_up(todo: dict[bytes, dict[bytes, Node | None]], folder: bytes, made: Node | None) -> None:
    above, _, name = folder.rpartition(b"/")
    # If a file replaces the folder, removing the empty folder must not remove the file.
    if made is not None or todo[above].get(name) is None:
        todo[above][name] = made


def _replaced(folder: bytes, patch: Patch) -> bool:
    """True if the patch removes this folder or a parent, or replaces it with a file."""
    while folder:
        if folder in patch:
            return True
        folder = folder.rpartition(b"/")[0]
    return False


def _depth(folder: bytes) -> int:
    return folder.count(b"/") + 1 if folder else 0


def _order(item: tuple[bytes, Node]) -> bytes:
    name, (mode, _) = item
    return name + b"/" if mode == TREE else name


def _parsed(raw: bytes) -> dict[bytes, Node]:
    """Parse a tree; raises `ValueError` if the bytes are not a tree."""
    found = TREE_ENTRY.findall(raw)
    if sum(map(len, itertools.chain.from_iterable(found))) + _BETWEEN * len(found) != len(raw):
        raise ValueError("not a tree")
    return {name: (_MODES.get(mode) or int(mode, 8), oid) for mode, name, oid in found}


def path_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def path_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def is_program(mode: int) -> bool:
    """True if the owner may execute the file: the only permission bit that git stores."""
    return bool(mode & stat.S_IXUSR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. A time is None if it cannot be parsed."""

    id: str
    tree: str
    parents: tuple[str, ...]
    authored: float | None
    committed: float | None
    message: str


def read_commit(trees: Trees, commit: str) -> Commit:
    """Raises `DamageError` if the commit is missing, damaged, or not a commit."""
    return parse_commit(commit, trees.raw(bytes.fromhex(commit), Kind.COMMIT))


def parse_commit(commit: str, raw: bytes) -> Commit:
    tree, parents, who = _head(commit, raw)
    return Commit(
        id=commit,
        tree=tree,
        parents=tuple(parents),
        authored=_time(who, b"author "),
        committed=_time(who, b"committer "),
        message=raw.partition(b"\n\n")[2].decode("utf-8", "replace"),
    )


def with_parent(commit: str, raw: bytes, parent: str) -> bytes:
    """Return the bytes of the commit with another parent; "" for none."""
    tree, parents, _ = _head(commit, raw)
    start = len(f"tree {tree}\n")
    end = start + len(f"parent {tree}\n") * len(parents)
    before = f"parent {parent}\n".encode("ascii") if parent else b""
    return raw[:start] + before + raw[end:]


def _head(commit: str, raw: bytes) -> tuple[str, list[str], list[bytes]]:
    """Return the tree, the parents, and the remaining header lines."""
    lines = raw.partition(b"\n\n")[0].split(b"\n")
    tree = _id_after(b"tree ", lines.pop(0))
    if tree is None:
        raise DamageError(f"The commit {commit} is damaged: it names no tree.")
    parents: list[str] = []
    while lines and (parent := _id_after(b"parent ", lines[0])) is not None:
        parents.append(parent)
        del lines[0]
    return tree, parents, lines


def _id_after(word: bytes, line: bytes) -> str | None:
    oid = line.removeprefix(word).decode("ascii", "replace")
    return oid if line.startswith(word) and is_id(oid) else None


def _time(lines: list[bytes], word: bytes) -> float | None:
    """Return the time in a line such as `author A <a@b> 1700000000 +0000`."""
    for line in lines:
        if line.startswith(word):
            seconds = line.split(b" ")[-2:-1]
            with contextlib.suppress(ValueError):
                return float(int(seconds[0])) if seconds else None
    return None


def is_id(text: str) -> bool:
    return len(text) == _ID_DIGITS and not text.strip(_HEX)
