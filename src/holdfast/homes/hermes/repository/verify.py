"""Check that every checkpoint of Hermes is intact, or name the damage and what it affects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.errors import GitFailedError
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.layout import REFS, HermesLayout, read_record, unreadable
from holdfast.model.checkup import Damage, Verification
from holdfast.stores.checkpoints.older_layout import LegacyRepository, repositories
from holdfast.stores.checkpoints.sizes import measure
from holdfast.stores.checkpoints.verify import object_damage
from holdfast.stores.git.object_files import checked, suspects
from holdfast.stores.git.program import Git


def verify(layout: HermesLayout) -> Verification:
    """Check everything, older layouts too. Hermes may use the store while this runs."""
    problems: list[Damage] = []
    shown = 0
    if layout.exists():
        try:
            chains = Chains.look(layout)
        except GitFailedError as error:
            damage = Damage(kind="ref", name="packed-refs", reason=error.message)
            return Verification(checkpoints=0, problems=(damage,))
        shown = len({link.id for _, link in chains.all()})
        problems += _references(layout)
        problems += [*_objects(layout, chains), *_ends(chains), *_records(layout, chains)]
    older = repositories(layout.shape)
    shown += sum(len(each.checkpoints()) for each in older)
    problems += _older(older)
    return Verification(checkpoints=shown, problems=tuple(problems))


def _references(layout: HermesLayout) -> Iterator[Damage]:
    for project in unreadable(layout):
        record = read_record(layout, project)
        whose = f" of {record.workdir}" if record else ""
        reason = f"cannot be read; the checkpoints{whose} cannot be reached"
        yield Damage(kind="ref", name=f"{REFS}{project}", reason=reason)


def _objects(layout: HermesLayout, chains: Chains) -> Iterator[Damage]:
    found = checked(layout.git())
    refs = list(chains.refs())
    suspected = suspects(found.lines)
    measured = measure(layout.shape, chains.trees.objects, refs, suspects=suspected)
    yield from object_damage(found, measured, refs, layout.store)


def _ends(chains: Chains) -> Iterator[Damage]:
    """A chain that ends before its first checkpoint, though nobody cut it there."""
    for project, tip in chains.tips.items():
        chain = chains.of(project)
        if not chain:
            reason = "the newest checkpoint cannot be read"
            yield Damage(kind="object", name=tip, reason=reason, checkpoints=(tip,))
        elif chain[-1].parent and chain[-1].id not in chains.cuts:
            reason = "missing or damaged; the checkpoints before it cannot be reached"
            yield Damage(kind="object", name=chain[-1].parent, reason=reason)


def _records(layout: HermesLayout, chains: Chains) -> Iterator[Damage]:
    for project in chains.tips:
        if read_record(layout, project) is None:
            yield Damage(
                kind="record",
                name=f"projects/{project}.json",
                reason="missing or damaged; Hermes writes it again with the next checkpoint",
                harmless=True,
            )


def _older(older: Sequence[LegacyRepository]) -> Iterator[Damage]:
    for each in older:
        found = checked(Git(store=each.path))
        if found.status:
            yield Damage(kind="store", name=str(each.path), reason=found.last)
