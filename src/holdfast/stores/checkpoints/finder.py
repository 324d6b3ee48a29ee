"""Find checkpoints and projects: all of them, those of a project, or one by its id."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence

from holdfast.errors import DamageError, GitFailedError, UnknownCheckpointError
from holdfast.model.arguments import ambiguous
from holdfast.model.checkpoint import SHORTEST_PREFIX, Checkpoint, Project
from holdfast.stores.checkpoints.checkpoint_commit import (
    NAME_DIGITS,
    Ref,
    order_of,
    parse,
    present_refs,
)
from holdfast.stores.checkpoints.projects import ProjectRecord, read_record, recorded, state_of
from holdfast.stores.checkpoints.repository import REFS, Layout, machine_of, opened
from holdfast.stores.git.refs import each_ref
from holdfast.stores.git.trees import Trees, read_commit
from holdfast.value import replace

_ID_DIGITS = 40
_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},{_ID_DIGITS}}}", re.ASCII)
#: How many digits of an id a message shows.
_SHOWN = 12
_FIELDS = "%(refname)%00%(objectname)%00%(tree)%00%(contents)%00"

_MILLISECONDS = 1000


def refs(layout: Layout) -> list[Ref]:
    """Return the reference of every checkpoint, the newest first. No commit is read."""
    if not layout.exists():
        return []
    return sorted(present_refs(layout), key=lambda ref: (ref.order, ref.path), reverse=True)


def checkpoints(layout: Layout, project: str | None = None) -> Sequence[Checkpoint]:
    """Return checkpoints, the newest first, without damaged ones, which `verify` reports."""
    if not layout.exists():
        return ()
    pattern = REFS if project is None else f"{REFS}{project}/"
    return [found for _, found in sorted(_read(layout, pattern), reverse=True, key=_newest)]


def _newest(found: tuple[str, Checkpoint]) -> tuple[int, str]:
    return order_of(found[0]), found[0]


def _read(layout: Layout, pattern: str) -> Iterator[tuple[str, Checkpoint]]:
    try:
        found = list(_at_once(layout, pattern))
    except GitFailedError:
        found = list(_one_by_one(layout, each_ref(layout.git(), pattern)))
    yield from _as_checkpoints(layout, found)


def _read_one(layout: Layout, ref: Ref) -> Iterator[Checkpoint]:
    """Yield one checkpoint, without starting a process; nothing if it is damaged."""
    found = _one_by_one(layout, [(ref.path, ref.checkpoint)])
    yield from (checkpoint for _, checkpoint in _as_checkpoints(layout, found))


def _as_checkpoints(
    layout: Layout, found: Iterable[tuple[str, str, str, str]]
) -> Iterator[tuple[str, Checkpoint]]:
    records: dict[str, ProjectRecord | None] = {}
    for ref, commit, tree, message in found:
        project = ref.removeprefix(REFS).partition("/")[0]
        if project not in records:
            records[project] = read_record(layout, project)
        record = records[project]
        with contextlib.suppress(DamageError):
            names, pins = ({}, frozenset()) if record is None else (record.names, record.pins)
            read = parse(commit, tree, message, names=names, pins=pins)
            if machine := machine_of(project):  # its own id comes from the path on that machine
                read = replace(read, project=project, machine=machine)
            yield ref, read


def _at_once(layout: Layout, pattern: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield reference, commit, tree and message of each. git fails if one is unreadable."""
    said = layout.git().run("for-each-ref", f"--format={_FIELDS}", pattern)
    fields = said.output.decode("utf-8", "replace").split("\0")
    for place in range(0, len(fields) - 1, 4):
        ref, commit, tree, message = fields[place : place + 4]
        yield ref.lstrip("\n"), commit, tree, message


def _one_by_one(
    layout: Layout, refs: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same, skipping damaged ones."""
    trees = Trees(opened(layout))
    for ref, commit in refs:
        with contextlib.suppress(DamageError):
            found = read_commit(trees, commit)
            yield ref, commit, found.tree, found.message


def get(layout: Layout, prefix: str) -> Checkpoint:
    """Return the only checkpoint whose id begins with `prefix`; if there is none, the one with such
    an id on the machine that it comes from."""
    check_prefix(prefix)
    matches = _matching(layout, prefix)
    for found in _read_one(layout, matches[0]):
        return found
    _matching(layout, matches[0].checkpoint)  # raises if it was dropped since the first look
    raise DamageError(
        f"The checkpoint {matches[0].checkpoint} is damaged: its commit cannot be read.",
        hint="Run `holdfast checkpoints verify`.",
    )


def _matching(layout: Layout, prefix: str) -> Sequence[Ref]:
    held = refs(layout)
    matches = [one for one in held if one.checkpoint.startswith(prefix)]
    matches = matches or list(_called_so_elsewhere(layout, held, prefix))
    check_one(prefix, list(dict.fromkeys(one.checkpoint for one in matches)))
    return matches


def _called_so_elsewhere(layout: Layout, held: Sequence[Ref], prefix: str) -> list[Ref]:
    """Return checkpoints of other machines that have such an id there. A checkpoint that was pushed
    without some of its files has another id here; its reference keeps the original prefix."""
    likely = [
        one
        for one in held
        if machine_of(one.project) and one.name.partition("-")[2].startswith(prefix[:NAME_DIGITS])
    ]
    return [
        one for one in likely for read in _read_one(layout, one) if read.known_id.startswith(prefix)
    ]


def check_one(
    prefix: str, ids: Sequence[str], hint: str = "`holdfast checkpoints list` shows the ids."
) -> None:
    """Raise `UnknownCheckpointError` unless `ids`, the newest first, contains exactly one."""
    if not ids:
        raise UnknownCheckpointError(
            f"No checkpoint has an id that begins with {prefix!r}.", hint=hint
        )
    if len(ids) > 1:
        raise UnknownCheckpointError(
            ambiguous(prefix, [each[:_SHOWN] for each in ids], what="checkpoints"),
            hint="Use a longer prefix.",
        )


def check_prefix(prefix: object) -> None:
    """Refuse anything but the start of an id, before git sees it."""
    if not isinstance(prefix, str) or not _ID.fullmatch(prefix):
        raise UnknownCheckpointError(
            f"{prefix!r} is not a checkpoint id. An id is {SHORTEST_PREFIX} to {_ID_DIGITS} hex"
            " digits (0-9, a-f).",
            hint="`holdfast checkpoints list` shows the ids.",
        )


def projects(layout: Layout) -> Sequence[Project]:
    """Return projects that have checkpoints, the most recently used first."""
    by_project: dict[str, list[Ref]] = {}
    for ref in refs(layout):
        by_project.setdefault(ref.project, []).append(ref)
    records = recorded(layout)
    found = [
        Project(
            id=project,
            workdir=record.workdir,
            state=state_of(record),
            checkpoints=len(held),
            last_touch=record.last_touch,
            mount=record.mount,
            machine=machine_of(project),
        )
        for project, held in by_project.items()
        if (record := _record(layout, records, project, held)) is not None
    ]
    return sorted(found, key=lambda project: (-project.last_touch, project.workdir))


def _record(
    layout: Layout,
    records: dict[str, ProjectRecord],
    project: str,
    held: Sequence[Ref],
) -> ProjectRecord | None:
    """Return the project's record; if it is lost, rebuild it from the project's checkpoints."""
    touched = held[0].order / _MILLISECONDS
    record = records.get(project)
    if record is not None:
        return replace(record, last_touch=max(record.last_touch, touched))
    with contextlib.suppress(IndexError):
        workdir = checkpoints(layout, project)[0].workdir
        return ProjectRecord(
            project=project, workdir=workdir, created_at=touched, last_touch=touched
        )
    return None
