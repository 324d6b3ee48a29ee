"""Hermes's checkpoints and projects as values, and the lookup of a checkpoint by id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.errors import GitFailedError, UnknownCheckpointError
from holdfast.homes.hermes.repository.chains import Chains, Link
from holdfast.homes.hermes.repository.layout import (
    PROJECT_PREFIX,
    REFS,
    HermesLayout,
    HermesRecord,
    read_record,
    read_records,
    unreadable,
)
from holdfast.homes.hermes.repository.notes import Notes, all_notes
from holdfast.model.checkpoint import Checkpoint, Project, ProjectState
from holdfast.model.checkup import Damage, Verification
from holdfast.stores.checkpoints.finder import check_one
from holdfast.stores.checkpoints.object_graph import measure
from holdfast.stores.checkpoints.older_layout import LegacyRepository, repositories
from holdfast.stores.checkpoints.projects import ProjectRecord, state_of
from holdfast.stores.checkpoints.verify import object_damage
from holdfast.stores.git.object_files import checked, suspects
from holdfast.stores.git.program import Git
from holdfast.value import replace

_STATISTICS = re.compile(r"(\d+) (file|insertion|deletion)")
_UNKNOWN = "(directory not known)"
#: How many git processes run at once: there may be a thousand older repositories.
_AT_ONCE = 4

_SHOWN = 5
_NEW_IDS = (
    "`holdfast checkpoints list` shows the ids. When Hermes drops old checkpoints, the others get"
    " new ids."
)


def checkpoints(
    layout: HermesLayout, chains: Chains, projects: Iterable[str] | None = None
) -> Sequence[Checkpoint]:
    """The checkpoints of these projects, or of all; newest first within each project."""
    wanted = list(chains.tips if projects is None else projects)
    records, notes = read_records(layout), all_notes(layout)
    counted = _counted(layout, wanted)
    found: list[Checkpoint] = []
    for project in wanted:
        chain = chains.of(project)
        marks = notes.get(project, Notes()).marks_of(chain)
        workdir = workdir_of(records.get(project), notes.get(project))
        for link in chain:
            files, insertions, deletions = counted.get(link.id, (0, 0, 0))
            mark = marks.get(link.id)
            found.append(
                Checkpoint(
                    id=link.id,
                    project=f"{PROJECT_PREFIX}{project}",
                    workdir=workdir,
                    time=link.time,
                    reason=link.reason,
                    tree=link.tree,
                    name=mark.name if mark else None,
                    pinned=mark.pinned if mark else False,
                    files_changed=files,
                    insertions=insertions,
                    deletions=deletions,
                )
            )
    return found


def projects(layout: HermesLayout, chains: Chains) -> list[Project]:
    """Projects with checkpoints, most recently used first."""
    records, notes = read_records(layout), all_notes(layout)
    found = []
    for project in chains.tips:
        record = project_record(
            project, chains.of(project), records.get(project), notes.get(project, Notes())
        )
        found.append(
            Project(
                id=f"{PROJECT_PREFIX}{project}",
                workdir=record.workdir,
                state=_state(record),
                checkpoints=len(chains.of(project)),
                last_touch=record.last_touch,
                mount=record.mount,
                chained=True,
            )
        )
    return sorted(found, key=lambda each: (-each.last_touch, each.workdir))


def _state(record: ProjectRecord) -> ProjectState:
    # Without its record, we cannot tell whether the directory of a project is gone.
    unknown = record.workdir == _UNKNOWN
    return ProjectState.UNKNOWN if unknown else state_of(record)


def project_record(
    project: str, chain: Sequence[Link], record: HermesRecord | None, notes: Notes
) -> ProjectRecord:
    """Combine Hermes's record with our notes. A project's last use is the later of what Hermes
    recorded and the time of its newest checkpoint."""
    known = record or notes.record
    times = [link.time for link in chain[:1]]
    if known is not None:
        times.append(known.last_touch)
    return ProjectRecord(
        project=project,
        workdir=workdir_of(record, notes),
        created_at=known.created_at if known else 0.0,
        last_touch=max(times, default=0.0),
        mount=notes.mount,
        disk=notes.disk,
    )


def workdir_of(record: HermesRecord | None, notes: Notes | None) -> str:
    known = record or (notes.record if notes else None)
    return known.workdir if known else _UNKNOWN


def older(repositories: Sequence[LegacyRepository]) -> Sequence[Checkpoint]:
    """The checkpoints of older layouts, newest first, with counts of files and lines."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = [each for part in pool.map(_of_older, repositories) for each in part]
    return sorted(found, key=lambda each: -each.time)


def _of_older(repository: LegacyRepository) -> Sequence[Checkpoint]:
    counted = _counts(Git(store=repository.path), ["HEAD"])
    return [
        replace(each, files_changed=files, insertions=insertions, deletions=deletions)
        for each in repository.checkpoints()
        for files, insertions, deletions in [counted.get(each.id, (0, 0, 0))]
    ]


def _counted(layout: HermesLayout, projects: Iterable[str]) -> Mapping[str, tuple[int, int, int]]:
    return _counts(layout.git(), [f"{REFS}{project}" for project in projects])


def _counts(git: Git, refs: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
    """Count the files and lines that changed since the previous checkpoint, with one git
    command."""
    if not refs:
        return {}
    arguments = ("log", "--stdin", "--format=%x00%H", "--shortstat", "--no-renames")
    try:
        said = git.run(*arguments, stdin="\n".join([*refs, ""]).encode("ascii"))
    except GitFailedError:
        return {}  # `verify` reports damage, a list does not
    return dict(_parsed(said.output.decode("utf-8", "replace")))


def _parsed(text: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for part in text.split("\0")[1:]:
        commit, _, rest = part.partition("\n")
        numbers = {word: int(number) for number, word in _STATISTICS.findall(rest)}
        counted = tuple(numbers.get(word, 0) for word in ("file", "insertion", "deletion"))
        yield commit.strip(), (counted[0], counted[1], counted[2])


def meant(prefix: str, found: Sequence[Checkpoint], here: Path | None) -> Checkpoint:
    """The one checkpoint whose id begins with `prefix`. Raises `UnknownCheckpointError` if there is
    none or more than one. Worktrees that Hermes captured in the same second share a checkpoint:
    then the user's current directory decides, and outside all of them it is an error."""
    newest = sorted(found, key=lambda each: each.time, reverse=True)
    check_one(prefix, list(dict.fromkeys(each.id for each in newest)), _NEW_IDS)
    return found[0] if len(found) == 1 else _in_place(found, here)


def _in_place(found: Sequence[Checkpoint], here: Path | None) -> Checkpoint:
    places = sorted({each.workdir for each in found})
    around = [place for place in places if here is not None and here.is_relative_to(place)]
    wanted = places if len(places) == 1 else around
    if not wanted:
        raise UnknownCheckpointError(
            f"Checkpoint {found[0].id[:12]} belongs to {len(places)} directories:"
            f" {', '.join(places[:_SHOWN])}.",
            hint="Change to the one you mean, then try again.",
        )
    innermost = max(wanted, key=len)
    return next(each for each in found if each.workdir == innermost)


# --- Verification ---------------------------------------------------------------------------------


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
    older = repositories(layout)
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
    measured = measure(layout, chains.trees.objects, refs, suspects=suspected)
    yield from object_damage(found, measured, refs, layout.store)


def _ends(chains: Chains) -> Iterator[Damage]:
    """Report chains that end before their first checkpoint without having been cut there."""
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
