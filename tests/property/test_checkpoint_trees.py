"""Whatever was done to a working tree, a checkpoint of it is the working tree."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.checkpoint import Captured, Capturing, TakeOutcome
from holdfast.stores.checkpoints import look, take, walk
from holdfast.stores.checkpoints.private_index import lay_to_rest
from holdfast.stores.checkpoints.repository import forget_worktree, opened
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.git.trees import Trees
from tests.property.working_trees import LIMIT, Edit, Picture, edits, paths, picture, settle

#: What may become of the private index and the memory of the last look between two checkpoints.
HARM = (
    *("none", "none", "none", "rest"),
    *("no index", "damaged index", "stale lock", "no state.json", "no listing"),
)

steps = st.lists(
    st.tuples(
        st.lists(edits(), max_size=6),
        st.lists(paths, max_size=2),
        st.sampled_from(HARM),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        yield Path(folder)


def fresh(place: Path) -> tuple[ShadowGitStore, Path]:
    for name in ("store of mine", "project"):
        shutil.rmtree(place / name, ignore_errors=True)
    project = place / "project"
    project.mkdir(parents=True)
    return ShadowGitStore(place / "store of mine", Capturing(max_file_size=LIMIT)), project


def harm(store: ShadowGitStore, kind: str) -> None:
    for folder in (store.layout.store / "worktrees").glob("*"):
        if kind == "no index":
            (folder / "index").unlink(missing_ok=True)
        elif kind == "damaged index":
            (folder / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1torn")
        elif kind == "stale lock":
            (folder / "index.lock").touch()
        elif kind in ("no state.json", "no listing"):
            (folder / kind.removeprefix("no ")).write_text("{")
        elif kind == "rest" and lay_to_rest(folder, Trees(opened(store.layout))):
            forget_worktree(folder)


def as_picture(store: ShadowGitStore, captured: Captured, like: Picture) -> Picture:
    """What a checkpoint has; folders that it does not list have the usual permissions."""
    folders = {
        path: entry.permissions
        for path, entry in captured.directories.items()
        if entry.is_directory
    }
    implied = dict.fromkeys(like.folders, captured.usual_directory)
    return Picture(
        files={path: (entry.mode, store.blob(entry.oid)) for path, entry in captured.files.items()},
        folders=implied | folders,
        empty=set(captured.empty),
        left=like.left,
    )


def check(store: ShadowGitStore, project: Path, now: float) -> None:
    taken = store.take(project, reason="check", now=now)
    there = picture(os.fsencode(project))
    checkpoint = store.get(taken.id or "")
    captured = store.captured(checkpoint.tree)
    assert as_picture(store, captured, there) == there
    assert {one.path for one in taken.not_captured} == there.left
    again = store.take(project, reason="again", now=now + 1)
    assert again.outcome is TakeOutcome.UNCHANGED
    assert again.id == taken.id
    assert {one.path for one in again.not_captured} == there.left


def run(
    place: Path, given_steps: list[tuple[list[Edit], list[bytes], str]], *, settled: bool = False
) -> None:
    store, project = fresh(place)
    now = 1_000.0
    for number, (some, known, damage) in enumerate(given_steps):
        for edit in some:
            edit.apply(os.fsencode(project))
        if settled:
            settle(project)
        now = 1_000.0 + 10 * number
        harm(store, damage)
        if known:
            store.take(
                project, reason="known", now=now, paths=[os.fsdecode(path) for path in known]
            )
        check(store, project, now + 1)


@settings(max_examples=12)
@given(steps)
def test_a_checkpoint_is_what_a_walk_of_the_file_system_finds(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of a directory count as soon as the clock has moved, and the index is brought up to
    date by every take."""
    monkeypatch.setattr(walk, "YOUNG", 0)
    monkeypatch.setattr(take, "_UNSTAMPED", -1)
    monkeypatch.setattr(take, "_BEHIND_FILES", -1)


@pytest.mark.usefixtures("trusting")
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_so_it_is_where_the_times_of_directories_count(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps, settled=True)


@pytest.fixture
def knowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was read is known as soon as the clock has moved, and the index stays behind."""
    monkeypatch.setattr(look, "TICK", 0)


@pytest.mark.usefixtures("knowing")
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_so_it_is_where_known_files_are_not_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps, settled=True)


@pytest.mark.deep
@settings(max_examples=1_500)
@given(steps)
def test_so_it_is_for_many_more(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps)


@pytest.mark.deep
@pytest.mark.usefixtures("trusting")
@settings(max_examples=1_500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_and_so_it_is_for_the_times_of_many_more(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps, settled=True)


@pytest.mark.deep
@pytest.mark.usefixtures("knowing")
@settings(max_examples=1_500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_and_so_it_is_for_many_known_files(
    tmp_path_factory: pytest.TempPathFactory,
    given_steps: list[tuple[list[Edit], list[bytes], str]],
) -> None:
    run(tmp_path_factory.getbasetemp() / "trees", given_steps, settled=True)
