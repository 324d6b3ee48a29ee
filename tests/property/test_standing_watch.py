"""A checkpoint of what a watch told is the checkpoint that a look at everything would take."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.watched_takes import WatchedTakes
from tests.property.test_checkpoint_trees import fresh
from tests.property.working_trees import CONTENTS, Edit, edits, paths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

#: Beyond the usual edits: what comes from elsewhere, or takes much with it.
others = st.tuples(
    st.sampled_from(("hard link", "through it", "move", "worktree", "away and back", "mapped")),
    paths,
    paths,
)
steps = st.lists(
    st.tuples(st.lists(st.one_of(edits(), edits(), others), max_size=5), st.booleans()),
    min_size=2,
    max_size=5,
)
Step = tuple[list[Edit | tuple[str, bytes, bytes]], bool]


def do(project: Path, kind: str, one: bytes, two: bytes) -> None:
    outside, here = project.parent / "outside", project / os.fsdecode(one)
    there = project / os.fsdecode(two)
    outside.mkdir(exist_ok=True)
    linked = outside / "linked"
    if kind == "hard link" and here.is_file() and not here.is_symlink():
        linked.unlink(missing_ok=True)
        linked.hardlink_to(here)
    elif kind == "through it" and linked.is_file():
        with linked.open("ab") as file:
            file.write(b"more")
    elif kind == "move" and os.path.lexists(here) and there.parent.is_dir():
        if not os.path.lexists(there) and here not in there.parents:
            here.rename(there)
    elif kind == "worktree" and here.is_dir() and not here.is_symlink():
        git = here / ".git"
        if not git.is_dir():
            git.write_text("gitdir: /nowhere/.git/worktrees/x\n")
    elif kind == "away and back" and here.is_dir() and not here.is_symlink():
        here.rename(outside / "away")
        (outside / "away" / "b.txt").unlink(missing_ok=True)
        (outside / "away").rename(here)
    elif kind == "mapped" and here.is_file() and here.stat().st_size:
        import mmap

        with here.open("r+b") as held, mmap.mmap(held.fileno(), 0) as mapped:
            mapped[0:1] = CONTENTS[4][:1]


def run(place: Path, given_steps: list[Step]) -> None:
    shutil.rmtree(place / "outside", ignore_errors=True)
    store, project = fresh(place)
    takes = WatchedTakes(store, project)
    with contextlib.closing(takes):
        steps_of(store, project, takes, given_steps)


def steps_of(
    store: ShadowGitStore, project: Path, takes: WatchedTakes, given_steps: list[Step]
) -> None:
    now = 1_000.0
    for some, watched in given_steps:
        if watched and takes.is_to_be_followed():
            watch = takes.watch()
            assert watch is not None
            takes.follow(watch)
        for each in some:
            if isinstance(each, Edit):
                each.apply(os.fsencode(project))
            else:
                do(project, *each)
        now += 10
        taken = takes.take(reason="watched", now=now, session=None, turn=None)
        seen = store.look(project)
        assert store.get(taken.id or "").tree == seen.tree
        assert taken.not_captured == seen.not_captured


@settings(max_examples=8)
@given(steps)
def test_what_a_watch_tells_is_all_there_is(
    tmp_path_factory: pytest.TempPathFactory, given_steps: list[Step]
) -> None:
    run(tmp_path_factory.getbasetemp() / "watched", given_steps)


@pytest.mark.deep
@settings(max_examples=300)
@given(steps)
def test_so_it_is_with_many_more(
    tmp_path_factory: pytest.TempPathFactory, given_steps: list[Step]
) -> None:
    run(tmp_path_factory.getbasetemp() / "watched", given_steps)
