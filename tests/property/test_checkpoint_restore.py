"""Take and restore in any order: what a checkpoint captured comes back byte for byte, and nothing
that it, or the safety checkpoint, did not capture is touched.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.checkpoint import Capturing, Rollback
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.property.working_trees import LIMIT, Edit, Picture, edits, paths, picture
from tests.trees import Everything, everything


@dataclass(frozen=True, slots=True)
class Turn:
    """Some edits, then a checkpoint; then perhaps a restore of an earlier one, whole or in part,
    and perhaps its undo."""

    edits: list[Edit]
    restored: int | None
    path: bytes | None
    undone: bool


turns = st.lists(
    st.builds(
        Turn,
        edits=st.lists(edits(), max_size=6),
        restored=st.none() | st.integers(0, 5),
        path=st.none() | st.none() | paths,
        undone=st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


def near(path: str, others: Collection[str]) -> bool:
    """Whether one of the others is this path, lies below it, or is above it."""
    return any(
        path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")
        for other in others
    )


def uncaptured(before: Everything, held: Picture) -> Everything:
    return {
        path: seen
        for path, seen in before.items()
        if path not in held.files and path not in held.folders
    }


def check_whole(
    before: Everything, after: Everything, safety: Picture, wanted: Picture, done: Rollback
) -> None:
    kept = {each.path for each in done.kept}
    foreign = uncaptured(before, safety)
    for path, seen in foreign.items():
        assert after.get(path) == seen, f"touched without being captured: {path!r}"
    for path, seen in wanted.files.items():
        if not near(path, kept):
            assert after.get(path) == seen, f"not as captured: {path!r}"
    for path, mode in wanted.folders.items():
        if not near(path, kept):
            assert after.get(path) == (stat.S_IFDIR | mode, b""), f"no such folder: {path!r}"
    for path in after.keys() - wanted.files.keys() - wanted.folders.keys():
        assert near(path, kept | foreign.keys()), f"should be gone: {path!r}"
    assert not kept or foreign or wanted.left or ruled(safety, wanted), "kept without need"


def ruled(one: Picture, other: Picture) -> bool:
    rules = [
        {path: seen for path, seen in each.files.items() if path.endswith(".gitignore")}
        for each in (one, other)
    ]
    return rules[0] != rules[1]


def check_part(
    before: Everything, after: Everything, wanted: Picture, path: str, done: Rollback
) -> None:
    for other in before.keys() | after.keys():
        if not near(other, (path,)):
            assert after.get(other) == before.get(other), f"not asked for: {other!r}"
    if path in wanted.files and not near(path, {each.path for each in done.kept}):
        assert after.get(path) == wanted.files[path]


def check_undone(before: Everything, after: Everything) -> None:
    for path in before.keys() | after.keys():
        assert after.get(path) == before.get(path), f"undo did not bring it back: {path!r}"


def run(place: Path, given_turns: list[Turn]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    project = place / "project"
    project.mkdir(parents=True)
    root = os.fsencode(project)
    store = ShadowGitStore(place / "store", Capturing(max_file_size=LIMIT))
    taken: list[tuple[str, Picture]] = []
    for number, turn in enumerate(given_turns):
        now = 1_000.0 + 10 * number
        for edit in turn.edits:
            edit.apply(root)
        taking = store.take(project, reason=f"turn {number}", now=now)
        taken.append((taking.id or "", picture(root)))
        if turn.restored is None:
            continue
        target, wanted = taken[turn.restored % len(taken)]
        for edit in turn.edits[::2]:
            edit.apply(root)
        restore(store, project, target, wanted, turn, now + 1)


def restore(
    store: ShadowGitStore, project: Path, target: str, wanted: Picture, turn: Turn, now: float
) -> None:
    before, safety = everything(project), picture(os.fsencode(project))
    path = None if turn.path is None else os.fsdecode(turn.path)
    known = {*wanted.files, *wanted.folders, *safety.files, *safety.folders}
    blocked = path is not None and any(path.startswith(f"{other}/") for other in safety.files)
    some = None if path is None or path not in known or blocked else [path]
    foreseen = store.preview(target, paths=some)
    assert everything(project) == before, "a preview touches nothing"
    held = store.secure(target, paths=some, now=now)
    done = store.restore(target, held, paths=some, now=now)
    after = everything(project)
    assert (done.written, done.deleted) == (foreseen.written, foreseen.deleted)
    if some is None:
        check_whole(before, after, safety, wanted, done)
    else:
        check_part(before, after, wanted, some[0], done)
    assert store.restore(target, held, paths=some, now=now) == done, "repeated, it changes nothing"
    assert everything(project) == after
    if turn.undone:
        store.restore(held, target, paths=some, now=now)
        check_undone(before, everything(project))


@settings(max_examples=12)
@given(turns)
def test_a_restore_gives_back_what_was_captured_and_touches_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, given_turns: list[Turn]
) -> None:
    run(tmp_path_factory.getbasetemp() / "restores", given_turns)


@pytest.mark.deep
@settings(max_examples=120)
@given(turns)
def test_so_it_does_for_many_more(
    tmp_path_factory: pytest.TempPathFactory, given_turns: list[Turn]
) -> None:
    run(tmp_path_factory.getbasetemp() / "restores", given_turns)
