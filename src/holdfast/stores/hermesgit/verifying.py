"""Prove that every checkpoint of Hermes is whole, or name what is damaged and what that costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from holdfast.model.verification import Damage, Verification
from holdfast.stores.hermesgit.chains import Chains
from holdfast.stores.hermesgit.layout import REFS, HermesLayout
from holdfast.stores.hermesgit.records import read_record
from holdfast.stores.hermesgit.references import unreadable
from holdfast.stores.shadowgit.git import Git, GitFailedError
from holdfast.stores.shadowgit.legacy import LegacyRepository, LegacyShelf, repositories
from holdfast.stores.shadowgit.sizes import measure, root_name

# An id, but not that in the name of a pack; a pack or its index.
_ID = re.compile(r"(?<![-0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_PACK = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
_SAID = re.compile(r"^(?:error|missing|fatal|bad|broken|corrupt)\b")
#: What such a line names is whole: it leads to what is missing, and another line names that.
_WHOLE = "broken link from"
#: fsck adds up bits for what it found; 128 and above is that it could not go on.
_GAVE_UP = 128
_STATUSES = tuple(range(_GAVE_UP + 1))
_FSCK = ("fsck", "--full", "--no-dangling", "--no-progress")


def verify(layout: HermesLayout) -> Verification:
    """Look at everything, older layouts too. Hermes may use the store meanwhile."""
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
    shown += sum(len(LegacyShelf([each]).list()) for each in older)
    problems += _older(older)
    return Verification(checkpoints=shown, problems=tuple(problems))


def _references(layout: HermesLayout) -> Iterator[Damage]:
    for project in unreadable(layout):
        record = read_record(layout, project)
        whose = f" of {record.workdir}" if record else ""
        reason = f"cannot be read; the checkpoints{whose} cannot be reached"
        yield Damage(kind="ref", name=f"{REFS}{project}", reason=reason)


def _objects(layout: HermesLayout, chains: Chains) -> Iterator[Damage]:
    status, lines = _fsck(layout.git())
    yield from _packs(lines)
    refs = list(chains.refs())
    named = (line for line in lines if not line.startswith(_WHOLE))
    suspects = {oid for line in named for oid in _ID.findall(line)}
    suspected = map(bytes.fromhex, suspects)
    measured = measure(layout.shape, chains.trees.objects, refs, suspects=suspected)
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
    if status >= _GAVE_UP:
        last = lines[-1] if lines else "git could not look at it"
        yield Damage(kind="store", name=str(layout.store), reason=last)


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
                reason="missing or damaged; Hermes writes it anew with the next checkpoint",
                harmless=True,
            )


def _older(older: Sequence[LegacyRepository]) -> Iterator[Damage]:
    for each in older:
        status, lines = _fsck(Git(store=each.path))
        if status:
            reason = lines[-1] if lines else f"git fsck ended with {status}"
            yield Damage(kind="store", name=str(each.path), reason=reason)


def _fsck(git: Git) -> tuple[int, Sequence[str]]:
    said = git.run(*_FSCK, ok=_STATUSES)
    text = (said.output + said.errors).decode("utf-8", "replace")
    return said.status, [line for line in text.splitlines() if _SAID.match(line)]


def _packs(lines: Sequence[str]) -> Iterator[Damage]:
    """Each pack once, with the first thing that git said of it."""
    named: dict[str, str] = {}
    for line in lines:
        found = _PACK.search(line)
        if found is not None:
            named.setdefault(found[0], line.partition(": ")[2])
    for name, reason in named.items():
        yield Damage(kind="pack", name=name, reason=reason)
