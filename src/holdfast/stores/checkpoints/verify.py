"""Check that every checkpoint is intact, or report the damage and the checkpoints that it affects.

git reads and checks every object. The graph that is also used for sizes shows which checkpoints
need a damaged object. Nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import DamageError, GitFailedError
from holdfast.model.checkup import Damage, Verification
from holdfast.stores.checkpoints.checkpoint_commit import Ref, all_refs, read_checkpoint
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.object_graph import Measured, measure, root_name
from holdfast.stores.checkpoints.projects import read_record
from holdfast.stores.checkpoints.repository import Layout, opened, used
from holdfast.stores.git.index_file import index_objects
from holdfast.stores.git.object_files import Checked, checked, suspects
from holdfast.stores.git.trees import Trees

_REF = re.compile(r"^error: (refs/holdfast\S*): (.+)$")


def verify(layout: Layout) -> Verification:
    """Check everything. Other processes may use the store meanwhile."""
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
    found = checked(layout.git())
    yield from _refs(found.lines)
    objects = opened(layout)
    suspected = suspects(line for line in found.lines if not _REF.match(line))
    measured = measure(layout, objects, refs, suspects=suspected)
    yield from object_damage(found, measured, refs, layout.store)
    costly = {one for roots in measured.damaged.values() for one in roots}
    trees = Trees(objects)
    for ref in refs:
        if root_name(ref) not in costly:
            yield from _malformed(trees, ref)


def _refs(lines: Sequence[str]) -> Iterator[Damage]:
    for line in lines:
        found = _REF.match(line)
        if found is not None:
            yield Damage(kind="ref", name=found[1], reason=found[2])


def _malformed(trees: Trees, ref: Ref) -> Iterator[Damage]:
    """Yield the damage of an intact commit that is not a checkpoint as Holdfast writes it."""
    try:
        content_of(trees, bytes.fromhex(read_checkpoint(trees, ref.checkpoint).tree))
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
                reason="cannot be read: the names and pins of its checkpoints are unknown",
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
                reason="damaged; the next checkpoint rebuilds it",
                harmless=True,
            )


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def object_damage(
    found: Checked, measured: Measured, refs: Iterable[Ref], store: Path
) -> Iterator[Damage]:
    """Yield git's findings: damaged packs, damaged objects with the checkpoints that need them, and
    whether git gave up."""
    for name, reason in found.packs().items():
        yield Damage(kind="pack", name=name, reason=reason)
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
    if found.gave_up:
        yield Damage(kind="store", name=str(store), reason=found.last)
