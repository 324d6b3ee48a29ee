"""References to checkpoints: the one thing that goes when a checkpoint is dropped.

A dropped checkpoint is hidden under another name until its time in the trash is over, so nothing of
it changes and it can come back. The name of its reference, which holds its exact time, is kept.

refs/holdfast/<project>/<name>                            there to be listed and restored
refs/holdfast-trash/<operation>/<n>/<project>/<name>      in the trash
refs/holdfast-trash/rotated/<project>/<name>              made room for a newer one
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.files import make_private_dir
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.listed_references import listed, locked, unlist
from holdfast.stores.shadowgit.repository import REFS, TRASH_REFS, Layout
from holdfast.stores.shadowgit.trees import Trees

ROTATED = "rotated"

_ID = 40
#: More than a reference has.
_ENOUGH = 200
_NOTHING = "0" * _ID
_OID = re.compile(r"[0-9a-f]{40}")
_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A reference to a checkpoint, wherever it is. `operation` and `number` are those of the trash;
    one that was rotated out has the operation `ROTATED`."""

    checkpoint: str
    project: str
    name: str
    operation: str = ""
    number: int = 0

    @property
    def path(self) -> str:
        if not self.operation:
            return f"{REFS}{self.project}/{self.name}"
        place = ROTATED if self.operation == ROTATED else f"{self.operation}/{self.number}"
        return f"{TRASH_REFS}{place}/{self.project}/{self.name}"

    @property
    def rotated(self) -> bool:
        return self.operation == ROTATED

    def hidden(self, operation: str, number: int = 0) -> Ref:
        return Ref(
            checkpoint=self.checkpoint,
            project=self.project,
            name=self.name,
            operation=operation,
            number=number,
        )

    def shown(self) -> Ref:
        return Ref(checkpoint=self.checkpoint, project=self.project, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reference that changes its name, in one step with all others of its batch. Without an `old`
    one it is new, without a `new` one it goes."""

    old: Ref | None
    new: Ref | None


def all_refs(layout: Layout) -> Sequence[Ref]:
    """Every reference to a checkpoint that can be read, oldest first inside a project."""
    said = layout.git().run("for-each-ref", "--format=%(objectname) %(refname)", REFS, TRASH_REFS)
    lines = said.output.decode("utf-8", "surrogateescape").splitlines()
    found = (_parsed(*line.split(" ", 1)) for line in lines)
    return [ref for ref in found if ref is not None]


def read_commit(trees: Trees, checkpoint: str) -> tuple[str, str]:
    """The tree and the message of a checkpoint; raises `DamageError` when it cannot be read."""
    raw = trees.raw(bytes.fromhex(checkpoint), Kind.COMMIT)
    head, _, message = raw.partition(b"\n\n")
    found = _TREE.match(head)
    if found is None:
        raise DamageError(f"The commit {checkpoint} in the checkpoint store is no checkpoint.")
    return found[1].decode("ascii"), message.decode("utf-8", "replace")


def move(layout: Layout, moves: Iterable[Move]) -> None:
    """Carry out all moves, or none: raises `GitFailedError` when a reference changed meanwhile."""
    lines = []
    for each in moves:
        # The new name is made before the old one goes, in one transaction of git's.
        if each.new is not None:
            lines.append(f"create {each.new.path} {each.new.checkpoint}")
        if each.old is not None:
            lines.append(f"delete {each.old.path} {each.old.checkpoint}")
    if lines:
        text = "\n".join(["start", *lines, "prepare", "commit", ""])
        layout.git().run("update-ref", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))


def rotate(layout: Layout, project: str, limit: int, *, keep: Collection[str] = ()) -> int:
    """Hide the oldest checkpoints of a project beyond the bound; says how many.

    Those in `keep`, by id, and the newest stay, and take their places among the others. It runs at
    the end of every checkpoint, so it starts no process. One that cannot be hidden now, because
    another process has git's list of references, is hidden after the next checkpoint.
    """
    if limit <= 0 or len(ref_names(layout, project)) <= limit:
        return 0
    refs = project_refs(layout, project)
    due = [ref for ref in refs[:-1] if ref.checkpoint not in keep][: max(0, len(refs) - limit)]
    prefix = f"{REFS}{project}/"
    in_list = listed(layout.store, prefix)
    with contextlib.suppress(OSError):
        if any(ref.name in in_list for ref in due):
            unlist(layout.store, prefix)
            in_list = {}
    return sum(_hide(layout, ref) for ref in due if ref.name not in in_list)


def _hide(layout: Layout, ref: Ref) -> bool:
    """Give a reference that is a file its other name: one step, whenever we are killed."""
    new = layout.store / ref.hidden(ROTATED).path
    # What git is about to change stays as it is.
    with contextlib.suppress(OSError), locked(layout.store / ref.path):
        make_private_dir(new.parent)
        (layout.store / ref.path).replace(new)
        return True
    return False


def project_refs(layout: Layout, project: str) -> Sequence[Ref]:
    """The checkpoints of one project that were not dropped, the oldest first, without a process."""
    prefix = f"{REFS}{project}/"
    found = dict(listed(layout.store, prefix))
    folder = str(layout.store / prefix)
    for name in _files_in(folder):
        with contextlib.suppress(OSError):
            found[name] = _text_at(f"{folder}/{name}")
    refs = (_parsed(oid, prefix + name) for name, oid in sorted(found.items()))
    return [ref for ref in refs if ref is not None]


def ref_names(layout: Layout, project: str) -> Sequence[str]:
    """The same by the names of their references. What these refer to is not looked at."""
    prefix = f"{REFS}{project}/"
    names = set(listed(layout.store, prefix))
    names.update(_files_in(layout.store / prefix))
    return [prefix + name for name in sorted(names)]


def is_id(text: str) -> bool:
    return bool(_OID.fullmatch(text))


def read_reference(store: Path, ref: str) -> str:
    """The id that a reference has; raises `DamageError` when there is none that can be read."""
    folder, _, name = ref.rpartition("/")
    try:
        found = _text_at(store / ref)
    except FileNotFoundError:
        found = listed(store, f"{folder}/").get(name, "")
    if not is_id(found):
        raise DamageError(f"The reference {ref} in the checkpoint store is damaged.")
    return found


def _files_in(folder: Path | str) -> Sequence[str]:
    """The references that are files, without those that are being written."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are wanted
    except FileNotFoundError:
        return ()
    return [name for name in names if not name.endswith(".lock")]


def _text_at(path: Path | str) -> str:
    """A small file, at once: a checkpoint reads some twenty of them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _ENOUGH).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


def _parsed(oid: str, path: str) -> Ref | None:
    """None for a name that is none of ours, and for what does not refer to anything."""
    if not is_id(oid) or oid == _NOTHING:
        return None
    if path.startswith(REFS):
        parts = path.removeprefix(REFS).split("/")
        if len(parts) != len(("project", "name")):
            return None
        return Ref(checkpoint=oid, project=parts[0], name=parts[1])
    place, *rest = path.removeprefix(TRASH_REFS).split("/")
    if place == ROTATED and len(rest) == len(("project", "name")):
        return Ref(checkpoint=oid, project=rest[0], name=rest[1], operation=ROTATED)
    if len(rest) != len(("number", "project", "name")) or not rest[0].isdecimal():
        return None
    return Ref(checkpoint=oid, project=rest[1], name=rest[2], operation=place, number=int(rest[0]))
