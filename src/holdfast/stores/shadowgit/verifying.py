"""Prove that every checkpoint is whole, or name what is damaged and which checkpoints that costs.

git reads and checks every object; which checkpoints need a damaged one is found in the same graph
that the sizes are counted in. Nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.model.verification import Damage, Verification
from holdfast.stores.shadowgit.base import content_of
from holdfast.stores.shadowgit.commits import parse
from holdfast.stores.shadowgit.dropping import Ref, all_refs, read_commit
from holdfast.stores.shadowgit.git import GitFailedError
from holdfast.stores.shadowgit.index_file import index_objects
from holdfast.stores.shadowgit.projects import read_record
from holdfast.stores.shadowgit.repository import Layout, opened, used
from holdfast.stores.shadowgit.sizes import measure, root_name
from holdfast.stores.shadowgit.trees import Trees

# An id, but not that in the name of a pack; a pack or its index; a ref of ours.
_ID = re.compile(r"(?<![-0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_PACK = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
_REF = re.compile(r"^error: (refs/holdfast\S*): (.+)$")
_SAID = re.compile(r"^(?:error|missing|fatal|bad|dangling)\b")
#: fsck adds up bits for what it found; 128 and above is that it could not go on.
_GAVE_UP = 128
_STATUSES = tuple(range(_GAVE_UP + 1))


def verify(layout: Layout) -> Verification:
    """Look at everything. Others may use the store meanwhile."""
    if not layout.exists():
        return Verification(checkpoints=0)
    with used(layout):
        try:
            refs = all_refs(layout)
        except GitFailedError as error:
            damage = Damage(kind="ref", name="packed-refs", reason=error.message)
            return Verification(checkpoints=0, problems=(damage,))
        problems = [*_objects(layout, refs), *_records(layout), *_indexes(layout)]
    shown = sum(not ref.operation for ref in refs)
    return Verification(checkpoints=shown, problems=tuple(problems))


def _objects(layout: Layout, refs: Sequence[Ref]) -> Iterator[Damage]:
    said = layout.git().run("fsck", "--full", "--no-dangling", "--no-progress", ok=_STATUSES)
    text = (said.output + said.errors).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if _SAID.match(line)]
    yield from _refs(lines)
    yield from _packs(lines)
    suspects = {oid for line in lines if not _REF.match(line) for oid in _ID.findall(line)}
    objects = opened(layout)
    measured = measure(layout, objects, refs, suspects=map(bytes.fromhex, suspects))
    by_root = {root_name(ref): ref.checkpoint for ref in refs}
    for oid, roots in measured.damaged.items():
        needed = tuple(sorted({by_root[root] for root in roots if root in by_root}))
        yield Damage(
            kind="object",
            name=oid,
            reason="missing or damaged" if needed else "damaged; no checkpoint needs it",
            checkpoints=needed,
            harmless=not needed,
        )
    if said.status >= _GAVE_UP:
        yield Damage(kind="store", name=str(layout.store), reason=_last(lines))
    costly = {one for roots in measured.damaged.values() for one in roots}
    trees = Trees(objects)
    for ref in refs:
        if root_name(ref) not in costly:
            yield from _beside(trees, ref)


def _refs(lines: Sequence[str]) -> Iterator[Damage]:
    for line in lines:
        found = _REF.match(line)
        if found is not None:
            yield Damage(kind="ref", name=found[1], reason=found[2])


def _packs(lines: Sequence[str]) -> Iterator[Damage]:
    """Each pack once, with the first thing that git said of it."""
    named: dict[str, str] = {}
    for line in lines:
        found = _PACK.search(line)
        if found is not None:
            named.setdefault(found[0], line.partition(": ")[2])
    for name, reason in named.items():
        yield Damage(kind="pack", name=name, reason=reason)


def _beside(trees: Trees, ref: Ref) -> Iterator[Damage]:
    """What is whole may still not be what we write."""
    try:
        tree, message = read_commit(trees, ref.checkpoint)
        parse(ref.checkpoint, tree, message)
        content_of(trees, bytes.fromhex(tree))
    except DamageError as error:
        yield Damage(
            kind="object",
            name=ref.checkpoint,
            reason=error.message,
            checkpoints=(ref.checkpoint,),
        )


def _records(layout: Layout) -> Iterator[Damage]:
    for path in _listed(layout.projects):
        if path.suffix == ".json" and read_record(layout, path.stem) is None:
            yield Damage(
                kind="record",
                name=f"projects/{path.name}",
                reason="cannot be read: the names and pins of its checkpoints are lost",
            )


def _indexes(layout: Layout) -> Iterator[Damage]:
    for folder in _listed(layout.store / "worktrees"):
        try:
            if (folder / "index").exists():
                index_objects(folder / "index")
        except DamageError:
            yield Damage(
                kind="index",
                name=f"worktrees/{folder.name}/index",
                reason="damaged; it is made anew by the next checkpoint",
                harmless=True,
            )


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _last(lines: Sequence[str]) -> str:
    return lines[-1] if lines else "git could not look at it"
