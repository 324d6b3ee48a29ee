"""A restore does what its preview said and no more, whatever happens to the files in between."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.checkpoint import Capturing, Preview, Rollback
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.property.test_checkpoint_restore import near
from tests.property.working_trees import LIMIT, Edit, Picture, edits, picture
from tests.trees import Everything, everything


@dataclass(frozen=True, slots=True)
class Story:
    """What is done to a project before its checkpoint, after it, and behind the preview's back."""

    first: list[Edit]
    then: list[Edit]
    behind: list[Edit]
    undone: bool


some = st.lists(edits(), min_size=1, max_size=8)
stories = st.builds(Story, first=some, then=some, behind=some, undone=st.booleans())


def is_file(seen: tuple[int, bytes] | None) -> bool:
    return seen is not None and not stat.S_ISDIR(seen[0])


def check_left(before: Everything, between: Everything, after: Everything) -> None:
    """What changed behind the preview's back is as that change left it."""
    for path in before.keys() | between.keys():
        if between.get(path) == before.get(path):
            continue
        if is_file(before.get(path)) or path in between:
            assert after.get(path) == between.get(path), f"touched unseen: {path!r}"


def check_shown(between: Everything, after: Everything, shown: Preview) -> None:
    """Nothing was touched that the preview did not name. It names no directory that goes with the
    files in it, or is made for them, and no file whose place such a directory takes."""
    named = {*shown.written, *shown.deleted}
    for path in between.keys() | after.keys():
        if after.get(path) != between.get(path) and path not in named:
            gone = is_file(between.get(path)) and path not in after
            assert not gone, f"not shown: {path!r}"
            assert not is_file(after.get(path)), f"not shown: {path!r}"
            assert near(path, named), f"not shown: {path!r}"


def check_done(
    wanted: Picture, after: Everything, shown: Preview, done: Rollback, changed: set[str]
) -> None:
    """What it said it did, and what it did not do is named, or stands below what is."""
    kept = {each.path for each in done.kept}
    for path in done.written:
        if path in wanted.files:
            assert after.get(path) == wanted.files[path], f"not as captured: {path!r}"
    for path in done.deleted:
        assert path not in after, f"should be gone: {path!r}"
    for path in {*shown.written, *shown.deleted} - {*done.written, *done.deleted}:
        if path in wanted.files and after.get(path) == wanted.files[path]:
            continue  # it was there already, ignored, and no longer is
        assert near(path, kept | changed), f"neither done nor named: {path!r}"
    for path in {*done.written, *done.deleted} - {*shown.written, *shown.deleted}:
        below = [each for each in (*shown.written, *shown.deleted) if each.startswith(f"{path}/")]
        assert below, f"not shown: {path!r}"  # a directory that was to go with what was in it


def begun(place: Path, story: Story) -> tuple[ShadowGitStore, Path, str]:
    """A project with a checkpoint: the store, the project, and the checkpoint's id."""
    shutil.rmtree(place, ignore_errors=True)
    project = place / "project"
    project.mkdir(parents=True)
    store = ShadowGitStore(place / "store", Capturing(max_file_size=LIMIT))
    for edit in story.first:
        edit.apply(os.fsencode(project))
    taken = store.take(project, reason="first", now=1_000.0)
    return store, project, taken.id or ""


def run(place: Path, story: Story) -> None:
    store, project, target = begun(place, story)
    root = os.fsencode(project)
    wanted = picture(root)
    for edit in story.then:
        edit.apply(root)
    before, shown = everything(project), store.preview(target)
    for edit in story.behind:
        edit.apply(root)
    between = everything(project)
    safety = store.secure(target, now=1_001.0)
    done = store.restore(target, safety, now=1_002.0, shown=shown)
    after = everything(project)
    changed = {p for p in before.keys() | between.keys() if before.get(p) != between.get(p)}
    check_left(before, between, after)
    check_shown(between, after, shown)
    check_done(wanted, after, shown, done, changed)
    if story.undone:
        store.restore(safety, target, now=1_003.0)
        assert everything(project) == between


@settings(max_examples=15)
@given(stories)
def test_what_changed_since_the_preview_is_left(
    tmp_path_factory: pytest.TempPathFactory, story: Story
) -> None:
    run(tmp_path_factory.getbasetemp() / "shown", story)


@pytest.mark.deep
@settings(max_examples=250)
@given(stories)
def test_so_it_is_in_many_more_stories(
    tmp_path_factory: pytest.TempPathFactory, story: Story
) -> None:
    run(tmp_path_factory.getbasetemp() / "shown", story)


def run_undo(place: Path, story: Story) -> None:
    """The files change once more between a restore and its undo."""
    store, project, target = begun(place, story)
    root = os.fsencode(project)
    for edit in story.then:
        edit.apply(root)
    safety = store.secure(target, now=1_001.0)
    store.restore(target, safety, now=1_002.0)
    for edit in story.behind if not story.undone else ():
        edit.apply(root)
    before = everything(project)
    shown = store.preview_undo(safety, target)
    assert everything(project) == before
    done = store.restore(safety, target, now=1_003.0)
    assert (shown.written, shown.deleted) == (done.written, done.deleted)


@settings(max_examples=15)
@given(stories)
def test_an_undo_does_what_its_preview_said(
    tmp_path_factory: pytest.TempPathFactory, story: Story
) -> None:
    run_undo(tmp_path_factory.getbasetemp() / "undone", story)


@pytest.mark.deep
@settings(max_examples=250)
@given(stories)
def test_so_does_an_undo_in_many_more_stories(
    tmp_path_factory: pytest.TempPathFactory, story: Story
) -> None:
    run_undo(tmp_path_factory.getbasetemp() / "undone", story)
