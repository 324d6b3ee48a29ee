"""Other worktrees inside a project: never captured, never touched. Submodules are not worktrees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.model.checkpoint import WORKTREE
from holdfast.stores.checkpoints import look, walk, working_tree
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.walk import is_worktree
from tests.contract.restore_bench import NOW, restore, take
from tests.trees import everything


def git(where: Path, *arguments: str) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.invalid"}
    identity |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in identity.items()}
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    allowed = ["-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *allowed, *arguments],
        check=False,
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "first")
    return project


PLACES = [".worktrees/other", "other", "deep/down/other"]


@pytest.mark.parametrize("place", PLACES)
def test_a_worktree_is_not_captured_and_no_restore_touches_it(
    store: ShadowGitStore, repository: Path, place: str
) -> None:
    git(repository, "worktree", "add", "--quiet", place)
    target = take(store, repository)
    held = store.captured(store.get(target).tree).files
    assert sorted(held) == ["README", "src/main.py", "src/other.py"]
    (repository / place / "README").write_text("another agent's work\n")
    (repository / place / "src/main.py").unlink()
    (repository / "README").write_text("ours\n")
    known = store.take(repository, reason="known", now=NOW, paths=[f"{place}/README", "README"])
    assert f"{place}/README" not in store.captured(store.get(known.id or "").tree).files
    before = everything(repository / place)
    assert restore(store, target).written == ("README",)
    assert everything(repository / place) == before


def test_what_is_left_out_is_named_once(store: ShadowGitStore, repository: Path) -> None:
    git(repository, "worktree", "add", "--quiet", "other")
    taking = store.take(repository, reason="test", now=NOW)
    assert [(each.path, each.reason) for each in taking.not_captured] == [("other", WORKTREE)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("gone", [False, True])
def test_a_checkpoint_that_has_one_leaves_it_and_names_it(
    store: ShadowGitStore,
    repository: Path,
    place: str,
    gone: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As earlier versions took it."""
    git(repository, "worktree", "add", "--quiet", place)
    with monkeypatch.context() as earlier:
        for module in (look, walk, working_tree):
            earlier.setattr(module, "is_worktree", lambda *_, **__: False)
        (repository / ".gitignore").write_text("!.worktrees/\n")
        target = take(store, repository)
        assert f"{place}/README" in store.captured(store.get(target).tree).files
    (repository / ".gitignore").unlink()
    if gone and place.startswith(".worktrees"):
        git(repository, "worktree", "remove", "--force", place)
    (repository / "README").write_text("ours\n")
    if not gone:
        (repository / place / "README").write_text("another agent's work\n")
        (repository / place / "src/main.py").unlink()
    before = everything(repository / place)
    foreseen = store.preview(target)
    done = restore(store, target)
    assert everything(repository / place) == before
    assert (repository / "README").read_text() == "read me\n"
    assert not [path for path in (*done.written, *done.deleted) if path.startswith(place)]
    assert WORKTREE in {each.reason for each in done.kept}
    assert (foreseen.written, foreseen.deleted) == (done.written, done.deleted)


def test_files_of_a_submodule_and_of_a_nested_repository_are_captured(
    store: ShadowGitStore, repository: Path, tmp_path: Path
) -> None:
    source = tmp_path / "library"
    source.mkdir()
    git(source, "init", "--quiet")
    (source / "code.c").write_text("int x;\n")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "--message", "first")
    git(repository, "submodule", "--quiet", "add", str(source), "worktrees/library")
    git(repository, "clone", "--quiet", str(source), "clone")
    assert (repository / "worktrees/library/.git").is_file()
    held = store.captured(store.get(take(store, repository)).tree).files
    assert {"worktrees/library/code.c", "clone/code.c"} <= set(held)


def test_the_project_itself_may_be_a_worktree(
    store: ShadowGitStore, repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "--quiet", str(tmp_path / "mine"))
    mine = (tmp_path / "mine").resolve()
    target = take(store, mine)
    (mine / "README").write_text("changed\n")
    assert restore(store, target).written == ("README",)


@pytest.mark.parametrize(
    ("gitdir", "answer"),
    [
        ("/gone/.git/worktrees/other", True),
        ("../gone/.git/worktrees/other\n", True),
        ("/gone/.git/modules/library/worktrees/other", True),
        ("/gone/.git/modules/worktrees/library", False),
        ("/gone/.git/modules/library", False),
        ("", False),
    ],
)
def test_a_repository_that_is_gone_is_judged_by_its_path(
    tmp_path: Path, gitdir: str, answer: bool
) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {gitdir}")
    assert is_worktree(os.fsencode(tmp_path)) is answer
